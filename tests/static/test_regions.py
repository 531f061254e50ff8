"""What counts as compiled, by which path it is reached, and how sure and how bad a finding there is."""

from __future__ import annotations

import pytest
from projects import Probed, check, probe, write

from compilelint.static.describe import describe
from compilelint.static.project.program import Program
from compilelint.static.regions.public import public_functions

HEAD = """
import functools
import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

"""


def reached(text: str) -> Probed:
    return probe(HEAD + text)


ROOTS = {
    "forward of a module": ("class M(nn.Module):\n    def forward(self, x): probe(x)", {"M.forward"}),
    "forward that only the base has": (
        "class Base(nn.Module):\n    def forward(self, x): self.run(x)\n    def run(self, x): pass\n"
        "class M(Base):\n    def run(self, x): probe(x)",
        {"M.run"},
    ),
    "forward of the base, with a part that only the class makes": (
        "class Base(nn.Module):\n    def __init__(self, act):\n        super().__init__()\n        self.act = act\n"
        "    def forward(self, x): self.act(x)\n"
        "class M(Base):\n    def __init__(self): super().__init__(lambda x: probe(x))",
        {"M.__init__.<lambda>"},
    ),
    "forward of the base, with a part that only the class sets": (
        "class Part:\n    def __call__(self, x): probe(x)\n"
        "class Base(nn.Module):\n    def forward(self, x): self.part(x)\n"
        "class M(Base):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()",
        {"Part.__call__"},
    ),
    "what a forward calls": ("def f(x): probe(x)\nclass M(nn.Module):\n    def forward(self, x): f(x)", {"f"}),
    "not what only __init__ calls": (
        "def f(x): probe(x)\nclass M(nn.Module):\n    def __init__(self): f(1)\n    def forward(self, x): pass",
        set(),
    ),
    "not other methods": ("class M(nn.Module):\n    def forward(self, x): pass\n    def _load(self): probe(1)", set()),
    "not a plain class's forward": ("class M:\n    def forward(self, x): probe(x)", set()),
    "a decorated function": ("@torch.compile\ndef f(x): probe(x)", {"f"}),
    "with options": ("@torch.compile(mode='reduce-overhead', dynamic=True)\ndef f(x): probe(x)", {"f"}),
    "not what another compiler compiles": (
        "@numba.njit\ndef f(x): probe(x)\n@cute.jit\ndef g(x): probe(x)\n"
        "class M(nn.Module):\n    def forward(self, x): return f(x) + g(x)",
        set(),
    ),
    "by functools.partial": ("@functools.partial(torch.compile, dynamic=True)\ndef f(x): probe(x)", {"f"}),
    "below another decorator": ("@torch.no_grad()\n@torch.compile\ndef f(x): probe(x)", {"f"}),
    "a decorated method": ("class C:\n    @torch.compile\n    def f(self, x): probe(x)", {"C.f"}),
    "a decorated nested function": (
        "def outer(x):\n    @torch.compile\n    def f(y): probe(y)\n    return f(x)",
        {"outer.<locals>.f"},
    ),
    "torch.compile of a function": ("def f(x): probe(x)\ng = torch.compile(f)", {"f"}),
    "of a lambda": ("g = torch.compile(lambda x: probe(x))", {"<module>.<lambda>"}),
    "of a bound method": ("class C:\n    def f(self, x): probe(x)\ng = torch.compile(C().f)", {"C.f"}),
    "of a model's forward": (
        "class C:\n    def forward(self, x): probe(x)\nm = C()\nm.forward = torch.compile(m.forward)",
        {"C.forward"},
    ),
    "of an object": ("class C:\n    def forward(self, x): probe(x)\nm = torch.compile(C())", {"C.forward"}),
    "of an object that is called": (
        "class C:\n    def __call__(self, x): probe(x)\nm = torch.compile(C())",
        {"C.__call__"},
    ),
    "of a partial": ("def f(n, x): probe(x)\ng = torch.compile(functools.partial(f, 3))", {"f"}),
    "what a function is given to compile": (
        "def timed(f, x): return torch.compile(f)(x)\ndef g(x): probe(x)\ndef main(x): timed(g, x)",
        {"g"},
    ),
    "what a method is given, nested": (
        "class C:\n    def check(self, f): return torch.compile(dynamic=True)(f)\n"
        "    def run(self):\n        def g(x): probe(x)\n        self.check(g)",
        {"C.run.<locals>.g"},
    ),
    "each that a loop gives it": (
        "def timed(f, x): return torch.compile(f)(x)\ndef g(x): probe(x)\ndef h(x): probe(x)\n"
        "def main(x):\n    for f in (g, h): timed(f, x)",
        {"g", "h"},
    ),
    "not what another function is given": (
        "def timed(f, x): return torch.compile(x)\ndef plain(f): return f\ndef g(x): probe(x)\ndef main(): plain(g)",
        set(),
    ),
    "by the name of its parameter": ("def f(x): probe(x)\ng = torch.compile(model=f)", {"f"}),
    "in two calls": ("def f(x): probe(x)\ng = torch.compile(dynamic=True)(f)", {"f"}),
    "by a decorator that is kept": ("fast = torch.compile(dynamic=True)\n@fast\ndef f(x): probe(x)", {"f"}),
    "by the name that torch.compiler has": ("def f(x): probe(x)\ng = torch.compiler.compile(f)", {"f"}),
    "by torch._dynamo.optimize": ("def f(x): probe(x)\ng = torch._dynamo.optimize('inductor')(f)", {"f"}),
    "of a nested class by torch._dynamo.optimize": (
        "def run(x):\n    class M(nn.Module):\n        def forward(self, x): probe(x)\n"
        "    return torch._dynamo.optimize('inductor', nopython=True)(M())(x)",
        {"run.<locals>.M.forward"},
    ),
    "a function decorated with torch._dynamo.optimize": (
        "@torch._dynamo.optimize_assert('eager')\ndef f(x): probe(x)",
        {"f"},
    ),
    "m.compile()": ("class M(nn.Module):\n    def forward(self, x): probe(x)\nm = M()\nm.compile()", {"M.forward"}),
    "of what a name was before it was bound to something made of it": (
        "class C:\n    def forward(self, x): probe(x)\nm = C()\nm = m.cuda()\nm = torch.compile(m)",
        set(),
    ),
    "the same with a module, through what gives it back": (
        "def kept(m): return m\ndef f(x): probe(x)\nf = kept(f)\nf = kept(f)\nf = torch.compile(f)",
        {"f"},
    ),
    "of a name that nothing but itself is made of": ("def f(x): probe(x)\nm = m.cuda()\nm = torch.compile(m)", set()),
    "in a function that compiles": ("def f(x): probe(x)\ndef make():\n    return torch.compile(f)", {"f"}),
    "a Lightning step": (
        "class L(LightningModule):\n    def forward(self, x): pass\n    def training_step(self, b, i): probe(b)\n"
        "    def configure_optimizers(self): probe(1)",
        {"L.training_step"},
    ),
    "an autograd function's backward": (
        "class S(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x\n"
        "    @staticmethod\n    def backward(ctx, g): probe(g)\n@torch.compile\ndef f(x): return S.apply(x)",
        {"S.backward"},
    ),
    "a checkpointed function": (
        "def block(x): probe(x)\n@torch.compile\ndef f(x): return checkpoint(block, x)",
        {"block"},
    ),
    "a forward hook": (
        "def hook(m, i, o): probe(o)\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.l = nn.Linear(1, 1)\n        self.l.register_forward_hook(hook)\n    def forward(self, x): pass",
        {"hook"},
    ),
    "a forward hook that what makes the model lets another put on it": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(1, 1)\n"
        "    def forward(self, x): return self.l(x)\n"
        "class Stats:\n    def attach(self, model):\n        for part in model.modules():\n"
        "            if isinstance(part, nn.Linear):\n                part.register_forward_hook(self.hook_for(1))\n"
        "    def hook_for(self, scale):\n        def hook(module, args, output): probe(output * scale)\n"
        "        return hook\n"
        "def start():\n    net = Net()\n    Stats().attach(net)\n    return net",
        {"Stats.hook_for.<locals>.hook"},
    ),
    "a forward hook on a model of others": (
        "class Net(nn.Module):\n    def forward(self, x): return x\n"
        "class Stats:\n    def hook(self, module, args, output): probe(output)\n"
        "    def attach(self, model):\n        model.head.register_forward_hook(self.hook)\n",
        set(),
    ),
    "not what is disabled": (
        "@torch.compiler.disable\ndef f(x): probe(x)\n@torch.compile\ndef g(x): return f(x)",
        set(),
    ),
    "not the forward of a module that is disabled": (
        "class M(nn.Module):\n    @torch.compiler.disable\n    def forward(self, x): probe(x)\n"
        "class N(nn.Module):\n    @torch._dynamo.disable(recursive=False)\n    def forward(self, x): probe(x)",
        set(),
    ),
    "not what is disabled where it is called": (
        "def f(x): probe(x)\n@torch.compile\ndef g(x): return torch.compiler.disable(f)(x)",
        set(),
    ),
    "not what is put into the graph untraced": (
        "@torch.compiler.allow_in_graph\ndef f(x): probe(x)\n@torch.compile\ndef g(x): return f(x)",
        set(),
    ),
    "not a custom operator's body": (
        "@torch.library.custom_op('my::op', mutates_args=())\ndef f(x: Tensor) -> Tensor: probe(x)\n"
        "@torch.compile\ndef g(x): return f(x)",
        set(),
    ),
    "not the eager side of is_compiling": (
        "@torch.compile\ndef f(x):\n    if not torch.compiler.is_compiling(): probe(x)",
        set(),
    ),
    "the compiled side of is_compiling": (
        "@torch.compile\ndef f(x):\n    if torch.compiler.is_compiling(): probe(x)",
        {"f"},
    ),
    "not the scripting side": ("@torch.compile\ndef f(x):\n    if torch.jit.is_scripting(): probe(x)", set()),
    "not below a raise": ("@torch.compile\ndef f(x):\n    raise ValueError\n    probe(x)", set()),
    "not a flag that is off": ("DEBUG = False\n@torch.compile\ndef f(x):\n    if DEBUG: probe(x)", set()),
    "not a script's functions": ("def f(x: Tensor): probe(x)\nf(torch.ones(1))", set()),
    "a script's modules' methods": (
        "class M(nn.Module):\n    def forward(self, x): pass\n    def score(self, x: Tensor):\n        probe(x)\n"
        "        return x",
        {"M.score"},
    ),
}


@pytest.mark.parametrize("name", ROOTS)
def test_what_is_compiled(name: str) -> None:
    text, functions = ROOTS[name]
    assert reached(text).functions("compiled") == functions


def test_the_eager_side_of_is_compiling_is_host_code() -> None:
    text = "def f(x):\n    if torch.compiler.is_compiling(): probe(1)\n    else: probe(2)\ng = torch.compile(f)"
    seen = reached(text)
    assert {(s.region, s.line) for s in seen.sightings} == {("compiled", 9), ("host", 10)}


def test_options_are_those_of_the_compile_call() -> None:
    seen = reached(
        "def f(x): probe(x)\ndef inner(x): probe(x)\n@torch.compile(mode='max-autotune', dynamic=False)\n"
        "def g(x): inner(x)\nh = torch.compile(f, fullgraph=True)"
    )
    told = {s.function: dict(s.options) for s in seen.sightings if s.region == "compiled"}
    assert told == {"f": {"fullgraph": True}, "inner": {"mode": "max-autotune", "dynamic": False}}


def test_entry_points_are_compiled() -> None:
    files = {"pkg/__init__.py": "", "pkg/engine.py": "class Engine:\n    def _step(self, x):\n        probe(x)"}
    assert not probe(files).sightings
    seen = probe(files, entry_points=("pkg.engine:Engine._step",))
    assert seen.functions() == {"Engine._step"}
    assert seen.findings[0].region[0].note == "named in entry-points"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("pkg.nowhere:f", "entry point: no such module in the project; write pkg.module:Class.method"),
        ("pkg.engine:Engine.run", "entry point: pkg.engine defines no function 'Engine.run'"),
        ("pkg.engine", "entry point: pkg.engine defines no function ''"),
    ],
)
def test_entry_points_that_lead_nowhere_are_told(entry: str, message: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/engine.py": "class Engine: pass"}
    assert probe(files, entry_points=(entry,)).failures == (message,)


PUBLIC = """
import torch
from torch import Tensor
def scale(x: Tensor) -> Tensor:
    probe(x)
    return x * 2
def _private(x: Tensor): probe(x)
def init_weights(x: Tensor): probe(x)
def load_table(x: Tensor): probe(x)
def accuracy(x: Tensor) -> float:
    probe(x)
    return 1.0
class Norm:
    def apply(self, x: Tensor):
        probe(x)
        return x
    def _hidden(self, x: Tensor): probe(x)
    @property
    def last(self):
        probe(self.x)
        return self.x * 2
class BlockProcessorFast:
    def apply(self, x: Tensor):
        probe(x)
        return x
def train_step(x: Tensor):
    probe(x)
    return x
def padded_collate_fn(x: Tensor):
    probe(x)
    return x
def prepare_inputs_for_generation(x: Tensor):
    probe(x)
    return x
class ActionQueue:
    def merge(self, x: Tensor):
        probe(x)
        return x
def dumped(x: Tensor):
    probe(x)
    torch.save(x, "x.pt")
    return x
def fitted(x: Tensor):
    probe(x)
    x.sum().backward()
    return x
def fetched(x: Tensor):
    return Norm.from_pretrained("n").apply(x)
class _Inner:
    def apply(self, x: Tensor):
        probe(x)
        return x
"""


def test_public_functions_of_a_package_are_assumed_to_be_compiled() -> None:
    seen = probe({"pkg/__init__.py": "", "pkg/ops.py": PUBLIC})
    assert {f.function for f in seen.findings} == {"scale", "Norm.apply"}
    assert {f.confidence for f in seen.findings} == {"likely"}
    assert all("public function" in f.region[0].note for f in seen.findings)


@pytest.mark.parametrize(
    "path",
    [
        "ops.py",
        "pkg/train.py",
        "pkg/data/ops.py",
        "pkg/tests/ops.py",
        "pkg/export_onnx.py",
        "pkg/scripts/ops.py",
        "pkg/image_utils.py",
        "pkg/evaluation.py",
        "pkg/val.py",
        "pkg/__main__.py",
    ],
)
def test_public_functions_around_a_model_are_not(path: str) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/data/__init__.py": "",
        "pkg/tests/__init__.py": "",
        "pkg/scripts/__init__.py": "",
    }
    assert not probe({**files, path: PUBLIC}).findings


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Matcher", {"run"}),
        ("Predictors", {"run"}),
        ("PosePredictor", set()),
        ("PoseTracker", set()),
        ("TrackersOfPoses", {"run"}),
        ("DepthValidator", set()),
        ("FeatureExtractor", set()),
    ],
)
def test_methods_of_classes_that_drive_models_are_not(name: str, found: set[str]) -> None:
    text = f"import torch\nclass {name}:\n    def run(self, x: torch.Tensor):\n        return probe(x)\n"
    seen = probe({"pkg/__init__.py": "", "pkg/pose.py": text})
    assert {function.rpartition(".")[2] for function in seen.functions()} == found


STAND_IN = """
import torch
from torch import nn
class Fake(nn.Module):
    def forward(self, x):
        probe(x)
        return x
def decode(model, x):
    for _ in range(9):
        x = model(x)
        probe(x)
    return x
"""
TEST = "def test_decode(): assert decode(Fake(), 1) == 1\n"


@pytest.mark.parametrize(
    ("name", "text", "looked_at"),
    [
        ("test_decode.py", STAND_IN + TEST, False),
        ("decode_test.py", STAND_IN + "class TestDecode:\n    def test_it(self): pass\n", False),
        ("decode_test.py", STAND_IN + "class TestTimeAugmentation: pass\n", True),
        ("conftest.py", STAND_IN + "import pytest\n", False),
        ("test_decode.py", STAND_IN + TEST + "step = torch.compile(Fake())\n", True),
        ("test_decode.py", STAND_IN, True),
        ("decode.py", STAND_IN + TEST, True),
    ],
)
def test_what_a_file_of_tests_defines_stands_in_for_models(name: str, text: str, looked_at: bool) -> None:
    assert {s.function for s in probe({name: text}).sightings} == ({"Fake.forward", "decode"} if looked_at else set())


BUILDS_TABLES = """
import torch
from torch import Tensor, nn
from pkg.tables import kernel
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.build()
    def build(self):
        self.register_buffer("freqs", self.scaled(torch.arange(4.0)))
        self.register_buffer("kernel", kernel(self.freqs))
    def scaled(self, freqs: Tensor) -> Tensor:
        probe(freqs)
        return freqs * 2
    def shifted(self, x: Tensor) -> Tensor:
        probe(x)
        return x + 1
    def forward(self, x: Tensor):
        return x * self.freqs
"""


def test_public_functions_that_only_constructors_call_are_not() -> None:
    tables = "from torch import Tensor\ndef kernel(x: Tensor) -> Tensor:\n    probe(x)\n    return x\n"
    seen = probe({"pkg/__init__.py": "", "pkg/tables.py": tables, "pkg/rotary.py": BUILDS_TABLES})
    assert {f.function for f in seen.findings} == {"Rotary.shifted"}


def test_public_functions_that_only_hand_something_over_are_not() -> None:
    text = """
        import torch
        class Layer(torch.nn.Module):
            def get_weight(self): return self.proj.weight
            def set_weight(self, value):
                "Replace it."
                self.proj.weight = value
            def merge(self): raise NotImplementedError
            def scaled_weight(self): return self.proj.weight * 2
            def tied_weight(self): return self.proj.get_weight()
        """
    program = Program(write({"pkg/__init__.py": "", "pkg/layer.py": text}))
    module = program.module("pkg.layer")
    assert module is not None
    found = [root.ref.qualname for root in public_functions(program, module)]
    assert found == ["Layer.scaled_weight", "Layer.tied_weight"]


def test_public_functions_that_no_tensor_reaches_are_not() -> None:
    parameters = {
        "open": "x",
        "typed": "x: torch.Tensor",
        "several": "sizes: list[int], x: list[torch.Tensor]",
        "loose": "state: dict",
        "counts": "height: int, width: int | None, device: Optional['torch.device'] = None",
        "modes": "mode: Literal['fast', 'slow'], path: pathlib.Path",
        "none": "",
    }
    functions = "\n".join(f"def {name}({taken}): return torch.ones(2)" for name, taken in parameters.items())
    methods = "\nclass Graph:\n    def held(self): return self.x + 1\n    def sized(self, n: int): return self.x + n\n"
    names = ["open", "typed", "several", "loose", "Graph.held", "Graph.sized"]
    program = Program(write({"pkg/__init__.py": "", "pkg/ops.py": "import torch\n" + functions + methods}))
    module = program.module("pkg.ops")
    assert module is not None
    assert [root.ref.qualname for root in public_functions(program, module)] == names


def test_an_object_of_a_file_without_torch_holds_no_tensor() -> None:
    text = (
        "class Arm:\n    def observe(self): return self.bus.read() + 1\n    def moved(self, by): return by + 1\n"
        "    @staticmethod\n    def scaled(x): return x * 2\n    @classmethod\n    def found(cls): return cls.bus + 1\n"
    )
    program = Program(write({"pkg/__init__.py": "", "pkg/arm.py": text}))
    module = program.module("pkg.arm")
    assert module is not None
    assert [root.ref.qualname for root in public_functions(program, module)] == ["Arm.moved", "Arm.scaled"]


def test_what_drives_a_model_leaves_to_others_what_it_calls() -> None:
    text = """
        from torch import Tensor
        def fitted(x: Tensor):
            _loss(x).backward()
            return x
        def score(x: Tensor): return _loss(x) * 2
        def _loss(x):
            probe(x)
            return x.sum()
        """
    seen = probe({"pkg/__init__.py": "", "pkg/ops.py": text})
    assert {(f.function, f.region[0].function) for f in seen.findings} == {("_loss", "score")}


def test_modules_among_transforms_are_models_functions_there_prepare_data() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/transforms/__init__.py": "",
        "pkg/transforms/flows.py": """
            import torch
            class Flow(torch.nn.Module):
                def forward(self, x: torch.Tensor): return x
                def inverse(self, x: torch.Tensor): return probe(x)
            class Squash(torch.distributions.Transform):
                def _call(self, x: torch.Tensor): return probe(x.tanh())
                def slope(self, x: torch.Tensor): return probe(x)
                def _text(self, x: torch.Tensor): return probe(x)
            class Crop:
                def cropped(self, x: torch.Tensor): return probe(x)
            def flipped(x: torch.Tensor): return probe(x)
            """,
    }
    assert probe(files).functions() == {"Flow.inverse", "Squash._call", "Squash.slope"}


def test_each_of_many_functions_that_one_function_compiles_is_a_region() -> None:
    steps = [f"def step{i}(x): probe(x)\ndef test{i}(x): check(step{i}, x)\n" for i in range(12)]
    check = "def check(f, x):\n" + "    x = x + 1\n" * 12 + "    torch.compile(f)(x)\n"
    seen = probe("import torch\n" + check + "".join(steps))
    assert seen.functions() >= {f"step{i}" for i in range(12)}


HOST_BODIES = {
    "makes a layer": "x = torch.nn.Linear(3, 3)(x)",
    "hands over to numpy": "return x.cpu().numpy(), [x.numpy()]",
    "builds a model": "return torch.nn.Identity(), x.shape",
    "writes audio": "torchaudio.save('x.wav', x, 16000)",
    "shows progress": "for step in trange(3):\n        x = x + step",
    "waits for other processes": "torch.distributed.barrier()",
    "computes with numpy": "for i in np.unique(x): x = np.concatenate([x, x[x == i]])",
    "joins processes deep down": "State().join(x)",
    "exchanges objects": "dist.all_gather_object(found, x)",
    "seeds": "torch.manual_seed(0)",
    "times": "start = time.perf_counter()",
    "looks for a file": "found = os.path.isfile(self.place)",
    "asks a tokenizer": "print(self.tokenizer.decode(x))",
    "calls a tokenizer": "print(self.text_tokenizer(x))",
    "takes pictures too": "if isinstance(x, Image.Image): x = x.convert('RGB')",
    "decodes": "for _ in range(9):\n        x = x + draw_next(model, x)",
}


HOST_FILE = """
import numpy as np, torch, torchaudio
from PIL import Image
class State:
    def join(self, x): start(x)
def start(x): torch.distributed.init_process_group("nccl")
def run(x, model, self):
    y = x.view(-1)
    probe(x)
    {body}
    return x
"""


@pytest.mark.parametrize("body", HOST_BODIES.values(), ids=HOST_BODIES)
def test_a_public_function_that_does_what_only_the_host_does_is_not(body: str) -> None:
    assert not probe({"pkg/__init__.py": "", "pkg/ops.py": HOST_FILE.format(body=body)}).findings


@pytest.mark.parametrize(
    "body", ["x = x / np.sqrt(3)", "x = x + torch.from_numpy(np.stack([x]))", "x = x * np.random.rand()"]
)
def test_a_public_function_that_does_what_models_do_is(body: str) -> None:
    assert probe({"pkg/__init__.py": "", "pkg/ops.py": HOST_FILE.format(body=body)}).functions() == {"run"}


@pytest.mark.parametrize(
    ("imports", "signature", "compiled"),
    [
        ("import numpy as np", "x: np.ndarray", False),
        ("import numpy as np", "x", False),
        ("import jax", "x", False),
        ("import jax, torch", "x", True),
        ("import numpy as np, torch", "x: np.ndarray", False),
        ("import numpy as np, torch", "x: torch.Tensor", True),
        ("import math", "x", True),
    ],
)
def test_numpy_code_is_no_part_of_a_model(imports: str, signature: str, compiled: bool) -> None:
    text = f"{imports}\ndef run({signature}):\n    probe(x)\n    return x.reshape(-1)"
    seen = probe({"pkg/__init__.py": "", "pkg/ops.py": text})
    assert bool(seen.findings) is compiled


AROUND_A_MODEL = """
import torch
class Net(torch.nn.Module):
    def prepared(self, x: torch.Tensor): return self(probe(x))
    def sliced(self, x: torch.Tensor): return self.forward(probe(x))
    def infer(self, x: torch.Tensor): return self.head(probe(x))
    def __call__(self, x: torch.Tensor): return self.forward(probe(x))
    @staticmethod
    def applied(function, x: torch.Tensor): return function(probe(x))
    def configure_optimizers(self, x: torch.Tensor): return probe(x)
    def setup_optimizer(self, x: torch.Tensor): return probe(x)
    def state_dict(self, x: torch.Tensor): return probe(x)
    def forward(self, x: torch.Tensor): return x
class Learner:
    def update(self, x: torch.Tensor): self.loss(x).backward()
    def loss(self, x: torch.Tensor): return probe(x)
class TextPreprocessor:
    def split(self, x: torch.Tensor): return probe(x)
class Norm:
    def loss(self, x: torch.Tensor): return probe(x)
def infer_all(x: torch.Tensor): return probe(x)
def cropped(x: torch.Tensor, text_tokenizer): return probe(x)
def filtered(x: torch.Tensor, lora_state_dict): return probe(x)
def upscaled(x: torch.Tensor, *, show_progress): return probe(x)
def sampled(x: torch.Tensor, progress=True): return probe(x)
def annealed(x: torch.Tensor, progress: float): return probe(x)
@torch.library.register_fake("pkg::scan")
def scan_fake(x: torch.Tensor): return probe(x)
@torch.compiler.disable
def scan(x: torch.Tensor): return probe(x)
"""


def test_public_functions_around_a_model_say_so_by_what_they_do() -> None:
    seen = probe({"pkg/__init__.py": "", "pkg/ops.py": AROUND_A_MODEL})
    assert seen.functions() == {"Net.infer", "Net.__call__", "Net.applied", "Norm.loss", "annealed"}


@pytest.mark.parametrize(("given_back", "compiled"), [("Head()(x)", True), ("Head()", False)])
def test_a_public_function_that_uses_a_model_of_its_own_is_compiled(given_back: str, compiled: bool) -> None:
    text = f"""
        import torch
        class Head(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(3, 3)
            def forward(self, x):
                return self.fc(x)
        def head(x: torch.Tensor):
            probe(x)
            return {given_back}
        """
    assert ("head" in probe({"pkg/__init__.py": "", "pkg/ops.py": text}).functions("compiled")) is compiled


@pytest.mark.parametrize(
    ("base", "compiled"), [("Transform", {"Stretch._call"}), ("Distribution", set()), ("Own", set())]
)
def test_what_torch_calls_of_a_transform_is_compiled(base: str, compiled: set[str]) -> None:
    text = f"""
        import torch
        from torch.distributions import Distribution, Transform
        class Own:
            pass
        class Stretch({base}):
            def _call(self, x: torch.Tensor):
                return probe(x) * 2
            def _helper(self, x: torch.Tensor):
                return x
        """
    assert probe({"pkg/__init__.py": "", "pkg/ops.py": text}).functions("compiled") == compiled


def test_a_module_that_shows_progress_is_compiled_all_the_same() -> None:
    text = """
        import torch
        class Diffusion(torch.nn.Module):
            def interpolate(self, x: torch.Tensor):
                for t in tqdm(range(9)):
                    x = probe(x)
                return x
        """
    assert probe({"pkg/__init__.py": "", "pkg/ops.py": text}).functions("compiled") == {"Diffusion.interpolate"}


def test_a_file_that_describes_targets_is_not() -> None:
    assert not probe({"pkg/__init__.py": "", "pkg/ops.py": "import compilelint\n" + PUBLIC}).findings


@pytest.mark.parametrize("written_from_it", [True, False])
def test_what_a_file_is_generated_from_is_not_compiled(written_from_it: bool) -> None:
    text = HEAD + "class M(nn.Module):\n    def forward(self, x): probe(x)"
    mark = "# This file was automatically generated from src/pkg/modular_m.py.\n" if written_from_it else ""
    seen = probe({"pkg/__init__.py": "", "pkg/modular_m.py": text, "pkg/modeling_m.py": mark + text})
    paths = {"pkg/modeling_m.py"} | (set() if written_from_it else {"pkg/modular_m.py"})
    assert {sighting.path for sighting in seen.sightings} == paths


def test_a_public_function_that_loads_weights_however_deep_is_around_the_model() -> None:
    text = """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x): return x
        def make(): return fill(Net())
        def fill(net):
            net.load_state_dict({})
            return net
        def preload(): return make()
        def decode(x: torch.Tensor):
            probe(x)
            return preload()(x).abs()
        """
    assert not probe({"pkg/__init__.py": "", "pkg/ops.py": text}).functions("compiled")


def test_a_public_function_that_calls_something_compiled_is_around_the_model() -> None:
    text = """
        import torch
        def model(x): probe(x)
        compiled = torch.compile(model)
        def generate(x: torch.Tensor):
            probe(x)
            return compiled(x)
        """
    seen = probe({"pkg/__init__.py": "", "pkg/ops.py": text})
    assert seen.functions("compiled") == {"model"}
    assert {finding.function for finding in seen.findings} == {"model"}


@pytest.mark.parametrize(("given_back", "compiled"), [("Solution(x * 2)", True), ("Solution(1)", False)])
def test_a_method_of_a_module_that_gives_back_tensors_in_an_object_is_compiled(given_back: str, compiled: bool) -> None:
    text = f"""
        import torch
        class Solution:
            def __init__(self, states):
                self.states = states
        class Solver(torch.nn.Module):
            def solve(self, problem):
                x = torch.ones(problem.count)
                probe(x)
                return {given_back}
        """
    assert bool(probe({"pkg/__init__.py": "", "pkg/ops.py": text}).functions("compiled")) is compiled


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is a torch.nn.Module"),
        ("@support_torch_compile\n", "vLLM compiles its forward"),
        ("@support_torch_compile(dynamic_arg_dims={'x': 0})\n", "vLLM compiles its forward"),
        (
            "class Net(nn.Module):\n    _repeated_blocks = ['M']\n    def forward(self, x): pass\n",
            "regional compilation",
        ),
    ],
)
def test_the_path_tells_why_a_forward_is_compiled(text: str, why: str) -> None:
    (finding,) = reached(f"{text}class M(nn.Module):\n    def forward(self, x): probe(x)").findings
    assert why in finding.region[0].note


@pytest.mark.parametrize(("made", "may_be_tensor"), [("self.part = Part()", False), ("pass", True)])
@pytest.mark.parametrize("declared", ["int | Tensor", "Union[Tensor, int]", "'int | Tensor'"])
def test_what_a_submodule_takes_besides_numbers_its_model_tells(declared: str, made: str, may_be_tensor: bool) -> None:
    text = f"""
from typing import Union
class Part(nn.Module):
    def forward(self, x: Tensor, count: {declared}): probe(count)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
    def forward(self, x: Tensor): self.part(x, x.shape[0])
"""
    seen = [describe(sighting.value) for sighting in reached(text).sightings]
    assert seen and any("tensor" in kind for kind in seen) is may_be_tensor


@pytest.mark.parametrize("use", ["x[:, :n]", "x[0 : n + 1]", "min(n, x.shape[0])", "n < len(x)", "n + 1 <= x.size(1)"])
def test_a_parameter_that_stands_beside_sizes_is_a_number(use: str) -> None:
    seen = reached(f"@torch.compile\ndef f(x, n):\n    y = n * x\n    probe({use})\n    probe(n)")
    assert "unknown" in {describe(sighting.value) for sighting in seen.sightings}


def test_the_call_path_is_shown_outermost_first() -> None:
    seen = probe(
        {
            "main.py": "import torch\nfrom pkg.model import Model\nmodel = torch.compile(Model())\n",
            "pkg/__init__.py": "",
            "pkg/ops.py": "def scale(x):\n    probe(x)\n    return x\n",
            "pkg/model.py": """\
                from pkg.ops import scale
                class Model:
                    def forward(self, x):
                        return self.inner(x)
                    def inner(self, x):
                        return scale(x + 1)
                """,
        }
    )
    (finding,) = seen.findings
    assert [(step.path, step.line, step.function) for step in finding.region] == [
        ("pkg/model.py", 4, "Model.forward"),
        ("pkg/model.py", 6, "Model.inner"),
        ("pkg/ops.py", 1, "scale"),
    ]
    assert finding.region[0].note == "compiled by torch.compile at main.py:3"


def test_only_linted_files_have_findings_though_others_are_read() -> None:
    files = {
        "pkg/model.py": "from .ops import f\nimport torch\n@torch.compile\ndef step(x): probe(f(x))",
        "pkg/__init__.py": "",
        "pkg/ops.py": "def f(x):\n    probe(x)\n    return x > 0",
    }
    seen = probe(files, linted=1)
    assert {finding.path for finding in seen.findings} == {"pkg/model.py"}
    assert seen.kinds() == {"a tensor of bool (by annotation or use)"}


CONFIDENCE = """
import torch
class Gate(torch.nn.Module):
    def forward(self, x: torch.Tensor, y=None):
        if {test}:
            return x
        return -x
"""


@pytest.mark.parametrize(
    ("test", "confidence"),
    [
        ("torch.sin(x).sum() > 0", "certain"),
        ("x.sum() > 0", "likely"),
        ("y is not None and torch.sin(x).sum() > 0", "likely"),
        ("torch.sin(x).sum() > 0 and y", "certain"),
        ("(torch.sin(x) if y else x).sum() > 0", "likely"),
        ("y > 0", None),
        ("x.shape[0] > 0", None),
        ("x.dtype == torch.float16 and torch.sin(x).sum() > 0", "possible"),
        ("x.dtype in (torch.float16, torch.bfloat16) and torch.sin(x).sum() > 0", "possible"),
        ("x.dtype != torch.float32 and torch.sin(x).sum() > 0", "possible"),
        ("x.dtype == torch.float32 and torch.sin(x).sum() > 0", "likely"),
        ("x.dtype in (torch.float16, torch.float32) and torch.sin(x).sum() > 0", "likely"),
        ("x.dtype is not torch.float16 and torch.sin(x).sum() > 0", "likely"),
    ],
)
def test_how_sure_a_finding_is(test: str, confidence: str | None) -> None:
    found = {finding.confidence for finding in check(CONFIDENCE.format(test=test)) if finding.rule == "CL101"}
    assert found == ({confidence} if confidence else set())


SKIPS = {
    "x = {probe}": "graph-break",
    "if y: {probe}": "graph-break",
    "for i in y: {probe}": "frame-skip",
    "for i in {probe}: pass": "graph-break",
    "while {probe}: pass": "frame-skip",
    "for i in y: pass\n    else: {probe}": "graph-break",
    "try: {probe}\n    finally: pass": "frame-skip",
    "try: pass\n    except E: {probe}": "graph-break",
    "try: pass\n    finally: {probe}": "graph-break",
    "with y: {probe}": "frame-skip",
    "with {probe}: pass": "graph-break",
    "with torch.no_grad(): {probe}": "graph-break",
    "with torch.no_grad(), y: {probe}": "frame-skip",
    "with torch.autocast('cuda'):\n        if y: {probe}": "graph-break",
    "for i in y:\n        with torch.no_grad(): {probe}": "frame-skip",
    "[{probe} for i in y]": "graph-break",
}


@pytest.mark.parametrize("body", SKIPS)
def test_breaks_in_loops_and_blocks_skip_the_frame(body: str) -> None:
    seen = reached(f"@torch.compile\ndef f(x, y):\n    {body.format(probe='probe(x)')}")
    assert [finding.hazard for finding in seen.findings] == [SKIPS[body]]


PLACES = {
    "one line": ("y = probe(x)", (1, 9, 1, 17), (1, 1)),
    "over lines": ("y = [\n        1,\n        probe(\n            x\n        ),\n    ]", (3, 9, 5, 10), (1, 6)),
    "non-ASCII before": ("größe = '😀', probe(x)", (1, 18, 1, 26), (1, 1)),
    "non-ASCII inside": ("y = probe('größe 😀')", (1, 9, 1, 25), (1, 1)),
    "a header": ("if (\n        probe(x)\n        and x\n    ):\n        y = 1\n        y = 2", (2, 9, 2, 17), (1, 4)),
    "one-line body": ("if probe(x): y = 1", (1, 8, 1, 16), (1, 1)),
    "a tab": ("if x:\n    \ty = probe(x)", (2, 10, 2, 18), (2, 2)),
    "a string over lines": ("y = f'''\n    {probe(x)}\n    '''", None, (1, 3)),
    "after a semicolon": ("y = 1; probe(x)", (1, 12, 1, 20), (1, 1)),
}


@pytest.mark.parametrize("name", PLACES)
def test_places(name: str) -> None:
    """Lines count from the body's first one; columns are 1-based code points, their end exclusive."""
    body, place, statement = PLACES[name]
    first = HEAD.count("\n") + 3
    (finding,) = reached(f"@torch.compile\ndef f(x):\n    {body}").findings
    span = finding.span
    if place is not None:
        assert (span.line - first + 1, span.column, span.end_line - first + 1, span.end_column) == place
    assert (finding.statement[0] - first + 1, finding.statement[1] - first + 1) == statement


def test_fingerprints_stay_when_lines_move_and_differ_for_equal_lines() -> None:
    text = "@torch.compile\ndef f(x):\n    y = probe(x)\n    y = probe(x)\n    if x.shape:\n        z = probe(y)\n"
    before = [finding.fingerprint for finding in reached(text).findings]
    moved = text.replace("def f(x):\n", "def f(x):\n\n    # a comment\n").replace(
        "    z = probe(y)", "     z  =  probe(y)"
    )
    after = [finding.fingerprint for finding in reached("import os\n\n" + moved).findings]
    assert len(set(before)) == 3
    assert after == before
    renamed = [finding.fingerprint for finding in reached(text.replace("def f", "def g")).findings]
    assert not set(renamed) & set(before)


def test_a_function_reached_in_two_ways_is_reported_once_and_as_sure_as_the_surer_way() -> None:
    seen = reached(
        "def f(x): probe(x)\nclass M(nn.Module):\n    def forward(self, x):\n        f(x)\n        f(torch.ones(2))\n"
        "g = torch.compile(f)"
    )
    assert len(seen.sightings) > 1
    (finding,) = seen.findings
    assert finding.confidence == "certain"


@pytest.mark.parametrize(
    ("method", "kind"),
    [("set_timesteps", "a Python int passed in or a scalar tensor"), ("reset", "a Python int passed in")],
)
def test_a_loop_over_a_schedule_passes_the_items_of_a_tensor(method: str, kind: str) -> None:
    scheduler = (
        f"import torch\nclass Scheduler:\n    def {method}(self, n):\n        self.n = n\n"
        "    def step(self, output: torch.Tensor, timestep: int):\n"
        "        if isinstance(timestep, torch.LongTensor):\n            raise ValueError\n"
        "        probe(timestep)\n        return output\n"
    )
    seen = probe({"pkg/__init__.py": "", "pkg/scheduling.py": scheduler})
    assert seen.kinds() == {kind}


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("serve.py", {"CL911", "CL912"}),
        ("latest/serve.py", {"CL911", "CL912"}),
        ("bench_attention.py", set()),
        ("benchmarks/attention.py", set()),
        ("tests/helpers.py", set()),
        ("test_attention.py", set()),
    ],
)
def test_benchmarks_and_tests_may_compile_often(file: str, found: set[str]) -> None:
    text = (
        "import torch\ntorch._dynamo.config.recompile_limit = 1000\n"
        "torch._inductor.config.force_disable_caches = True\nf = torch.compile(abs)\n"
    )
    assert {finding.rule for finding in check({file: text})} & {"CL911", "CL912"} == found


@pytest.mark.parametrize(("decorator", "seen"), [("", ["CL401"]), ("@torch.compiler.disable\n    ", [])])
def test_a_hook_that_is_not_compiled_is_no_region(decorator: str, seen: list[str]) -> None:
    found = check(
        "import torch\nfrom torch import nn\n\nclass Watch:\n"
        f"    {decorator}def observe(self, module, args):\n        print(args)\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(2, 2)\n        self.fc.register_forward_pre_hook(Watch().observe)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n"
    )
    assert [finding.rule for finding in found if finding.rule == "CL401"] == seen


def test_a_size_that_one_of_two_callers_hands_over_is_likely_read_back() -> None:
    found = check(
        "import torch\n\ndef mask(n: torch.Tensor, longest=None):\n"
        "    if longest is None:\n        longest = n.max()\n    return torch.arange(longest) < n[:, None]\n\n"
        "class Net(torch.nn.Module):\n    def forward(self, x: torch.Tensor, n: torch.Tensor, cut=None):\n"
        "        if cut is not None:\n            return x * mask(n)\n        return x * mask(n, x.size(1))\n"
    )
    assert [finding.confidence for finding in found if finding.rule == "CL208"] == ["likely"]
