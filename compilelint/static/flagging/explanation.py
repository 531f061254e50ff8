"""`compilelint explain FILE:LINE`: why a line counts as compiled, and what each value in it is taken to be."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator

from compilelint.model import Finding, Step
from compilelint.source import Sources
from compilelint.static.describe import describe
from compilelint.static.flagging.origins import origin
from compilelint.static.tracer.frame import Frame

MAX_WAYS = 4
"""A line reached in more ways than this shows only so many."""


def explanation(
    path: str, line: int, frames: list[Frame], findings: tuple[Finding, ...], others: int, sources: Sources
) -> str:
    """The text for one line; `frames` are the traced frames of functions around it, `line` is 1-based.

    `others` is how many files besides `path` were looked through for a way to the line.
    """
    place = sources.place(path, line)
    reached = [frame for frame in frames if any(_on_line(node, line) for node in frame.kinds)]
    if not reached:
        if frames:
            return (
                f"{place}: the function is walked, but no path through it reaches this line "
                "(a branch that cannot be taken under the compiler, or code after a return)"
            )
        return (
            f"{place}: not in a region: no forward, torch.compile, decode loop or entry point of this file "
            f"{f'or of {others} others read with it ' if others else ''}leads here. Name more code to look through "
            f"(compilelint explain {shlex.quote(place)} PATH ...), or a root with entry-points in the configuration if "
            "this code does run compiled."
        )
    parts = []
    for number, frame in enumerate(reached[:MAX_WAYS], 1):
        parts.append("\n".join(_way(frame, path, line, number, len(reached), sources)))
    if len(reached) > MAX_WAYS:
        parts.append(f"… and {len(reached) - MAX_WAYS} more ways")
    parts.extend(
        f"{finding.rule} {finding.name} ({finding.confidence}): {sources.by_cell(finding.message, path)}"
        f"\n  instead: {sources.by_cell(finding.instead, path)}"
        for finding in findings
    )
    return "\n\n".join(parts)


def _way(frame: Frame, path: str, line: int, number: int, count: int, sources: Sources) -> Iterator[str]:
    head = {
        "compiled": "compiled",
        "decode-loop": "in a decode loop",
        "turn": "called by a decode loop",
        "batch-loop": "in a loop around a compiled model",
        "batch-turn": "called by a loop around a compiled model",
        "host": "host code around a region",
    }
    yield f"way {number} of {count}: {head.get(frame.mode, 'construction of an object')}, by this path:"
    for step in frame.path():
        yield f"  {_step(step, sources)}"
    yield f"values on line {sources.cell_line(path, line)[1]}:"
    lines = frame.module.lines
    for node in sorted((n for n in frame.kinds if _on_line(n, line)), key=_place):
        if isinstance(node, ast.expr) and not isinstance(node, (ast.Constant, ast.JoinedStr, ast.Slice)):
            text = ast.get_source_segment("\n".join(lines), node) if len(lines) < 20_000 else ast.unparse(node)
            known_from = sources.by_cell(origin(node, frame), path)
            yield (
                f"  {' '.join((text or '').split())}: {describe(frame.kinds[node])}"
                f"{f'; {known_from}' if known_from else ''}"
            )


def _step(step: Step, sources: Sources) -> str:
    return f"{sources.place(step.path, step.line)} in {step.function}{f': {step.note}' if step.note else ''}"


def _on_line(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", None) == line


def _place(node: ast.AST) -> tuple[int, int]:
    return node.col_offset, node.end_col_offset or 0  # type: ignore[attr-defined]
