"""References to the project's classes and functions, and what a class body itself defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache

from compilelint.static.index import FunctionNode, Scope
from compilelint.static.syntax import statements_in


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
class Outside:
    """A dotted name that leads out of the project."""

    name: str


@dataclass(frozen=True, slots=True)
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


def function_ref(module: str, prefix: str, node: Scope, owner: ClassRef | None = None) -> FunctionRef:
    """The reference to a function found in `module`; `prefix` is the qualified name of what it stands in."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return FunctionRef(module, f"{prefix}.{name}" if prefix else name, node.lineno, node.col_offset, node, owner)


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
    for node in statements_in(method.node):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target, value in assignments(node):
                owner = target.value if isinstance(target, ast.Subscript) else target
                if not isinstance(owner, ast.Attribute) or not isinstance(owner.value, ast.Name):
                    continue
                if owner.value.id == receiver:
                    yield owner.attr if owner is target else f"{owner.attr}[]", value


def assignments(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what each of them gets: `a.x, a.y = 1, 2` makes two assignments."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        elif node.value is not None:
            yield target, node.value


@lru_cache(maxsize=256)
def assigned_from_outside(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """By attribute, what a file assigns to attributes of anything but `self`: `layer.attention.cache = Cache(…)`."""
    found: dict[str, list[ast.expr]] = {}
    for node in statements_in(tree):
        if isinstance(node, ast.Assign):
            for target, value in assignments(node):
                if isinstance(target, ast.Attribute) and not _is_self(target.value):
                    found.setdefault(target.attr, []).append(value)
    return found


@lru_cache(maxsize=256)
def constructed_in(tree: ast.Module) -> dict[str, list[tuple[ast.Call, FunctionNode | None]]]:
    """By class name, where a file calls it, and in which function: `Trainer(Generator())`."""
    found: dict[str, list[tuple[ast.Call, FunctionNode | None]]] = {}
    _note_constructions(tree, None, found)
    return found


def _note_constructions(
    node: ast.AST, scope: FunctionNode | None, found: dict[str, list[tuple[ast.Call, FunctionNode | None]]]
) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id[:1].isupper():
            found.setdefault(child.func.id, []).append((child, scope))
        inner = child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else scope
        _note_constructions(child, inner, found)


def _is_self(node: ast.expr) -> bool:
    """Whether an expression is, by its name, the object whose method this is."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
