"""A call into C code that torch does not know splits the graph.

## What it does
Finds calls, in code that Dynamo traces, into modules of the standard library that are written in C (`zlib`,
`hashlib`, `heapq`, `bisect`, `unicodedata`, ...) and into packages whose work is done in C or on the host (scipy,
scikit-learn, OpenCV, PIL, pandas, tiktoken, sentencepiece, regex, numba, faiss, librosa, ...).

## Why it costs
Dynamo reads Python bytecode; a compiled function has none. It ends the graph, calls the function and starts again
(GB0007; GB0147 or GB0156 for objects and methods). Arrays handed over are copied from the GPU, which waits. Of a
package that is half Python Dynamo enters the Python half and breaks inside.

## Write instead
Call it before or after the compiled code. Where it belongs to the computation, make it an operator that a graph can
hold:

    @torch.library.custom_op("mylib::assign", mutates_args=())
    def assign(cost: torch.Tensor) -> torch.Tensor: ...

with a `register_fake` that says what shape comes back. A pure function of constants belongs into `__init__`.

## Limits
`re`, `math`, `struct.pack`, most of `itertools` and much of numpy are known to Dynamo and are not reported. Other
packages can't be told from Python code here. Measured on torch 2.13 for the standard library; packages are reported
as likely.

## References
torch.compile documentation: "Common Graph Breaks"; "Custom Operators". GB0007, GB0147, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
STANDARD = ("zlib.", "hashlib.", "hmac.", "heapq.", "bisect.", "unicodedata.", "binascii.", "base64.", "bz2.", "lzma.")
PACKAGES = (
    *("scipy.", "sklearn.", "skimage.", "cv2.", "PIL.", "pandas.", "polars.", "pyarrow.", "numba.", "faiss."),
    *("tiktoken.", "sentencepiece.", "tokenizers.", "regex.", "rapidfuzz.", "Levenshtein."),
    *("librosa.", "soundfile.", "pyworld.", "pycocotools.", "shapely.", "lmdb.", "msgpack.", "rdkit.", "open3d."),
)
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: name.startswith((*STANDARD, *PACKAGES)))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call into C code."""
    if not isinstance(node, ast.Call):
        return
    callee = view.callee(node)
    if callee.startswith((*STANDARD, *PACKAGES)):
        package = callee.partition(".")[0]
        in_c = callee.startswith(STANDARD)
        what = "runs C code that Dynamo can't look into" if in_c else f"calls {package}, which Dynamo can't trace"
        yield Hit(
            node,
            f"`{view.text(node)}` {what}: the graph splits here",
            "call it outside the compiled code, or make it a `torch.library.custom_op` with a `register_fake`",
            "certain" if in_c else "likely",
        )


BAD = (
    Example(
        code="""\
import zlib

import torch
from torch import nn


def salt_of(text):
    return zlib.crc32(text.encode()) % 7  # ~


class Salted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, text):
        return torch.roll(self.fc(x), salt_of(text), dims=-1)
""",
        run="(Salted(), [(torch.ones(2, 4), 'a prompt')])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import bisect

import torch


@torch.compile
def bucketed(x, edges):
    y = torch.tanh(x)
    at = bisect.bisect_left(edges, x.shape[0])  # ~
    return y * at
""",
        run="(bucketed, [(torch.ones(4), [1, 2, 8])])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import hashlib
import itertools
import math
import re

import torch
from torch import nn


class Salted(nn.Module):
    def __init__(self, name="salted"):
        super().__init__()
        self.salt = int(hashlib.md5(name.encode()).hexdigest(), 16) % 7
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        pairs = sum(a * b for a, b in itertools.product((1, 2), (3,)))
        known = re.match(r"sal", "salted") is not None
        return torch.roll(self.fc(x), self.salt) * math.gcd(pairs, 6) * known
""",
        run="(Salted(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
