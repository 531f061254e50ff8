"""Whether a frame runs under activation checkpointing, which Dynamo puts into the graph as one operator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Checkpointed
from compilelint.static.project.syntax import nodes_in
from compilelint.static.tracer.frame import Frame
from compilelint.static.values import Const

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_WORDS = ("checkpoint", "ckpt", "remat", "recompute")


def checkpointed(frame: Frame) -> Checkpointed | None:
    """How the way to a frame leads through `checkpoint(block, x)`; None where it does not."""
    direct = True
    while frame.caller is not None and frame.caller.mode == frame.mode:
        site, caller = frame.site, frame.caller
        if isinstance(site, ast.Call) and caller.callees.get(site) == _CHECKPOINT:
            return Checkpointed(direct, any(_is_an_option(*call) for call in _calls(frame)))
        direct, frame = False, caller
    return None


def _calls(frame: Frame) -> Iterator[tuple[ast.AST | None, Frame]]:
    """The calls that lead to a frame, innermost first, each with the frame it stands in."""
    while frame.caller is not None and frame.caller.mode == frame.mode:
        yield frame.site, frame.caller
        frame = frame.caller


def _is_an_option(site: ast.AST | None, frame: Frame) -> bool:
    """Whether a flag that nothing here sets decides about a call: `if self.gradient_checkpointing and self.training:`.

    The call may be that of a function which calls `checkpoint`.
    """
    line = getattr(site, "lineno", 0)
    frame.tracer.program.note(frame.module.name, "body", line=frame.ref.line)
    return any(
        isinstance(node, (ast.If, ast.IfExp))
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and not isinstance(frame.kind(node.test), Const)
        and any(word in ast.unparse(node.test).lower() for word in _WORDS)
        for node in nodes_in(frame.ref.node)
    )
