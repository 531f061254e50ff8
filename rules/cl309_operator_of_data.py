"""An operator that looks at the values of its input to know its result's size, or its own parameters, splits the graph.

## What it does
Finds the less usual operators of torch and NumPy for which torch was seen to break over a tensor's values:
`torch.combinations`, least squares (`linalg.lstsq`), `cov` and `corrcoef`, `gaussian_nll_loss` of a tensor of
variances, `tensor_split` at a tensor, `unpad_sequence`, `numpy.pad`, `numpy.allclose`, `torch._assert` and
`torch._check_tensor_all` of a tensor. That they break for the kinds of arguments at hand is looked up in the table that
was made with torch. `ctc_loss` and `nn.CTCLoss` always do, whatever the lengths are given as, and so do
`nn.GaussianNLLLoss` of a tensor of variances and `nn.AdaptiveLogSoftmaxWithLoss`. Of torchvision, `nms`, `batched_nms`
and `remove_small_boxes`: how many boxes they keep depends on the boxes.

## Why it costs
The size of the result depends on data (GB0036: `lstsq` returns the residuals only where the rank is full), or the
operator checks its input in Python (GB0033: `cov` refuses negative weights; GB0124: `_check_tensor_all`). Dynamo ends
the graph before the call, and the host waits for the value.

## Write instead
    solution = torch.linalg.solve(a.mT @ a, a.mT @ b)              # instead of lstsq, where a has full rank
    centred = x - x.mean(1, keepdim=True)
    covariance = centred @ centred.mT / (x.shape[1] - 1)           # instead of torch.cov
    torch._assert_async(ok.all())                                  # instead of _assert, _check_tensor_all

## References
GB0033, GB0036, GB0124. Measured on torch 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.values import External, options, tensor_certainty

HAZARD = "graph-break"
FALLBACK = True
OF_DATA = frozenset({"GB0033", "GB0036"})
NAMES = frozenset(
    (
        "torch.combinations torch.linalg.lstsq torch.cov torch.Tensor.cov torch.corrcoef torch.Tensor.corrcoef"
        " torch.nn.functional.gaussian_nll_loss torch.tensor_split torch.Tensor.tensor_split torch._assert"
        " torch.nn.utils.rnn.unpad_sequence torch.masked.median numpy.linalg.lstsq numpy.cov numpy.corrcoef numpy.pad"
        " numpy.linalg.eig numpy.linalg.eigvals numpy.repeat numpy.ndarray.repeat numpy.allclose numpy.array_equal"
        " numpy.array_equiv operator.not_"
    ).split()
)
OF_BOXES = frozenset(
    f"{module}.{name}"
    for module in ("torchvision.ops", "torchvision.ops.boxes", "torch.ops.torchvision")
    for name in ("nms", "batched_nms", "remove_small_boxes")
)
OF_PATHS = frozenset({"torch.ctc_loss", "torch.nn.functional.ctc_loss", "torch.nn.CTCLoss.__call__"})
"""How long the table of paths is that they keep for the gradient depends on the target lengths."""
OF_LOSSES = {
    "torch.nn.GaussianNLLLoss.__call__": "asks whether a variance is negative",
    "torch.nn.AdaptiveLogSoftmaxWithLoss.__call__": "looks which targets are in each cluster",
    "torch.nn.AdaptiveLogSoftmaxWithLoss.predict": "asks whether all of the input is in the head",
}
"""Losses of torch that choose in Python by what their input holds."""
CHECKS = {"torch._check_tensor_all": 0, "torch._check_tensor_all_with": 1}
"""Functions that read one argument, at this position, back whatever else they get; the table has no private names."""
INSTEAD = {
    "_assert": "check on the device, `torch._assert_async(condition)`",
    "cov": "write it out: `c = x - x.mean(1, keepdim=True)`, then `c @ c.mT / (n - 1)`",
    "allclose": "compare elementwise and keep a tensor, `torch.isclose(a, b).all()`",
    "array_equal": "compare elementwise and keep a tensor, `(a == b).all()`",
    "array_equiv": "compare elementwise and keep a tensor, `(a == b).all()`",
    "not_": "keep a tensor, `t == 0` or `torch.logical_not(t)`",
    "lstsq": "use `torch.linalg.solve(a.mT @ a, a.mT @ b)` where `a` has full rank",
}
WATCH = Watch(
    nodes=(ast.Call,), callees=(NAMES | OF_BOXES | OF_PATHS | frozenset(OF_LOSSES) | frozenset(CHECKS)).__contains__
)


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call of one of the names above that breaks over the values of its arguments."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    yield from checked(node, CHECKS[callee], view) if callee in CHECKS else ()
    if callee in OF_BOXES and isinstance(view.kind(node.func), External):
        yield Hit(
            node,
            f"how many boxes `{view.text(node)}` keeps depends on the boxes (GB0036): Dynamo splits the graph here and"
            " the host waits for the number",
            "keep a fixed number of boxes in the compiled code (`scores.topk(k)`), and suppress overlaps behind it",
        )
    if callee in OF_PATHS:
        yield Hit(
            node,
            f"how much `{view.text(node)}` keeps for the gradient depends on the target lengths (GB0036): Dynamo splits"
            " the graph here",
            "compile the model and compute this loss on its output, outside the compiled code",
            "certain" if len(options(view.kind(node.func))) == 1 else "likely",
        )
    yield from of_loss(node, OF_LOSSES[callee], view) if callee in OF_LOSSES else ()
    found = view.breaks(node) if callee in NAMES else None
    if found in OF_DATA:
        yield Hit(
            node,
            f"`{view.text(node)}` looks at the values of a tensor ({found}): Dynamo splits the graph here and the host"
            " waits for them",
            INSTEAD.get(callee.rpartition(".")[2], "write it out with operators of fixed size")
            + ", or call it outside the compiled code",
        )


def of_loss(node: ast.Call, why: str, view: View) -> Iterator[Hit]:
    """`self.loss(mean, target, variance)`; with a number for a variance Python has nothing to read back."""
    variance = view.argument(node, 2, "var")
    if variance is None or tensor_certainty(view.kind(variance)) is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` {why}: Dynamo splits the graph here and the host waits for the answer",
            "compile the model and compute this loss on its output, outside the compiled code",
            "certain" if len(options(view.kind(node.func))) == 1 else "likely",
        )


def checked(node: ast.Call, position: int, view: View) -> Iterator[Hit]:
    """`torch._check_tensor_all(ok)`, where `ok` is a tensor."""
    condition = view.argument(node, position, "cond")
    certainty = tensor_certainty(view.kind(condition)) if condition is not None else None
    if condition is not None and certainty is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` reads `{view.text(condition)}` back to check it: Dynamo splits the graph here",
            f"check on the device, `torch._assert_async({view.text(condition)}.all())`, or outside the compiled code",
            certainty,
        )


BAD = (
    Example(
        code="""\
import numpy as np
import torch
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 8)
        self.words = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4])
        self.noise = nn.GaussianNLLLoss()

    def forward(self, x, target, word):
        mean, scale = self.head(x).chunk(2, -1)
        loss = self.noise(mean, target, scale.exp())  # ~
        loss = loss + self.noise(mean, target, 0.5)
        if np.allclose(mean.detach().numpy(), 0.0):  # ~
            loss = loss * 2
        return loss + self.words(mean, word).loss  # ~
""",
        run="(Objective(), [(torch.ones(2, 4), torch.ones(2, 4), torch.tensor([0, 5]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor):
        h = self.proj(x)
        spread = torch.cov(h)  # ~
        fit = torch.linalg.lstsq(h, target)  # ~
        return spread.sum() + fit.solution
""",
        run="(Whiten(), [(torch.randn(6, 4), torch.randn(6, 4))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch


def pairs(x: torch.Tensor):
    torch._assert((x >= 0).all(), "negative")  # ~
    return torch.combinations(x.flatten()) * 2  # ~
""",
        run="(pairs, [(torch.ones(2, 2),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
from torch import nn


def require(ok, why: str):
    if isinstance(ok, torch.Tensor):
        torch._check_tensor_all(ok)  # ~
    else:
        torch._check(ok, lambda: why)


class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, counts: torch.Tensor):
        require(x.shape[0] == counts.shape[0], "one count per row")
        require(counts > 0, "counts are positive")
        return self.proj(x) / counts[:, None]
""",
        run="(Spread(), [(torch.ones(2, 4), torch.ones(2))])",
        default="break",
        fullgraph="clean",
    ),
    Example(
        code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Transcriber(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 6)
        self.criterion = nn.CTCLoss(zero_infinity=True)

    def forward(self, frames, text, frame_counts, text_lengths):
        odds = self.out(frames).log_softmax(-1)
        loss = self.criterion(odds, text, frame_counts, text_lengths)  # ~
        return loss + F.ctc_loss(odds, text, (5, 5), (2, 2), blank=1)  # ~
""",
        run="(Transcriber(), [(torch.ones(5, 2, 4), torch.tensor([[2, 3], [4, 2]]), *torch.tensor([[5, 4], [2, 1]]))])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import torch
import torchvision
from torch import nn
from torchvision.ops import boxes as box_ops


class Detect(nn.Module):
    def __init__(self, overlap=0.5):
        super().__init__()
        self.overlap = overlap

    def forward(self, boxes, scores, labels):
        scores, best = scores.topk(8)
        boxes = torchvision.ops.clip_boxes_to_image(boxes[best], (64, 64))
        kept = box_ops.batched_nms(boxes, scores, labels[best], self.overlap)  # ~
        return boxes[kept], torch.ops.torchvision.nms(boxes, scores, self.overlap)  # ~
""",
    ),
)

GOOD = (
    Example(
        code="""\
import torch
from torch import nn


class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, target: torch.Tensor, parts: int = 2):
        torch._assert(x.shape[1] == 4, "four columns")
        h = self.proj(x)
        centred = h - h.mean(1, keepdim=True)
        spread = centred @ centred.mT / (h.shape[1] - 1)
        fit = torch.linalg.solve(h.mT @ h + torch.eye(4), h.mT @ target)
        return spread.sum() + fit + h.tensor_split(parts)[0].sum()
""",
        run="(Whiten(), [(torch.ones(6, 4), torch.ones(6, 4))])",
        default="clean",
        fullgraph="clean",
    ),
)
