"""Reading or writing files, and asking the file system, splits the graph.

## What it does
Finds `open`, `torch.save`/`torch.load`, `json`, `pickle`, `numpy.save`/`load`, `shutil`, `tempfile`, `glob`, file
methods of `pathlib.Path` and the functions of `os` and `os.path` that ask the operating system, in code that Dynamo
traces.

## Why it costs
None of these is a tensor operation and most end in C code (GB0007, GB0059 for `open`, GB0156 for methods of files and
for `json.dumps`). `with open(...)` breaks while its block is entered, and the whole function runs uncompiled (GB0142).
Saving activations also copies them to the host and waits for the GPU.

## Write instead
Load in `__init__` or before compiling; return what is to be saved and write it in the caller; pass the parsed
configuration in.

## Limits
What only handles text compiles and stays silent: `os.path.join`, `basename`, `splitext`, `Path(...) / name`,
`Path.name`, `os.environ.get`, `re.match`. `struct.pack` with constants compiles too. Measured on torch 2.13.

## References
torch.compile documentation: "Common Graph Breaks". GB0007, GB0059, GB0142, GB0156.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilelint.rule import Example, Hit, View, Watch

HAZARD = "graph-break"
FUNCTIONS = {
    "builtins": ("open",),
    "io": ("open", "StringIO", "BytesIO"),
    "os": ("makedirs", "mkdir", "remove", "unlink", "listdir", "scandir", "walk", "stat", "getcwd", "chdir", "rename"),
    "os.path": ("exists", "isfile", "isdir", "abspath", "realpath", "getsize", "getmtime"),
    "torch": ("save", "load"),
    "torch.jit": ("save", "load"),
    "numpy": ("save", "load", "savez", "loadtxt", "savetxt"),
    "json": ("dump", "dumps", "load", "loads"),
    "pickle": ("dump", "dumps", "load", "loads"),
    "yaml": ("dump", "load", "safe_load"),
    "csv": ("reader", "writer"),
    "glob": ("glob", "iglob"),
    "pathlib.Path": ("exists", "is_file", "is_dir", "open", "read_text", "read_bytes", "write_text", "write_bytes"),
    "pathlib.PosixPath": ("exists", "is_file", "is_dir", "open", "read_text", "read_bytes", "mkdir", "iterdir"),
    "safetensors.torch": ("load_file", "save_file"),
    "torchvision.utils": ("save_image",),
    "torchaudio": ("load", "save"),
}
PACKAGES = ("shutil.", "tempfile.", "zipfile.", "tarfile.", "h5py.", "sqlite3.")
WATCH = Watch(nodes=(ast.Call,), callees=lambda name: is_file_access(name))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """One hit per call that reaches for a file."""
    if not isinstance(node, ast.Call):
        return
    if is_file_access(view.callee(node)):
        yield Hit(
            node,
            f"`{view.text(node)}` reads or writes, which Dynamo does not trace: the graph splits here",
            "read what is needed in `__init__` or before the compiled call; return results, write them in the caller",
        )


def is_file_access(callee: str) -> bool:
    """Whether a function by its dotted name reads, writes or looks for files."""
    owner, _, name = callee.rpartition(".")
    return name in FUNCTIONS.get(owner, ()) or callee.startswith(PACKAGES)


BAD = (
    Example(
        code="""\
import os

import torch
from torch import nn


class Dumping(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.path = os.devnull

    def forward(self, x):
        h = self.fc(x)
        if os.path.isfile(self.path):  # ~
            return h
        torch.save(h, self.path)  # ~
        return torch.relu(h)
""",
        run="(Dumping(), [(torch.ones(2, 4),)])",
        default="break",
        fullgraph="break",
    ),
    Example(
        code="""\
import os

import torch


@torch.compile
def rescale(x):
    with open(os.devnull) as file:  # ~
        text = file.read()
    return x * (len(text) + 1)
""",
        run="(rescale, [(torch.ones(4),)])",
        default="skip",
        fullgraph="break",
        inside=True,
    ),
    Example(
        code="""\
import json

import torch


@torch.compile
def describe(x, settings):
    key = json.dumps({"heads": 2})  # ~
    return x * settings.get(key, 1.0)
""",
        run="(describe, [(torch.ones(4), {})])",
        default="break",
        fullgraph="break",
        inside=True,
    ),
)

GOOD = (
    Example(
        code="""\
import json
import os
import re
from pathlib import Path

import torch
from torch import nn


class Loaded(nn.Module):
    def __init__(self, text='{"gain": 2.0}'):
        super().__init__()
        self.gain = json.loads(text)["gain"]
        self.cached = os.path.exists(os.devnull)
        self.folder = Path("weights")

    def forward(self, x):
        name = os.path.join("weights", "layer_3.pt")
        layer = re.match(r".*layer_(\\d+)", name)
        if (self.folder / "layer_3.pt").suffix == ".pt" and layer is not None:
            x = x + 1
        return x * self.gain
""",
        run="(Loaded(), [(torch.ones(2, 4),)])",
        default="clean",
        fullgraph="clean",
    ),
)
