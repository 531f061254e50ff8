"""Runs one example of a rule under the installed torch and says what the compiler did with it.

Shared by the test suite, which holds every rule to this, and by `tools/observe_examples.py`, which keeps the outcomes
per torch version. Breaks and recompiles are read from the logs of these names (`torch._logging.set_logs`).
"""

from __future__ import annotations

import importlib.util
import logging
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy
import torch
import torch._dynamo
import torch._logging

from compilelint.rule import Example, Outcome, Rule

BREAKS_LOGS = ("torch._dynamo.symbolic_convert.__graph_breaks", "torch._dynamo.convert_frame.__graph_breaks")
RECOMPILES_LOG = "torch._dynamo.guards.__recompiles"
SKIPPED = ("Skipping the function and falling back to eager", "torch.compile will skip tracing the frame")
ID_IN_LINK = re.compile(r"/gb(\d{4})\.html")

REFERENCE = "2.13"
"""The torch whose behaviour the examples claim. What others do is in docs/observed."""
REFERENCE_PYTHON = "3.11"
"""The Python under which it is: Dynamo reads bytecode, so loops and assertions may fare differently in another."""

Compile = Callable[..., Any]
Results = list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Observed:
    """The outcome in both regimes, and the GB ids of the breaks in default mode, in the order they were met."""

    default: Outcome
    fullgraph: Outcome
    gb: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """How the outcome is kept in `docs/observed`."""
        return {"default": self.default, "fullgraph": self.fullgraph, "gb": list(self.gb)}


class Listener(logging.Handler):
    """Collects what the two logs say while one regime runs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.breaks: list[str] = []
        self.recompiles = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == RECOMPILES_LOG:
            self.recompiles += 1
        else:
            self.breaks.append(record.getMessage())

    def ids(self) -> tuple[str, ...]:
        """The id of each break's first cause; later ids in one message are torch handling that cause."""
        found = (ID_IN_LINK.search(message) for message in self.breaks)
        return tuple(dict.fromkeys(f"GB{match[1]}" for match in found if match))


def examples_of(rule: Rule) -> Iterator[tuple[str, Example]]:
    """Every example that can be run, with the key it is known by: `CL201/bad/0`."""
    for side, examples in (("bad", rule.bad), ("good", rule.good)):
        for position, example in enumerate(examples):
            if example.run:
                yield f"{rule.code}/{side}/{position}", example


def minor_version() -> str:
    """`2.13` for torch 2.13.0+cpu."""
    return ".".join(torch.__version__.split("+")[0].split(".")[:2])


def running_python() -> str:
    """`3.11` for Python 3.11.7."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def observed_file(version: str) -> Path:
    """Where the outcomes under that minor version are kept."""
    return Path(__file__).parents[1] / "docs" / "observed" / f"torch-{version}.json"


def measure(example: Example, file: Path) -> Observed:
    """Run `example` eagerly, compiled in default mode and with `fullgraph=True`.

    `file` is where its code is written, so that tracebacks and guards have source. The code is loaded anew for each
    run: what one run changes, no other sees. Raises whatever the example raises while it is being set up.
    """
    file.write_text(example.code, encoding="utf-8")
    with clean_state():
        expected, _ = run(example, file, compile=lambda model, **_: model)
    with clean_state():
        results, heard = run(example, file, compile=compiler(fullgraph=False))
        default = outcome(expected, results, heard)
        gb = heard.ids()
    with clean_state():
        results, heard = run(example, file, compile=compiler(fullgraph=True))
        raised = any(r[0] == "raised" and r != e for r, e in zip(results, expected, strict=True))
        fullgraph = "break" if raised else outcome(expected, results, heard)
    return Observed(default, fullgraph, gb)


def outcome(expected: Results, results: Results, heard: Listener) -> Outcome:
    """The one word for a run: the costliest thing that happened in it."""
    if any(mark in message for message in heard.breaks for mark in SKIPPED):
        return "skip"
    if heard.breaks:
        return "break"
    if not all(map(same, expected, results)):
        return "stale"
    return "recompile" if heard.recompiles else "clean"


def run(example: Example, file: Path, compile: Compile) -> tuple[Results, Listener]:
    """What each call returned or raised, and what was heard. `torch.compile` in the example is `compile` too."""
    listener = Listener()
    results: Results = []

    def patched(model: Any = None, **keywords: Any) -> Any:
        # What is traced hangs on dynamic= and on a filter of guards; the rest (backend, mode) is the experiment's.
        kept = {key: value for key, value in keywords.items() if key == "dynamic"}
        guards = {key: value for key, value in (keywords.get("options") or {}).items() if key == "guard_filter_fn"}
        kept |= {"options": guards} if guards else {}
        return (lambda function: compile(function, **kept)) if model is None else compile(model, **kept)

    with listening(listener), mock.patch.object(torch, "compile", patched), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seed()
        module = load(file)
        function, calls = eval(example.run, vars(module))
        if not example.inside:
            function = compile(function)
        for arguments in calls:
            seed()
            try:
                results.append(("returned", snapshot(function(*arguments))))
            except Exception as error:
                results.append(("raised", type(error).__name__))
    return results, listener


def seed() -> None:
    """The same random numbers for each call in each run."""
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def compiler(*, fullgraph: bool) -> Compile:
    """`torch.compile` with the eager backend: the breaks are Dynamo's, and nothing is generated."""
    real = torch.compile

    def compile(model: Any, **keywords: Any) -> Any:
        return real(model, backend="eager", fullgraph=fullgraph, **keywords)

    return compile


def load(file: Path) -> ModuleType:
    """Import `file` as a new module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hand the two logs to `listener` instead of to the terminal."""
    torch._logging.set_logs(graph_breaks=True, recompiles=True)  # type: ignore[attr-defined]
    loggers = [logging.getLogger(name) for name in (*BREAKS_LOGS, RECOMPILES_LOG)]
    before = [(logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [listener]
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.propagate = propagate
        torch._logging.set_logs()  # type: ignore[attr-defined]


@contextmanager
def clean_state() -> Iterator[None]:
    """Start without compiled code, and undo what an example sets for the whole process."""
    torch._dynamo.reset()
    torch.distributions.kl._KL_MEMOIZE.clear()
    config = torch._dynamo.config
    settings = config.get_config_copy()
    try:
        yield
    finally:
        for name, value in config.get_config_copy().items():
            if value != settings[name]:
                setattr(config, name, settings[name])
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def snapshot(value: Any) -> Any:
    """A copy that later calls can't change: the tensors of a result, the rest by its type and text."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [snapshot(item) for item in value]
    if isinstance(value, dict):
        return {str(key): snapshot(item) for key, item in value.items()}
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def same(expected: Any, result: Any) -> bool:
    """Whether two snapshots are equal: numbers within torch.testing's tolerance, shapes and types included."""
    if isinstance(expected, (list, tuple)):
        return isinstance(result, type(expected)) and len(expected) == len(result) and all(map(same, expected, result))
    if isinstance(expected, dict):
        return isinstance(result, dict) and same(list(expected.items()), list(result.items()))
    if isinstance(expected, (torch.Tensor, float)):
        try:
            torch.testing.assert_close(result, expected, equal_nan=True)
        except (AssertionError, TypeError):
            return False
        return True
    return bool(expected == result)
