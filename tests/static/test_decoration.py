"""Functions after decorators that are made more often than any function is walked."""

from __future__ import annotations

from unittest import mock

from projects import probe

from compilelint.static.tracer.frame import Frame
from compilelint.static.tracer.held import MAX_WAYS
from compilelint.static.tracer.tracer import Tracer
from compilelint.static.values import Value

COUNT = MAX_WAYS + 4
REGISTER = """
import torch

TABLE = {}

def register(name, *tags):
    table = TABLE.setdefault(name, {})
    for tag in tags:
        if tag in table:
            raise ValueError(tag)
        table.setdefault(tag, [])
        table[tag].append(name)
    if len(table) > 100:
        raise ValueError("too many")
    if not name:
        raise ValueError("no name")
    def made(function):
        table[name] = function
        return function
    return made
"""


def test_a_decorator_made_for_other_names_is_not_walked_for_each_of_them() -> None:
    functions = "".join(f"@register('n{n}')\ndef f{n}(x): return x > {n}\n" for n in range(COUNT))
    region = "@torch.compile\ndef step(x):\n" + "".join(f"    probe(f{n}(x))\n" for n in range(COUNT))
    walked: list[str] = []
    walk = Tracer._walk

    def noted(tracer: Tracer, frame: Frame) -> Value:
        walked.append(frame.ref.qualname)
        return walk(tracer, frame)

    with mock.patch.object(Tracer, "_walk", noted):
        seen = probe(REGISTER + functions + region)
    assert seen.kinds() == {"a tensor of bool (by annotation or use)"}
    assert walked.count("register") == MAX_WAYS
    assert walked.count("register.<locals>.made") == MAX_WAYS
