"""What becomes of a hit where Dynamo is set to capture what depends on a tensor's values, instead of breaking there."""

from __future__ import annotations

from dataclasses import replace

from compilelint.rule import Captured, Hit
from compilelint.static.flagging.view import FrameView
from compilelint.static.project.dynamo_settings import set_by

_SETTINGS: dict[Captured, str] = {
    "numbers": "capture_scalar_outputs",
    "sizes": "capture_dynamic_output_shape_ops",
}
_WITH_FULLGRAPH = (2, 10)
"""From this version on `fullgraph=True` captures both (measured from 2.11 on; torch 2.9 raises)."""


def as_captured(hit: Hit, what: Captured, view: FrameView) -> Hit | None:
    """`hit`, which says that a graph breaks at a number or a size that depends on data, as it is under capture.

    A captured number stays in the graph, often as a tensor, and nothing is to be said of it. For a captured size the
    host still waits: the result has to be allocated.
    """
    if not _captures(what, view):
        return hit
    if what == "numbers":
        return None
    return replace(
        hit,
        hazard="host-sync",
        message=f"`{view.text(hit.node)}` stays in the graph, but the size of its result depends on the data: the host"
        " waits for the GPU to tell it",
        confidence="likely",
    )


def _captures(what: Captured, view: FrameView) -> bool:
    if view.options.get("fullgraph") is True and view.torch >= _WITH_FULLGRAPH:
        return True
    view.frame.tracer.program.note(view.frame.module.name, "code")
    return set_by(view.frame.module, _SETTINGS[what]) is True
