"""A list or dict that is longer or shorter each time compiles the function it is passed to again for each length.

## What it does
Finds, in compiled code, the first use of a list, tuple, set or dict of which driving code passes another length each
time: under conditions (`if "depth" in sample: parts["depth"] = …`), out of the first few of several, with as many
entries as a loop's turn or an argument says, by a function or generator that puts it together, or one of which some
keys may be missing (`request.get(name)`).

## Why it costs
Dynamo takes a collection apart and guards on its length and, of a dict, on its keys: `len(inputs) != 2`. No length
becomes a symbol, also not with `dynamic=True`: each one, and each set of keys, compiles the function again, up to the
recompile limit of 8. Measured on torch 2.13. A dict of which only entries under constant keys are read costs nothing.

## Write instead
Pass as many entries each time, with zeros and a mask for what is missing:

    values = torch.stack([request.get(name, zeros) for name in NAMES])
    present = torch.tensor([float(name in request) for name in NAMES])
    y = model(values, present)

Or stack what is in it: a size of a tensor becomes a symbol. Or compile what is done with one entry, and loop outside.

## Limits
Only calls in the project are seen, and only lengths that the text of the driving code shows to differ.

## References
PyTorch documentation "Dealing with Recompilations".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.collections_passed import is_collection, reads_entries
from compilelint.static.facts.state import first_use

HAZARD = "recompile"
WATCH = Watch(nodes=(ast.Name,), entered=True)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the first use of a parameter that is a longer or shorter collection in other calls."""
    passed = view.passed(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ()
    if not isinstance(node, ast.Name) or not any(0 in passing.sizes for passing in passed):
        return
    if first_use(node, view) is not node or reads_entries(node, view):
        return
    for passing in passed:
        if 0 in passing.sizes and is_collection(passing, node, view):
            yield Hit(
                node,
                f"`{node.id}` is longer or shorter in other calls ({view.where(passing.place)}): Dynamo guards on its"
                " length and keys, so each length compiles this function again",
                "pass as many entries each time, with zeros and a mask for what is missing, or stack them in a tensor",
                "likely",
            )
            return


BAD = (
    Example(
        # Those under a condition that the turn decides, and the first few of several.
        code="""\
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(4, 4, 1)

    def forward(self, x, controls, scales):
        for control, scale in zip(controls, scales):  # ~
            x = x + control * scale
        return self.net(x)


@torch.compile
def detect(maps):
    return torch.cat([level.flatten(1) for level in maps], 1)  # ~ CL632


class Sampler:
    def __init__(self):
        self.net = torch.compile(Denoiser().requires_grad_(False))

    def __call__(self, x, hints, steps=8):
        for i in range(steps):
            active = [j for j in range(len(hints)) if j / 2 < i / 3]
            x = self.net(x, [hints[j] for j in active], [hints[j].mean() for j in active])
        return x


def levels(maps):
    return [detect(maps[:n]) for n in range(1, 5)]
""",
        run="(lambda x: (Sampler()(x, [x] * 5), levels([x] * 4)), [(torch.ones(1, 4, 4, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
    Example(
        # A function puts together what is there, a generator what is next.
        code="""\
import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("rgb", "depth", "pose")})

    def forward(self, inputs):
        return sum(self.parts[name](x) for name, x in inputs.items())  # ~


@torch.compile
def merge(views):
    return torch.stack(views).sum(0)  # ~


def inputs_of(sample):
    found = {"rgb": sample["rgb"]}
    if sample.get("depth") is not None:
        found["depth"] = sample["depth"]
    return found


class Server:
    def __init__(self):
        self.fusion = torch.compile(Fusion().requires_grad_(False))

    def __call__(self, sample):
        return self.fusion(inputs_of(sample))


def scenes(n):
    for i in range(n):
        views = []
        for j in range(2 + i % 3):
            views.append(torch.ones(4) * j)
        yield views


def serve(x):
    server, total = Server(), 0
    for views in scenes(4):
        total = total + merge(views).sum()
    return server({"rgb": x}) + server({"rgb": x, "depth": x}) + total
""",
        run="(serve, [(torch.ones(2, 4),)])",
        default="recompile",
        fullgraph="recompile",
        inside=True,
    ),
)

GOOD = (
    Example(
        # As many each time: all names, a number that is a setting, what was added while the object was made.
        code="""\
import torch
from torch import nn

NAMES = ("rgb", "depth")


class Fusion(nn.Module):
    def forward(self, inputs, extra):
        return sum(inputs.values()) + sum(extra)


def extra_of(x, n=3):
    found = []
    for i in range(n):
        found.append(x * i)
    return found


class Server:
    def __init__(self):
        self.fusion = torch.compile(Fusion())
        self.hooks = []

    def add(self, hook):
        self.hooks.append(hook)

    def extra(self, x):
        return [hook(x) for hook in self.hooks] + extra_of(x)

    def __call__(self, x):
        return self.fusion({name: x for name in NAMES}, self.extra(x))


def serve(x):
    server = Server()
    server.add(torch.sin)
    return [server(x * i) for i in range(4)]
""",
        run="(serve, [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
    Example(
        # Of a dict, entries under constant keys; of a list, all in one tensor.
        code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, batch, rows):
        return self.proj(batch["x"]) + rows.sum(0)


def train(x, steps):
    head = torch.compile(Head().requires_grad_(False), dynamic=True)
    total = 0
    for step in range(3, steps):
        batch = {"x": x, **{f"meta{i}": i for i in range(step)}}
        total = total + head(batch, torch.stack([x * i for i in range(step)]))
    return total
""",
        run="(train, [(torch.ones(2, 4), 7)])",
        default="clean",
        fullgraph="clean",
        inside=True,
    ),
)
