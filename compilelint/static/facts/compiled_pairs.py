"""Which models a file compiles under which names, and when a function has run them."""

from __future__ import annotations

import ast

from compilelint.record import record
from compilelint.static.facts.state import functions_in, own_nodes
from compilelint.static.project.answers import about_file
from compilelint.static.project.compiled_names import namesakes
from compilelint.static.project.definitions import assignments


@record(frozen=True, slots=True)
class CompiledPair:
    """`compiled = torch.compile(model)`, as spelled, on a 1-based `line` of `function`, which may be the module."""

    compiled: str
    model: str
    function: ast.AST
    line: int


@about_file(())
def compiled_pairs(module: ast.Module) -> tuple[CompiledPair, ...]:
    """Each `a = torch.compile(b)` of the file; also one of `a` and `c` where `c = b` stands beside it."""
    found = []
    for function in (module, *functions_in(module)):
        assigned = [pair for node in own_nodes(function) if isinstance(node, ast.Assign) for pair in assignments(node)]
        for target, value in assigned:
            if isinstance(value, ast.Call) and value.args and ast.unparse(value.func) == "torch.compile":
                compiled = ast.unparse(value.args[0])
                names = [ast.unparse(other) for other, named in assigned if _is(other, named, compiled)]
                spelled, line = ast.unparse(target), value.lineno
                found += [CompiledPair(spelled, name, function, line) for name in (compiled, *names)]
    return tuple(found)


def runs_of(pair: CompiledPair, function: ast.AST, module: ast.Module) -> list[int]:
    """The lines on which a function runs what is compiled, and not what has its name before that or elsewhere."""
    if pair.compiled in namesakes(module).get(function, frozenset()):
        return []
    name = pair.compiled
    here = [other.line for other in compiled_pairs(module) if other.compiled == name and other.function is function]
    since = min(here) if here and name.isidentifier() else 0
    return [line for line in _lines_of_calls(name, function) if line > since]


def _is(target: ast.expr, value: ast.expr, name: str) -> bool:
    """Whether an attribute is set to what `name` is: `self.net = net`."""
    return isinstance(target, ast.Attribute) and isinstance(value, ast.Name) and value.id == name


def _lines_of_calls(name: str, function: ast.AST) -> list[int]:
    """The lines on which a function calls `name`."""
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) == name]


def is_reset_after(line: int, function: ast.AST) -> bool:
    """Whether compiled code is thrown away after `line`."""
    return any(
        isinstance(node, ast.Call)
        and node.lineno > line
        and ast.unparse(node.func).endswith(("dynamo.reset", "compiler.reset"))
        for node in own_nodes(function)
    )
