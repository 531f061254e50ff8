"""What a variable holds after assignments, on branches and in loops; each row is run as well (see `models`)."""

from __future__ import annotations

import pytest
from models import kinds_of, rows_of

STATEMENTS = """
for t in [x, given]:
    probe(t)  # a tensor (by annotation or use)

total = 0
for i in range(3):
    total = total + x.sum()
probe(total)  # 0 or a scalar tensor

total = 0.0
while count:
    total += x.mean()
    count -= 1
    probe(total)  # a scalar tensor of float

bound = 2
if flag:
    bound = x.sum()
for i in range(3):
    if not flag:
        probe(bound)  # 2

bound = x.sum() if given is None else 2
if count and given is not None:
    probe(bound)  # 2

if self.training is False:
    bound = 2
else:
    bound = x.sum()
if not self.training:
    probe(bound)  # 2

bound = 2 if flag else x.sum()
flag = not flag
if flag:
    probe(bound)  # 2 or a scalar tensor

bound = x.sum()
if flag:
    bound = 2
bound = mask if count else bound
if flag:
    probe(bound)  # a tensor or 2

for i in range(3):
    odd = i % 2 == 1
    if i:
        probe(bound if odd else 0)  # a scalar tensor or a Python int
    bound = x.sum() if odd else 2

for i, row in enumerate(x):
    probe(row)  # a tensor of float

for a, b in zip([x], [mask]):
    probe(b)  # a tensor of bool

for layer in self.layers:
    x = layer(x)
probe(x)  # a tensor of float

for layer in self.layers:
    probe(layer)  # a `torch.nn.Linear`

for key, head in self.heads.items():
    probe(head)  # a `torch.nn.Linear` or unknown

probe(self.heads["a"](x))  # a tensor of float or unknown

probe(self.layers[1:])  # a `torch.nn.ModuleList`

args = [x, 3]
place = random.randint(0, 1)
args[place] = args[place]
probe(args[1])  # 3

args = [x, 3]
args[random.randint(0, 1)] = "new"
probe(args[0])  # a tensor of float or 'new'

outputs = (x, (1, 2))
if flag:
    outputs += tuple([mask] * count)
probe(outputs[1])  # a tuple of (1, 2)

outputs = (x, 1)
outputs = outputs + tuple([mask] * count)
first, second = outputs[:2]
probe(second)  # 1

outputs = (x, 1)
outputs = outputs + tuple([mask] * count)
probe(outputs[4])  # a tensor or 1

outputs = (x, 1) + tuple([mask] * (count - 2))
first, second, third = outputs
probe(second)  # 1

if maybe is not None and True:
    pass
else:
    probe(maybe)  # None

if not (maybe is None or False):
    probe(maybe)  # a tensor (by annotation or use)

if (n := x.shape[0]) > 1:
    probe(n)  # a Python int from a shape

if (s := x.sum()) is not None:
    probe(s)  # a scalar tensor

a, (b, c) = x, (1, mask)
probe(c)  # a tensor of bool

first, *rest = x, mask, index
probe(rest)  # a list of a tensor

first, *rest, last = x, 1, 2, mask
probe((first, rest, last))  # a tuple of (a tensor of float, a list of a Python int, a tensor of bool)

first, *rest = [x, mask]
probe(first)  # a tensor of float

out = (x, x.shape) if flag else (x, x.shape, mask)
probe(out[1])  # a size of a Python int from a shape

out = (x, 1) if flag else (x, 1, mask)
first, *rest = out
probe(out[-1])  # 1 or a tensor of bool

a = b = mask
probe(b)  # a tensor of bool

match count:
    case 1:
        y = 1
    case _:
        y = x
probe(y)  # 1 or a tensor of float

match (x, mask):
    case (a, b):
        probe(b)  # a tensor of bool

match name:
    case "sum" | "mean" as kind:
        probe(kind)  # a Python str passed in

match [x, mask]:
    case [a, *others]:
        probe(others)  # a list of a tensor of bool

x += 1
probe(x)  # a tensor of float

count += x.shape[0]
probe(count)  # a Python int from a shape

out = []
out.append(x)
probe(out)  # a list of a tensor of float

out = []
for t in x:
    out.append(t > 0)
probe(torch.stack(out))  # a tensor of bool

out = [x]
out.extend([mask])
probe(out[0])  # a tensor

out = {}
out["mask"] = mask
probe(out["mask"])  # a tensor of bool

out = dict(a=1)
out.update(b=mask)
probe(out["b"])  # a tensor of bool

out = {}
for key in ["a", "b"]:
    out[key] = mask
probe(out["a"])  # a tensor of bool

out = defaultdict(list)
out["a"].append(x)
probe(out["a"])  # unknown

out = {"a": x}
probe(out.get("b"))  # None

out = {"a": x}
for key, value in out.items():
    probe(value)  # a tensor of float or unknown

probe({"a": x}.pop("a"))  # a tensor of float

out = [None] * 3
out[0] = mask
probe(out[0])  # a tensor of bool

out = [None] * 3
out[count % 3] = mask
probe(out[0])  # None or a tensor of bool

out = [mask, x]
out = out[: x.ndim]
probe(out[-1])  # a tensor

if maybe is not None:
    probe(maybe)  # a tensor (by annotation or use)

if maybe is None:
    probe(maybe)  # None

if maybe is None:
    maybe = x
probe(maybe)  # a tensor (by annotation or use)

maybe = maybe if maybe is not None else x
probe(maybe)  # a tensor (by annotation or use)

if maybe is None:
    return x
probe(maybe)  # a tensor (by annotation or use)

assert maybe is not None, "expected"
probe(maybe)  # a tensor (by annotation or use)

if not (maybe is None):
    probe(maybe)  # a tensor (by annotation or use)

if maybe is None or not flag:
    return x
probe(maybe)  # a tensor (by annotation or use)

if isinstance(maybe, Tensor):
    probe(maybe)  # a tensor (by annotation or use)

if not isinstance(maybe, Tensor):
    probe(maybe)  # None

if maybe == None:
    probe(maybe)  # None

value = x if flag else 1
if isinstance(value, int):
    probe(value)  # 1

value = x if flag else 1
if torch.is_tensor(value):
    probe(value)  # a tensor of float

value = x if flag else [x]
if isinstance(value, (list, tuple)):
    probe(value)  # a list of (a tensor of float)

if name == "mean":
    probe(name)  # 'mean'

if x is None:
    probe(x)  # not reached

if not torch.compiler.is_compiling():
    probe(x)  # not reached

if torch.jit.is_scripting():
    y = 1
else:
    y = mask
probe(y)  # a tensor of bool

if self.scale == 3:
    probe(x)  # not reached

if isinstance(x, list):
    probe(x)  # not reached

return x
probe(x)  # not reached

for i in range(3):
    if i == 1:
        y = mask
        break
else:
    y = None
probe(y)  # a tensor of bool or None

try:
    y = mask
except RuntimeError:
    y = None
probe(y)  # a tensor of bool or None

try:
    y = 1
finally:
    z = mask
probe(z)  # a tensor of bool

with torch.no_grad():
    y = mask
probe(y)  # a tensor of bool

with torch.autocast("cpu") as a, torch.no_grad():
    probe(mask)  # a tensor of bool

from torch.nn import functional
probe(functional.relu(x))  # a tensor of float

del x
x = 1
probe(x)  # 1
x = given

x: int = 3
probe(x)  # 3

self.cache = mask
probe(self.cache)  # a tensor of bool

self.cache = None
if flag:
    self.cache = mask
probe(self.cache)  # a tensor of bool or None

y = []
y.append(x), y.append(mask)
a, b = y
probe(b)  # a tensor

probe([a for a, b in [(mask, 1)]])  # a list of (a tensor of bool)

probe([t for t in (x, None) if t is not None])  # a list of a tensor of float

probe({k: v > 0 for k, v in dict(a=x).items()})  # a dict of a tensor of bool or unknown

probe(any((t > 0).any() for t in x))  # a Python bool

h, (hidden, cell) = self.lstm(x)
probe(h)  # a tensor of float

values, indices = x.topk(1)
probe(indices)  # a tensor of int

*lead, n = x.shape
probe(lead)  # a list of a Python int from a shape

b, n, device = *x.shape, x.device
probe((b, n, device))  # a tuple of (a Python int from a shape, a Python int from a shape, a Python object)

first, *others, last = count, *x.shape, mask
probe((first, others))  # a tuple of (a Python int passed in, a list of a Python int from a shape)

*_, n, h, last = *x.shape, 4, mask
probe((n, h, last))  # a tuple of (a Python int from a shape, 4, a tensor of bool)

first, *rest = *x.shape, mask
probe((first, rest))  # a tuple of (a Python int from a shape, a list of a Python int from a shape or a tensor of bool)

y = x if count > 2 else x.sum().item()
probe(y)  # a tensor of float or a number read back from a tensor

probe(itertools.chain([x], [mask]))  # a iterator of a tensor

for a, b in itertools.product([x], [mask]):
    probe(b)  # unknown

for i in range(3):
    if flag:
        break
else:
    count = 5
probe(count)  # a Python int passed in

for i in range(3):
    if i == 1:
        break
else:
    raise ValueError
probe(x)  # a tensor of float

while count > 0:
    count -= 1
    if count == 1:
        break
else:
    return x
probe(x)  # a tensor of float

y = None
for i in range(2):
    if y is None:
        y = mask
    else:
        y = y & mask
probe(y)  # None or a tensor of bool

y = None
for i in range(2):
    if y is not None:
        probe(y)  # a tensor of bool
    y = mask

try:
    y = x.shape[0]
except Exception as error:
    raise error
else:
    y = mask
probe(y)  # a tensor of bool
"""


@pytest.mark.parametrize(("row", "kind"), rows_of(STATEMENTS))
def test_variable(row: str, kind: str) -> None:
    assert kinds_of(row) == kind
