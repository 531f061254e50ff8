"""What a piece of code writes in place, and whose memory that is."""

from __future__ import annotations

import ast

from compilelint.rule import View
from compilelint.static.facts.questions import assigned_once
from compilelint.static.project.answers import about_file
from compilelint.static.project.bindings import all_bound
from compilelint.static.values import UNKNOWN, tensor_certainty

NOT_WRITING = frozenset({"requires_grad_", "detach_", "share_memory_", "rename_", "retain_grad_"})
VIEWS = frozenset(
    """view view_as reshape reshape_as flatten unflatten transpose permute t movedim moveaxis swapaxes swapdims
    unsqueeze squeeze narrow select expand expand_as diagonal unfold detach chunk split unbind tensor_split""".split()
)
"""Methods whose result is the same memory, `reshape` and `flatten` of what is not contiguous excepted."""
MOST_VIEWS = 8
VIEW_ATTRIBUTES = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})


def written_in_place(node: ast.AST, module: ast.Module) -> ast.expr | None:
    """The tensor that `node` writes to, if it is a tensor.

    `t.op_()`, `t[i] = v`, `t += v`, `torch.op_(t)`, `torch.op(…, out=t)`, `F.relu(t, inplace=True)`, and `self.act(t)`
    where `module` makes `act` with `inplace=True`.
    """
    if isinstance(node, ast.Call):
        return _written_by(node, module)
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return target.value if isinstance(target, ast.Subscript) and not _is_key(target.slice) else None
    if isinstance(node, ast.AugAssign):
        return node.target.value if isinstance(node.target, ast.Subscript) else node.target
    return None


def _is_key(index: ast.expr) -> bool:
    """A dict's, which takes another object for an entry and writes into none."""
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _written_by(call: ast.Call, module: ast.Module) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == "out" and not isinstance(keyword.value, ast.Constant):
            return keyword.value
    if not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    if name.endswith("_") and not name.startswith("_") and name not in NOT_WRITING:
        of_library = isinstance(call.func.value, ast.Name) and call.func.value.id in ("torch", "F")
        return call.func.value if not of_library else _first(call)
    return _first(call) if _is_in_place(call) or _holds_in_place(call.func, module) else None


def _first(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args and not isinstance(call.args[0], ast.Starred) else None


def _is_in_place(call: ast.Call) -> bool:
    return any(
        keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def _holds_in_place(called: ast.Attribute, module: ast.Module) -> bool:
    """Whether all that the file binds to `self.act` is made with `inplace=True`."""
    if not (isinstance(called.value, ast.Name) and called.value.id == "self"):
        return False
    return called.attr in _in_place(module)


@about_file(frozenset())
def _in_place(module: ast.Module) -> frozenset[str]:
    """The names to which the file binds nothing but what is made with `inplace=True`."""
    return frozenset(name for name, made in all_bound(module).items() if all(map(_is_in_place, made)))


def memory_of(place: ast.expr, view: View) -> ast.expr:
    """What `place` is a view of, as far as this function tells: `x` for `x[:, :2].view(-1)` and for a name of that."""
    for _ in range(MOST_VIEWS):
        inner = _viewed(place, view)
        if inner is None:
            break
        place = inner
    return place


def _viewed(place: ast.expr, view: View, asked: frozenset[str] = frozenset()) -> ast.expr | None:
    """What `place` is a view of; `asked` are the variables of which that is being asked already."""
    if isinstance(place, ast.Subscript):
        parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
        copies = any(isinstance(part, ast.List) or tensor_certainty(view.kind(part)) is not None for part in parts)
        return place.value if not copies and _may_be_tensor(place.value, view) else None
    if isinstance(place, ast.Attribute):
        return place.value if place.attr in VIEW_ATTRIBUTES and _may_be_tensor(place.value, view) else None
    if isinstance(place, ast.Call):
        called = place.func
        is_view = isinstance(called, ast.Attribute) and called.attr in VIEWS and _may_be_tensor(called.value, view)
        return called.value if is_view and isinstance(called, ast.Attribute) else None
    if isinstance(place, ast.Name) and place.id not in asked:
        made = assigned_once(view.function, place.id)
        return made if made is not None and _viewed(made, view, asked | {place.id}) is not None else None
    return None


def _may_be_tensor(node: ast.expr, view: View) -> bool:
    kind = view.kind(node)
    return kind == UNKNOWN or tensor_certainty(kind) is not None
