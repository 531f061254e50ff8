"""What methods, attributes and modules of the project's own classes give; each row is run as well (see `models`)."""

from __future__ import annotations

import pytest
from models import kinds_of, rows_of
from projects import check, probe

from compilelint.static.describe import describe

OBJECTS = r"""
import weakref
class Owner:
    def __init__(self, t):
        self.t = t
class Part:
    def __init__(self, owner):
        self.owner = weakref.ref(owner)
---
owner = Owner(x > 0)
part = Part(owner)
probe(part.owner().t)  # a tensor of bool

class Scaled:
    @property
    def scale(self):
        return self._scale * 2
    @scale.setter
    def scale(self, value):
        self._scale = float(value)
---
scaled = Scaled()
scaled.scale = x.sum()
probe(scaled.scale)  # a Python float read back from a tensor

class Shifted(torch.distributions.Normal):
    pass
---
drawn = torch.distributions.Poisson(2.0).sample((4,)).long()
normal = torch.distributions.Normal(x, x.exp())
known = torch.distributions.Independent(normal, 1).log_prob(x)
probe((drawn, known, Shifted(x, x.exp()).cdf(x)))  # a tuple of (a tensor of int, a tensor, a tensor of float)

class Layer(nn.Module):
    def forward(self, t):
        return t > 0
---
probe(Layer()(x))  # a tensor of bool

class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sigmoid()
        self.width = 3
---
probe([gate for _, gate in Gates().named_children()])  # a list of a `torch.nn.Sigmoid` or unknown

class Layer(nn.Module):
    def __init__(self, count):
        super().__init__()
        for i in range(count):
            self.register_buffer(f"mask_{i}", torch.ones(3) > 0)
            setattr(self, "step_%d" % i, torch.tensor(i))
            self.add_module("gate" + str(i), nn.Linear(3, 3))
---
layer = Layer(count)
seen = (getattr(layer, f"mask_{count - 1}"), layer.mask_0, getattr(layer, "step_{}".format(0)), layer.gate0)
probe(seen)  # a tuple of (a tensor of bool, a tensor of bool, a scalar tensor of int on the CPU, a `torch.nn.Linear`)

def documented(function):
    if len(function.__qualname__.split(".")) > 1:
        return lambda self, t: (function(self, t), 2)
    return function
class Layer(nn.Module):
    @documented
    def forward(self, t):
        return t > 0
---
probe((Layer()(x), Layer.__qualname__.split(".")))  # a tuple of (a tuple of a tensor of bool or 2, a list of 'Layer')

class Layer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
    def forward(self, t):
        return getattr(self, f"{self.kind}_reduction")(t)
    def mean_reduction(self, t):
        return t.mean() > 0
    def sum_reduction(self, t):
        return t.sum() > 0
---
probe(Layer("mean" if count else "sum")(x))  # a scalar tensor of bool

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.at = None
    def forward(self, t):
        flat = t.reshape(-1)
        largest, self.at = flat.max(dim=0)
        return largest
---
probe(Layer().at)  # None or a scalar tensor of int

@dataclasses.dataclass
class Span:
    low: torch.Tensor
    high: torch.Tensor
    def __post_init__(self):
        self.wide = (self.high > self.low).any()
---
probe(Span(x, x + 1).wide)  # a scalar tensor of bool

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a1, self.b1 = 1, "x"
---
probe(getattr(Layer(), "ab"[count % 2] + "1"))  # unknown

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(3, 3)])
    def forward(self, t, keep=None):
        for layer in self.inner:
            t = layer(t)
        if keep is not None:
            t = t + keep
        return t, keep
---
probe(Layer()(x, keep=x))  # a tuple of (a tensor of float, a tensor of float)

class Layer(nn.Module):
    def forward(self, t):
        return self.choose(t)
    def choose(self, t):
        return t.argmax(-1)
class Sub(Layer):
    def choose(self, t):
        return super().choose(t) > 0
---
probe(Sub()(x))  # a tensor of bool

class Layer(nn.Module):
    def forward(self, t):
        return t > 0
class Sub(Layer):
    def forward(self, t):
        out = super().forward(t)
        probe(out)  # a tensor of bool || a tensor of bool (by annotation or use)
        return out
---
Sub()(x)

class Scale:
    def __call__(self, t):
        return t > 0
---
probe(Scale()(x))  # a tensor of bool

class Boxes:
    def __init__(self, t):
        self.t = t
    def __getitem__(self, i):
        return self.t[i]
    def __add__(self, other):
        return self.t + other
    def __rsub__(self, other):
        return other > self.t
    def __lt__(self, other):
        return self.t < other
    def __neg__(self):
        return "negative"
    def __imul__(self, other):
        return Boxes(self.t > other)
---
boxes = Boxes(x)
probe((boxes[0], boxes + 1, x - boxes))  # a tuple of (a tensor of float, a tensor of float, a tensor of bool)

class Boxes:
    def __init__(self, t):
        self.t = t
    def __lt__(self, other):
        return self.t < other
    def __neg__(self):
        return -self.t.argmax(0)
    def __imul__(self, other):
        self.t = self.t > other
        return self
---
boxes = Boxes(x)
less, more, negative = boxes < 3, 3 > boxes, -boxes
boxes *= 2
probe((less, more, negative))  # a tuple of (a tensor of bool, a tensor of bool, a tensor of int)

class Cache(nn.Module):
    def forward(self, t):
        return t > 0
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None
    def forward(self, t):
        if self.cache is not None:
            probe(self.cache(t))  # a tensor of bool || a tensor of bool (by annotation or use)
def set_up(model):
    for layer in model.layers:
        layer.cache, layer.size = Cache(), 3
---
Attention()(x)

class Bag:
    def __contains__(self, item):
        probe(item)  # a tensor of int
        return True
---
index in Bag()

class Bag:
    def __init__(self, items):
        self.items = items
    def __contains__(self, item):
        return (self.items == item).any()
---
probe((3 in Bag(index), 3 not in Bag(index)))  # a tuple of (a Python bool, a Python bool)

class Bag:
    def __bool__(self):
        probe(self)  # a `Bag` (model:28)
        return True
---
if not Bag():
    pass

class Bag:
    def __setitem__(self, index, value):
        probe((index, value))  # a tuple of (0, a tensor of int)
---
Bag()[0] = index

class Scale:
    @property
    def size(self):
        return 3
    @functools.cached_property
    def weight(self):
        return torch.ones(2, dtype=torch.bool)
---
probe((Scale().size, Scale().weight))  # a tuple of (3, a tensor of bool)

class Scale:
    @staticmethod
    def half(t):
        return t > 0
    @classmethod
    def make(cls, t):
        return cls().half(t)
---
probe(Scale.make(x))  # a tensor of bool

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t > 0
    @staticmethod
    def backward(ctx, grad):
        return grad
---
probe(Square.apply(x))  # a tensor of bool

class Square(torch.autograd.Function):
    @staticmethod
    def forward(t):
        return t > 0
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, grad):
        return grad
---
probe(Square.apply(x))  # a tensor of bool

@dataclass
class Output:
    logits: Tensor
    loss: Optional[Tensor] = None
---
probe(Output(mask).logits)  # a tensor of bool

@dataclass
class Output:
    logits: Tensor
    loss: Optional[Tensor] = None
---
probe(Output(mask).loss)  # a tensor (by annotation or use) or None

@dataclass
class Output:
    logits: Tensor
    count: int = 0
@dataclass
class Longer(Output):
    extra: Optional[Tensor] = None
---
probe(Longer(x, 2, mask).extra)  # a tensor of bool

@dataclass
class Output:
    masks: List[Tensor] = dataclasses.field(default_factory=list)
---
probe(Output().masks)  # a list of a tensor (by annotation or use)

class Pair(NamedTuple):
    values: Tensor
    mask: Tensor
---
probe(Pair(x, mask).mask)  # a tensor of bool

class Pair(NamedTuple):
    values: Tensor
    mask: Tensor
---
a, b = Pair(x, mask)
probe(b)  # unknown

class ModelOutput(OrderedDict):
    pass
@dataclass
class Output(ModelOutput):
    logits: Optional[Tensor] = None
    def __post_init__(self):
        super().__init__(logits=self.logits)
---
probe(Output(logits=mask)["logits"])  # a tensor of bool

Pair = collections.namedtuple("Pair", "values mask")
---
probe(Pair(x, mask).mask)  # unknown

class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"
---
probe(Mode.FAST == Mode.SLOW)  # a Python bool

class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"
---
probe(Mode.FAST)  # a Python object

class Part(enum.Flag):
    BIAS = enum.auto()
    SCALE = enum.auto()
---
probe(Part.BIAS)  # a Python object

class Scope:
    def __enter__(self):
        return torch.ones(2, dtype=torch.bool)
    def __exit__(self, *details):
        return None
---
with Scope() as inside:
    probe(inside)  # a tensor of bool

class Fast(nn.Module):
    def forward(self, t):
        return t > 0
class Slow(nn.Module):
    def forward(self, t):
        return t.argmax(-1)
LAYERS = {"fast": Fast, "slow": Slow}
---
probe(LAYERS["fast"]()(x))  # a tensor of bool

class Fast(nn.Module):
    def forward(self, t):
        return t > 0
class Slow(nn.Module):
    def forward(self, t):
        return t.argmax(-1)
LAYERS = {"fast": Fast, "slow": Slow}
---
probe(LAYERS["fast" if flag else "slow"]()(x))  # a tensor or unknown

class Fast(nn.Module):
    def forward(self, t):
        return t > 0
def pick(name):
    if name == "fast":
        return Fast
    return nn.Identity
---
probe(pick("fast")()(x))  # a tensor of bool

class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None
    def reset(self):
        self.cache = torch.zeros(2, dtype=torch.bool)
    def forward(self, t):
        probe(self.cache)  # None or a tensor of bool
        return t
---
cached = Cached()
cached(x)
cached.reset()
cached(x)

class Late(nn.Module):
    def forward(self, t):
        probe(self.cache)  # a tensor of bool
        return t
    def reset(self, size: int):
        self.cache = torch.zeros(size, dtype=torch.bool)
---
late = Late()
late.reset(2)
late(x)

class Held(nn.Module):
    cache: Optional[Tensor]
    factor: int = 2
    def __init__(self):
        super().__init__()
        self.register_buffer("flags", torch.zeros(2, dtype=torch.bool), persistent=False)
        self.register_parameter("gain", None)
    def forward(self, t):
        probe((self.flags, self.gain, self.factor))  # a tuple of (a tensor of bool, None, a Python int passed in)
        return t
---
Held()(x)

class Base(nn.Module):
    def forward(self, t):
        return self.head(t)
class Leaf(Base):
    def __init__(self):
        super().__init__()
        self.head = lambda t: t > 0
---
probe(Leaf()(x))  # a tensor of bool

class Mixin:
    def scores(self, t):
        return self.project(t) > 0
class Leaf(Mixin, nn.Module):
    def project(self, t):
        return t * 2
    def forward(self, t):
        return self.scores(t)
---
probe(Leaf()(x))  # a tensor of bool

class Cache:
    def __init__(self):
        self.keys = []
    def update(self, key):
        self.keys.append(key)
        return torch.cat(self.keys)
---
probe(Cache().update(x))  # a tensor of float

class Cache:
    def __init__(self):
        self.keys = []
    def update(self, key):
        self.keys.append(key)
        return self.keys[-1]
---
probe(Cache().update(mask))  # a tensor of bool

class Box:
    def __init__(self, item):
        self.item = item
    def __getitem__(self, key):
        return self.item
    def __len__(self):
        return 2
    def __iter__(self):
        yield self.item
---
probe((Box(mask)[0], len(Box(x))))  # a tuple of (a tensor of bool, 2)

class Rows:
    def __iter__(self):
        yield torch.ones(2, dtype=torch.bool)
---
probe([i for i in Rows()])  # a list of a tensor of bool

class Rows:
    def __init__(self, t):
        self.t, self.left = t, 2
    def __iter__(self):
        return self
    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.t, 2
---
for part, count in Rows(mask):
    probe((part, count))  # a tuple of (a tensor of bool, 2)

class Rows:
    def __iter__(self):
        return Steps(3)
class Steps:
    def __init__(self, left):
        self.left = left
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return torch.ones(2) > 0
---
probe([row for row in Rows()])  # a list of a tensor of bool

class Layer(nn.Module):
    def forward(self, t):
        return t > 0
class Sub(Layer):
    def forward(self, t):
        return super(Sub, self).forward(t)
---
probe(Sub()(x))  # a tensor of bool

class Block(nn.Module):
    def forward(self, t):
        return t > 0
---
probe(nn.Sequential(OrderedDict([("a", nn.Linear(3, 3)), ("b", Block())]))(x))  # a tensor of bool

class Block(nn.Module):
    def forward(self, t):
        return t > 0
---
blocks = [Block() for _ in range(count)]
probe(nn.Sequential(*blocks)(x))  # a tensor of bool

class Block(nn.Module):
    def forward(self, t):
        return t > 0
---
blocks = []
for _ in range(count):
    blocks.append(Block())
for block in nn.ModuleList(blocks):
    probe(block(x))  # a tensor of bool

class Block(nn.Module):
    def forward(self, t):
        return t > 0
---
probe(nn.ModuleDict({"only": Block()})["only"])  # a `Block` (model:28) or unknown
"""


@pytest.mark.parametrize(("row", "kind"), rows_of(OBJECTS))
def test_object(row: str, kind: str) -> None:
    assert kinds_of(row) == kind


def test_a_number_read_back_while_an_object_is_built_is_a_plain_one() -> None:
    seen = probe("""
        import torch
        from torch import nn
        class Sized(nn.Module):
            def __init__(self, shape):
                super().__init__()
                self.size = int(torch.ones(shape).sum())
            def forward(self, x):
                probe(self.size)
                return x.view(-1, self.size)
        """)
    assert seen.kinds() == {"a Python int"}


def test_what_a_property_makes_is_not_from_outside() -> None:
    text = """
        from torch import nn
        class M(nn.Module):
            def __init__(self):
                self.rates = iter([0.1, 0.2])
            @property
            def halves(self):
                return map(lambda rate: rate / 2, (0.1, 0.2))
            def forward(self, x):
                for half in self.halves:
                    x = x * half
                return x * next(self.rates)
        """
    assert [(finding.rule, finding.span.line) for finding in check(text)] == [("CL515", 12)]


PLACES = """
import torch
from torch import nn
class M(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.kept = {places}
    def keep(self, i, x):
        self.kept[i] = x.sum()
    def forward(self, x, i: int):
        return probe(self.kept[{index}])
"""


@pytest.mark.parametrize(
    ("places", "index"),
    [
        ("[None] * layers", "i"),
        ("[None for _ in range(layers)]", "i"),
        ("[None, None]", "1"),
        ("{'k': None, 'v': None}", "'k'"),
        ("dict.fromkeys(range(layers))", "i"),
    ],
)
def test_what_is_put_in_the_place_of_none_is_there_later(places: str, index: str) -> None:
    (seen,) = probe(PLACES.format(places=places, index=index)).sightings
    assert describe(seen.value) != "None"


def test_none_that_nothing_takes_the_place_of_stays() -> None:
    text = PLACES.format(places="[None] * layers", index="i").replace("self.kept[i] = ", "self.other[i] = ")
    (seen,) = probe(text).sightings
    assert describe(seen.value) == "None"


GIVEN = """
import torch
from torch import nn
class Node:
    def __init__(self, content): self.content = content
    def __getattr__(self, key): return self.content > 0
class Other: pass
class Net(nn.Module):
    def __init__(self, node, size=4):
        super().__init__()
        self.node, self.size = node, size
    def forward(self, x):
        return probe({of})
def build(given):
    node = Node(torch.ones(4))
    {made}
"""


@pytest.mark.parametrize(
    ("made", "of", "kind"),
    [
        ("return Net(node)", "self.node", "a `Node` (model:4)"),
        ("return Net(node=Node(torch.ones(3)), size=7)", "self.node", "a `Node` (model:4)"),
        ("return Net(node)", "self.node.gain", "a tensor of bool"),
        ("return [Net(node), Net(Other())]", "self.node", "a `Node` (model:4) or a `Other` (model:7)"),
        ("return [Net(node), Net(given)]", "self.node", "unknown"),
        ("return Net(given)", "self.node", "unknown"),
        ("return Net(*given)", "self.node", "unknown"),
        ("return Net(node, 7)", "self.size", "a Python int"),
    ],
)
def test_an_object_that_the_file_passes_to_a_constructor(made: str, of: str, kind: str) -> None:
    (seen,) = probe(GIVEN.format(made=made, of=of)).sightings
    assert describe(seen.value).startswith(kind)


def test_a_parameter_that_is_combined_with_a_flag_is_no_tensor():
    assert (
        check(
            """\
import enum
import torch

class Part(enum.Flag):
    BIAS = enum.auto()
    SCALE = enum.auto()

@torch.compile
def finish(x, parts):
    if parts & Part.SCALE:
        x = x * 2
    return x
"""
        )
        == ()
    )


def test_a_parameter_that_is_compared_with_an_object_of_a_library_is_no_tensor():
    assert (
        check(
            """\
from fractions import Fraction
import torch

@torch.compile
def resampled(x, rate):
    if rate > Fraction(1, 2):
        x = x * 2
    return x
"""
        )
        == ()
    )


@pytest.mark.parametrize("declared", ["dict", "tuple", "list", "Dict[str, int]"])
@pytest.mark.parametrize("flag", ["args.plain", "args['on'].plain"])
def test_an_attribute_that_no_collection_has_may_be_anything(declared: str, flag: str) -> None:
    """`args: dict` often is a namespace; a method of a dict, which its attributes are not, would always be true."""
    text = f"""
        from typing import Dict
        from torch import nn
        class Net(nn.Module):
            def __init__(self, args: {declared}):
                super().__init__()
                self.args = args
            def forward(self, x, args: {declared}):
                if {flag} and self.{flag}:
                    return x * 2
                print(x.shape)
                return x
        """
    assert [finding.rule for finding in check(text)] == ["CL401"]


@pytest.mark.parametrize("base", ["OrderedDict", "dict"])
def test_an_entry_of_a_subclass_of_dict_may_be_anything(base: str) -> None:
    text = f"""
        import numpy as np
        from collections import OrderedDict
        from torch import nn
        class Batch({base}):
            pass
        class Net(nn.Module):
            def forward(self, x, batch: Batch):
                if batch["plain"]:
                    return x * 2
                return x.reshape(-1, np.prod(batch["shape"]))
        """
    assert [finding.rule for finding in check(text)] == ["CL208"]


@pytest.mark.parametrize(
    ("starts", "asks", "changes"),
    [
        ("0", "self.kept > 1", "self.kept += 1"),
        ("8.0", "self.kept < 1", "self.kept -= 0.5"),
        ("[]", "self.kept", "self.kept.append(x)"),
        ("[]", "len(self.kept) == 2", "self.kept.append(x)"),
        ("[]", "not not self.kept", "pass"),  # some other method may fill it
    ],
)
def test_what_a_later_call_finds_changed_decides_nothing(starts: str, asks: str, changes: str) -> None:
    text = f"""
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {starts}
            def forward(self, x):
                if {asks}:
                    print(x.shape)
                {changes}
                return x * 2
        """
    assert [finding.span.line for finding in check(text) if finding.rule == "CL401"] == [9]


def test_a_number_that_the_method_only_reads_decides() -> None:
    text = """
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.groups = 1
            def forward(self, x):
                rows = []
                if self.groups > 1 or rows or len(rows) > 1:
                    print(x.shape)
                return x * 2
        """
    assert check(text) == ()
