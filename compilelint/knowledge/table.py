"""What Dynamo does with a call, and what the call returns: the reader of what `compilelint.knowledge.generate` made.

Reading needs neither torch nor numpy. There is one file per torch minor version, `torch-<major>.<minor>.json`. After
its header each line is a public name (`torch.nonzero`, `numpy.ndarray.item`, `builtins.print`, `logging.Logger.info`).

Shapes, the keys of `Fact.probes` and `Fact.returned`
    The kinds of the positional arguments, separated by commas; `none` for a call without any. A method's receiver is
    its first argument: a tensor or array, else `self`, an object that was made outside the compiled function.
    Kinds: `tensor` (floating point, at least one dimension), `tensor:int`, `tensor:bool`, `tensor0d` (no dimension)
    and its `:int` and `:bool`, `array` and its `:int` and `:bool`, `int`, `float`, `bool`, `str`, `bytes`, `None`,
    `list` (of numbers), `list[str]`, `list[tensor]`, `list[array]`, `tuple` (of numbers), `dict`, `dtype`, `callable`,
    `module`, `class`, `iterator`, `object`. Where nothing else was accepted: `grad` (a tensor that requires grad),
    `loss` (the sum of one), `leaf` (that one). Python values are literals in the traced function; tensors and arrays
    are computed in it.
    A suffix says what becomes of the number (Python's or numpy's) that a call returns, where that breaks although the
    call does not: `>value` added to a tensor, `>number` passed to `float`, `>test` tested by `if`. Without a suffix it
    is not used; a suffix alone holds for every shape. `@input` says that the receiver is an argument of the traced
    function, where that breaks although a copy does not.
    Shapes that are not calls: `with` (entered where it is made), `with:outside` (entered, but made outside), `get` and
    `set` of an attribute, `construct` and `call` of a `torch.nn` module (called: made outside).

Outcomes
    A probe was compiled with the eager backend where there was no GPU (2.13: a CPU build; 2.11, 2.14: for CUDA), in
    default mode and with `fullgraph=True`. It names the first break by torch's id
    (torch/_dynamo/graph_break_registry.json); `?` is a break, an error or a skipped frame
    without an id. A shape that eager mode refuses has no entry, except that calls which need an absent device
    (`torch.cuda.*`) are recorded under `none` if Dynamo answered before the call could fail. Where eight shapes broke
    alike no more were tried, see `Fact.settled`.

Returns
    `tensor`, `array` (numpy scalars too), `bool`, `int`, `float`, `complex`, `str`, `bytes`, `none`, `size`, `dtype`,
    `device`, `dict`, `set`, `module`, `class`, `callable`, `iterator`, `scalar` (a Python number that depends on
    the tensor), `object:<dotted class>`, `list[...]` (any number of; tuples of unknown length too), `tuple[...,...]`,
    `unknown`; alternatives are separated by `|`. A tensor's or array's element type follows a colon where it is
    known: `bool`, `int`, `float`, `complex`, `same` (as the first tensor argument's) or `promoted` (the widest of
    the tensor arguments').
"""

from __future__ import annotations

import importlib.util
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from compilelint.record import record

SCHEMA = 1
HERE = Path(__file__).parent
EMPTY: tuple[Any, ...] = ("", "", "", {}, {})
NOT_CALLS = frozenset({"with", "with:outside", "get", "set", "construct", "call"})


@record(frozen=True, slots=True)
class Probe:
    """The id of the first graph break in each mode: None where it compiles, "?" for a break without an id."""

    default: str | None
    fullgraph: str | None


@record(frozen=True)
class Fact:
    """All that is known about one name; see the module's text for the grammars.

    `tags` are operator tags (`data_dependent_output`, `dynamic_output_shape`) of operators that a call may dispatch.
    `lookup` is `torch._dynamo.trace_rules.lookup`'s answer (`skip`, `inline`, `torch`, or the variable class's name; ""
    if unknown): Dynamo's first word only, which a probe overrules. `returned` says what single shapes return and is
    empty where `returns` holds for all of them.
    """

    returns: str
    probes: Mapping[str, Probe] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    lookup: str = ""
    returned: Mapping[str, str] = field(default_factory=dict)

    def probe(self, shape: str, use: str = "") -> Probe | None:
        """The outcome for `shape` whose result is put to `use` (`value`, `number`, `test`); None if it is not known.

        A shape that was not tried gets the outcome of the others if all of them broke alike.
        """
        settled = self.settled
        otherwise = settled if settled is not None and settled.default is not None else None
        plain = self.probes.get(shape, otherwise if shape not in NOT_CALLS else None)
        if not use or plain is None or plain.default is not None:
            return plain
        return self.probes.get(f"{shape}>{use}", self.probes.get(f">{use}", plain))

    @cached_property
    def settled(self) -> Probe | None:
        """The outcome of a call whatever its arguments are; None if it was never tried or depends on them."""
        outcomes = {
            probe for shape, probe in self.probes.items() if shape not in NOT_CALLS and not re.search("[>@]", shape)
        }
        return outcomes.pop() if len(outcomes) == 1 else None


class Table:
    """The facts of one torch version. Entries are decoded when they are asked for.

    `lines` are those of the file with a name each, sorted. `target` is the minor version that was asked for, which the
    facts may be older than: `(2, 14)`.
    """

    def __init__(self, version: str, lines: Sequence[str], target: tuple[int, int]) -> None:
        self.version = version
        self.target = target
        self._lines = lines
        self._decoded: dict[str, Fact | None] = {}

    def fact(self, dotted: str) -> Fact | None:
        """What is known about a public name; None if the table does not have it."""
        if dotted not in self._decoded:
            self._decoded[dotted] = self._decode(dotted)
        return self._decoded[dotted]

    def _decode(self, dotted: str) -> Fact | None:
        start = f'"{dotted}":'
        at = bisect_left(self._lines, start)
        if not self._lines[at : at + 1] or not self._lines[at].startswith(start):
            return None
        entry: list[Any] = json.loads(self._lines[at][len(start) :].rstrip(","))
        returns, lookup, tags, probes, returned = (*entry, *EMPTY[len(entry) :])
        return Fact(
            returns=returns,
            probes={shape: _outcome(text) for text, shapes in probes.items() for shape in shapes.split()},
            tags=frozenset(tags.split()),
            lookup=lookup,
            returned={shape: kind for kind, shapes in returned.items() for shape in shapes.split()},
        )

    def __contains__(self, dotted: str) -> bool:
        return self.fact(dotted) is not None


def _outcome(text: str) -> Probe:
    default, fullgraph = text.split(" ")
    return Probe(None if default == "-" else default, None if fullgraph == "-" else fullgraph)


@cache
def shipped() -> tuple[tuple[int, int], ...]:
    """The torch minor versions that a table ships for, oldest first."""
    names = (re.fullmatch(r"torch-(\d+)\.(\d+)\.json", path.name) for path in HERE.iterdir())
    return tuple(sorted((int(name.group(1)), int(name.group(2))) for name in names if name))


def installed() -> str | None:
    """The version of the torch that is installed beside compilelint, which is not imported for it; None without one.

    Read from `torch/version.py`: `importlib.metadata` takes longer to import than a small file takes to lint.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^__version__ = ['\"]([^'\"]+)", text, re.MULTILINE)
    return found.group(1) if found else None


def chosen(torch_version: str | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """The minor version that `load` takes the table of, and the one that it is to speak for."""
    versions = shipped()
    torch_version = torch_version or installed()
    if torch_version is None:
        return versions[-1], versions[-1]
    parsed = re.match(r"(\d+)\.(\d+)", torch_version)
    if parsed is None:
        raise ValueError(f"not a torch version: {torch_version!r} (expected something like '2.13.0')")
    wanted = int(parsed.group(1)), int(parsed.group(2))
    return min((version for version in versions if version >= wanted), default=versions[-1]), wanted


@cache
def load(torch_version: str | None) -> Table:
    """The table of the oldest shipped version at or above `torch_version` (such as `"2.13.0+cpu"`).

    Between two tables the later one speaks, since Dynamo learns more than it forgets and a miss costs less than a false
    alarm. A version newer than all of them gets the newest; None stands for the installed torch and, where there is
    none, for the newest table. Raises ValueError for text that does not start with `major.minor`.
    """
    (major, minor), wanted = chosen(torch_version)
    head, *lines, _ = (HERE / f"torch-{major}.{minor}.json").read_text(encoding="ascii").rstrip().split("\n")
    header = json.loads(f"{head}}}}}")
    if header["schema"] != SCHEMA:
        raise ValueError(f"torch-{major}.{minor}.json has schema {header['schema']}, this version reads {SCHEMA}")
    return Table(header["torch"], lines, wanted)
