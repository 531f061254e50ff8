"""What becomes of a hit where Dynamo is set to capture what depends on a tensor's values, instead of breaking there."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from compilelint.rule import Captured, Hit
from compilelint.static.syntax import nodes_in
from compilelint.static.view import FrameView

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
    setting = _SETTINGS[what]
    module = view.module  # noted as looked at, for the lines too
    return any(setting in line for line in view.frame.module.lines) and _sets(module, setting)


@lru_cache(maxsize=256)
def _sets(module: ast.Module, setting: str) -> bool:
    """Whether a file switches a setting of Dynamo on: `config.setting = True`, `config.patch(setting=True)`."""
    for node in nodes_in(module):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and target.attr == setting:
                return isinstance(node.value, ast.Constant) and node.value.value is True
        elif isinstance(node, ast.keyword) and node.arg == setting:
            return isinstance(node.value, ast.Constant) and node.value.value is True
    return False
