"""The values behind the argument kinds of `arguments`: tensors, arrays, and the names that literals refer to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch

from compilelint.knowledge.arguments import Arguments, realizations

SHAPES = {1: (4,), 2: (4, 4), 3: (1, 4, 4), 4: (1, 4, 4, 4)}


class Plain:
    """An ordinary object with an attribute."""

    a = 1


@functools.cache
def values() -> dict[str, Any]:
    """Inputs by name: a kind, then the number of dimensions, as in `tensor:int2`.

    The floating-point ones are symmetric, positive definite and within (0, 1), and the integers are valid indices into
    them, so that most functions accept them.
    """
    square = torch.full((4, 4), 0.125) + torch.diag(torch.tensor([0.5, 0.5625, 0.625, 0.6875]))
    index = (torch.arange(4)[:, None] + torch.arange(4)) % 4
    made: dict[str, Any] = {"tensor0d": torch.tensor(0.5), "tensor0d:int": torch.tensor(2)}
    made["tensor0d:bool"] = torch.tensor(True)
    made["tensor0"], made["array0"] = torch.tensor(0.5), numpy.array(0.5)
    made["grad0"] = torch.tensor(0.5, requires_grad=True)
    for rank, size in SHAPES.items():
        ints = (index[0] if rank == 1 else index).expand(size).clone()
        made[f"tensor{rank}"] = (square.diagonal() if rank == 1 else square).expand(size).clone()
        made[f"grad{rank}"] = made[f"tensor{rank}"].clone().requires_grad_()
        made[f"tensor:int{rank}"] = ints
        made[f"tensor:bool{rank}"] = ints > 1
        for kind in ("", ":int", ":bool"):
            made[f"array{kind}{rank}"] = numpy.array(made[f"tensor{kind}{rank}"].numpy())
    return made


@functools.cache
def names() -> dict[str, Any]:
    """What every traced function sees besides the module that it calls into."""
    return {
        "torch": torch,
        "identity": lambda value: value,
        "constant": lambda: 1,
        "add": lambda left, right: left + right,
        "plain": Plain(),
        "linear": torch.nn.Linear(4, 4),
    }


@functools.cache
def prepared(shape: str) -> tuple[tuple[Arguments, Callable[..., tuple[Any, ...]]], ...]:
    """The realizations of a shape, each with a function from its inputs to the values of all its arguments."""
    made = []
    for realization in realizations(shape):
        given = ", ".join(name for name, _ in realization.inputs)
        spelled = "".join(f"{value}, " for value in realization.values)
        made.append((realization, eval(f"lambda {given}: ({spelled})", names())))
    return tuple(made)


def inputs(realization: Arguments) -> list[Any]:
    """Fresh copies of what a realization needs, in order."""
    stock = [values()[key] for _, key in realization.inputs]
    return [
        value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value.copy()
        for value in stock
    ]
