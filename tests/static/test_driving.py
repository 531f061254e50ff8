"""What code that calls compiled functions does between two calls, as the findings in compiled code show it."""

from __future__ import annotations

import pytest
from projects import check

MODEL = """
import contextlib
import torch
from torch import nn


class Model(nn.Module):
    kind = "plain"
    def __init__(self):
        super().__init__()
        self.mode = "plain"
        self.names = []
        self.adapter = "none"
    def set(self, mode): self.mode = mode
    @contextlib.contextmanager
    def using(self, mode):
        self.mode = mode
        yield
        self.mode = "plain"
    def forward(self, x):
        y = x if self.mode == "plain" else x * 2
        return y + len(self.names) + len(self.adapter) + len(self.kind)


def serve(model, fast, mode):
    model.mode = mode
    return fast(torch.ones(2))


model = Model()
fast = torch.compile(model)
x = torch.ones(2)
"""

CHANGED = {
    "an attribute set before each call": "for mode in names():\n    model.mode = mode\n    fast(x)",
    "two constants in turn": "model.mode = 'a'\nfast(x)\nmodel.mode = 'b'\nfast(x)",
    "through a method": "fast(x)\nmodel.set('a')\nfast(x)",
    "by setattr": "fast(x)\nsetattr(model, 'mode', 'a')\nfast(x)",
    "on entering a context": "fast(x)\nwith model.using('a'):\n    fast(x)",
    "in a function that is called with another each time": "run = lambda mode: serve(model, fast, mode)",
    "a list that gets longer": "for _ in range(4):\n    fast(x)\n    model.names.append('a')",
    "on what isinstance picks": "for mode in names():\n    for m in things():\n        if isinstance(m, Model):"
    "\n            m.mode = mode\n    fast(x)",
    "on what only one class has": "for mode in names():\n    for m in things():\n        m.adapter = mode\n    fast(x)",
    "where the compiled one is a parameter": "def train(fast, m):\n    for mode in names():\n        m.adapter = mode"
    "\n        fast(x)",
    "by what `apply` calls": "fast(x)\nmodel.apply(lambda m: m.set('a'))\nfast(x)",
    "in a loop over three that are written down": "for mode in ('a', 'b', 'c'):\n    model.mode = mode\n    fast(x)",
    "of a class": "for mode in names():\n    Model.kind = mode\n    fast(x)",
    "after model.compile()": "model.compile()\nmodel(x)\nmodel.set('a')\nmodel(x)",
}
KEPT = {
    "before a reset": "fast(x)\nmodel.mode = 'a'\ntorch._dynamo.reset()\nfast(x)",
    "once, before all calls": "model.mode = 'a'\nfast(x)\nfast(x)",
    "the same constant": "for _ in range(4):\n    model.mode = 'plain'\n    fast(x)",
    "after all calls": "for _ in range(4):\n    fast(x)\nmodel.mode = 'a'",
    "once, to what a loop gave": "for mode in names():\n    model.mode = mode\nfast(x)\nfast(x)",
    "around a call of other code": "model.set('a')\nprint(x)\nmodel.set('b')",
    "from a few values that are written down": "for mode in ('a', 'b'):\n    model.mode = mode\n    fast(x)",
    "to what does not change": "for _ in range(4):\n    model.mode = CONFIG.mode\n    fast(x)",
}


@pytest.mark.parametrize("driver", CHANGED.values(), ids=CHANGED.keys())
def test_what_changes_between_calls_is_found(driver: str) -> None:
    assert "CL617" in {finding.rule for finding in check({"main.py": MODEL + driver})}


@pytest.mark.parametrize("driver", KEPT.values(), ids=KEPT.keys())
def test_what_stays_is_not(driver: str) -> None:
    assert "CL617" not in {finding.rule for finding in check({"main.py": MODEL + driver})}


NAMED = """
import torch
from torch import nn

ACTS = {"relu": torch.relu, "tanh": torch.tanh}


class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.extra = nn.ModuleDict({"a": nn.Linear(2, 2)})
        self.active = self.act = self.how = self.mask = None
    def forward(self, x):
        y = x if self.active is None else self.extra[self.active](x)
        y = y if self.act is None else ACTS[self.act](y)
        y = y if self.how != "twice" else y + y
        return y if self.mask is None else y * self.mask


class Switch:
    def __init__(self, model): self.model = model
    def set(self, value):
        for module in self.model.modules():
            if isinstance(module, Lora):
                module.{attribute} = value


def serve(requests):
    model = nn.Sequential(Lora(), Lora())
    switch, runner = Switch(model), torch.compile(model)
    for request in requests:
        switch.set(request["value"])
        runner(request["x"])
"""


@pytest.mark.parametrize(("attribute", "found"), [("active", 1), ("act", 1), ("how", 1), ("mask", 0)])
def test_what_starts_as_none_is_known_by_what_is_done_with_it(attribute: str, found: int) -> None:
    findings = check({"main.py": NAMED.replace("{attribute}", attribute)})
    assert [finding.rule for finding in findings if finding.confidence != "possible"] == ["CL617"] * found


DEEP = """
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(4))
        self.used = 1
    def forward(self, x):
        for block in {blocks}:
            x = block(x)
        return {reported}


class Log:
    def on_step(self, trainer, step): print(step)


class Grow:
    def on_step(self, trainer, step): trainer.model.used = {used}
    def grow(self, trainer, step): trainer.model.used = {used}


class Trainer:
    def __init__(self, callbacks):
        self.model = Deep()
        self.net = torch.compile(self.model)
        self.callbacks = callbacks
    def fit(self, x):
        for step in range(9):
            for callback in self.callbacks:
                callback.{method}(self, step)
            self.net(x)
"""


@pytest.mark.parametrize("reported", ["{self.used: x}", "{f'loss_{self.used}': x}", "{'loss_' + str(self.used): x}"])
def test_a_number_in_a_name_is_pinned(reported: str) -> None:
    code = DEEP.replace("{blocks}", "self.blocks").replace("{used}", "step").replace("{method}", "on_step")
    found = check({"main.py": code.replace("{reported}", reported)})
    assert [f.rule for f in found if f.confidence != "possible"] == ["CL617"]


@pytest.mark.parametrize(
    ("blocks", "used", "method", "found"),
    [
        ("self.blocks[: self.used]", "1 + step // 2", "on_step", 1),
        ("self.blocks[self.used :]", "1 + step // 2", "on_step", 1),
        ("[self.blocks[self.used]]", "step % 3", "on_step", 1),
        ("self.blocks[: self.used]", "4", "on_step", 0),
        ("self.blocks[: self.used]", "1 + step // 2", "grow", 0),
        ("self.blocks[:2]", "1 + step // 2", "on_step", 0),
    ],
)
def test_what_a_callback_sets_is_found(blocks: str, used: str, method: str, found: int) -> None:
    code = DEEP.replace("{blocks}", blocks).replace("{used}", used).replace("{method}", method)
    code = code.replace("{reported}", "x")
    assert [f.rule for f in check({"main.py": code}) if f.confidence != "possible"] == ["CL617"] * found


STEP = """
import torch
from torch import nn


def inner(x, how: str): return x * len(how)


@torch.compile
def step(x, how="plain"): return inner(x, how)


x = torch.ones(2)
"""

OTHERS = {
    "a loop's variable": "for how in names():\n    step(x, str(how))",
    "what is computed from one": "for k in range(9):\n    how = str(k)\n    step(x, how)",
    "what a loop carries on": "how = 'a'\nwhile go():\n    step(x, how)\n    how += 'a'",
    "drawn on each turn": "import random\nfor _ in range(9):\n"
    "    how = random.choice(['a', 'b', 'c'])\n    step(x, how)",
    "taken off a queue": "def serve(queue):\n    while queue:\n        job = queue.pop(0)\n        step(x, str(job))",
    "each of several cases": "CASES = [dict(how='a'), dict(how='b'), dict(how='c')]\nfor case in CASES:\n"
    "    step(x, **case)",
    "each of several that are named": "NAMES = ('a', 'b', 'c')\nfor how in NAMES:\n    step(x, how)",
    "three texts": "step(x)\nstep(x, 'b')\nstep(x, how='c')",
    "what the caller is given": "def serve(how: str):\n    return step(x, how)",
    "what the caller's caller is given": "def serve(mode: str):\n    return call(mode)\n\n\n"
    "def call(how: str):\n    return step(x, how)",
    "what a loop over the caller turns": "class Loop:\n    def one(self, k): return step(x, self.names[k])\n\n"
    "    def all(self):\n        for k in range(9):\n            self.one(k)",
    "an attribute that is counted on": "class Loop:\n    def __init__(self):\n        self.how = 'a'\n\n"
    "    def run(self):\n        step(x, self.how)\n        self.how += 'a'",
    "of a method that is compiled in place": "class Voice:\n    def say(self, how): return inner(x, how)\n\n"
    "    def ask(self, how: str): return self.say(how)\n\n\nvoice = Voice()\nvoice.say = torch.compile(voice.say)",
    "three texts in methods of one class": "class Loop:\n    def a(self):\n        step(x, 'a')\n\n"
    "    def b(self):\n        step(x, 'b')\n\n    def c(self):\n        step(x, 'c')",
}
SAME = {
    "one text": "for _ in range(9):\n    step(x, 'a')\n    step(x, 'a')",
    "the default": "for k in range(9):\n    step(x)\n    step(x, 'plain')",
    "an argument with a default": "def serve(how: str = 'plain'):\n    return step(x, how)",
    "drawn before the loop": "import random\nhow = str(random.choice(NAMES))\nfor _ in range(9):\n    step(x, how)",
    "a setting taken off": "for _ in range(9):\n    how = str(options.pop('how', 'a'))\n    step(x, how)",
    "a setting": "class Loop:\n    def __init__(self, how: str):\n        self.how = how\n\n"
    "    def run(self):\n        step(x, self.how)",
    "each text in a function of its own": "def a():\n    step(x, 'a')\n\n\ndef b():\n    step(x, 'b')\n\n\n"
    "def c():\n    step(x, 'c')",
    "what a loop over other things computes": "how = str(x.dtype)\nfor k in range(9):\n    step(x * k, how)",
}


@pytest.mark.parametrize("driver", OTHERS.values(), ids=OTHERS.keys())
def test_another_text_in_each_call_is_found_where_it_is_used(driver: str) -> None:
    found = [finding for finding in check({"main.py": STEP + driver}) if finding.rule == "CL618"]
    assert [(finding.span.line, finding.confidence) for finding in found] == [(6, "likely")]


@pytest.mark.parametrize("driver", SAME.values(), ids=SAME.keys())
def test_the_same_text_is_not(driver: str) -> None:
    assert "CL618" not in {finding.rule for finding in check({"main.py": STEP + driver})}


TASKS = """
import enum
import torch


class Task(enum.Enum):
    A = 0
    B = 1
    {more}


@torch.compile
def front(x, task): return x + 1 if task is Task.A else x - 1


x = torch.ones(2)
"""


@pytest.mark.parametrize(
    ("more", "driver", "confidence"),
    [
        ("C = 2", "for task in Task:\n    front(x, task)", "likely"),
        ("C = 2", "def handle(task: Task):\n    return front(x, task)", "likely"),
        ("C = 2", "def serve(jobs):\n    for job in jobs:\n        front(x, job.task)", "likely"),
        ("", "def serve(jobs):\n    for job in jobs:\n        front(x, job.task)", "possible"),
        ("C = 2", "for k in range(9):\n    front(x * k, Task.B)", None),
    ],
)
def test_another_member_of_an_enumeration_is_another_value(more: str, driver: str, confidence: str | None) -> None:
    found = [f for f in check({"main.py": TASKS.replace("{more}", more) + driver}) if f.rule == "CL618"]
    assert [f.confidence for f in found] == ([confidence] if confidence else [])


def test_members_may_be_defined_below_an_enumeration_of_the_project() -> None:
    base = "class Named(enum.Enum): pass\nclass Task(Named):"
    text = TASKS.replace("class Task(enum.Enum):", base).replace("{more}", "C = 2")
    found = [
        f for f in check({"main.py": text + "def handle(task: Task):\n    return front(x, task)"}) if f.rule == "CL618"
    ]
    assert base in text and len(found) == 1 and "another `Task`" in found[0].message


@pytest.mark.parametrize("test", ["phase != Task.B", "Task.A == phase", "step.phase == Task.A"])
def test_what_is_compared_with_a_member_of_an_enumeration_is_no_tensor(test: str) -> None:
    code = (
        f"class Model(torch.nn.Module):\n    def forward(self, x, step, phase):\n        return x if {test} else -x\n"
    )
    assert not check({"main.py": TASKS.replace("{more}", "") + code})


MIX = """
import torch


@torch.compile
def mix(x, parts): return x + len(parts)


x = torch.ones(2)
"""

HOLDER = """class Holder:
    def __init__(self):
        self.past = []
    def put(self, y):
        if y.ndim > 0:
            self.past.append(y)
    def keep(self, y):
        self.past.append(y)
        self.past.pop(0)


"""

LONGER = {
    "appended to": "for _ in range(9):\n    mix(x, past)\n    past.append(x)",
    "a longer tuple": "for _ in range(9):\n    mix(x, past)\n    past = past + (x,)",
    "all of it and one more": "while go():\n    mix(x, past)\n    past = [*past, x]",
    "of a length that a loop turns": "for k in range(9):\n    mix(x, list(range(k)))",
    "kept by who calls": "class Loop:\n    def __init__(self):\n        self.past = []\n\n"
    "    def again(self):\n        self.past = []\n\n"
    "    def step(self):\n        mix(x, self.past)\n        self.past.append(x)",
    "a dict that is kept": "class Loop:\n    def __init__(self):\n        self.past = {'a': x}\n\n"
    "    def step(self, name):\n        self.past[name] = x\n        return mix(x, self.past)",
    "held by an object whose method adds": HOLDER + "def decode():\n    holder = Holder()\n    for _ in range(9):\n"
    "        holder.put(x)\n        mix(x, holder.past)",
    "held further away": HOLDER + "class Loop:\n    def __init__(self):\n        self.holder = Holder()\n\n"
    "    def run(self):\n        for _ in range(9):\n            self.turn()\n\n"
    "    def turn(self):\n        mix(x, self.holder.past)\n        self.holder.past.append(x)",
    "held by what is called again": HOLDER + "class Loop:\n    def __init__(self):\n        self.holder = Holder()\n\n"
    "    def step(self):\n        self.holder.put(x)\n        return mix(x, self.holder.past)",
    "three lengths": "mix(x, [0])\nmix(x, [0, 1])\nmix(x, parts=[0, 1, 2])",
}
AS_LONG = {
    "one in, one out": "for _ in range(9):\n    mix(x, past)\n    past.append(x)\n    past.pop(0)",
    "cut to the last ones": "for _ in range(9):\n    mix(x, past)\n    past = past + [x]\n    past = past[-2:]",
    "kept short by who calls": "class Loop:\n    def __init__(self):\n        self.past = []\n\n"
    "    def trim(self):\n        self.past.pop(0)\n\n"
    "    def step(self):\n        mix(x, self.past)\n        self.past.append(x)\n        self.trim()",
    "filled before": "class Loop:\n    def __init__(self):\n        self.past = []\n\n"
    "    def register(self, y):\n        self.past.append(y)\n\n    def step(self):\n        mix(x, self.past)",
    "a dict whose keys come again": "class Loop:\n    def __init__(self):\n        self.past = {}\n\n"
    "    def step(self):\n        for layer in range(4):\n            self.past[layer] = mix(x, self.past)",
    "another list grows": "for _ in range(9):\n    mix(x, past)\n    kept.append(x)",
    "held by a new object each turn": HOLDER + "def decode():\n    for _ in range(9):\n        holder = Holder()\n"
    "        holder.put(x)\n        mix(x, holder.past)",
    "held, one in, one out": HOLDER + "def decode():\n    holder = Holder()\n    for _ in range(9):\n"
    "        holder.keep(x)\n        mix(x, holder.past)",
    "of an object that is replaced": HOLDER + "class Loop:\n    def step(self):\n        self.holder = Holder()\n"
    "        self.holder.put(x)\n        return mix(x, self.holder.past)",
    "held and filled before": HOLDER + "def decode():\n    holder = Holder()\n    holder.put(x)\n"
    "    for _ in range(9):\n        mix(x, holder.past)",
    "an entry is set": "for k in range(9):\n    mix(x, past)\n    past[k] = x",
    "longer before the loop": "past.append(x)\nfor _ in range(9):\n    mix(x, past)",
    "tensors of each turn": "for batch in batches():\n    mix(x, [x * 2, x])",
}


@pytest.mark.parametrize("driver", LONGER.values(), ids=LONGER.keys())
def test_a_list_of_another_length_in_each_call_is_found(driver: str) -> None:
    past = "past = ()\n" if "(x,)" in driver else "past = [x, x]\n"
    found = [finding for finding in check({"main.py": MIX + past + driver}) if finding.rule == "CL627"]
    assert [(finding.span.line, finding.confidence) for finding in found] == [(6, "likely")]


@pytest.mark.parametrize("driver", AS_LONG.values(), ids=AS_LONG.keys())
def test_a_list_of_the_same_length_is_not(driver: str) -> None:
    findings = check({"main.py": MIX + "past, kept = [x, x], []\n" + driver})
    assert "CL627" not in {finding.rule for finding in findings}


FLAGGED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 4)})

    def forward(self, x, task): return self.heads[task](x)


def step(x, scale, keep): return x * scale if keep else x


model, act = torch.compile(Model()), torch.compile(lambda x, f: f(x))
step = torch.compile(step, dynamic=False)
x = torch.ones(2)
"""

PASSED = {
    "a number without symbols": ("for k in range(9):\n    step(x, k / 2, True)", ("CL627", "likely")),
    "a flag": ("step(x, 1.0, True)\nstep(x, 1.0, False)", ("CL627", "possible")),
    "a flag by keyword dict": ("step(x, 1.0, True)\nstep(x, 1.0, **{'keep': False})", ("CL627", "possible")),
    "four functions": ("for f in (torch.sin, torch.cos, torch.tan, torch.exp):\n    act(x, f)", ("CL627", "likely")),
    "two functions": ("act(x, torch.sin)\nact(x, torch.cos)", None),
    "a key of a batch": ("for batch in batches():\n    model(batch['x'], batch['task'])", ("CL618", "likely")),
    "one key": ("for batch in batches():\n    model(batch['x'], 'a')", None),
}


@pytest.mark.parametrize("name", PASSED)
def test_what_differs_says_how_often_it_compiles(name: str) -> None:
    driver, expected = PASSED[name]
    found = {(f.rule, f.confidence) for f in check({"main.py": FLAGGED + driver}) if f.rule in ("CL618", "CL627")}
    assert found == ({expected} if expected else set())


@pytest.mark.parametrize(
    ("setting", "option", "instead"),
    [
        ("", ", dynamic=False", "leave `dynamic` out"),
        ("torch._dynamo.config.automatic_dynamic_shapes = False", "", "leave `automatic_dynamic_shapes` on"),
    ],
)
def test_what_to_do_about_static_sizes_names_what_made_them_so(setting: str, option: str, instead: str) -> None:
    driver = f"step = torch.compile(abs{option})\nfor n in range(2, 9):\n    step(torch.ones(n))\n"
    found = [f for f in check({"main.py": f"import torch\n{setting}\n{driver}"}) if f.rule == "CL621"]
    assert [f.instead.startswith(instead) for f in found] == [True]


@pytest.mark.parametrize(
    ("call", "hazard", "instead"),
    [
        ("max((len(p) for p in parts), default=0)", "frame-skip", "`max([len(p) for p in parts], default=0)`"),
        ("max(map(len, parts), default=0)", "graph-break", "`max(list(map(len, parts)), default=0)`"),
    ],
)
def test_only_a_generator_takes_the_whole_function_with_it(call: str, hazard: str, instead: str) -> None:
    code = f"import torch\n@torch.compile\ndef step(x, parts=('a', 'bc')):\n    return x * {call}\n"
    found = [f for f in check({"main.py": code}) if f.rule == "CL529"]
    assert [(f.hazard, instead in f.instead) for f in found] == [(hazard, True)]


SCRIPT = """\
import torch

STEP = 0

@torch.compile
def warmed(x):
    if STEP < 3:
        return x * 0.1
    return x * 2

class Steps:
    def __init__(self):
        self.fast = torch.compile(warmed)

"""


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for step in range(5):\n    STEP = step\n    warmed(torch.ones(2))", ["CL607"]),
        ("while STEP < 9:\n    STEP += 1\n    warmed(torch.ones(2))", ["CL607"]),
        (
            "f = torch.compile(dynamic=True)(warmed)\nfor step in range(5):\n    STEP = step\n    f(torch.ones(2))",
            ["CL607"],
        ),
        ("steps = Steps()\nfor step in range(5):\n    STEP = step\n    steps.fast(torch.ones(2))", ["CL607"]),
        ("for step in range(5):\n    STEP = step\n    print(step)\nwarmed(torch.ones(2))", []),
        ("for step in range(5):\n    STEP = step\nwarmed(torch.ones(2))", []),
        ("for step in range(5):\n    STEP = 4\n    warmed(torch.ones(2))", []),
    ],
)
def test_a_global_that_a_loop_of_the_script_sets(loop: str, found: list[str]) -> None:
    assert [finding.rule for finding in check(f"{SCRIPT}{loop}\n")] == found


@pytest.mark.parametrize(("read", "expected"), [("print(model.freqs)", []), ("print(model.proj)", ["CL548"])])
def test_a_cached_property_that_driving_code_reads_is_known_to_compiled_code(read: str, expected: list[str]) -> None:
    source = f"""
from functools import cached_property

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    @cached_property
    def freqs(self):
        return torch.arange(4) / 4

    def forward(self, x):
        return self.proj(x) * self.freqs


def main():
    model = Rotary()
    {read}
    torch.compile(model)(torch.ones(2, 4))
"""
    assert [f.rule for f in check({"m.py": source})] == expected


@pytest.mark.parametrize(("sizes", "expected"), [("range(x.shape[0])", []), ("range(x.shape[1])", ["CL550"])])
def test_a_size_that_a_loop_pins_has_a_text(sizes: str, expected: list[str]) -> None:
    source = f"""
import torch


@torch.compile
def labelled(x):
    for step in {sizes}:
        x = x + step
    return x, str(x.shape[0])


for count in range(4, 8):
    labelled(torch.ones(count, 2))
"""
    assert [f.rule for f in check({"m.py": source}) if f.rule == "CL550"] == expected
