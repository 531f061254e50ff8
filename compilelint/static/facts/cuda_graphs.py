"""Questions about code that Inductor records into CUDA graphs, which some compile modes ask for."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in, own_statements
from compilelint.static.project.answers import about_file
from compilelint.static.project.compiled_names import namesakes
from compilelint.static.project.syntax import nodes_in

MODES = frozenset({"reduce-overhead", "max-autotune"})


def recorded(view: View) -> bool:
    """Whether the compiled region is recorded into CUDA graphs."""
    return view.options.get("mode") in MODES


@about_file({})
def replayed(module: ast.Module) -> dict[str, tuple[tuple[ast.AST, int], ...]]:
    """How the file spells the functions that it compiles with CUDA graphs, `self.net` or `step`.

    With the functions that set these names, or the module, and on which 1-based lines.
    """
    found: dict[str, tuple[tuple[ast.AST, int], ...]] = {}
    for scope in (module, *functions_in(module)):
        for node in own_statements(scope):
            if isinstance(node, ast.Assign) and _compiles_with_graphs(node.value):
                for target in node.targets:
                    name = ast.unparse(target)
                    found[name] = (*found.get(name, ()), (scope, node.lineno))
        for name in _decorated(scope):
            found[name] = (*found.get(name, ()), (module, 0))
    return found


def _decorated(scope: ast.AST) -> tuple[str, ...]:
    """The name of a function that a decorator compiles with CUDA graphs."""
    name: str = getattr(scope, "name", "")
    return (name,) if any(map(_compiles_with_graphs, getattr(scope, "decorator_list", ()))) else ()


def is_replay(call: ast.AST, scope: ast.AST, module: ast.Module) -> bool:
    """Whether a node of `scope`, a function of the file, calls what is compiled with CUDA graphs by then."""
    if not isinstance(call, ast.Call) or not (names := replayed(module)):
        return False
    name = ast.unparse(call.func)
    if name not in names or name in namesakes(module).get(scope, frozenset()):
        return False
    here = [line for where, line in names[name] if where is scope and name.isidentifier()]
    return not here or call.lineno > min(here)


@about_file(False)
def without_gradients(module: ast.Module) -> bool:
    """Whether a file says that something runs without gradients; `eval()` leaves them on."""
    return any(isinstance(node, ast.Attribute) and node.attr in _NO_GRADIENTS for node in nodes_in(module))


_NO_GRADIENTS = frozenset({"no_grad", "inference_mode", "requires_grad_", "set_grad_enabled"})


def _compiles_with_graphs(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) != "compile":
        return False
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    return any(isinstance(mode, ast.Constant) and mode.value in MODES for mode in modes)
