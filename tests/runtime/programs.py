"""Small targets for the runtime tests, one per way in which a program can compile, fail, die or disturb."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import logging.config
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from compilelint import Target
from compilelint.runtime.target import Call


def breaking() -> Target:
    def step(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        y = x * scale
        if y.sum() > 0:  # break
            y = y + 1
        for _ in range(2):
            print("step")  # skip
            y = y * 2
        return y

    return Target(step, calls=[(torch.ones(3),), {"x": torch.ones(3)}, Call(torch.ones(3), scale=1.0)])


def retyped() -> Target:
    @torch.no_grad()
    def step(x: torch.Tensor) -> torch.Tensor:  # retyped
        x = x + 1
        print("resumed")  # resumed
        return x * 2

    return Target(step, calls=[(torch.ones(3),), (torch.ones(3, dtype=torch.int32),)])


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.calls > 100:  # recompile
            x = x + 1
        self.calls += 1
        if x.shape[0] > 100:
            x = x - 1  # never reached
        return x * 2


def counting() -> Target:
    return Target(Counting(), calls=[(torch.ones(3),)] * 10)


@torch.compile(fullgraph=True)
def compiled_inside(x: torch.Tensor) -> torch.Tensor:
    print("inside")  # inside
    return x + 1


def engine() -> Target:
    return Target(compiled_inside, calls=[(torch.ones(2),)], compile=False)


class Stages(torch.nn.Module):
    def forward(self, x: torch.Tensor):  # generator
        for _ in range(2):
            x = x + 1
            yield x


def generator() -> Target:
    stages = torch.compile(Stages())
    return Target(lambda x: list(stages(x)), calls=[(torch.ones(2),)], compile=False)


def clean() -> Target:
    return Target(torch.nn.Linear(2, 2), calls=[(torch.ones(1, 2),)] * 2)


def decoding() -> Target:
    model = torch.nn.Linear(2, 2)

    @torch.no_grad()
    def decode(step) -> None:
        x = torch.ones(1, 2)
        for _ in range(3):
            x = step(x)

    return Target(model, decode=decode)


def raising() -> Target:
    return Target(lambda x: x.no_such_method(), calls=[(torch.ones(2),)])


def leaving() -> Target:
    return Target(lambda x: sys.exit(3), calls=[(torch.ones(2),)])


def quitting() -> Target:
    """Ends its process in the second pass, after a break."""

    def step(x: torch.Tensor) -> torch.Tensor:
        print(x)  # seen before the end
        return x

    def run(x: torch.Tensor) -> torch.Tensor:
        step_compiled(x)
        if torch._dynamo.utils.counters["frames"]["total"]:
            os._exit(0)
        return x

    step_compiled = torch.compile(step)
    return Target(run, calls=[(torch.ones(2),)], compile=False)


def segfault() -> Target:
    return Target(lambda x: ctypes.string_at(0), calls=[(torch.ones(2),)])


def hanging() -> Target:
    """Hangs in a session of its own, deaf to polite signals, with a child process. Leaves the ids of both."""

    def step(x: torch.Tensor) -> torch.Tensor:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = os.fork()
        if child == 0:
            time.sleep(600)
        Path(os.environ["HANGING_PIDS"]).write_text(f"{os.getpid()} {child}")
        time.sleep(600)
        return x

    return Target(step, calls=[(torch.ones(2),)])


def lingering() -> Target:
    """Leaves a thread and, in a session of its own, a process with its id; neither comes to an end."""

    def step(x: torch.Tensor) -> torch.Tensor:
        threading.Thread(target=time.sleep, args=(600,)).start()
        child = os.fork()
        if child == 0:
            os.setsid()
            time.sleep(600)
        with Path(os.environ["HANGING_PIDS"]).open("a") as pids:
            pids.write(f"{child}\n")
        return x

    return Target(step, calls=[(torch.ones(2),)])


def exhausting() -> Target:
    """Opens all files that it may, once it is compiled."""

    def step(x: torch.Tensor) -> torch.Tensor:
        print(x)  # before the files are gone
        return x

    def run(x: torch.Tensor) -> torch.Tensor:
        x = step_compiled(x)
        if torch._dynamo.utils.counters["frames"]["total"]:
            with contextlib.suppress(OSError):
                while True:
                    os.open(os.devnull, os.O_RDONLY)
        return x

    step_compiled = torch.compile(step)
    return Target(run, calls=[(torch.ones(2),)] * 2, compile=False)


def disturbing() -> Target:
    """Prints, replaces the logging set-up, silences loggers, forks, closes descriptors, ends standard output."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x + x.sum().item()  # disturbed

    def disturb(x: torch.Tensor) -> torch.Tensor:
        os.write(1, b'{"kind": "evidence"}\n\xff\xfe' * 100)
        sys.stdout.write("garbage\n" * 1000)
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
        logging.disable(logging.CRITICAL)
        os.closerange(3, 64)
        with contextlib.suppress(OSError):
            sys.stdout.close()
        if os.fork() == 0:
            step_compiled(x)
            os._exit(0)
        os.wait()
        return step_compiled(x)

    step_compiled = torch.compile(step)
    return Target(disturb, calls=[(torch.ones(2),)], compile=False)


def not_a_target() -> object:
    return torch.nn.Linear(2, 2)


def growing() -> Target:
    """Its second size is 1, which has a graph of its own: only the third makes Dynamo compile for any size."""

    def step(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # growing
        return x.sin() + other

    sizes = (3, 1, 5)
    return Target(step, calls=[(torch.ones(size, 2), torch.ones(size, 1)) for size in sizes])


def constant() -> Target:
    def step(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 4:  # constant
            return x * 2
        return x + 1

    return Target(step, calls=[(torch.ones(size),) for size in (3, 4, 5, 6)])


def numbered() -> Target:
    def step(x: torch.Tensor, first: int) -> torch.Tensor:  # numbered
        return x[first:] * 2

    return Target(step, calls=[(torch.ones(9), first) for first in (0, 2, 4)])


def chained() -> Target:
    """A call on a line of its own, behind which Dynamo counts the lines of what follows a break wrongly."""

    def step(x: torch.Tensor) -> torch.Tensor:
        print("begin")
        y = (
            x
            .sin()
        )  # fmt: skip

        n = y.sum().item()  # chained
        return y + n

    return Target(step, calls=[(torch.ones(3),)])


def scattered() -> Target:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.ones(3)
        print("step")  # skip where the tensors are
        return y * 2

    return Target(step, calls=[(torch.ones(3),)])
