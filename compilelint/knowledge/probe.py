"""Ask torch about one candidate: run it in eager mode to see which arguments it takes, then let Dynamo trace each call.

Runs in a child process that is thrown away afterwards, so that a candidate may change any global state it likes. A
traced function copies its tensors (so that they are intermediates, like most values in a model), makes the call, and
returns something that does not depend on the result unless the probe is about the result's use.
"""

from __future__ import annotations

import builtins
import importlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy
import torch

from compilelint.knowledge import returns, stock
from compilelint.knowledge.arguments import Arguments, shapes
from compilelint.knowledge.candidates import Candidate, evaluate
from compilelint.knowledge.trace import Tagged, id_of, trace

USES = {"value": "x + result", "number": "x + float(result)", "test": "x + 1 if result else x + 2"}
DEVICES = re.compile(r"torch\.(cuda|xpu|mps|accelerator)\.")
# A function that takes anything, such as print, has answered long before every shape is tried: after so many shapes, or
# when so many different ones all broke alike.
MOST_SHAPES = {"self": 12, "numpy": 20, "array": 16, "python": 20, "torch": 20, "method": 24}
ALIKE = 8
SAME_USES = 4
# At most so many ways to construct a module are tried in search of one that can be called.
MOST_LAYERS = 8
NOTHING = Arguments((), ())
Outcome = tuple[str | None, str | None]
COMPILES: Outcome = (None, None)


@dataclass(slots=True)
class Observation:
    """What was seen of one candidate. `probes` holds the outcomes in (default mode, fullgraph) by shape."""

    probes: dict[str, Outcome] = field(default_factory=dict)
    seen: list[returns.Seen] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(candidate: Candidate) -> Observation:
    """Everything the table says about a candidate except what can be read without calling it."""
    prober = Prober(candidate)
    if candidate.family == "module":
        prober.layer()
    elif candidate.family == "attribute":
        prober.attribute()
    else:
        prober.calls()
    return prober.observation


@dataclass(frozen=True, slots=True)
class Accepted:
    """A call that eager mode takes: its shape, its arguments, its text, and what it returned."""

    shape: str
    realization: Arguments
    call: str
    result: Any

    def renamed(self, number: int) -> tuple[str, Arguments]:
        """The call and its inputs under names of their own, to stand beside other calls in one function."""
        call = re.sub(r"\ba(\d)\b", rf"a{number}_\1", self.call)
        inputs = tuple((f"a{number}_{name[1:]}", key) for name, key in self.realization.inputs)
        return call, Arguments((), inputs)


class Prober:
    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.observation = Observation()
        self.names = dict(stock.names())
        for root in re.findall(r"(?<![\w.{}])([a-z_]\w*)\.", f"{candidate.call} {candidate.instance}"):
            if root not in self.names and root != "made" and not hasattr(builtins, root):
                self.names[root] = importlib.import_module(root)

    def calls(self) -> None:
        """Find the shapes that the call takes; note what it returns, how each compiles, and how each result does."""
        accepted = self.accepted()
        for found in accepted:
            self._note(found.shape, found.realization, found.result)
            self._tag(found.call, found.realization)
        if not self._together(accepted, "    {call}\n"):
            for found in accepted:
                if not self._breaks_anyhow():
                    self._probe(found.shape, f"    {found.call}\n    return x + 1\n", found.realization)
        self._uses([found for found in accepted if isinstance(found.result, (bool, int, float, numpy.generic))])
        if accepted and self.candidate.family == "method":
            self._on_input(accepted[0])
        for found in accepted:
            if hasattr(type(found.result), "__exit__") and "with" not in self.observation.probes:
                self._context(found.call, found.realization)
        if not accepted and DEVICES.match(self.candidate.name):
            self._unaccepted()

    def accepted(self) -> list[Accepted]:
        """The shapes that eager mode takes, most telling first, each with a call that it took."""
        found = self._all_accepted(shapes(self.candidate.family))
        if not found and self.candidate.family in ("torch", "method"):
            found = self._all_accepted(shapes("grad"))
        return found

    def _together(self, accepted: list[Accepted], statement: str) -> bool:
        """Whether a function that makes all these calls compiles; then each of them does, for the price of one."""
        if self.candidate.instance or not accepted:
            return False
        parts = [found.renamed(number) for number, found in enumerate(accepted)]
        body = "".join(statement.format(call=call) for call, _ in parts) + "    return x + 1\n"
        everything = Arguments((), tuple(item for _, arguments in parts for item in arguments.inputs))
        if trace(self.define(body, everything), stock.inputs(everything), fullgraph=False) is not None:
            return False
        for found in accepted:
            self.observation.probes.setdefault(found.shape, COMPILES)
        return True

    def _breaks_anyhow(self) -> bool:
        outcomes = list(self.observation.probes.values())
        return len(outcomes) >= ALIKE and len(set(outcomes)) == 1 and outcomes[0][0] is not None

    def _uses(self, accepted: list[Accepted]) -> None:
        """Put numbers to use where the call itself compiles. What compiles there too is not recorded.

        A use that breaks alike whatever the arguments are is recorded once, without a shape.
        """
        compiling = [found for found in accepted if self.observation.probes.get(found.shape) == COMPILES]
        for use, statement in USES.items():
            if self._together(compiling, f"    result = {{call}}\n    x = {statement}\n"):
                continue
            outcomes: dict[str, Outcome] = {}
            for found in compiling:
                body = f"    result = {found.call}\n    return {statement}\n"
                settled = len(outcomes) >= SAME_USES and len(set(outcomes.values())) == 1
                if not settled and self._accepts(body, found.realization):
                    outcomes[f"{found.shape}>{use}"] = self._outcome(body, found.realization)
            alike = len(set(outcomes.values())) == 1
            for key, outcome in ({f">{use}": next(iter(outcomes.values()))} if alike else outcomes).items():
                if outcome != COMPILES:
                    self.observation.probes[key] = outcome

    def _on_input(self, found: Accepted) -> None:
        """Call a method of a tensor that the traced function was given; recorded where only that breaks."""
        function = self.define(f"    {found.call}\n    return x + 1\n", found.realization, copied=False)
        outcomes = [
            trace(function, stock.inputs(found.realization), fullgraph=fullgraph) for fullgraph in (False, True)
        ]
        if outcomes[0] is not None and self.observation.probes[found.shape] == COMPILES:
            self.observation.probes[f"{found.shape}@input"] = (outcomes[0], outcomes[1])

    def _context(self, call: str, realization: Arguments) -> None:
        inside = f"    with {call}:\n        y = x + 1\n    return y\n"
        if not self._accepts(inside, realization):
            return
        self._probe("with", inside, realization)
        self.names["context"] = self._run(f"    return {call}\n", realization)
        self._probe("with:outside", "    with context:\n        y = x + 1\n    return y\n", NOTHING)

    def _unaccepted(self) -> None:
        """A call that needs a device this machine lacks: Dynamo's answer is kept, unless it traced into the failure."""
        default = self._probe("none", f"    {self.candidate.call.format(args='')}\n    return x + 1\n", NOTHING)
        if default in ("?", id_of("Observed exception")):
            del self.observation.probes["none"]

    def attribute(self) -> None:
        """Read the attribute of each kind of receiver, and assign to it what a program might assign."""
        kind = "array" if self.candidate.name.startswith("numpy.") else "tensor"
        read = self.candidate.call.format("a0")
        for shape in (kind, f"{kind}:int", f"{kind}:bool"):
            for realization, _ in stock.prepared(shape):
                if self._accepts(f"    {read}\n", realization):
                    self._note(shape, realization, self._run(f"    return {read}\n", realization))
                    if "get" not in self.observation.probes:
                        self._probe("get", f"    {read}\n    return x + 1\n", realization)
                    break
        for shape in (f"{kind},{kind}", f"{kind},bool", f"{kind},None"):
            realization = stock.prepared(shape)[0][0]
            body = f"    {read} = {realization.values[1]}\n    return x + 1\n"
            if "set" not in self.observation.probes and self._accepts(body, realization):
                self._probe("set", body, realization)

    def layer(self) -> None:
        """Construct an `nn.Module` in the traced function; call one that was made outside."""
        layers = 0
        for shape in shapes("construct"):
            for arguments, _ in stock.prepared(shape):
                call = self.candidate.call.format(args=", ".join(arguments.values))
                if layers == MOST_LAYERS:
                    return
                try:
                    self.names["layer"] = self._run(f"    return {call}\n", arguments)
                except Exception:
                    continue
                layers += 1
                if "construct" not in self.observation.probes:
                    self._probe("construct", f"    {call}\n    return x + 1\n", arguments)
                if self._layer_called():
                    return

    def _layer_called(self) -> bool:
        for shape in shapes("call"):
            for realization, _ in stock.prepared(shape):
                call = f"layer({', '.join(realization.values)})"
                try:
                    result = self._run(f"    return {call}\n", realization)
                except Exception:
                    continue
                self._note("call", realization, result)
                self._probe("call", f"    {call}\n    return x + 1\n", realization)
                return True
        return False

    def _all_accepted(self, listed: list[str]) -> list[Accepted]:
        accepted: list[Accepted] = []
        for shape in listed:
            found = self._accepted(shape) if len(accepted) < MOST_SHAPES[self.candidate.family] else None
            if found is not None:
                accepted.append(found)
        return accepted

    def _accepted(self, shape: str) -> Accepted | None:
        """The first realization of a shape that the eager call takes."""
        caller = self._caller()
        for realization, values in stock.prepared(shape):
            call = self._spell(realization.values)
            if call is None:
                return None
            try:
                caller(*values(*stock.inputs(realization)))
                result = self._run(f"    {'' if ' = ' in call else 'return '}{call}\n", realization)
                return Accepted(shape, realization, call, result)
            except Exception:
                continue
        return None

    def _spell(self, values: tuple[str, ...]) -> str | None:
        """The call with these argument expressions; None where it takes another number of them."""
        call = self.candidate.call
        placed = len(set(re.findall(r"\{(\d)\}", call)))
        if len(values) < placed or (len(values) > placed and "{args}" not in call):
            return None
        return call.format(*values, args=", ".join(values[placed:]))

    def _caller(self) -> Callable[..., Any]:
        """The candidate as a function of its arguments, for the many calls that only ask what is accepted."""
        placed = len(set(re.findall(r"\{(\d)\}", self.candidate.call)))
        given = [f"given[{index}]" for index in range(placed)]
        scope = self._scope()
        exec(f"def call(*given):\n    {self.candidate.call.format(*given, args=f'*given[{placed}:]')}\n", scope)
        function: Callable[..., Any] = scope["call"]
        return function

    def _scope(self) -> dict[str, Any]:
        made = {"made": evaluate(self.candidate.instance)} if self.candidate.instance else {}
        return {**self.names, **made}

    def define(self, body: str, realization: Arguments, copied: bool = True) -> Callable[..., Any]:
        """A new function of `x` and the realization's inputs, with a code object, and so a compile cache, its own."""
        given = ", ".join(["x", *(name for name, _ in realization.inputs)])
        copies = "".join(
            f"    {name} = {name}.{'copy' if key.startswith('array') else 'clone'}()\n"
            for name, key in realization.inputs
            if copied
        )
        scope = self._scope()
        exec(f"def probe({given}):\n{copies}{body}", scope)
        function: Callable[..., Any] = scope["probe"]
        return function

    def _run(self, body: str, realization: Arguments) -> Any:
        return self.define(body, realization)(torch.ones(4), *stock.inputs(realization))

    def _accepts(self, body: str, realization: Arguments) -> bool:
        try:
            self._run(body, realization)
        except Exception:
            return False
        return True

    def _probe(self, key: str, body: str, realization: Arguments) -> str | None:
        """Trace `body`, keep the outcome under `key`, and return that of default mode."""
        self.observation.probes[key] = self._outcome(body, realization)
        return self.observation.probes[key][0]

    def _outcome(self, body: str, realization: Arguments) -> Outcome:
        """What compiles in default mode is not tried under fullgraph=True, which only captures more."""
        default = trace(self.define(body, realization), stock.inputs(realization), fullgraph=False)
        if default is None:
            return COMPILES
        return default, trace(self.define(body, realization), stock.inputs(realization), fullgraph=True)

    def _note(self, shape: str, realization: Arguments, result: Any) -> None:
        elements = tuple(returns.element_of(stock.values()[key]) for _, key in realization.inputs)
        self.observation.seen.append(returns.Seen(shape, elements, returns.describe(result)))

    def _tag(self, call: str, realization: Arguments) -> None:
        watch = Tagged()
        try:
            with watch:
                self._run(f"    {call}\n", realization)
        except Exception:
            return
        self.observation.tags = sorted({*self.observation.tags, *watch.tags})
