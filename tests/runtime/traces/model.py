"""The program whose traces lie beside it, as several versions of torch wrote them (shortened, with other paths)."""

import torch


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        y = self.linear(x)
        if y.sum() > 0:
            y = y * 2
        return y.relu()


def looped(x):
    for _ in range(2):
        print("loop")
        x = x + 1
    return x


def clean(x):
    y = x.sin()
    return y.cos()


def refused(x):
    print("no")
    return x


if __name__ == "__main__":
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    setattr(torch._dynamo.config, limit, 2)
    counting = torch.compile(Counting(), backend="eager")
    for _ in range(4):
        counting(torch.ones(1, 2))
    torch.compile(looped, backend="eager")(torch.ones(2))
    compiled = torch.compile(clean, backend="eager")
    for size in (2, 3):
        compiled(torch.ones(size))
    try:
        torch.compile(refused, backend="eager", fullgraph=True)(torch.ones(2))
    except torch._dynamo.exc.Unsupported:
        print("refused")
