"""The program behind `torch-2.11-cuda.log`, which an H200 wrote: one function for each way to lose CUDA graphs."""

from __future__ import annotations

import torch

TABLE = torch.linspace(0, 1, 16)
ON_WHOLE_GRAPHS = {"triton.cudagraphs": True, "graph_partition": False}


@torch.compile(mode="reduce-overhead")
def split(x: torch.Tensor) -> torch.Tensor:
    doubled = x * 2
    waves = (TABLE * 2).sin()  # left out
    return doubled + waves.to(x.device)  # copied


@torch.compile(options=ON_WHOLE_GRAPHS)
def whole(x: torch.Tensor) -> torch.Tensor:
    waves = (TABLE * 3).cos()  # skipped
    return x + waves.to(x.device)


@torch.compile(mode="reduce-overhead", dynamic=True)
def sized(x: torch.Tensor) -> torch.Tensor:  # sizes
    return x.sin() * 2


@torch.compile(mode="reduce-overhead")
def cached(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    cache[0] = x[0]  # mutated
    return x + cache.sum()


@torch.compile
def reading(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum().item() > 1e6:  # item
        y = y + 1
    return y * 3


@torch.no_grad()
def main(device: str) -> None:
    x, cache = torch.ones(4, 16, device=device), torch.zeros(4, 16, device=device)
    for step in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        parts = [split(x), whole(x), sized(torch.ones(step % 3 + 2, 16, device=device)), cached(x, cache), reading(x)]
        total = torch.stack([part.sum() for part in parts]).sum()
        print(float(total) > 0)  # read


if __name__ == "__main__":
    main("cuda")
