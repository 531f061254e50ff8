"""The argument shapes a candidate is tried with: what each kind of argument looks like, and in which combinations.

Nothing here says how torch treats a call. It only offers values: a shape such as `tensor,int` is tried with each of its
realizations until one is accepted by the eager call; a shape that no realization satisfies gets no entry in the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

RANKS = (2, 1, 4, 3)
INTS = ((1, 1, 1), (0, 1, 2), (4, 4, 1), (2, 2, 2), (8, 8, 8))
TEXTS = ("'a'", "'1'", "'cpu'", "'t.pt'", "'ij->ij'", "'ij,jk->ik'", "'{}'", "'ignore'", "'sum'", "'i'")
LISTS = ("[1, 0]", "[4, 4]", "[0.5, 0.25]", "[1]", "[2, 2, 1]")

# One literal stands for every value of these kinds.
LITERALS = {
    "float": ("0.5",),
    "bool": ("True",),
    "bytes": ("b'a'",),
    "None": ("None",),
    "dict": ("{'a': 1}",),
    "list[str]": ("['a', 'b']",),
    "tuple": ("(4, 4)", "(1, 0)", "(0.9, 0.99)"),
    "dtype": ("torch.float32", "torch.int64"),
    "class": ("int",),
    "iterator": ("iter([1, 2])",),
    "callable": ("identity", "constant", "add"),
    "object": ("plain",),
    "module": ("linear",),
    "list": LISTS,
    "str": TEXTS,
}

# Shapes by the family of candidate that they are tried on, most telling first; `grad` are for functions of torch that
# accept none of the others.
SHAPES = {
    "torch": """
        none tensor tensor:int tensor:bool tensor0d tensor0d:int int float bool str list tuple list[tensor] array
        callable dtype module
        tensor,tensor tensor,int tensor,float tensor,tensor:int tensor,tensor:bool tensor,tensor0d
        tensor:int,tensor:int tensor:int,int tensor:int,tensor tensor:bool,tensor tensor,list tensor,tuple tensor,dtype
        tensor,str tensor,bool tensor,list[tensor] str,tensor str,list[tensor] callable,tensor list[tensor],int
        list[tensor],float module,float module,str object,str int,int float,float list,float list,int tuple,int bool,str
        tensor,tensor,tensor tensor,int,int tensor,int,float tensor,int,tensor:int tensor,tensor:int,int
        tensor:bool,tensor,tensor tensor,tensor:bool,tensor tensor,tensor:bool,float tensor,float,float tensor,tuple,int
        tensor,tensor,int tensor,tensor,float tensor:int,tensor,int str,tensor,tensor callable,tensor,tensor int,int,int
        float,float,int tensor,int,tensor:int,tensor tensor,int,int,int tensor,tensor,tensor,tensor
        tensor0d:bool,str tensor,float,bool int,tuple int,int,tuple tensor,int,tuple dtype,dtype
        tensor,int,tensor:int,tensor,str tensor0d:bool,callable,callable,list[tensor]
    """,
    "method": """
        tensor tensor:int tensor:bool tensor0d tensor0d:int tensor0d:bool
        tensor,tensor tensor,int tensor,float tensor,tensor:int tensor,tensor:bool tensor,tensor0d tensor,tensor0d:int
        tensor:int,int tensor:int,tensor:int tensor:bool,tensor:bool tensor,list tensor,tuple tensor,dtype tensor,str
        tensor,bool tensor,callable tensor,array
        tensor,int,int tensor,int,float tensor,int,tensor:int tensor,tensor:int,int tensor,tensor:bool,tensor
        tensor,tensor:bool,float tensor,tensor:bool,tensor0d tensor,float,float tensor,tensor,tensor tensor,tensor,int
        tensor:bool,tensor,tensor tensor,tuple,tensor tensor,callable,tensor tensor,list,list tensor,tuple,tuple
        tensor,int,tensor:int,tensor tensor,int,tensor:int,float tensor,int,int,int tensor,tuple,tensor,bool
        tensor,int,tuple tensor,tuple,float tensor,int,tensor:int,tensor,str
    """,
    "python": """
        none int float bool str bytes None list tuple dict list[str] list[tensor] tensor tensor0d tensor0d:int array
        callable object module class iterator
        tensor,class str,tensor callable,list int,int str,str list,int object,str tensor,tensor
        float,float str,int str,list str,list[str] str,dict list,list list,str dict,str
        callable,list[tensor] module,str tensor0d,int tensor,int int,list
        tensor,str object,tensor dict,dict str,tuple tensor0d,tensor0d bool,str str,bytes
        int,int,int str,str,str float,float,float object,str,int callable,list,int str,str,int int,int,str
        callable,int,int
    """,
    "self": """
        none int float bool str list tensor callable module tensor0d:int dict None dtype list[tensor]
        str,tensor int,int str,str str,module tensor,tensor str,int list,int float,float list[tensor],int object,str
    """,
    "numpy": """
        none array array:int array:bool int float str list tuple list[array] tensor tensor0d tensor:int callable
        array,array array,int float,float int,int float,float,tuple int,int,tuple array,array:int array,array:bool
        array,tuple array:int,int array,float array,list array:bool,array tensor,tensor tensor,int list,list str,array
        tuple,float int,float
        list[array],int array,array,array array:bool,array,array array,int,int array,float,float float,float,int
        int,int,int str,array,array int,list,float float,float,float callable,int,array
    """,
    "array": """
        array array:int array,int array,array array,float array,list array,tuple array,str array,array:int
        array,array:bool array,int,int array,tuple,array array,list,int
    """,
    "grad": """
        grad loss grad,callable loss,leaf
    """,
    "construct": """
        none int float int,int int,int,int int,int,int,int list tuple float,float module list[module] tuple,tuple
        int,list tuple,list tuple,int int,int,int,int,int module,int
    """,
    "call": """
        tensor tensor:int tensor,tensor tensor,tensor,tensor tensor,tensor:int tensor,tensor,tensor,tensor
        tensor,tensor:int none list[tensor] dict
    """,
}


def shapes(family: str) -> list[str]:
    """The shapes to try; those of a method on an object made elsewhere begin with its receiver, `self`."""
    listed = SHAPES[family].split()
    if family == "self":
        return ["self" if shape == "none" else f"self,{shape}" for shape in listed]
    return listed


@dataclass(frozen=True, slots=True)
class Arguments:
    """One realization of a shape. `values` are expressions; `inputs` maps those that are names to a stock of inputs."""

    values: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]


def realizations(shape: str) -> Iterator[Arguments]:
    """Everything worth trying for `shape`, most usual first."""
    kinds = [] if shape in ("none", "self") else shape.removeprefix("self,").split(",")
    tensors = any(kind.startswith(("tensor", "array", "grad", "loss", "list[tensor]", "list[array]")) for kind in kinds)
    ints = kinds.count("int")
    seen = set()
    for rank, later_rank in _ranks(kinds) if tensors else ((2, 2),):
        for numbers in INTS if ints else INTS[:1]:
            for spelled in range(_spellings(kinds)):
                made = _realize(kinds, rank, later_rank, numbers, spelled)
                if made not in seen:
                    seen.add(made)
                    yield made


def _ranks(kinds: list[str]) -> Iterator[tuple[int, int]]:
    several = sum(kind.startswith(("tensor", "array")) for kind in kinds) > 1
    for rank in RANKS:
        yield rank, rank
        if several and rank == 2:
            yield rank, 1
    if not any(kind.startswith(("tensor", "array")) for kind in kinds):
        yield 0, 0


def _spellings(kinds: list[str]) -> int:
    return max((len(LITERALS[kind]) for kind in kinds if kind in LITERALS), default=1)


def _realize(kinds: list[str], rank: int, later_rank: int, numbers: tuple[int, ...], spelled: int) -> Arguments:
    values: list[str] = []
    inputs: list[tuple[str, str]] = []
    used = 0
    for position, kind in enumerate(kinds):
        name = f"a{position}"
        if kind == "int":
            values.append(str(numbers[used % len(numbers)]))
            used += 1
        elif kind in LITERALS:
            choices = LITERALS[kind]
            values.append(choices[spelled % len(choices)])
        elif kind in ("list[tensor]", "list[array]"):
            values.append(f"[{name}, {name}]")
            inputs.append((name, f"{kind[5:-1]}{rank}"))
        elif kind == "list[module]":
            values.append("[linear]")
        elif kind == "loss":
            values.append(f"{name}.sum()")
            inputs.append((name, f"grad{rank}"))
        elif kind == "leaf":
            values.append("a0")
        else:
            values.append(name)
            inputs.append((name, kind if "0d" in kind else f"{kind}{rank if position == 0 else later_rank}"))
    return Arguments(tuple(values), tuple(inputs))
