"""What driving code changes between two calls of what is compiled, as a frame sees it."""

from __future__ import annotations

import ast

from compilelint.static.flagging import receiver
from compilelint.static.tracer.effects import Write
from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.made_anew import Made
from compilelint.static.values import UNKNOWN, Class, Instance, options


def change_of(node: ast.Attribute, frame: Frame) -> Write | None:
    """How an attribute gets another value; None if it does nowhere."""
    changed = frame.tracer.driven.changed
    for option in options(frame.kinds.get(node.value, UNKNOWN)) if changed else ():
        write = changed.get((option.ref, node.attr)) if isinstance(option, (Class, Instance)) else None
        if write is not None:
            return write
    return None


def in_global(node: ast.Attribute, frame: Frame) -> Made | None:
    """Where an object is made that a context manager puts into a global, with what `node` reads of it."""
    found = frame.tracer.driven.in_globals
    for option in options(frame.kinds.get(node.value, UNKNOWN)) if found else ():
        if isinstance(option, Instance) and (option.ref, node.attr) in found:
            return found[option.ref, node.attr]
    return None


def made_for(node: ast.Attribute, frame: Frame) -> Made | None:
    """Where objects are made that have another value in the attribute each time, of which one is put in place of the
    object of which `node` reads it: `net.processor = Reweight(token)`."""
    made = frame.tracer.driven.made
    owners = options(frame.kinds.get(node.value, UNKNOWN)) if made else ()
    found = [
        made[owner.ref, node.attr] for owner in owners if isinstance(owner, Instance) and (owner.ref, node.attr) in made
    ]
    return found[0] if found and _is_replaced(node.value, frame) else None


def _is_replaced(node: ast.expr, frame: Frame) -> bool:
    if isinstance(node, ast.Attribute):
        return change_of(node, frame) is not None
    caller = frame.caller
    if caller is None or caller.mode != frame.mode or not frame.is_receiver(node) or frame.ref.owner is None:
        return False
    place = receiver.place_called_on(frame, caller)
    return isinstance(place, ast.Attribute) and change_of(place, caller) is not None
