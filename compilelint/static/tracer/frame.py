"""One way of running one function: its variables, and what each of its expressions turned out to be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from compilelint.model import Step
from compilelint.record import record
from compilelint.static.project.definitions import FunctionRef
from compilelint.static.project.index import ModuleIndex
from compilelint.static.values import UNKNOWN, Closure, Compiled, Instance, Value, join, options

if TYPE_CHECKING:
    from compilelint.static.tracer.effects import Effect
    from compilelint.static.tracer.recurring import Flag, Split
    from compilelint.static.tracer.tracer import Tracer

Env: TypeAlias = dict[str, Value]
"""Variables by name. `self.cache` is a key too, for an attribute that was assigned or tested on this path."""

Mode: TypeAlias = Literal[
    "compiled", "decode-loop", "turn", "batch-loop", "batch-turn", "host", "driving", "leading", "construct"
]
"""How the frame runs. `decode-loop` and `batch-loop` are functions with such a loop, `turn` and
`batch-turn` what the loop calls.

`construct` is an `__init__` outside any region, walked only for the attributes it sets, and `driving` code that calls
what is compiled, walked for what it does to its state. `leading` code calls functions with loops, and is walked for
what it gives them. No rule is asked about these three.
"""


TURN_OF: dict[Mode, Mode] = {"decode-loop": "turn", "batch-loop": "batch-turn"}
"""How what a loop calls runs, by how the function with the loop does."""
_AROUND = frozenset({"host", "driving", "leading", *TURN_OF.values()})

MAX_DEPTH = 40
"""Calls nested deeper than this are not followed; the deepest models measured stay below 25."""
MAX_RECURSION = 8
"""A function inside itself more often than this is not followed: an argument may double with each call."""
HOST_DEPTH = 3
"""How far calls are followed outside of compiled regions, where only results matter; below an `__init__` too."""
OBJECT_DEPTH = 12
"""How far they are where objects are made for the attributes they have."""


@record(slots=True, eq=False)
class Frame:
    """See the module's docstring. `site` is the call in `caller` that entered this frame."""

    tracer: Tracer
    ref: FunctionRef
    module: ModuleIndex
    env: Env
    mode: Mode
    closure: Closure | None = None
    caller: Frame | None = None
    site: ast.AST | None = None
    why: str = ""
    kinds: dict[ast.AST, Value] = field(default_factory=dict)
    callees: dict[ast.Call, str] = field(default_factory=dict)
    tests: dict[ast.expr, Value] = field(default_factory=dict)
    arguments: dict[ast.Call, tuple[tuple[Value, ...], dict[str, Value]]] = field(default_factory=dict)
    handed_back: dict[ast.AST, Value] = field(default_factory=dict)
    """By call, what the function that it was handed gave back: a key for sorting, a test for filtering."""
    splits: dict[Flag, list[Split]] = field(default_factory=dict)
    """What the sides of tests left in variables, by what the test asks; see `recurring`."""
    returned: Value | None = None
    yielded: Value | None = None
    depth: int = 0
    is_module_level: bool = False
    """The statements of a module itself, outside any function."""
    effects: list[Effect] = field(default_factory=list)
    """What host code did, in order; see `effects`."""
    drives: bool = False
    """This frame, or one that it enters, calls what torch.compile returned."""

    @property
    def keeps_effects(self) -> bool:
        """Whether it is code around compiled code, of which `effects` are noted."""
        return self.mode not in ("compiled", "leading", "construct")

    @property
    def tree(self) -> ast.AST:
        """The syntax tree of what runs here: the function, or the module for its own statements."""
        return self.module.tree if self.is_module_level else self.ref.node

    def give_back(self, value: Value) -> None:
        """Join `value` into what the function returns."""
        self.returned = value if self.returned is None else join(self.returned, value)

    def give_out(self, value: Value) -> None:
        """Join `value` into what the generator yields."""
        self.yielded = value if self.yielded is None else join(self.yielded, value)

    def look_up(self, name: str) -> Value | None:
        """A local or enclosing variable; None when neither binds the name."""
        if name in self.env:
            return self.env[name]
        closure = self.closure
        while closure is not None:
            if name in closure.env:
                return closure.env[name]
            closure = closure.outer
        return None

    def kind(self, node: ast.AST) -> Value:
        """What was recorded for an expression; UNKNOWN if no path reached it."""
        return self.kinds.get(node, UNKNOWN)

    def is_receiver(self, node: ast.expr) -> bool:
        """Whether an expression is the function's first parameter: in a method, the object itself."""
        arguments = self.ref.node.args.args
        return isinstance(node, ast.Name) and bool(arguments) and node.id == arguments[0].arg

    def mark_driver(self) -> None:
        """Note, here and in all callers, that this code drives models: it runs, trains, loads or builds them."""
        frame: Frame | None = self
        while frame is not None and not frame.drives:
            frame.drives = True
            frame = frame.caller

    def entered(self, ref: FunctionRef) -> int:
        """How often the way to this frame, itself included, leads through a function."""
        count = 0
        frame: Frame | None = self
        while frame is not None:
            count += frame.ref.node is ref.node
            frame = frame.caller
        return count

    def turn_at(self, site: ast.AST | None) -> Mode | None:
        """How what is called at `site` runs if a loop around a model does so on each of its turns."""
        turn = TURN_OF.get(self.mode)
        if turn is None:
            return self.mode if self.mode in TURN_OF.values() else None
        return turn if site in self.tracer.each_turn[self.mode] else None

    def goes_too_deep(self, ref: FunctionRef, mode: Mode) -> bool:
        """Whether a call of a function, which would run as `mode`, is not followed from here."""
        limit = MAX_DEPTH if mode == "compiled" else HOST_DEPTH if mode in _AROUND else OBJECT_DEPTH
        if self.depth >= limit or self.entered(ref) >= MAX_RECURSION:
            return True
        return mode == "construct" and self._below_init() >= HOST_DEPTH

    def _below_init(self) -> int:
        """How many calls below the innermost `__init__`, or below the module, this frame is."""
        count = 0
        frame: Frame | None = self
        while frame is not None and not frame.ref.qualname.endswith(("__init__", "<module>")):
            count += 1
            frame = frame.caller
        return count

    def is_below_compiled(self) -> bool:
        """Whether the way to this frame leads through a call of what torch.compile returned."""
        return any(
            isinstance(option, Compiled) or (isinstance(option, Instance) and option.compiled)
            for frame, _ in self._callers()
            if frame.caller is not None and isinstance(frame.site, ast.Call)
            for option in options(frame.caller.kind(frame.site.func))
        )

    def path(self) -> tuple[Step, ...]:
        """The call path that leads here, outermost first, this frame's own function last."""
        steps: list[Step] = []
        for frame, below in self._callers():
            site = below.site if below is not None else None
            line = getattr(site, "lineno", None) or frame.ref.line
            note = frame.why if frame.caller is None else ""
            steps.append(Step(frame.tracer.display(frame.module), line, frame.ref.qualname, note))
        return tuple(reversed(steps))

    def _callers(self) -> Iterator[tuple[Frame, Frame | None]]:
        below: Frame | None = None
        frame: Frame | None = self
        while frame is not None:
            yield frame, below
            frame, below = frame.caller, frame


def join_envs(first: Env, second: Env) -> Env:
    """What is known where two paths meet. A name that only one path binds keeps that binding."""
    if first is second:
        return first
    merged = dict(first)
    for name, value in second.items():
        mine = merged.get(name)
        if mine is None:
            # An attribute path is forgotten unless both know it: the other path still has the object's own value.
            if "." not in name:
                merged[name] = value
        elif mine is not value:
            merged[name] = join(mine, value)
    for name in first:
        if "." in name and name not in second:
            del merged[name]
    return merged


def path_of(node: ast.expr) -> str | None:
    """`self.cache.k` for a name or an attribute chain on a plain name, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return None
    path, node = node.attr, node.value
    while isinstance(node, ast.Attribute):
        path, node = f"{node.attr}.{path}", node.value
    return f"{node.id}.{path}" if isinstance(node, ast.Name) else None


def key_of(env: Env) -> object:
    """What makes two ways of calling a function the same."""
    return tuple(sorted(((name, value) for name, value in env.items()), key=_by_name))


def _by_name(item: tuple[str, Value]) -> str:
    return item[0]
