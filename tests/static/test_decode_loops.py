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
    "steps an optimizer with the loss": (
        "for _ in range(9):\n        x = model(x)\n        self.optim.step(x.sum())\n        probe(x)",
        False,
    ),
    "validates": ("for _ in range(9):\n        x = self.validation_step(x)\n        probe(x)", False),
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


GUARDED = """
def generate(model, ids: torch.Tensor, n, cache):
    for _ in range(n):
        ids = model(ids)[:, -1:].argmax(-1)
        try:
            cache.store(n)
        {how}:
            kept = ids.tolist()
    return ids
"""


@pytest.mark.parametrize(("how", "reads"), [("except ValueError", False), ("finally", True)])
def test_what_answers_an_exception_does_not_run_each_turn(how: str, reads: bool) -> None:
    found = check(HEAD + GUARDED.format(how=how))
    assert ("CL701" in {finding.rule for finding in found}) is reads


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
        "        for _ in range(9):\n            step = self.net(x)\n            if step[0] < 1e-4:\n"
        "                break\n            x = x + step\n        return x\n"
    )
    found = {finding.confidence for finding in check(HEAD + text) if finding.rule == "CL701"}
    assert found == ({"likely"} if reads else set())


CALLED_EACH_TURN = {
    "a callable object": (
        "class Penalty:\n    def __call__(self, x): probe(x)\n"
        "def generate(x, model):\n    penalty = Penalty()\n    for _ in range(9):\n        x = model(x)\n"
        "        penalty(x)",
        {"Penalty.__call__"},
    ),
    "one of a list of them": (
        "class Penalty:\n    def __call__(self, x): probe(x)\nclass Other:\n    def __call__(self, x): probe(x)\n"
        "def generate(x, model, processors):\n    for _ in range(9):\n        x = model(x)\n"
        "        for process in processors:\n            process(x)\n"
        "def run(x, model):\n    generate(x, model, [Penalty(), Other()])",
        {"Penalty.__call__", "Other.__call__"},
    ),
    "a model of the project": (
        "class M(nn.Module):\n    def forward(self, x): return probe(x)\n"
        "def generate(x, model: M):\n    for _ in range(9):\n        x = model(x)",
        set(),
    ),
    "an object that the constructor was given": (
        "class Scheduler:\n    def step(self, x): probe(x)\n"
        "class Pipe:\n    def __init__(self, unet, scheduler): self.unet, self.scheduler = unet, scheduler\n"
        "    def sample(self, x):\n        for t in range(9):\n            x = self.unet(x, t)\n"
        "            self.scheduler.step(x)\n"
        "def run(x, unet):\n    pipe = Pipe(unet, Scheduler())\n    return pipe.sample(x)",
        {"Scheduler.step"},
    ),
    "a step with a loop of its own": (
        "def decode_step(x, model):\n    for _ in range(3):\n        x = model(x)\n    probe(x)\n    return x\n"
        "def generate(x, model):\n    while x.shape[1] < 9:\n        x = decode_step(x, model)",
        {"decode_step"},
    ),
    "before the loop and in it": (
        "def pick(x): probe(x)\n"
        "def generate(x: torch.Tensor, model):\n    pick(x)\n    for _ in range(9):\n        x = x + model(x)\n"
        "        pick(x)",
        {"pick"},
    ),
    "objects made each turn": (
        "class Meta:\n    def __init__(self, x): probe(x)\n"
        "class Field:\n    x: torch.Tensor\n    def __post_init__(self): probe(self.x)\n"
        "    @classmethod\n    def of(cls, x): return cls(x)\n"
        "class Once:\n    def __init__(self, x): probe(x)\n"
        "class Part(nn.Module):\n    def __init__(self, x):\n        super().__init__()\n        probe(x)\n"
        "def generate(x: torch.Tensor, model):\n    once = Once(x)\n    for _ in range(9):\n"
        "        meta, field, part = Meta(x), Field.of(x), Part(x)\n        x = x + model(x)",
        {"Meta.__init__", "Field.__post_init__"},
    ),
}


@pytest.mark.parametrize("name", CALLED_EACH_TURN)
def test_what_is_called_each_turn(name: str) -> None:
    text, expected = CALLED_EACH_TURN[name]
    assert reached(text).functions("decode-loop") == expected


ENGINE = """
import torch
class Engine:
    def __init__(self, net):
        self.net = torch.compile(net)
        self.token, self.last, self.seen = torch.zeros(4), None, 0
    def step(self, x):
        {step}
    def serve(self, requests):
        while requests:
            self.step(requests)
"""


@pytest.mark.parametrize(
    ("step", "decodes"),
    [
        ("token = self.net(self.token); probe(token); self.token = token", True),
        ("self.token = pick(self.net(self.token, x)); probe(x)", True),
        ("self.last = self.net(self.token); probe(x)", False),
        ("y = self.net(x, self.seen); self.seen = self.seen + 1; probe(y)", False),
        ("self.token = x; y = self.net(self.token); probe(y)", False),
    ],
)
def test_a_step_that_keeps_its_state_in_an_attribute_decodes(step: str, decodes: bool) -> None:
    seen = probe({"app.py": ENGINE.format(step=step)})
    assert ("Engine.step" in seen.functions("decode-loop")) is decodes


def test_a_loop_of_a_module_around_a_part_that_it_compiles_is_not_compiled() -> None:
    cell = "class Cell(nn.Module):\n    def forward(self, x): return x + 1\n"
    for compiled in ("self.cell.forward = torch.compile(self.cell.forward)", "self.cell.compile()"):
        seen = reached(
            f"{cell}class Decoder(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.cell = Cell()\n        {compiled}\n    def infer(self, x):\n"
            "        for _ in range(9):\n            x = self.cell(x)\n            probe(x)\n        return x"
        )
        assert seen.functions("compiled") == set()
        assert seen.functions("decode-loop") == {"Decoder.infer"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.topk(x, k=count)", True),
        ("x[:, : count]", True),
        ("x[count:]", True),
        ("torch.zeros(4, count)", True),
        ("x[: len(x)]", False),
        ("x[: steps]", False),
        ("torch.full((4,), count)", False),
    ],
)
def test_a_tensor_that_is_taken_for_a_number(line: str, found: bool) -> None:
    text = (
        "def sample(model, x: torch.Tensor, steps):\n    count = x.sum()\n    for _ in range(9):\n"
        f"        x = model(x)\n        y = {line}\n"
    )
    assert any(finding.rule == "CL701" for finding in check(HEAD + text)) is found


@pytest.mark.parametrize(
    ("test", "found"),
    [("done.all()", False), ("rewards.mean() > 0", False), ("rewards.softmax(-1).sum() > 0", True)],
)
def test_what_arrays_can_do_too_says_nothing_outside_of_the_model(test: str, found: bool) -> None:
    text = (
        "def act(policy_model, env, obs):\n    for _ in range(9):\n        action = policy_model(obs)\n"
        f"        obs, rewards, done = env.step(action)\n        if {test}:\n            obs = env.reset()\n"
    )
    assert any(finding.rule == "CL701" for finding in check(HEAD + text)) is found


def test_a_public_function_that_a_decode_loop_calls_is_around_the_model() -> None:
    text = """
        import torch
        def sample(logits: torch.Tensor): return probe(logits.argmax(-1))
        def rotate(x: torch.Tensor): return probe(x + 1)
        def generate(model, x: torch.Tensor):
            for _ in range(9):
                x = sample(model(x))
            return x
        """
    seen = probe({"pkg/__init__.py": "", "pkg/decoding.py": text})
    assert seen.functions("compiled") == {"rotate"}
    assert seen.functions("decode-loop") == {"sample"}


LED = """
import torch
def sample(model, x: torch.Tensor, callback=None):
    for _ in range(9):
        x = model(x)
        if callback is not None:
            callback(dict(x=x))
    return x
class App:
    def __init__(self, model, shows=True):
        self.model = torch.compile(model)
        self.sink = Sink() if shows else None
    def on_step(self, info):
        if self.sink is not None:
            self.sink.show(info["x"])
    def run(self, x: torch.Tensor):
        return sample(self.model, x, self.on_step)
class Sink:
    def show(self, x):
        probe(x)
{start}
"""


@pytest.mark.parametrize(
    "start", ["", "def make(model): return App(model).run", "def main(model, x): App(model).run(x)"]
)
def test_a_loop_is_given_its_callback_by_whoever_uses_what_is_compiled(start: str) -> None:
    assert "Sink.show" in probe({"app.py": LED.format(start=start)}).functions("decode-loop")


def test_a_loop_in_a_function_that_has_one_around_it_decodes() -> None:
    text = LED.format(
        start="def main(model, xs):\n    app = App(model)\n    for x in xs: sample(app.model, x, app.on_step)"
    )
    assert "Sink.show" in probe({"app.py": text}).functions("decode-loop")


CHAIN = """
import torch
class Ban:
    def __call__(self, x, scores): return probe(x)
class Chain({base}):
    def __call__(self, x, scores):
        for one in self: scores = one(x, scores)
        return scores
def generate(model, chain, x: torch.Tensor):
    for _ in range(9):
        x = chain(x, model(x))
def main(model, x): generate(model, Chain([Ban()]), x)
"""


@pytest.mark.parametrize(("base", "found"), [("list", True), ("tuple", True), ("Unknown", False)])
def test_what_a_list_of_a_class_of_the_project_is_made_of_is_in_it(base: str, found: bool) -> None:
    assert ("Ban.__call__" in probe({"app.py": CHAIN.format(base=base)}).functions("decode-loop")) is found


@pytest.mark.parametrize(
    ("path", "name", "decodes"),
    [
        ("model.py", "decode", True),
        ("model.py", "load_split", False),
        ("model.py", "_quantize_layers", False),
        ("model.py", "run_loaded", True),
        ("conversion/measure.py", "decode", False),
    ],
)
def test_a_loop_that_loads_or_converts_a_model_does_not_decode(path: str, name: str, decodes: bool) -> None:
    text = f"{HEAD}def {name}(model, x):\n    for _ in range(9):\n        x = model(x)\n        probe(x)\n"
    assert bool(probe({path: text}).functions("decode-loop")) is decodes
