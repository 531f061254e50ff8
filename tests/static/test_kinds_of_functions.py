"""What functions of the project return and take; each row is run as well (see `models`)."""

from __future__ import annotations

import pytest
from models import kinds_of, rows_of
from projects import check, probe

from compilelint.static.describe import describe

FUNCTIONS = """
def exists(value):
    return value is not None
---
if exists(maybe):
    probe(maybe)  # a tensor (by annotation or use)

def missing(value):
    return not (value is not None)
---
if missing(maybe):
    probe(maybe)  # None

def default(value, fallback):
    return value if value is not None else fallback
---
probe((default(None, 3), default(mask, None)))  # a tuple of (a Python int, a tensor of bool)

def twice(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) > 0
    return inner
@twice
def total(t):
    return t.sum()
---
probe(total(x))  # a scalar tensor of bool

def corner(boxes):
    return boxes[:, 0]
---
probe(corner(vars(self).get("none", x)))  # a tensor (by annotation or use)

def entry(table):
    return table[0, 1]
---
probe(entry(vars(self).get("none", x)))  # unknown

def last(rows):
    return rows[len(rows) - 1 :, 0]
---
probe(last(vars(self).get("none", x)))  # unknown

def scaled(factor):
    def wrap(function):
        def inner(t):
            return function(t), factor
        return inner
    return wrap
@scaled(2)
def total(t):
    return t.sum()
---
probe(total(x))  # a tuple of (a scalar tensor, a Python int)

def documented(function):
    if len(function.__qualname__.split(".")) > 1:
        return lambda t: (function(t), 2)
    return function
@documented
def total(t):
    return t.sum()
---
probe(total(x))  # a scalar tensor

@functools.lru_cache(maxsize=None)
def table(size):
    return torch.arange(size)
---
probe(table(3))  # a tensor of int

@torch.no_grad()
def quiet(t):
    return t > 0
---
probe(quiet(x))  # a tensor of bool

@torch.jit.script_if_tracing
def quiet(t):
    return t > 0
---
probe(quiet(mask.float()))  # a tensor of bool

@contextlib.contextmanager
def scope(t):
    yield t > 0
---
with scope(x) as inside:
    probe(inside)  # a tensor of bool

def make():
    class Local:
        def get(self, t):
            return t > 0
    return Local
---
probe(make()().get(x))  # a tensor of bool

def annotated(t: "Tensor", n: "int", flags: "Optional[List[Tensor]]" = None):
    probe(n)  # a Python int
---
annotated(x, 3)

OptTensor = Optional[Tensor]
def outer(t: OptTensor): return t
---
probe(outer(mask))  # a tensor of bool

def least(values):
    return eval("values").min()
---
probe(least(x))  # a tensor (by annotation or use)

def settled(values):
    return eval("values > -9").flatten().all()
---
probe(settled(x))  # a scalar tensor of bool (by annotation or use)

def root(values):
    return eval("torch").sqrt(values)
---
probe(root(x))  # unknown

def highest(values):
    return eval("torch").max(values)
---
probe(highest(x))  # unknown

def first(values):
    return eval("[values]").copy()
---
probe(first(x))  # unknown

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
---
probe(fib(4))  # a Python int or unknown

def walk(t, depth):
    if depth == 0:
        return t > 0
    return walk(t, depth - 1)
---
probe(walk(x, 3))  # a tensor of bool or unknown

def even(n):
    return True if n == 0 else odd(n - 1)
def odd(n):
    return False if n == 0 else even(n - 1)
---
probe(even(4))  # a Python bool or unknown

FLAG = False
SIZES = [1, 2]
EPS = 1e-6
BIAS = torch.zeros(3)
---
probe((FLAG, SIZES[0], EPS, BIAS))  # a tuple of (False, 1, 1e-06, a tensor of float)

def two(t):
    return t, t > 0
def forwarded(*args, **kwargs):
    return two(*args, **kwargs)
---
values, flags = forwarded(x)
probe(flags)  # a tensor of bool

def gather(**tensors):
    return {name: t > 0 for name, t in tensors.items()}
---
probe(gather(a=x)["a"])  # unknown

def deep(t):
    if t.dim() == 1:
        return t.sum()
    elif t.dim() == 2:
        return t.sum(-1)
    else:
        raise ValueError
---
probe(deep(x))  # a tensor

def nothing(t):
    pass
---
probe(nothing(x))  # None

def typed(t) -> Tensor:
    return json_like(t)
def json_like(t):
    return torch.hub.load(t) if t is None else t.new_tensor(1.0)
---
probe(typed(x))  # a tensor

def inner(t):
    return t > 0
probe(inner(x))  # a tensor of bool

def inner():
    return mask
probe(inner())  # a tensor of bool

def scaled(t, by):
    probe(by)  # a tensor of bool
    return t
functools.partial(scaled, by=mask)(x)

probe(torch.vmap(lambda t: t > 0)(x))  # a tensor of bool

def numbers():
    yield mask
for m in numbers():
    probe(m)  # a tensor of bool

def numbers():
    yield from [mask]
probe(next(numbers()))  # a tensor of bool

y = lambda t=mask: t
probe(y())  # a tensor of bool

kinds = {"relu": F.relu, "bool": lambda t: t > 0}
probe(kinds["bool"](x))  # a tensor of bool

kinds = {"relu": F.relu, "bool": lambda t: t > 0}
probe(kinds["relu" if flag else "bool"](x))  # a tensor or unknown

def varied(*tensors, **options):
    probe(tensors)  # a tuple of (a tensor of float, a tensor of bool)
varied(x, mask)

def varied(*tensors, **options):
    probe(options["mask"])  # a tensor of bool
varied(x, mask=mask)

def varied(a, /, b, *, c=None):
    probe(c)  # a tensor of bool
varied(x, 1, c=mask)

arguments = (x, mask)
def pair(a, b):
    probe(b)  # a tensor of bool
pair(*arguments)

arguments = {"b": mask}
def pair(a, b=None):
    probe(b)  # a tensor of bool
pair(x, **arguments)

def moved(given):
    made = {}
    for key, value in given.items():
        made[key] = value.to("cpu") if isinstance(value, torch.Tensor) else value
    return made
def cut(t, size: int):
    probe(size)  # a Python int passed in
cut(**moved({"t": x, "size": x.shape[0]}))

def contiguous(given):
    made = []
    for value in given:
        made.append(value.contiguous() if isinstance(value, torch.Tensor) else value)
    return made
def cut(t, size):
    t[:size]
    probe(size)  # unknown or a Python int from a shape
cut(*contiguous([x, x.shape[0]]))
"""


@pytest.mark.parametrize(("row", "kind"), rows_of(FUNCTIONS))
def test_function(row: str, kind: str) -> None:
    assert kinds_of(row) == kind


HEAD = """
import enum
import functools
import torch
import typing as t
from typing import (
    Annotated, Dict, Final, Iterable, List, Literal, NewType, Optional, Sequence, Tuple, TypeAlias, TypeVar, Union
)
from typing import Union as Either
from jaxtyping import Bool, Float, Int64
from torch import Tensor as T
from torchtyping import TensorType
import numpy as np
from torch import BoolTensor, LongTensor, Tensor, nn
from torch.utils.checkpoint import checkpoint

class Cache:
    pass

class Backend(str, enum.Enum):
    FAST = "fast"

class Wrapped(torch.Tensor):
    pass

MaybeTensor = Optional[Tensor]
Pair = Tuple[Tensor, Tensor]
Ids = torch.LongTensor
MaybeIds = Optional[Ids]
Mask: TypeAlias = BoolTensor
Logits = NewType("Logits", Tensor)
Arrays = TypeVar("Arrays", Tensor, np.ndarray)
Bound = TypeVar("Bound", bound=Tensor)
Anything = TypeVar("Anything")
Made = torch.zeros(3)

class Points(TensorType["batch", 3]):
    pass

"""


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("Tensor", "a tensor (by annotation or use)"),
        ("torch.Tensor", "a tensor (by annotation or use)"),
        ("'Tensor'", "a tensor (by annotation or use)"),
        ("'torch.Tensor | None'", "a tensor (by annotation or use) or None"),
        ("BoolTensor", "a tensor of bool (by annotation or use)"),
        ("LongTensor", "a tensor of int (by annotation or use)"),
        ("nn.Parameter", "a tensor of float (by annotation or use)"),
        ("Optional[Tensor]", "a tensor (by annotation or use) or None"),
        ("t.Optional[Tensor]", "a tensor (by annotation or use) or None"),
        ("Union[Tensor, int]", "a tensor (by annotation or use) or a Python int passed in"),
        ("Either[Tensor, int]", "a tensor (by annotation or use) or a Python int passed in"),
        ("Tensor | list[Tensor]", "a tensor (by annotation or use) or a list of a tensor (by annotation or use)"),
        ("MaybeTensor", "a tensor (by annotation or use) or None"),
        ("Pair", "a tuple of (a tensor (by annotation or use), a tensor (by annotation or use))"),
        ('Float[Tensor, "b n"]', "a tensor of float (by annotation or use)"),
        ('Bool[Tensor, "b n"]', "a tensor of bool (by annotation or use)"),
        ('Int64[Tensor, "b n"]', "a tensor of int (by annotation or use)"),
        ('Float[np.ndarray, "b n"]', "a numpy array of float"),
        ('Annotated[Tensor, "b n"]', "a tensor (by annotation or use)"),
        ("Final[int]", "a Python int passed in"),
        ("Literal['mean', 'sum']", "a Python str"),
        ("Literal['mean']", "'mean'"),
        ("List[Tensor]", "a list of a tensor (by annotation or use)"),
        ("Sequence[int]", "a list of a Python int passed in"),
        ("Iterable[Tensor]", "a list of a tensor (by annotation or use)"),
        ("tuple[Tensor, int]", "a tuple of (a tensor (by annotation or use), a Python int passed in)"),
        ("Tuple[int, ...]", "a tuple of a Python int passed in"),
        ("Dict[str, Tensor]", "a dict of a tensor (by annotation or use)"),
        ("dict", "a dict of unknown"),
        ("torch.Size", "a size of a Python int from a shape"),
        ("np.ndarray", "a numpy array"),
        ("bool", "a Python bool passed in"),
        ("str", "a Python str passed in"),
        ("float | None", "a Python float passed in or None"),
        ("None", "None"),
        ("nn.Module", "a `torch.nn.Module`"),
        ("torch.dtype", "a Python object"),
        ("Union[torch.device, str, None]", "a Python object or None"),
        ("T", "a tensor (by annotation or use)"),
        ("Ids", "a tensor of int (by annotation or use)"),
        ("MaybeIds", "a tensor of int (by annotation or use) or None"),
        ("Mask", "a tensor of bool (by annotation or use)"),
        ("Logits", "a tensor (by annotation or use)"),
        ("Arrays", "a tensor (by annotation or use) or a numpy array"),
        ("Bound", "a tensor (by annotation or use)"),
        ("Anything", "unknown"),
        ("Made", "unknown"),
        ("Points", "a tensor (by annotation or use)"),
        ("Cache", "a `Cache` (model:17)"),
        ("'not an annotation'", "unknown"),
        ("Unheard", "unknown"),
    ],
)
def test_annotation(annotation: str, kind: str) -> None:
    seen = probe(f"{HEAD}@torch.compile\ndef step(given: {annotation}):\n    probe(given)")
    assert seen.kinds() == {kind}


@pytest.mark.parametrize(
    ("signature", "body", "kind"),
    [
        ("given", "probe(given)", "a tensor (by annotation or use)"),
        ("x, given", "probe(given)", "unknown"),
        ("x, given", "x = x + given\n    probe(given)", "a tensor (by annotation or use)"),
        ("x, given", "given.view(-1)\n    probe(given)", "a tensor (by annotation or use)"),
        ("x, given", "y = x @ given\n    probe(given)", "a tensor (by annotation or use)"),
        ("x, given_mask", "x = x * given_mask\n    probe(given_mask)", "a tensor of bool (by annotation or use)"),
        ("x, given", "given.keys()\n    probe(given)", "unknown"),
        ("given", "given.keys()\n    probe(given)", "unknown"),
        ("given", "for i in range(given): pass\n    probe(given)", "unknown"),
        ("given", "if given: pass\n    probe(given)", "unknown"),
        ("given", "given(1)\n    probe(given)", "unknown"),
        ("x, given", "y = x.cos()\n    if x in given: 1\n    probe(given)", "unknown"),
        ("x, given", "y = x.cos()\n    if x is given: 1\n    probe(given)", "unknown"),
        ("given", "y = given == 'mean'\n    probe(given)", "unknown"),
        ("x, given_size", "x = x * given_size\n    probe(given_size)", "unknown"),
        ("x, given", "y = x + given\n    probe(given['shape'])", "unknown"),
        ("x, given", "y = x + given\n    probe([item['flip'] for item in given])", "a list of unknown"),
        ("x, given", "y = x * given\n    if given != 1: pass\n    probe(given)", "unknown"),
        (
            "x, given",
            "y = x * given\n    if given is None: 1\n    probe(given)",
            "a tensor (by annotation or use)",
        ),
        (
            "x, given",
            "x *= given\n    if (given > 0).all(): 1\n    probe(given)",
            "a tensor (by annotation or use)",
        ),
        ("x, H, W", "x = x * H * W\n    probe(W)", "unknown"),
        ("x, W", "x = x * W\n    probe(W)", "a tensor (by annotation or use)"),
        ("local_rank", "y = local_rank + 1\n    probe(local_rank)", "unknown"),
        ("x, num_heads", "x = x * num_heads\n    probe(num_heads)", "unknown"),
        ("x, given=3", "probe(given)", "a Python int passed in"),
        ("x, given=True", "probe(given)", "a Python bool passed in"),
        ("x, given='mean'", "probe(given)", "a Python str passed in"),
        ("x, given=None", "probe(given)", "None or unknown"),
        ("x, given: Tensor = None", "probe(given)", "a tensor (by annotation or use) or None"),
        ("x, given=None", "given.view(-1)\n    probe(given)", "a tensor (by annotation or use) or None"),
        ("x, given: Union[Tensor, tuple] = (1, 2)", "probe(given[0])", "unknown or a Python int"),
        ("x, *, given: Tensor", "probe(given)", "a tensor (by annotation or use)"),
        ("x, given: bool", "y = x * given\n    probe(given)", "a Python bool passed in"),
        ("*given", "probe(given)", "a tuple of unknown"),
        ("x, **given", "probe(given)", "a dict of unknown"),
    ],
)
def test_parameter_that_no_caller_speaks_for(signature: str, body: str, kind: str) -> None:
    seen = probe(f"{HEAD}@torch.compile\ndef step({signature}):\n    {body}")
    assert seen.kinds() == {kind}


def test_a_guess_gives_way_to_what_the_function_it_is_handed_to_does_with_it() -> None:
    helpers = (
        "def crop(x, size):\n    probe(size)\n    return x[:size]\ndef add(x, y):\n    probe(y)\n    return x + y\n"
    )
    step = "@torch.compile\ndef step(x, given, other):\n    return x.to(crop(x, given), given) + add(x, other) + other"
    seen = probe(f"{HEAD}{helpers}{step}")
    kinds = {s.function: describe(s.value) for s in seen.sightings}
    assert kinds == {"crop": "unknown", "add": "a tensor (by annotation or use)"}


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("torch.dtype", "a Python object"),
        ("Union[torch.dtype, str]", "a Python object"),
        ("Optional[torch.device]", "a Python object or None"),
        ("int", "a Python int passed in"),
        ("Literal['mean', 'sum']", "a Python str"),
        ("List[Tensor]", "a list of a tensor (by annotation or use)"),
        ("dict", "a dict of unknown"),
        ("Cache", "a `Cache` (model:17)"),
        ("nn.Module", "a `torch.nn.Module`"),
        ("Backend", "a `Backend` (model:20)"),
        ("Wrapped", "a tensor (by annotation or use)"),
        ("Tensor", "a tensor (by annotation or use)"),
        ("Optional[Tensor]", "a tensor (by annotation or use)"),
        ("np.ndarray", "a tensor (by annotation or use)"),
        ("Unheard", "a tensor (by annotation or use)"),
        ("object", "a tensor (by annotation or use)"),
    ],
)
def test_a_guess_gives_way_to_what_an_annotation_says(annotation: str, kind: str) -> None:
    helper = f"def use(x, setting: {annotation}):\n    probe(setting)\n    return x\n"
    seen = probe(f"{HEAD}{helper}@torch.compile\ndef step(given, other):\n    return use(given + other, other)")
    assert seen.kinds() == {kind}


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ("spaces.Box", {"unknown"}),
        ("(spaces.Box, spaces.Dict)", {"unknown"}),
        ("Cache", {"a tensor (by annotation or use)"}),
        ("list", set()),
        ("np.ndarray", set()),
    ],
)
def test_a_guess_gives_way_where_code_asks_for_a_class_of_a_library(asked: str, kinds: set[str]) -> None:
    step = f"def step(x, given: spaces.Space):\n    if isinstance(given, {asked}):\n        probe(given)\n    return x"
    seen = probe(f"from gymnasium import spaces\n{HEAD}@torch.compile\n{step}.view(given.shape)")
    assert seen.kinds() == kinds


def test_a_tensor_for_certain_is_of_no_class_of_a_library() -> None:
    step = "def step(x):\n    y = torch.ones(2)\n    if isinstance(y, spaces.Box):\n        probe(y)\n    return y"
    assert probe(f"from gymnasium import spaces\n{HEAD}@torch.compile\n{step}").kinds() == set()


def test_the_largest_of_a_tensor_has_no_dimensions() -> None:
    step = "@torch.compile\ndef step(given: Tensor):\n    probe(max(given))\n    return given"
    assert probe(f"{HEAD}{step}").kinds() == {"a scalar tensor (by annotation or use)"}


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        ("for i, n in enumerate(sizes):\n        x = x + i", "a tensor (by annotation or use)"),
        ("x = x * len(sizes)", "a tensor (by annotation or use)"),
        ("for n in range(sizes):\n        x = x + n", "unknown"),
        ("x = x * len(sizes.names_of_all)", "unknown"),
    ],
)
def test_looping_over_what_was_handed_on_speaks_against_no_tensor(use: str, kind: str) -> None:
    helper = f"def each(x, sizes):\n    {use}\n    probe(sizes)\n    return x\n"
    seen = probe(f"{HEAD}{helper}@torch.compile\ndef step(x, given: Tensor):\n    return each(x, given)")
    assert seen.kinds() == {kind}


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("xformers.ops.memory_efficient_attention(x, x, x)", "a tensor"),
        ("xformers.ops.fmha.BlockDiagonalMask.from_seqlens([1, 2])", "unknown"),
        ("torch.nn.functional._Reduction.get_enum('mean')", "unknown"),
        ("torchvision.ops.MultiScaleRoIAlign(['0'], 7, 2)", "a `torchvision.ops.MultiScaleRoIAlign`"),
    ],
)
def test_a_class_among_functions_on_tensors_gives_objects(call: str, kind: str) -> None:
    seen = probe(f"{HEAD}import torchvision, xformers.ops\n@torch.compile\ndef step(x):\n    probe({call})")
    assert seen.kinds() == {kind}


@pytest.mark.parametrize(
    "call",
    [
        "torch.cond(x.sum() > 0, flags, flags, (x,))",
        "checkpoint(flags, x, use_reentrant=False)",
        "checkpoint(functools.partial(flags, scale=2), x)",
        "torch.compiler.allow_in_graph(flags)(x)",
        "torch.vmap(flags)(x)",
        "torch.utils.checkpoint.checkpoint(lambda y: flags(y), x)",
    ],
)
def test_functions_that_are_handed_on(call: str) -> None:
    source = f"{HEAD}def flags(y, scale=1):\n    probe(y)\n    return y > 0\n"
    seen = probe(f"{source}@torch.compile\ndef step(x):\n    probe({call})")
    assert "a tensor (by annotation or use)" in {describe(s.value) for s in seen.sightings if s.function == "flags"}
    assert "a tensor of bool" in {describe(s.value)[:16] for s in seen.sightings if s.function == "step"}


def test_a_function_called_in_too_many_ways_gives_what_it_gave_before() -> None:
    padding = "    pass\n" * 12
    function = f"def pick(t, how):\n{padding}    return eval('t > 3') if how == 'd' else t > 3\n"
    calls = "".join(f"pick(x, {how!r})\n" for how in "abcdefghijkl")
    assert kinds_of(f"{function}---\n{calls}probe(pick(x, 'z'))\n") == "a tensor of bool (by annotation or use)"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("{'a': t > 3, 'how': how}", "unknown"),
        ("{'a': t > 3} if how else {'a': t + 1, 'b': t}", "a tensor (by annotation or use)"),
        ("{'a': t > 3} if how else {'a': 3}", "unknown"),
    ],
)
def test_a_dict_made_in_too_many_ways_says_what_all_of_them_say(value: str, kind: str) -> None:
    function = "def pick(t, how):\n" + "    pass\n" * 12 + f"    return {value}\n"
    calls = "".join(f"pick(x, {how!r})\n" for how in ["", *"abcdefghijkl"])
    assert kinds_of(f"{function}---\n{calls}probe(pick(x, 'z')['a'])\n") == kind


@pytest.mark.parametrize("body", ["self", "self.body"])
def test_what_apply_is_given_meets_a_module(body: str) -> None:
    layers = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    layers += f"        self.body = nn.Sequential(nn.Linear(3, 3))\n        {body}.apply(lambda m: probe('built'))\n"
    visit = "        def visit(layer):\n            if isinstance(layer, nn.Linear):\n                probe(layer)\n"
    seen = probe(f"{HEAD}{layers}    def forward(self, x):\n{visit}        {body}.apply(visit)\n        return x\n")
    assert seen.functions() == {"Model.forward.<locals>.visit"}


CHOICES = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.how = self.__class__.__name__
class L3(Base):
    def forward(self, x):
        how = open('how').read()
        return ({chosen})(x)
"""


@pytest.mark.parametrize(
    ("lines", "chosen", "entered"),
    [
        (12, "LOSSES[how]", ""),  # one of many, each of which would be walked wherever one is called
        (0, "LOSSES[how]", "012345678"),
        (12, "LOSSES['L2']", "2"),
        (12, "LOSSES[self.how]", "3"),
        (12, "_loss_1 if how else _loss_2", "12"),
    ],
)
def test_of_many_functions_none_is_followed(lines: int, chosen: str, entered: str) -> None:
    body = "    pass\n" * lines + "    probe(t)\n"
    losses = "".join(f"def _loss_{n}(t):\n{body}" for n in range(9))
    table = "LOSSES = {" + ", ".join(f"'L{n}': _loss_{n}" for n in range(9)) + "}\n"
    seen = probe(f"{HEAD}{losses}{table}{CHOICES.format(chosen=chosen)}")
    assert seen.functions() == {f"_loss_{n}" for n in entered}


@pytest.mark.parametrize(
    "cast", ["cast(torch.LongTensor, batch['order'])", "torch.jit.annotate(Tensor, batch['order'])"]
)
def test_what_a_value_is_cast_to_is_what_it_is_unless_more_is_known(cast: str) -> None:
    text = f"""
        from typing import cast
        import torch
        from torch import Tensor, nn
        class Net(nn.Module):
            def forward(self, x, batch):
                for taken in {cast}:
                    if taken:
                        x = x * 2
                if cast(int, batch["count"]) or cast(Tensor, self.training):
                    x = x + 1
                return x
        """
    assert [(finding.rule, finding.span.line) for finding in check(text)] == [("CL101", 8)]
