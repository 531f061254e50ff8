"""A tensor read back to the host on every turn of a loop around a model makes the GPU wait for Python each step.

## What it does

In a loop that calls a model each turn and feeds its output back (token generation, denoising, integration), finds
what reads a tensor's value on the host: `.item()`, `.tolist()`, `.cpu()`, `.numpy()`, `int(t)`, `print(t)`,
`logger.info("%s", t)`, `writer.add_scalar("loss", t)`, `if t`, `while t`, and a tensor used as an index, a size or the
bound of a slice. Functions that the loop calls are included; the model's own `forward` is not.

In a loop that calls what its file compiles and feeds nothing back (training, validation, serving) it finds numbers that
are read, printed or tested per batch. What an outer loop does once per epoch is left alone, and so are results that are
moved to the host as a whole, unless the function trains.

## Why it costs

The host waits until the GPU has finished everything queued so far, so that nothing is queued for the next step, and
the GPU idles while Python runs. Compiled models and CUDA graphs make this relatively worse: the step gets shorter,
the wait does not. Reading a stop flag on every step instead of on every 16th took 0.72 ms instead of 0.47 ms a step
(one H200, a decoder replayed as CUDA graph).

## Write instead

- Test for the end on every n-th step only, `if step % 16 == 0 and bool(done.all())`, and cut the surplus afterwards.
- Keep tokens on the device and read them once, after the loop; when streaming, copy to pinned memory with
  `non_blocking=True` and read the previous step's copy.
- If several values are needed per step, stack them and read back once.
- Iterate over Python numbers where the loop's schedule is known: `for t in timesteps.tolist()`.

## Limits

Whether the tensor is on a GPU is not known here; on the CPU nothing waits. What runs once (before `break` or
`return`), or every n-th turn, is not reported.

## References

PyTorch documentation, `torch.cuda.set_sync_debug_mode`, which names these lines while the program runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from compilelint.model import CONFIDENCES, Confidence
from compilelint.rule import Example, Hit, View, Watch
from compilelint.static.facts.number_arguments import numbers_of
from compilelint.static.facts.state import own_nodes, parameters
from compilelint.static.facts.tensors import is_time_step, scalar_tensor
from compilelint.static.facts.turns import already_read, each_turn, is_move_to_host, is_python_value, on_device
from compilelint.static.values import Sequence, Tensor, options, tensor_certainty, tensors_in

HAZARD = "host-sync"
WATCH = Watch(
    nodes=(ast.Call, ast.Subscript, ast.JoinedStr), tests=True, regions=frozenset({"decode-loop", "batch-loop"})
)
BY_NAME = frozenset({"item", "tolist", "cpu"})
HANDING_OUT = frozenset({"cpu", "numpy", "tolist", "to"})
"""What moves the results of a batch to the host, where a loop over batches mostly wants them."""
SHOWING = frozenset({"info", "warning", "error", "critical", "log"})
BUILTINS = frozenset(f"builtins.{name}" for name in ("int", "float", "bool", "str", "print", "range", "max", "min"))


def check(node: ast.AST, view: View) -> Iterator[Hit]:
    """Yield the expression that reads a tensor's value on the host."""
    if not isinstance(node, ast.expr) or not each_turn(node, view):
        return
    how, confidence = _read(node, view)
    if confidence is not None and view.region == "batch-loop":
        confidence = None if _is_handed_out(node, view) else max(confidence, "likely", key=CONFIDENCES.index)
    if confidence is not None:
        yield Hit(
            node,
            f"`{view.text(node)}` {how} on every turn of the loop: the host waits for the GPU to finish the step,"
            " and the GPU then waits for Python",
            "keep it on the device and read it once after the loop, or only every n-th turn (`if step % 16 == 0`)",
            confidence=confidence,
        )


def _is_handed_out(node: ast.expr, view: View) -> bool:
    """Whether a loop over batches reads this for those who want it: what each batch gave, or a check of it."""
    if any(isinstance(parent, ast.Assert) for parent in view.parents(node)):
        return True
    moves = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HANDING_OUT
    return moves and not any(_called(call) == "backward" for call in own_nodes(view.function))


def _called(node: ast.AST) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _read(node: ast.expr, view: View) -> tuple[str, Confidence | None]:
    """How `node` reads a tensor back, and how sure that is; None if it does not."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _reads(node, node.func.attr):
        return _by_method(node, node.func, view)
    if isinstance(node, ast.Call) and (view.callee(node) in BUILTINS or view.callee(node).startswith("math.")):
        read = [argument for argument in node.args if on_device(view.kind(argument))]
        return "reads a tensor back", tensor_certainty(view.kind(read[0])) if read else None
    if isinstance(node, ast.Call) and (logged := _logged(node, view)):
        return f"hands `{view.text(logged[0])}` to what shows its value", tensor_certainty(view.kind(logged[0]))
    if isinstance(node, ast.JoinedStr):
        values = [view.kind(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        shown = [value for value in values if on_device(value)]
        return "formats a tensor's value", tensor_certainty(shown[0]) if shown else None
    if view.region != "batch-loop":  # there an index or a size comes with the data, from the host
        if isinstance(node, ast.Subscript):
            return _by_index(node, view)
        if isinstance(node, ast.Call) and (number := _as_number(numbers_of(node, view), view))[1] is not None:
            return number
    certainty = tensor_certainty(view.kind(node))
    if not on_device(view.kind(node)) or not _is_tested(node, view):
        return "", None
    if certainty == "likely" and _compares_parameter(node, view):
        return "", None
    return "is a tensor, read back to choose a branch", certainty


def _compares_parameter(node: ast.expr, view: View) -> bool:
    """Whether only a parameter makes `node` look like a tensor: `len(tokens) < n`, where `n` may well be a number."""
    parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    tensors = [part for part in parts if tensor_certainty(view.kind(part)) is not None]
    return all(isinstance(part, ast.Name) and part.id in parameters(view.function) for part in tensors)


def _reads(call: ast.Call, method: str) -> bool:
    return method in BY_NAME or method == "numpy" or is_move_to_host(call)


def _logged(call: ast.Call, view: View) -> list[ast.expr]:
    """The tensors that a logger formats, or of which a tracker of runs takes the number; `debug` is mostly off."""
    callee, name = view.callee(call), _called(call)
    given: list[ast.expr] = []
    if callee.startswith("logging.") and name in SHOWING:
        given = call.args[1:]
    elif name == "add_scalar" and len(call.args) > 1:
        given = [call.args[1]]
    elif callee == "wandb.log" and call.args and isinstance(call.args[0], ast.Dict):
        given = call.args[0].values
    return [value for value in given if on_device(view.kind(value))]


def _by_method(call: ast.Call, method: ast.Attribute, view: View) -> tuple[str, Confidence | None]:
    receiver = view.kind(method.value)
    if is_python_value(receiver) or already_read(method.value):
        return "", None
    if tensor_certainty(receiver) is None:
        # By name alone; `.numpy()` and `.to()` are methods of too many other things.
        return "reads a tensor back", "likely" if method.attr in BY_NAME and not call.args else None
    return "reads a tensor back", tensor_certainty(receiver) if on_device(receiver) else None


def _by_index(node: ast.Subscript, view: View) -> tuple[str, Confidence | None]:
    """`table[t]` with a tensor of rank 0, or one by its name, and a list indexed by any: they need the number."""
    if isinstance(node.slice, (ast.Slice, ast.Tuple)):
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        bounds = [bound for place in places if isinstance(place, ast.Slice) for bound in (place.lower, place.upper)]
        return _as_number((bound for bound in bounds if bound is not None), view)
    index, table = view.kind(node.slice), view.kind(node.value)
    scalar = [
        tensor
        for tensor in tensors_in(index)
        if (tensor.rank == 0 or (tensor.rank is None and is_time_step(node.slice, view)))
        and tensor.element != "bool"
        and not tensor.host
    ]
    is_list = all(isinstance(option, Sequence) and option.form in ("list", "tuple") for option in options(table))
    if isinstance(index, Tensor) and (is_list or (scalar and isinstance(table, Tensor))):
        return "reads the index tensor back", tensor_certainty(index)
    return "", None


def _as_number(places: Iterable[ast.expr], view: View) -> tuple[str, Confidence | None]:
    """A tensor where a size, a count or the bound of a slice is due; a mere guess is mostly an int."""
    for place in places:
        value = view.kind(place)
        certainty = scalar_tensor(value) or tensor_certainty(value)
        if certainty is not None and on_device(value) and (certainty == "certain" or scalar_tensor(value)):
            return f"takes the tensor `{view.text(place)}` for a number: it is read back", certainty
    return "", None


def _is_tested(node: ast.expr, view: View) -> bool:
    """Whether Python asks for the truth of `node` here."""
    parent = next(iter(view.parents(node)), None)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    return isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.comprehension) and node in parent.ifs)


BAD = (
    Example(
        code="""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=4, vocab=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.embed(ids))


def finished(alive):
    return alive.max() == 0


@torch.no_grad()
def generate(model: Decoder, ids: torch.Tensor, steps: int, eos: int = 2):
    alive = torch.ones(ids.shape[0], dtype=torch.long, device=ids.device)
    tokens = []
    for _ in range(steps):
        ids = model(ids)[:, -1:].argmax(-1)
        tokens.append(ids.tolist())  # ~
        alive = alive * (ids[:, 0] != eos).long()
        if finished(alive):  # ~
            break
    return tokens
""",
    ),
    Example(
        code="""
import torch
from torch import nn

net = torch.compile(nn.Linear(4, 1))


class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, loss):
        self.total += loss.item()  # ~


def train_step(x, y, optimizer):
    loss = (net(x) - y).square().mean()
    if loss.isnan():  # ~
        return loss
    loss.backward()
    optimizer.step()
    return loss


def fit(loader, optimizer):
    meter = Meter()
    for x, y in loader:
        meter.update(train_step(x, y, optimizer))
    return meter.total
""",
    ),
    Example(
        code="""
import torch


def guidance_at(t):
    return 1.0 + 0.1 * (10 - t.item())  # ~


def sample(unet, x, timesteps):
    for t in timesteps:
        noise = unet(x, t)
        x = x - guidance_at(t) * noise
        print("residual", noise.abs().mean().cpu())  # ~
    return x
""",
    ),
)
GOOD = (
    Example(
        code="""
import torch


@torch.no_grad()
def generate(model, ids: torch.Tensor, steps: int, eos: int = 2):
    done = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
    tokens = []
    for step in range(steps):
        logits = model(ids)
        ids = logits[:, -1:].argmax(-1)
        tokens.append(ids)
        done = done | (ids[:, 0] == eos)
        if step % 16 == 15 and done.all():
            print("stopped early", done.sum().item())
            break
        if ids.shape[0] == 0:
            return ids.tolist()
    return torch.cat(tokens, 1).tolist()
""",
    ),
    Example(
        code="""
import torch


def evaluate(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x).argmax(-1) == y).sum().item()
    return right


def sample(unet, x, timesteps):
    for t in timesteps.tolist():
        x = x - 0.1 * unet(x, t)
    return x.cpu()
""",
    ),
    Example(
        code="""
import torch
from torch import nn

net = torch.compile(nn.Linear(4, 1))


def validate(loader):
    total, kept = torch.zeros(()), []
    for x, y in loader:
        out = net(x)
        total += (out - y).square().mean()
        kept.append(out.cpu())
    return total.item(), kept


def fit(loader, optimizer, epochs):
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                print(step, loss.item())
        error, _ = validate(loader)
        print(epoch, error, loss.item())


def check_against(reference, batches):
    for x in batches:
        print((net(x) - reference(x)).abs().max().item())
""",
    ),
)
