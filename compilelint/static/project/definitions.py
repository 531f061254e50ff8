"""References to the project's classes and functions, and what a class body itself defines."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import field
from functools import cache, lru_cache

from compilelint.record import record
from compilelint.static.project.bodies import WithoutBody, with_body
from compilelint.static.project.index import FunctionNode, ModuleIndex, Scope
from compilelint.static.project.syntax import first_line, inner_statements, walked_statements


@record(frozen=True, slots=True, eq=False)
class ClassRef:
    """A class of the project, by module and qualified name."""

    module: str
    qualname: str
    node: ast.ClassDef = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Written out, as the hash: references are compared and are keys everywhere."""
        return self is other or (
            isinstance(other, ClassRef) and self.qualname == other.qualname and self.module == other.module
        )

    def __hash__(self) -> int:
        """Cheaper than of all that is compared."""
        return hash(self.qualname)


@record(frozen=True, slots=True, eq=False)
class FunctionRef:
    """A function, method or lambda of the project. `owner` is the class whose body it stands in."""

    module: str
    qualname: str
    line: int
    column: int
    node: Scope = field(repr=False)
    owner: ClassRef | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        """See ClassRef."""
        return self is other or (
            isinstance(other, FunctionRef)
            and (self.line, self.column) == (other.line, other.column)
            and self.qualname == other.qualname
            and self.module == other.module
        )

    def __hash__(self) -> int:
        """See ClassRef."""
        return hash(self.qualname) ^ self.line


@record(frozen=True, slots=True)
class Outside:
    """A dotted name that leads out of the project."""

    name: str


@record(frozen=True, slots=True)
class ClassAttribute:
    """A class-level assignment: its value, or only an annotation."""

    owner: ClassRef
    value: ast.expr | None
    annotation: ast.expr | None


def class_members(ref: ClassRef) -> dict[str, FunctionRef | ClassAttribute]:
    """Methods and class-level attributes that a class body itself defines."""
    return _members_by_node(ref.node, ref.module, ref.qualname)


@cache
def _members_by_node(node: ast.ClassDef, module: str, qualname: str) -> dict[str, FunctionRef | ClassAttribute]:
    # Keyed on the node: references compare by name, and two programs may hold classes of one name.
    return dict(_members_of(node.body, ClassRef(module, qualname, node)))


def _members_of(body: list[ast.stmt], ref: ClassRef) -> Iterator[tuple[str, FunctionRef | ClassAttribute]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not _is_accessor(statement):
                yield statement.name, function_ref(ref.module, ref.qualname, statement, ref)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, ClassAttribute(ref, statement.value, None)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, ClassAttribute(ref, statement.value, statement.annotation)
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _members_of(statement.body, ref)


def _is_accessor(node: FunctionNode) -> bool:
    """`@x.setter`, `@x.deleter` and `@overload` define nothing new under their name."""
    return any(
        (isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter", "overload"))
        or (isinstance(d, ast.Name) and d.id == "overload")
        for d in node.decorator_list
    )


def setter_in(getter: FunctionRef) -> FunctionRef | None:
    """What `@name.setter` decorates in the class of the property `name`."""
    owner = getter.owner
    for statement in owner.node.body if owner is not None else ():
        if owner is not None and isinstance(statement, ast.FunctionDef) and _sets(statement, getter):
            return function_ref(getter.module, owner.qualname, statement, owner)
    return None


def _sets(setter: ast.FunctionDef, getter: FunctionRef) -> bool:
    decorated = any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in setter.decorator_list)
    return decorated and setter.name == getattr(getter.node, "name", "")


def function_ref(module: str, prefix: str, node: Scope, owner: ClassRef | None = None) -> FunctionRef:
    """The reference to a function found in `module`; `prefix` is the qualified name of what it stands in."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return FunctionRef(module, f"{prefix}.{name}" if prefix else name, node.lineno, node.col_offset, node, owner)


def class_inside(ref: ClassRef, name: str) -> ClassRef | None:
    """A class that stands in the body of another one."""
    for statement in ref.node.body:
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            return ClassRef(ref.module, f"{ref.qualname}.{name}", statement)
    return None


def function_inside(module: ModuleIndex, qualname: str) -> FunctionRef | None:
    """A function that stands in another one, where it is the only one of its name there."""
    *around, name = qualname.split(".")
    inner: ast.AST = module.tree
    for part in (*(part for part in around if part != "<locals>"), name):
        found = [node for node in _defined_in(inner) if node.name == part]
        if len(found) != 1:
            return None
        inner = found[0]
    return None if isinstance(inner, (ast.Module, ast.ClassDef)) else function_ref(module.name, ".".join(around), inner)  # type: ignore[arg-type]


def _defined_in(node: ast.AST) -> Iterator[FunctionNode | ast.ClassDef]:
    """The functions and classes that stand in a piece of code, but not those inside of them."""
    for inner in inner_statements(with_body(node)):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield inner
        else:
            yield from _defined_in(inner)


def none_test(scope: ast.AST) -> bool | None:
    """For a function that does nothing but `return x is None` True, for `is not None` False, else None."""
    if not isinstance(scope, ast.FunctionDef) or not scope.args.args:
        return None
    body = [s for s in scope.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return None
    value, negated = body[0].value, False
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        value, negated = value.operand, True
    if not isinstance(value, ast.Compare) or not isinstance(value.left, ast.Name) or len(value.ops) != 1:
        return None
    right = value.comparators[0]
    if value.left.id != scope.args.args[0].arg or not isinstance(right, ast.Constant) or right.value is not None:
        return None
    if isinstance(value.ops[0], (ast.Is, ast.Eq)):
        return not negated
    return negated if isinstance(value.ops[0], (ast.IsNot, ast.NotEq)) else None


SMALL = 12
"""Lines."""


def is_small(node: Scope) -> bool:
    """Whether a function has so few lines that it says nothing on its own."""
    return (node.end_lineno or node.lineno) - node.lineno < SMALL


def assigned_names(ref: ClassRef) -> frozenset[str]:
    """The attributes that the methods of one class body assign on their receiver."""
    return frozenset(assigned(ref))


def assigned_in(ref: ClassRef, name: str) -> list[tuple[FunctionRef, ast.expr]]:
    """The methods of one class body that assign `self.name`, each with the assigned expression; items as `name[]`."""
    return assigned(ref).get(name, [])


def assigned(ref: ClassRef) -> dict[str, list[tuple[FunctionRef, ast.expr]]]:
    """By attribute, what the methods of one class body assign on their receiver, and in which of them."""
    return _assigned_by_node(ref.node, ref.module, ref.qualname)


@cache
def _assigned_by_node(node: ast.ClassDef, module: str, qualname: str) -> dict[str, list[tuple[FunctionRef, ast.expr]]]:
    found: dict[str, list[tuple[FunctionRef, ast.expr]]] = {}
    for member in _members_by_node(node, module, qualname).values():
        if isinstance(member, FunctionRef) and member.node.args.args:
            for attribute, value in _attribute_assignments(member):
                found.setdefault(attribute, []).append((member, value))
    return found


def _attribute_assignments(method: FunctionRef) -> Iterator[tuple[str, ast.expr]]:
    receiver = method.node.args.args[0].arg
    if not _may_assign(method.node, receiver):
        return
    for node in walked_statements(with_body(method.node)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target, value in _taken_apart(node):
                owner = target.value if isinstance(target, ast.Subscript) else target
                if not isinstance(owner, ast.Attribute) or not isinstance(owner.value, ast.Name):
                    continue
                if owner.value.id == receiver:
                    yield owner.attr if owner is target else f"{owner.attr}[]", value


def _taken_apart(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Like `assignments`, where a call is unpacked too: `out, self.state = self.rnn(x)` keeps `self.rnn(x)[1]`."""
    for target, value in assignments(node):
        if not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in target.elts):
            yield target, value
            continue
        for position, part in enumerate(target.elts):
            if isinstance(part, (ast.Attribute, ast.Subscript)):
                place = ast.copy_location(ast.Constant(position), value)
                yield part, ast.copy_location(ast.Subscript(value, place, ast.Load()), value)


def _may_assign(method: Scope, receiver: str) -> bool:
    """False where the text of a method without its body says that it assigns nothing on its receiver."""
    if not isinstance(method, WithoutBody):
        return True
    lines = method.written[method.lineno - 1 : method.end_lineno]
    target = rf"(?:^|[=,;:(\[*])\s*{receiver}\s*\.\s*\w+\s*(?:[\[,)\]:].*)?"
    assigns = re.compile(rf"(?:{target}|^\s*[)\]].*)(?<![=!<>])=(?!=)")
    return any("=" in line and assigns.search(line) is not None for line in lines)


def assignments(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what each of them gets: `a.x, a.y = 1, 2` makes two assignments."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        elif node.value is not None:
            yield target, node.value


def assigned_from_outside(module: ModuleIndex, name: str) -> list[ast.expr]:
    """What a file assigns to an attribute of anything but `self`: `layer.attention.cache = Cache(…)`."""
    lines = _set_from_outside(module).get(name, [])
    found: list[ast.AST] = [module.tree] if lines else []
    values: list[ast.expr] = []
    for node in found:
        found += [with_body(inner) for inner in inner_statements(node) if _is_around(inner, lines)]
        if isinstance(node, ast.Assign):
            for place, value in assignments(node):
                if isinstance(place, ast.Attribute) and place.attr == name and not _is_self(place.value):
                    values.append(value)
    return values


_SET_FROM_OUTSIDE = re.compile(r"(?<!\bself)(?<!\bcls)\.(?=(\w+)\s*(?:[,)\]].*)?(?<![=!<>])=(?!=))")


@lru_cache(maxsize=4096)
def _set_from_outside(module: ModuleIndex) -> dict[str, list[int]]:
    """By attribute, the 1-based lines of a file that may assign it to anything but `self`, as their text tells."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(module.lines, start=1):
        if "=" in line and "." in line:
            for name in _SET_FROM_OUTSIDE.findall(line):
                found.setdefault(name, []).append(number)
    return found


def rebound(module: ModuleIndex, name: str) -> list[tuple[ast.expr, FunctionNode]]:
    """What functions of a file assign to one of its globals, which they declare as such, each with the function."""
    lines = _declared_global(module).get(name, [])
    found: list[ast.AST] = [module.tree] if lines else []
    values: list[tuple[ast.expr, FunctionNode]] = []
    for node in found:
        around = [with_body(inner) for inner in inner_statements(node) if _is_around(inner, lines)]
        found += around
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
            isinstance(inner, ast.Global) and name in inner.names for inner in around
        ):
            for statement in walked_statements(node):
                for target, value in assignments(statement) if isinstance(statement, ast.Assign) else ():
                    if isinstance(target, ast.Name) and target.id == name:
                        values.append((value, node))
    return values


_GLOBAL = re.compile(r"^\s+global\s+([\w, ]+)")


@lru_cache(maxsize=4096)
def _declared_global(module: ModuleIndex) -> dict[str, list[int]]:
    """By name, the 1-based lines on which functions of a file declare it global."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(module.lines, start=1):
        declared = _GLOBAL.match(line) if "global" in line else None
        for name in declared[1].split(",") if declared is not None else ():
            found.setdefault(name.strip(), []).append(number)
    return found


def constructed_in(module: ModuleIndex, name: str) -> list[tuple[ast.Call, FunctionNode | None]]:
    """Where a file calls one of its classes, and in which function: `Trainer(Generator())`."""
    called = re.compile(rf"(?<!class )\b{re.escape(name)}\s*\(")
    lines = _lines_with(name, called, module) if name[:1].isupper() else []
    return list(_constructions(module.tree, name, None, lines)) if lines else []


def _constructions(
    node: ast.AST, name: str, scope: FunctionNode | None, lines: list[int]
) -> Iterator[tuple[ast.Call, FunctionNode | None]]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt) or _is_around(child, lines):
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == name:
                yield child, scope
            inner = child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else scope
            yield from _constructions(with_body(child), name, inner, lines)


def _lines_with(text: str, pattern: re.Pattern[str], module: ModuleIndex) -> list[int]:
    """The 1-based lines of a file that hold a text where a pattern matches: few of its functions need a look then."""
    return [
        number for number, line in enumerate(module.lines, start=1) if text in line and pattern.search(line) is not None
    ]


def _is_around(node: ast.AST, lines: list[int]) -> bool:
    """Whether any of some lines may lie in a statement, its decorators included."""
    if not isinstance(node, ast.stmt):
        return True
    first, last = first_line(node), node.end_lineno or node.lineno
    following = bisect_left(lines, first)
    return following < len(lines) and lines[following] <= last


def _is_self(node: ast.expr) -> bool:
    """Whether an expression is, by its name, the object whose method this is."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_torch_module(name: str) -> bool:
    """Whether a dotted name is that of a module class of torch."""
    return (
        name.startswith(("torch.nn.", "torch.ao.nn."))
        and name.rpartition(".")[2].lstrip("_")[:1].isupper()
        and name
        not in (
            "torch.nn.Parameter",
            "torch.nn.Buffer",
        )
    )


def merged_orders(chains: list[list[ClassRef | str]]) -> Iterator[ClassRef | str]:
    """C3 linearisation; on inconsistent orders takes the first head instead of failing."""
    chains = [chain for chain in chains if chain]
    while chains:
        head = next((chain[0] for chain in chains if not any(chain[0] in other[1:] for other in chains)), chains[0][0])
        yield head
        chains = [kept for chain in chains if (kept := [item for item in chain if item != head])]
