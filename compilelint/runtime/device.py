"""Bringing a target to the device it is to run on."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any

from compilelint.runtime.target import Call, Target

_DEEPEST = 6


def choose(wanted: str) -> str:
    """`cpu` or `cuda` for `auto`, `cpu` or `cuda`. Raises RuntimeError if `cuda` is wanted and there is none."""
    import torch

    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise RuntimeError("no CUDA device here: use --device cpu or auto")
    return "cpu"


def place(target: Target, device: str) -> Target:
    """The target with its modules and tensors on `device`.

    A module moves as `module.to(device)` moves it: a tensor that is a plain attribute of a module stays where it is,
    as it would in production. Tensors held by other objects (an engine's cache, a closure's cell) move.
    """
    if device == "cpu":
        return target
    mover = _Mover(device)
    calls = [Call(*mover.move(call.args), **mover.move(call.kwargs)) for call in target.arguments]
    return Target(mover.move(target.model), calls, target.compile, mover.move(target.decode))


def _moved(tensor: Any, device: str) -> Any:
    """A tensor on the device: a leaf if it was one, and with its marks (a static address, a dynamic size)."""
    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad) if tensor.is_leaf else tensor.to(device)
    vars(moved).update(vars(tensor))
    return moved


class _Mover:
    def __init__(self, device: str) -> None:
        self._device = device
        self._done: dict[int, tuple[Any, Any]] = {}
        """By identity: what was moved (kept, so that no other object gets its id) and what it became."""

    def move(self, value: Any, depth: int = 0) -> Any:
        """`value` on the device: tensors and containers as new values, modules and other objects in place."""
        import torch

        if id(value) in self._done:
            return self._done[id(value)][1]
        if isinstance(value, (torch.Tensor, torch.nn.Module)):
            moved = value.to(self._device) if isinstance(value, torch.nn.Module) else _moved(value, self._device)
            self._done[id(value)] = (value, moved)
            return moved
        if depth > _DEEPEST or isinstance(value, (str, bytes, int, float, complex, type(None), type)):
            return value
        if isinstance(value, dict) and type(value) is dict:
            return {key: self.move(item, depth + 1) for key, item in value.items()}
        if type(value) in (list, tuple, set):
            return type(value)(self.move(item, depth + 1) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.move(item, depth + 1) for item in value))
        self._done[id(value)] = (value, value)
        self._move_inside(value, depth + 1)
        return value

    def _move_inside(self, value: Any, depth: int) -> None:
        if isinstance(value, MethodType):
            self.move(value.__self__, depth)
        elif isinstance(value, dict):
            for key, item in list(value.items()):
                value[key] = self.move(item, depth)
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                self.move(item, depth)
        elif isinstance(value, FunctionType):
            self._move_cells(value, depth)
        elif not type(value).__module__.startswith(("torch.", "builtins")):
            self._move_attributes(value, depth)

    def _move_cells(self, function: FunctionType, depth: int) -> None:
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # a cell that nothing was assigned to yet
                continue
            moved = self.move(content, depth)
            if moved is not content:
                cell.cell_contents = moved

    def _move_attributes(self, value: Any, depth: int) -> None:
        for name, content in list(getattr(value, "__dict__", {}).items()):
            moved = self.move(content, depth)
            if moved is not content:
                try:
                    object.__setattr__(value, name, moved)
                except (AttributeError, TypeError):
                    continue
