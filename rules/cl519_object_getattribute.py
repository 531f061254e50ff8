"""Taking `object.__getattribute__` by name splits the graph.

## What it does
Finds `object.__getattribute__(self, name)` in code that Dynamo traces, typically in a `__getattr__` of a
configuration object.

## Why it costs
Attribute access through `.`, `getattr` and `super()` is traced, the slot of `object` taken by name is not (GB0156).
Every read of an attribute that goes through such a method breaks there, and since it stands in a call made by the
attribute access itself, the function that reads is given up.

## Write instead
`self.__dict__[name]` or `super().__getattribute__(name)`; both compile. Best read settings in `__init__`.

## Limits
`object.__setattr__(self, name, value)` compiles. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
WATCH = Watch(nodes=(ast.Call,), names=frozenset({"__getattribute__"}))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per explicit call of the slot."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "object.__getattribute__":
        return
    name = view.text(node.args[1]) if len(node.args) > 1 else "name"
    yield Hit(
        node,
        f"`{view.text(node)}` is a slot of `object` that Dynamo does not trace: the graph splits here",
        f"write `self.__dict__[{name}]` or `super().__getattribute__({name})`",
    )


BAD = (
    Example(
        code="""\
import torch
from torch import nn


class Node:
    def __init__(self, content):
        object.__setattr__(self, "content", content)

    def read(self, key):
        return object.__getattribute__(self, "content")[key]  # ~


class Policy(nn.Module):
    def __init__(self, gain=2.0):
        super().__init__()
        self.settings = Node({"gain": gain})
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) * self.settings.read("gain")
""",
        run="(Policy(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Node:
    def __init__(self, content):
        object.__setattr__(self, "content", content)

    def __getattr__(self, key):
        content = self.__dict__["content"]
        if key not in content:
            raise AttributeError(key)
        return content[key]


class Policy(nn.Module):
    def __init__(self, gain=2.0):
        super().__init__()
        self.settings = Node({"gain": gain})
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) * self.settings.gain
""",
        run="(Policy(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
