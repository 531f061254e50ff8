"""A logger call splits the graph, whether or not its level is enabled.

## What it does
Finds method calls on loggers in code that Dynamo traces: `logging.Logger` and its adapters, the functions of module
`logging`, the loggers that transformers, diffusers and accelerate hand out (`warning_once`, `warning_advice` too),
loguru, and absl.

## Why it costs
Dynamo does not look at the level: `logger.debug(...)` breaks in a process that logs errors only, and so does asking
(`logger.isEnabledFor`), since every method of a logger is a call it does not trace (GB0291; GB4841 for
`logging.info`; creating one in traced code is GB6215). "Once" helpers do not help either: Dynamo traces through the
cache that makes them quiet.

## Write instead
Log where the module is built or where the model is called. What must stay is either guarded or declared harmless:

    if not torch.compiler.is_compiling():
        logger.info("padding %d tokens", n)

    torch._dynamo.config.ignore_logging_functions.add(logging.Logger.warning)  # torch 2.11 on: dropped when compiled

Before 2.11 the setting is called `ignore_logger_methods`. `reorderable_logging_functions` takes functions such as
`warnings.warn` and `print`; logger methods are not taken from it.

## Limits
A receiver that is only called `logger`, `log` or the like is taken for one and reported as likely. Measured on torch
2.13.

## References
torch.compile documentation: "Common Graph Breaks" (logging). GB0291, GB4841, GB6215.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilelint.model import Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.questions import last_name
from compilelint.static.flagging.rewrites import guard
from compilelint.static.values import ExternalInstance, Value, options

HAZARD = "graph-break"
EMITTERS = frozenset(
    ["debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log", "trace", "success"]
)
ONCE = frozenset(
    [
        "warning_once",
        "info_once",
        "warning_advice",
        "debug_once",
        "error_once",
        "warn_once",
        "log_first_n",
        "log_every_n",
        "vlog",
    ]
)
QUERIES = frozenset(
    ["isEnabledFor", "getEffectiveLevel", "setLevel", "addHandler", "removeHandler", "hasHandlers", "getChild"]
)
STATE = frozenset({"name", "handlers", "disabled"})
WATCH = Watch(
    nodes=(ast.Call, ast.Attribute),
    callees=lambda name: name.startswith("?") or of_logging(name),
    syntax=lambda node, module: isinstance(node, ast.Attribute) and node.attr in STATE | {"level"},
)

LOGGING_PACKAGES = ("logging.", "loguru.", "absl.logging.", "structlog.", "transformers.utils.logging.")
OF_LOGGER = re.compile(r"\.(get_logger|getLogger)\(\)\.\w+$")
LOGGER_NAME = re.compile(r"^(_|__)?(logger|log|logging|LOG|LOGGER|py_logger|rank_logger)_?$|_(logger|log)$")
"""What people call a logger; `math.log` and `x.log()` are kept out by what the callee resolves to."""


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call to a method of something that is, or is named like, a logger, and per state read from one."""
    if isinstance(node, ast.Attribute):
        yield from read(node, view)
    if not isinstance(node, ast.Call):
        return
    confidence = how_sure(node, view.callee(node))
    if confidence is None:
        return
    if _is_for_debugging(node, view):
        confidence = "possible"  # where the level is not switched on, the question alone is run
    yield Hit(
        node,
        f"`{view.text(node)}` is a logger call: Dynamo splits the graph here even when its level is disabled",
        "log outside the compiled code, guard with `if not torch.compiler.is_compiling():`, or add the method to "
        "`torch._dynamo.config.ignore_logging_functions` (torch 2.11 on)",
        confidence,
        rewrite=guard(node, view, "logs nothing") if view.callee(node).rpartition(".")[2] in EMITTERS | ONCE else None,
    )


def _is_for_debugging(call: ast.Call, view: View) -> bool:
    """Whether a call only runs below `if logger.isEnabledFor(logging.DEBUG):`."""
    below: ast.AST = call
    for around in view.parents(call):
        if isinstance(around, ast.If) and below in around.body and _asks_for_debugging(around.test):
            return True
        below = around
    return False


def _asks_for_debugging(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_asks_for_debugging, test.values))
    asked = isinstance(test, ast.Call) and last_name(test.func) == "isEnabledFor"
    return asked and "DEBUG" in ast.unparse(test)


def read(node: ast.Attribute, view: View) -> Iterator[Hit]:
    """`logger.disabled`, and `logger.level` where it is compared."""
    parent = next(iter(view.parents(node)), None)
    looked_at = node.attr in STATE or (node.attr == "level" and isinstance(parent, ast.Compare))
    if looked_at and all(map(is_logger, options(view.kind(node.value)))):
        yield Hit(
            node,
            f"`{view.text(node)}` is state of a logger, which Dynamo does not read: the graph splits here",
            "ask outside the compiled code, or guard with `if not torch.compiler.is_compiling():`",
        )


def is_logger(kind: Value) -> bool:
    """Whether `kind` is a logger of the standard library."""
    return isinstance(kind, ExternalInstance) and kind.name in ("logging.Logger", "logging.RootLogger")


def of_logging(callee: str) -> bool:
    """Whether a function by its dotted name belongs to a logging package or to what such a one returns."""
    return callee.startswith(LOGGING_PACKAGES) or bool(OF_LOGGER.search(callee))


def how_sure(call: ast.Call, callee: str) -> Confidence | None:
    """`certain` where the callee belongs to a logging package, `likely` where only its name says so."""
    method = callee.rpartition(".")[2]
    if of_logging(callee):
        return "certain" if method in EMITTERS | ONCE | QUERIES | {"getLogger"} else None
    if not callee.startswith("?") or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in ("warning_once", "warning_advice", "isEnabledFor"):
        return "likely"
    owner = call.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return "likely" if LOGGER_NAME.search(name) and call.func.attr in EMITTERS | ONCE | QUERIES else None


BAD = (
    Example(
        code="""\
import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())


def pad_to(x, multiple):
    missing = -x.shape[-1] % multiple
    if missing:
        logger.debug("padding %d positions", missing)  # ~
        x = nn.functional.pad(x, (0, missing))
    return x


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(pad_to(x, 8))
""",
        run="(Encoder(), [(torch.ones(2, 6),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import logging

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.logger = logging.getLogger("attention")
        self.qkv = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.logger.isEnabledFor(logging.DEBUG):  # ~
            self.logger.debug("query %s", q.shape)
            return q
        else:
            self.logger.warning("slow")  # ~
        return nn.functional.scaled_dot_product_attention(q, k, v)
""",
        run="(Attention(), [(torch.ones(1, 2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import functools
import logging

import torch

log = logging.getLogger("ops")
log.addHandler(logging.NullHandler())


@functools.lru_cache(maxsize=None)
def warn_once(message):
    log.warning(message)  # ~


@torch.compile
def scale(x):
    warn_once("scale is deprecated")
    return x * 2
""",
        run="(scale, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import logging

import torch


@torch.compile
def clip(x):
    y = x.clamp(-1, 1)
    logging.info("clipped")  # ~
    return y * 2
""",
        run="(clip, [(torch.ones(4),)])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import logging
import math

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Entropy(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        logger.info("entropy over %d classes", classes)
        self.bound = math.log(classes)

    def forward(self, p):
        if not torch.compiler.is_compiling():
            logger.debug("called")
        return -(p * p.log()).sum(-1) / self.bound + math.log(p.shape[-1])
""",
        run="(Entropy(), [(torch.full((2, 4), 0.25),)])",
        default="clean",
        fullgraph="clean",
    ),
)
