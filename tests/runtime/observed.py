"""A program that compiles, for the tests of `compilelint run`: its first argument says how it does it."""

from __future__ import annotations

import logging.config
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch


def step(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("step")  # everywhere
    return y + 1


def compile_step() -> None:
    torch.compile(step, backend="eager")(torch.ones(2))


def plain() -> None:
    compile_step()


def distributed() -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            print("rank")  # all ranks
            if rank == 1:
                print("one")  # rank 1
            return y * 2

    model = torch.nn.parallel.DistributedDataParallel(Net())
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        compiled(torch.ones(1, 2)).sum().backward()
    torch.distributed.barrier()
    # One time in ten torch 2.13 aborts while the interpreter shuts down under gloo, observed or not.
    sys.stdout.flush()
    os._exit(0)


def in_children() -> None:
    """Compiles in a process that is started, one that is spawned, and one that is forked and ends in a hurry."""
    subprocess.run([sys.executable, __file__, "plain"], check=True)
    spawned = multiprocessing.get_context("spawn").Process(target=compile_step)
    spawned.start()
    spawned.join()
    if os.fork() == 0:
        compile_step()
        os._exit(0)
    os.wait()


def own_logging() -> None:
    """Compiles under the log settings that its environment asks for, then under its own."""
    compile_step()
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
    logging.disable(logging.CRITICAL)
    torch._logging.set_logs(recompiles=True)
    torch._dynamo.reset()
    compile_step()


def refused() -> None:
    torch.compile(step, backend="eager", fullgraph=True)(torch.ones(2))


def crashing() -> None:
    """Compiles after it has thrown away its environment, then crashes."""
    os.environ.clear()
    compile_step()
    os.kill(os.getpid(), signal.SIGSEGV)


def hanging() -> None:
    """Hangs after a break, deaf to polite signals, as does a process of a session of its own that it has started."""
    compile_step()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(os.environ["HANGING_PIDS"]).write_text(f"{os.getpid()} {other.pid}")
    time.sleep(600)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
