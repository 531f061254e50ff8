"""Questions about code that runs once per turn of a decode loop, and about tensors it reads back to the host."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.state import is_same_object_next_call, own_nodes, written
from compilelint.static.project.syntax import nodes_in
from compilelint.static.values import UNKNOWN, Const, Tensor, Value, options, tensor_certainty

READERS = frozenset({"cpu", "numpy", "item", "tolist"})


def each_turn(node: ast.AST, view: View) -> bool:
    """Whether `node` runs every turn, and not every n-th (`i % 16 == 0`) or once.

    Once is before it leaves the loop, on one turn (`i == 3`), or under a test that its branch changes
    (`if self.recording:` … `self.recording = False`). What an exception is answered with runs when one is raised.
    """
    below = node
    parents = list(view.parents(node))
    for parent in parents:
        if isinstance(parent, ast.ExceptHandler):
            return False
        if isinstance(parent, ast.If) and below is not parent.test:
            branch = parent.body if below in parent.body else parent.orelse
            if isinstance(branch[-1], (ast.Break, ast.Return, ast.Raise)):
                return False
            if _counts_turns(parent.test) or (branch is parent.body and _is_once(parent, parents)):
                return False
        if isinstance(parent, ast.BoolOp) and below is not parent.values[0] and _counts_turns(parent.values[0]):
            return False
        below = parent
    return True


def _counts_turns(test: ast.expr) -> bool:
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(test))


def _is_once(branch: ast.If, around: list[ast.AST]) -> bool:
    """Whether the body of an `if` runs on one turn: its test is for that turn, or is false once the body has run."""
    test = branch.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        counted = {
            part.id
            for loop in around
            if isinstance(loop, ast.For)
            for part in ast.walk(loop.target)
            if isinstance(part, ast.Name)
        }
        return isinstance(test.left, ast.Name) and test.left.id in counted
    place = settled_place(branch)
    if place is None:
        return False
    inside = [statement for statement, _ in written(place, branch)]
    loops = [loop for loop in around if isinstance(loop, (ast.For, ast.While))]
    return all(statement in inside for loop in loops for statement, _ in written(place, loop))  # no turn sets it back


def settled_place(branch: ast.If) -> ast.expr | None:
    """What the test of an `if` asks for, where the body turns it round: `if self.new: …; self.new = False`.

    The body runs once for as long as that place lasts, and nothing else sets it back.
    """
    place, unset = _tested_place(branch.test)
    turned = place is not None and any(
        isinstance(statement, ast.Assign) and _sets_otherwise(statement.value, unset)
        for statement, _ in written(place, branch)
        if any(statement in nodes_in(part) for part in branch.body)
    )
    return place if turned else None


def first_call_alone(node: ast.AST, function: ast.AST, view: View) -> bool:
    """Whether `node`, of `function`, runs on the first call alone: under a test of what lasts, turned round then."""
    for branch in own_nodes(function):
        place = settled_place(branch) if isinstance(branch, ast.If) else None
        if place is None or not isinstance(branch, ast.If) or not any(node in nodes_in(part) for part in branch.body):
            continue
        lasts = isinstance(place, ast.Attribute) or function is view.function  # a name elsewhere may be a local one
        inside = [statement for statement, _ in written(place, branch)]
        if lasts and is_same_object_next_call(place, view) and all(s in inside for s, _ in written(place, function)):
            return True
    return False


def _tested_place(test: ast.expr) -> tuple[ast.expr | None, bool]:
    """The variable or attribute that a test asks for, and whether the branch runs while it is false or None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        place, unset = _tested_place(test.operand)
        return place, not unset
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and len(test.ops) == 1:
        is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        return (test.left, True) if is_none else (None, False)
    return (test, False) if isinstance(test, (ast.Name, ast.Attribute)) else (None, False)


def _sets_otherwise(value: ast.expr, unset: bool) -> bool:
    """Whether what a place is set to turns its test round."""
    if isinstance(value, ast.Constant):
        return bool(value.value) is unset
    return unset and isinstance(value, (ast.Call, ast.Tuple, ast.List, ast.Dict))


def on_device(value: Value) -> bool:
    """Whether `value` is, or may be, a tensor that is not known to sit on the host."""
    return tensor_certainty(value) is not None and not all(
        option.host for option in options(value) if isinstance(option, Tensor)
    )


def already_read(node: ast.expr) -> bool:
    """Whether a chain of method calls has already brought its value to the host (`x.detach().cpu()`)."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READERS or is_move_to_host(node):
            return True
        node = node.func.value
    return False


def is_move_to_host(call: ast.Call) -> bool:
    """`x.cpu()`, `x.to("cpu")`, `x.to(device="cpu")` and `x.to(torch.device("cpu"))`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "cpu":
        return not call.args
    if any(keyword.arg == "non_blocking" for keyword in call.keywords):
        return False  # measured on an H200: the host does not wait
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return call.func.attr == "to" and any(is_host_device(value) for value in values)


def is_host_device(node: ast.expr) -> bool:
    """Whether an expression is `"cpu"` or `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("torch.device", "device"):
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"


def is_python_value(value: Value) -> bool:
    """Whether something is known about `value` and it can be no tensor."""
    return value != UNKNOWN and tensor_certainty(value) is None


def names_cpu(value: Value) -> bool:
    """Whether a device argument is the constant `"cpu"`."""
    return isinstance(value, Const) and value.value == "cpu"
