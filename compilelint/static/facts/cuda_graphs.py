"""Questions about code that Inductor records into CUDA graphs, which some compile modes ask for."""

from __future__ import annotations

import ast
from functools import lru_cache

from compilelint.rule import View
from compilelint.static.facts.questions import last_name
from compilelint.static.facts.state import functions_in
from compilelint.static.project.syntax import statements_in

MODES = frozenset({"reduce-overhead", "max-autotune"})


def recorded(view: View) -> bool:
    """Whether the compiled region is recorded into CUDA graphs."""
    return view.options.get("mode") in MODES


@lru_cache(maxsize=256)
def replayed(module: ast.Module) -> frozenset[str]:
    """How the file spells the functions that it compiles with CUDA graphs: `self.net`, `step`."""
    names: set[str] = set()
    for node in statements_in(module):
        if isinstance(node, ast.Assign) and _compiles_with_graphs(node.value):
            names.update(ast.unparse(target) for target in node.targets)
    for function in functions_in(module):
        if any(_compiles_with_graphs(decorator) for decorator in function.decorator_list):
            names.add(function.name)
    return frozenset(names)


def _compiles_with_graphs(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) != "compile":
        return False
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    return any(isinstance(mode, ast.Constant) and mode.value in MODES for mode in modes)
