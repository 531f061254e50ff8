"""What an expression is taken to be; each row is run as well, and what Python finds there must agree."""

from __future__ import annotations

import pytest
from models import kinds_of, rows_of

EXPRESSIONS = """
x.shape  # a size of a Python int from a shape
x.shape[0]  # a Python int from a shape
x.size(0)  # a Python int from a shape
len(x)  # a Python int from a shape
x.numel()  # a Python int from a shape
x.ndim  # a Python int
x.dim()  # a Python int
x.dtype  # a Python object
x.device  # a Python object
x.dtype == torch.float16  # a Python bool
given == torch.float16  # a Python bool
torch.bfloat16 != given  # a Python bool
given == torch.float8_e4m3fn  # a Python bool
given == torch.complex64  # a Python bool
torch.uint16 == given  # a Python bool
x.is_floating_point()  # a Python bool
x.requires_grad  # a Python bool
x.is_cuda  # a Python bool
x is None  # False
given is None  # False
maybe is None  # a Python bool
maybe is not None  # a Python bool
isinstance(x, Tensor)  # True
isinstance(given, list)  # False
isinstance(torch.nn.ReLU, type)  # True
isinstance(given, type)  # False
isinstance(maybe, Tensor)  # a Python bool
torch.is_tensor(x)  # a Python bool
self.training  # a Python bool
self.scale  # 2
self.config.width  # 4
self.config.gate  # True
self.linear  # a `torch.nn.Linear`
self.linear.weight  # a tensor
self.lstm.bias  # a Python bool
self.linear.in_features  # a Python int
self.steps  # a tensor of int
hasattr(self, "scale")  # True
getattr(self, "scale", None)  # 2
count  # a Python int passed in
name  # a Python str passed in
flag  # a Python bool passed in
count + 1  # a Python int passed in
name == "sum"  # a Python bool passed in
count > x.shape[0]  # a Python bool from a shape
x.shape[0] // 2  # a Python int from a shape
x.shape[1:]  # a tuple of a Python int from a shape
math.sqrt(x.shape[0])  # a Python float
x.sum()  # a scalar tensor
x.sum(0)  # a tensor
x.mean(dim=1)  # a tensor
x.any()  # a scalar tensor of bool
x.argmax(-1)  # a tensor of int
x.max()  # a scalar tensor of float
x.max(1)  # a tuple of (a tensor of float, a tensor of int)
x.max(1)[1]  # a tensor of int
torch.max(x, x)  # a tensor of float
x > 0  # a tensor of bool
(x > 0).any()  # a scalar tensor of bool
(x > 0) * (x < 1)  # a tensor of bool
(x > 0) * True  # a tensor of bool
(x > 0) + (x < 1)  # a tensor of bool
(x > 0) * 2  # a tensor of int
x == None  # False
x == "auto"  # False
x is given  # a Python bool
x.eq(0)  # a tensor of bool
x.bool()  # a tensor of bool
x.long()  # a tensor of int
x.to(torch.int64)  # a tensor of int
x.to(given)  # a tensor of float
x.type(torch.bool)  # a tensor of bool
x.cpu()  # a tensor of float on the CPU
x.t()  # a tensor of float
x.T  # a tensor of float
x.data  # a tensor of float
x[0]  # a tensor of float
x[0, 0]  # a scalar tensor of float
x[:, None]  # a tensor of float
x[mask]  # a tensor of float
x[index]  # a tensor of float
x[..., 0]  # a tensor of float
-x  # a tensor of float
~mask  # a tensor of bool
mask & (x < 1)  # a tensor of bool
x + 1  # a tensor of float
index + 1  # a tensor of int
index / 2  # a tensor of float
index * 2.0  # a tensor of float
x @ x.T  # a tensor of float
2 ** x  # a tensor of float
x.sum() + 1  # a scalar tensor
x.sum().item()  # a number read back from a tensor
int(x.sum())  # a Python int read back from a tensor
float(x.sum())  # a Python float read back from a tensor
bool(mask.any())  # a Python bool read back from a tensor
x.numpy()  # a numpy array of float
x.sum().numpy()  # a numpy array
np.asarray([1, 2])  # a numpy array
np.empty(3, dtype=object)  # a `numpy.ndarray`
np.prod(x.shape)  # a numpy array of int
np.prod(x.shape) * 2  # a numpy array of int
np.max((0.5, 2.5))  # a numpy array
np.sum([[1, 2], [3, 4]], axis=0)  # a numpy array or unknown
np.random.randint(1, 3)  # a Python int
np.random.uniform(0, 1)  # a Python float
np.random.poisson(3)  # a Python int
np.random.default_rng(0).random()  # a Python float
np.random.default_rng(0).standard_normal(3)  # a numpy array or a Python float
np.random.default_rng(0).integers(3)  # a numpy array
np.random.RandomState(0).exponential()  # a Python float
np.random.rand(3)  # a numpy array of float or a Python float
np.sqrt(2.0)  # a Python float
np.floor(x.shape[0] / 2) * 2  # a Python float from a shape
int(np.ceil(np.log2(x.shape[0])) + 1)  # a Python int from a shape
np.maximum(x.shape[0], 2.5)  # a Python float from a shape
np.arange(3) > 1  # a numpy array of bool
torch.from_numpy(np.ones(3))  # a tensor
torch.tensor(3)  # a scalar tensor of int on the CPU
torch.tensor([1.0, 2.0])  # a tensor of float on the CPU
torch.tensor([True])  # a tensor of bool on the CPU
torch.arange(3)  # a tensor of int
torch.arange(0.0, 1.0)  # a tensor of float
torch.zeros(2, 3)  # a tensor of float
torch.full((2,), 1)  # a tensor of int
torch.zeros_like(mask)  # a tensor of bool
torch.where(mask, x, 0)  # a tensor of float
torch.where(mask)  # a tuple of a tensor of int
torch.equal(x, x)  # a Python bool
torch.allclose(x, x)  # a Python bool
torch.is_floating_point(x)  # a Python bool
torch.numel(x)  # a Python int
torch.isfinite(x).all()  # a scalar tensor of bool
torch.cat([x, x])  # a tensor of float
torch.stack([index, index])  # a tensor of int
x.chunk(2)  # a tuple of a tensor of float
x.unbind(0)  # a tuple of a tensor of float
x.nonzero()  # a tensor of int
x.nonzero(as_tuple=True)  # a tuple of a tensor of int
torch.nonzero(x)  # a tensor of int
torch.unique(index, return_counts=True)  # a tuple of (a tensor of int, a tensor of int)
x.unique(True, True, True)  # a tuple of (a tensor of float, a tensor of int, a tensor of int)
x.unique_consecutive()  # a tensor of float
(torch.unique(index, return_counts=True)[1].cumsum(0) - 1)[0]  # a scalar tensor of int
x.flatten().sort()[0][0]  # a scalar tensor of float
x.nanmedian(dim=0)  # a tuple of (a tensor of float, a tensor of int)
x.nanmedian()  # a scalar tensor of float
torch.cartesian_prod(torch.arange(2), torch.arange(3))[0][1]  # a scalar tensor of int
torch.cartesian_prod(torch.arange(2))[0]  # a tensor of int
torch.tril_indices(3, 3)[0, 1]  # a scalar tensor
torch.stack([x.sum(), x.max()])[0]  # a scalar tensor
torch.cat([torch.arange(2), torch.arange(3)])[0]  # a scalar tensor of int
torch.arange(3).unsqueeze(0)[0]  # a tensor of int
torch.arange(3).unsqueeze(0)[0, 1]  # a scalar tensor of int
F.max_pool1d(x[None], 2)  # a tensor of float
F.max_pool1d(x[None], 2, return_indices=True)  # a tuple of (a tensor of float, a tensor of int)
x.topk(1)  # a tuple of (a tensor of float, a tensor of int)
x.sort()  # a tuple of (a tensor of float, a tensor of int)
torch.unique(index)  # a tensor of int
F.softmax(x, -1)  # a tensor
F.one_hot(index, 3)  # a tensor of int
torch.sigmoid(x)  # a tensor of float
torch.einsum("ij->i", x)  # a tensor of float
torch.einsum("ij, ij ->", x, x)  # a scalar tensor of float
torch.einsum("...j->...", x)  # a tensor of float
torch.einsum("ij->i", x).argmin(0)  # a scalar tensor of int
torch.einsum("ij->i", x).max(dim=0)[1]  # a scalar tensor of int
torch.einsum("ij->i", x).max(0, keepdim=True)[1]  # a tensor of int
torch.einsum("ij->i", x).sum(0, True)  # a tensor
x.view(-1).argmax(0)  # a scalar tensor of int
x.reshape(x.shape[0], -1).mean(dim=1)[0]  # a scalar tensor
torch.zeros(3, 3).amax((0, 1))  # a tensor of float
self.linear(x)  # a tensor of float
self.lstm(x)  # a tuple of (a tensor of float, unknown)
self.drop(index)  # a tensor of int
self.seq(x)  # a tensor of float
[x, 1]  # a list of (a tensor of float, 1)
(x, mask)  # a tuple of (a tensor of float, a tensor of bool)
{"a": x}  # a dict of a tensor of float or unknown
{"a": x}["a"]  # a tensor of float
[x, mask][1]  # a tensor of bool
[x] * 2  # a list of (a tensor of float, a tensor of float)
[x] + [1]  # a list of (a tensor of float, 1)
(1, *[x, mask])  # a tuple of (1, a tensor of float, a tensor of bool)
{"sum": x, "b": 1}[name]  # unknown
{"sum": x, "b": given}[name]  # a tensor (by annotation or use) or unknown
{**{"a": x}, "b": 1}  # a dict of a tensor of float or 1 or unknown
[t * 2 for t in (x, given)]  # a list of (a tensor (by annotation or use), a tensor (by annotation or use))
[i for i in range(3)]  # a list of a Python int
[t for t in x]  # a list of a tensor of float
{n: t for n, t in {"a": x}.items()}  # a dict of a tensor of float or unknown
sum(t.sum() for t in (x, x))  # a scalar tensor
sum([1, 2])  # a Python int
max(x.sum(), x.mean())  # a scalar tensor
max(count, 4)  # a Python int passed in
min([x.sum(), x.sum()])  # a scalar tensor
abs(x)  # a tensor of float
round(2.5)  # a Python int
sorted([3, 1])  # a list of a Python int
any(t.any() for t in (mask,))  # a Python bool
all([True, False])  # a Python bool
list(zip([x], [1]))  # a list of a tuple of a tensor of float or 1
list(enumerate([x]))  # a list of a tuple of a Python int or a tensor of float
list(map(torch.sin, [x]))  # a list of a tensor of float
list(map(lambda t: t > 0, [x]))  # a list of a tensor of bool
list(reversed([x]))  # a list of a tensor of float
next(iter([x]))  # a tensor of float
next(iter([]), None)  # unknown or None
dict(a=x)  # a dict of a tensor of float or unknown
tuple(x.shape)  # a tuple of a Python int from a shape
str(x)  # a Python str
f"{x}"  # a Python str
"a".join(["b"])  # a Python str
"a,b".split(",")  # a list of ('a', 'b')
f"{count},b".split(",")  # a list of a Python str
name.startswith("s")  # a Python bool
name[0]  # a Python str
(lambda t: t.shape[0])(x)  # a Python int from a shape
functools.partial(torch.add, x)(1)  # a tensor
functools.reduce(lambda a, b: a + b, [x, x])  # a tensor of float
operator.lt(x, 0)  # a tensor of bool
operator.lt(count, 3)  # a Python bool passed in
operator.add(x.shape[0], 1)  # a Python int from a shape
{"<": operator.lt}["<"](name, "b")  # a Python bool passed in
functools.wraps(torch.sin)(lambda t: t > 0)(x)  # a tensor of bool
functools.update_wrapper(lambda t: t > 0, torch.sin)(x)  # a tensor of bool
x if flag else None  # a tensor of float or None
x if x is not None else 0  # a tensor of float
name or "mean"  # a Python str passed in
flag and x  # a Python bool passed in or a tensor of float
maybe is not None and maybe.any()  # a Python bool or a scalar tensor of bool (by annotation or use)
not x.any()  # a Python bool
not flag  # a Python bool
not None  # True
1 < count < 3  # a Python bool passed in
"a" in {"a": x}  # True
2 in [1, 2]  # True
x.shape == given.shape  # a Python bool
x.shape[0] == 2  # a Python bool from a shape
type(x)  # `torch.Tensor`
torch.jit.is_scripting()  # False
torch.cuda.is_available()  # a Python bool
torch.float32  # `torch.float32`
index[0].item()  # a Python int read back from a tensor
x.type()  # a Python str
torch.stack([mask, mask])  # a tensor of bool
torch.cat([x, mask])  # a tensor
torch.stack([mask]).all()  # a scalar tensor of bool
x.max(dim=1).indices  # a tensor of int
x.topk(1).values  # a tensor of float
x.max(1).indices > 0  # a tensor of bool
torch.ones(2, dtype=torch.bool)  # a tensor of bool
torch.zeros(2, device="cpu", dtype=torch.int32)  # a tensor of int on the CPU
torch.empty_like(x, dtype=torch.bool)  # a tensor of bool
x.to(device="cpu", dtype=torch.long)  # a tensor of int on the CPU
torch.isnan(x).any().item()  # a Python bool read back from a tensor
x.argsort()  # a tensor of int
x.unique()  # a tensor of float
x.mean((0, 1))  # a tensor
x.sum(-1, keepdim=True)  # a tensor
x[0:1, 0]  # a tensor of float
x[index[0]]  # a tensor of float
x.grad  # a tensor of float or None
torch.rand(()) < 0.5  # a scalar tensor of bool
torch.randperm(4)  # a tensor of int
math.prod(x.shape) > 3  # a Python bool
math.floor(x.shape[0] / 2)  # a Python int
random.choice([1, 2])  # a Python int
list(self.named_buffers())[0][1]  # a tensor
next(self.parameters()).dtype  # a Python object
self.linear.bias is not None  # True
isinstance(count, int)  # True
isinstance(self.linear, nn.Linear)  # True
isinstance(x, (list, Tensor))  # True
hasattr(x, "foo")  # a Python bool
type(count) is int  # a Python bool
not flag and x.any()  # a Python bool or a scalar tensor of bool
count or x  # a Python int passed in or a tensor of float
OrderedDict([("a", mask)])["a"]  # a tensor of bool
"""


@pytest.mark.parametrize(("row", "kind"), rows_of(EXPRESSIONS, "\n"))
def test_expression(row: str, kind: str) -> None:
    assert kinds_of(row) == kind
