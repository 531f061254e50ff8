"""Loops that call a model each turn: which are, and what is known in them."""

from __future__ import annotations

import pytest
from projects import Probed, check, probe

HEAD = "import torch\nfrom torch import nn\n\n"


def reached(text: str) -> Probed:
    return probe(HEAD + text)


LOOPS = {
    "feeds a token back": ("for _ in range(9):\n        x = model(x)\n        probe(x)", True),
    "feeds back by keyword": (
        "for _ in range(9):\n        out = self.decoder(x, cache=cache)\n        cache = out[1]\n        probe(x)",
        True,
    ),
    "a while loop": ("while True:\n        x = self.model.forward(x)\n        probe(x)", True),
    "calls the module itself": ("while not done:\n        x = self(x)\n        probe(x)", True),
    "a denoiser": ("for t in steps:\n        x = unet(x, t)\n        probe(x)", True),
    "the test of a while": ("while probe(x):\n        x = model(x)", True),
    "over a data loader": ("for batch in loader:\n        y = model(batch)\n        probe(y)", False),
    "trains": ("for _ in range(9):\n        x = model(x)\n        x.sum().backward()\n        probe(x)", False),
    "calls no model": ("for _ in range(9):\n        x = rotate(x)\n        probe(x)", False),
    "steps an optimizer": ("for _ in range(9):\n        loss = optimizer.step(loss)\n        probe(loss)", False),
    "the own step": ("for _ in range(9):\n        x = self.step(x)\n        probe(x)", True),
    "steps a scheduler": ("for _ in range(9):\n        x = scheduler.step(x)\n        probe(x)", False),
    "a draft model": ("for _ in range(9):\n        x = self.draft_model(x)\n        probe(x)", True),
    "a compiled step": ("for _ in range(9):\n        x = decode_step(x)\n        probe(x)", True),
    "a model's function": ("for _ in range(9):\n        x = model_fn(x)\n        probe(x)", True),
    "hands the model to a step": ("for _ in range(9):\n        x = decode_one(model, x)\n        probe(x)", True),
    "generates the next token": ("for _ in range(9):\n        x = generate_next(model, x)\n        probe(x)", True),
    "generates many times": ("for _ in range(9):\n        x = generate(model, x)\n        probe(x)", False),
    "evaluates a model": ("for _ in range(9):\n        x = evaluate(model, x)\n        probe(x)", False),
    "writes into a buffer": (
        "for i in range(9):\n        y = model(x[:, i])\n        x[:, i + 1] = y\n        probe(y)",
        True,
    ),
    "collects": ("for _ in range(9):\n        y = model(x)\n        x.append(y)\n        probe(y)", True),
    "through another name": (
        "for _ in range(9):\n        step = prepare(x)\n        x = pick(model(step))\n        probe(x)",
        True,
    ),
    "fetches a batch": ("for _ in range(9):\n        x = fetch(x)\n        y = model(x)\n        probe(y)", False),
    "keeps losses": (
        "for i in range(9):\n        x = fetch(i)\n        y = model(x)\n        losses[i] = y.sum()\n        probe(y)",
        False,
    ),
    "writes each part": ("for i in steps:\n        out[i] = model(x[i])\n        probe(x)", False),
    "loads models": ("for _ in range(9):\n        x = load_model(x)\n        probe(x)", False),
    "reads parameters": ("for _ in range(9):\n        x = self.model_parameters(x)\n        probe(x)", False),
    "outside the loop": ("for _ in range(9):\n        x = model(x)\n    probe(x)", False),
    "what is iterated": ("for _ in range(probe(x)):\n        x = model(x)", False),
}


@pytest.mark.parametrize("name", LOOPS)
def test_decode_loops(name: str) -> None:
    body, decodes = LOOPS[name]
    seen = reached(f"class Engine:\n  def generate(self, x, model, unet, cache, steps, loader):\n    {body}")
    assert (seen.functions("decode-loop") == {"Engine.generate"}) is decodes


COMPILED_STEPS = """
import torch
class Renderer:
    def __init__(self, field):
        self.field = torch.compile(field)
    def one(self, x):
        return self.field(x) + 1
    def render(self, x, rays):
        {loop}
"""


@pytest.mark.parametrize(
    ("loop", "decodes"),
    [
        ("for _ in range(9): x = self.field(x); probe(x)", True),
        ("for _ in range(9): x = self.one(x); probe(x)", True),
        ("for _ in range(9): x = self.other(x); probe(x)", False),
        ("for ray in rays: x = self.field(ray); probe(x)", False),
        ("while rays:\n            for r, y in zip(rays, self.one(rays)): r.append(y)\n            probe(rays)", True),
    ],
)
def test_a_loop_that_calls_what_the_file_compiles_decodes(loop: str, decodes: bool) -> None:
    seen = probe({"app.py": COMPILED_STEPS.format(loop=loop)})
    assert ("Renderer.render" in seen.functions("decode-loop")) is decodes


def test_what_a_decode_loop_calls_each_turn_is_in_it() -> None:
    seen = reached(
        "def pick(x): probe(x)\ndef prepare(x): probe(x)\ndef generate(x, model):\n    prepare(x)\n"
        "    while True:\n        x = model(x)\n        pick(x)"
    )
    assert seen.functions("decode-loop") == {"pick"}


def test_a_loop_inside_forward_is_compiled_with_it() -> None:
    seen = reached(
        "class M(nn.Module):\n    def forward(self, x):\n        for _ in range(3):\n"
        "            x = self.decoder(x)\n            probe(x)"
    )
    assert seen.functions("compiled") == {"M.forward"}
    assert not seen.functions("decode-loop")


def test_a_loop_that_is_compiled_itself_is_no_decode_loop() -> None:
    seen = reached(
        "class G:\n    def __init__(self, model): self.model = model\n    def generate(self, x):\n"
        "        for _ in range(3):\n            x = self.model(x)\n            probe(x)\n        return x\n"
        "step = torch.compile(G(nn.Linear(2, 2)).generate)"
    )
    assert seen.functions("compiled") == {"G.generate"}
    assert not seen.functions("decode-loop")


SAMPLER = """
import torch

def schedule(n, device):
    return torch.cat([torch.linspace(1, 0.1, n, device=device), torch.zeros(1, device=device)])

def smaller(a, b):
    return min(a, b - a)

def sample(model, x, sigmas, callback=None):
    for i in range(len(sigmas) - 1):
        denoised = model(x, sigmas[i])
        step = smaller(sigmas[i], sigmas[i + 1])
        if callback is not None:
            callback(sigmas[i])
        if sigmas[i + 1] > 0:
            x = x + denoised * step
    return x
"""
CALLERS = {
    "a function": (
        "def show(t): print(t.max())\ndef run(net, x, n): return sample(net, x, schedule(n, x.device), show)",
        {"smaller", "sample", "show"},
    ),
    "over another": (
        "def run(net, x, n): return sample(net, x, schedule(n, x.device))\ndef main(net): run(net, torch.ones(2), 2)",
        {"smaller", "sample"},
    ),
    "a method": (
        "class Pipe:\n    def __init__(self, net): self.net = net\n    def __call__(self, x):\n"
        "        return sample(self.net, x, schedule(9, x.device))",
        {"smaller", "sample"},
    ),
    "with numbers": ("def run(net, x, n): return sample(net, x, schedule(n, x.device).tolist())", set()),
    "with what nobody knows": ("def run(net, x, sigmas): return sample(net, x, sigmas)", set()),
    "with a callback that keeps": (
        "def run(net, x):\n    kept = []\n    return sample(net, x, [1.0, 0.5, 0.0], kept.append)",
        set(),
    ),
}


@pytest.mark.parametrize("name", CALLERS)
def test_what_calls_a_decode_loop_tells_its_parameters(name: str) -> None:
    text, expected = CALLERS[name]
    found = check(SAMPLER + text)
    assert {finding.function for finding in found if finding.rule == "CL701"} == expected


def test_what_runs_once_around_a_decode_loop_is_not_in_it() -> None:
    text = "def run(net, x, n):\n    x = sample(net, x, schedule(n, x.device))\n    print(x)\n    return x.tolist()"
    assert "run" not in {finding.function for finding in check(SAMPLER + text)}


@pytest.mark.parametrize(
    ("set_up", "reads"),
    [
        ("self.net = torch.compile(net)", True),
        ("self.net = net", False),
        ("self.net: nn.Module = net", True),
    ],
)
def test_what_a_compiled_model_gives_is_taken_for_a_tensor(set_up: str, reads: bool) -> None:
    text = (
        f"class Solver:\n    def __init__(self, net):\n        {set_up}\n    def solve(self, x):\n"
        "        for _ in range(9):\n            step = self.net(x)\n            if step.abs().max() < 1e-4:\n"
        "                break\n            x = x + step\n        return x\n"
    )
    found = {finding.confidence for finding in check(HEAD + text) if finding.rule == "CL701"}
    assert found == ({"likely"} if reads else set())
