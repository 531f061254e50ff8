"""What a call returns, in the table's small grammar (see `table.py`): seen in eager runs, completed from torch's stubs.

An eager run says what came back for one set of arguments; the `.pyi` stubs and operator schemas that torch ships list
the forms that were not tried (`torch.max` returns a tensor or a pair). Element types come from the runs alone.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ELEMENT = re.compile(r"(?<=tensor):\w+|(?<=array):\w+")
TENSORS = re.compile(r"tuple\[tensor(,tensor)*\]")
WIDTH = ("", "bool", "int", "float", "complex")
ALTERNATIVES = 4
NUMBERS = frozenset({"bool", "int", "float"})
PUBLIC = {
    "builtins.NoneType": "none",
    "torch.Size": "size",
    "torch.dtype": "dtype",
    "torch.device": "device",
    "builtins.ellipsis": "unknown",
}
ANNOTATIONS = {
    "Tensor": "tensor",
    "torch.Tensor": "tensor",
    "Self": "tensor",
    "_bool": "bool",
    "bool": "bool",
    "_int": "int",
    "int": "int",
    "SymInt": "int",
    "_float": "float",
    "float": "float",
    "str": "str",
    "None": "none",
    "Number": "scalar",
    "_dtype": "dtype",
    "torch.dtype": "dtype",
    "_device": "device",
    "torch.device": "device",
    "torch.Size": "size",
    "Size": "size",
    "Module": "module",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One eager run: the element types of its tensor arguments in order, and what came back."""

    shape: str
    elements: tuple[str, ...]
    returned: str


def element_of(value: Any) -> str:
    """`bool`, `int`, `float` or `complex`: the class of element of a tensor or array; "" for anything else."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        if value.dtype is torch.bool:
            return "bool"
        return "float" if value.is_floating_point() else "complex" if value.is_complex() else "int"
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}.get(value.dtype.kind, "")
    return ""


def describe(value: Any, depth: int = 0) -> str:
    """One value in the grammar. A numpy scalar is an `array`, which is how Dynamo sees it."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        return "tensor:" + element_of(value)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        element = element_of(value)
        return f"array:{element}" if element else "array"
    if isinstance(value, torch.nn.Module):
        return "module"
    named = PUBLIC.get(f"{type(value).__module__}.{type(value).__qualname__}")
    if named:
        return named
    if isinstance(value, (list, tuple)) and depth < 2:
        return _describe_sequence(value, depth)
    for kind in (bool, int, float, complex, str, bytes, dict, set):
        if type(value) is kind:
            return kind.__name__
    if isinstance(value, type):
        return "class"
    if inspect.isroutine(value):
        return "callable"
    if hasattr(type(value), "__next__") and not hasattr(type(value), "__enter__"):
        return "iterator"
    return _public_class(type(value))


def _describe_sequence(value: Sequence[Any], depth: int) -> str:
    parts = [describe(item, depth + 1) for item in value[:16]]
    kinds = sorted(set(parts))
    if isinstance(value, tuple) and 0 < len(parts) <= 4:
        return f"tuple[{','.join(parts)}]"
    return f"list[{kinds[0] if len(kinds) == 1 else 'unknown'}]"


def _public_class(kind: type) -> str:
    """`object:` and the name under which programs know the class, or the nearest base that its module exports."""
    if kind.__module__.startswith("compilelint."):
        return "object"
    for base in kind.__mro__[:-1]:
        if base.__name__ in getattr(sys.modules.get(base.__module__), "__all__", ()):
            kind = base
            break
    module = {"_thread": "threading", "_io": "io", "_random": "random"}.get(kind.__module__, kind.__module__)
    name = {"lock": "Lock", "PosixPath": "Path", "WindowsPath": "Path"}.get(kind.__qualname__, kind.__qualname__)
    parts = module.split(".")
    for size in range(1, len(parts) + 1):
        if _is_at(parts[:size], name, kind):
            return f"object:{'.'.join([*parts[:size], name])}"
    return "object:" + (name if module == "builtins" else f"{module}.{name}")


def _is_at(parts: list[str], name: str, kind: type) -> bool:
    return getattr(sys.modules.get(".".join(parts)), name, None) is kind


def combine(seen: Iterable[Seen], stubbed: Iterable[str], takes_dtype: bool) -> tuple[str, dict[str, str]]:
    """All that a name may return, and what each tried shape returned where that differs from the whole."""
    runs = list(seen)
    listed = [kind for kind in stubbed if kind != "unknown"]
    lengths = {run.returned.count("tensor") for run in runs if TENSORS.fullmatch(ELEMENT.sub("", run.returned))}
    lengthless = "list[tensor]" in listed or len(lengths) > 1
    forms: dict[str, list[Seen]] = defaultdict(list)
    for run in runs:
        form = ELEMENT.sub("", run.returned)
        if lengthless and TENSORS.fullmatch(form):
            run = Seen(run.shape, run.elements, "list[" + run.returned[6:].rstrip("]").split(",")[0] + "]")
            form = "list[tensor]"
        forms[form].append(run)
    resolved: dict[str, str] = {form: _with_elements(form, group, takes_dtype) for form, group in forms.items()}
    by_shape = {run.shape: resolved[form] for form, group in forms.items() for run in group}
    if set(forms) <= NUMBERS and len(forms) > 1:
        return "scalar", by_shape
    for form in listed:
        known = "tensor" in form or not runs
        if known and form not in resolved:
            resolved[form] = form
    alternatives = sorted(set(resolved.values()))
    whole = "|".join(alternatives) if 0 < len(alternatives) <= ALTERNATIVES else "unknown"
    return whole, by_shape if len(set(by_shape.values())) > 1 else {}


def _with_elements(form: str, group: list[Seen], takes_dtype: bool) -> str:
    """`form` with the element types that hold in every run of `group`: fixed, or following the arguments'."""
    slots = [[match.group()[1:] for match in ELEMENT.finditer(run.returned)] for run in group]
    if len({len(slot) for slot in slots}) != 1 or takes_dtype:
        return form
    decided = iter([_element([run.elements for run in group], list(column)) for column in zip(*slots, strict=True)])
    return re.sub(r"tensor|array", lambda match: match.group() + next(decided, ""), form)


def _element(given: list[tuple[str, ...]], got: list[str]) -> str:
    """One tensor of the result. Fixed when some run had no such argument to take it from, or no run had any other."""
    runs = [run for run in zip(given, got, strict=True) if run[0] or not any(given)]
    got = [element for _, element in runs]
    alone = all(set(elements) <= {got[0]} for elements, _ in runs)
    if len(set(got)) == 1 and (alone or any(got[0] not in elements for elements, _ in runs)):
        return ":" + got[0]
    if all(elements and elements[0] == element for elements, element in runs):
        return ":same"
    if all(elements and max(elements, key=WIDTH.index) == element for elements, element in runs):
        return ":promoted"
    return ""


@functools.cache
def stubs() -> Mapping[str, tuple[tuple[str, ...], bool]]:
    """Return kinds of the overloads in torch's stubs by dotted name, and whether one of them takes a `dtype`."""
    import torch

    root = Path(torch.__file__).parent
    places = (
        ("torch", root / "_C/_VariableFunctions.pyi", None),
        ("torch.Tensor", root / "_C/__init__.pyi", "TensorBase"),
        ("torch.nn.functional", root / "nn/functional.pyi", None),
    )
    found: dict[str, tuple[list[str], bool]] = {}
    for owner, path, inside in places:
        for function in _definitions(path, inside):
            kinds, dtype = found.setdefault(f"{owner}.{function.name}", ([], False))
            if function.returns is not None:
                kinds.extend(_annotated(ast.unparse(function.returns)))
            arguments = [*function.args.args, *function.args.kwonlyargs]
            found[f"{owner}.{function.name}"] = kinds, dtype or any(a.arg == "dtype" for a in arguments)
    return {name: (tuple(dict.fromkeys(kinds)), dtype) for name, (kinds, dtype) in found.items()}


def _definitions(path: Path, inside: str | None) -> Iterable[ast.FunctionDef]:
    if not path.exists():
        return []
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if inside is not None:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == inside), [])
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def _annotated(text: str) -> list[str]:
    """The kinds that an annotation names; a union names several, and one that is not understood names none."""
    import torch

    text = text.strip("'\"")
    named = ANNOTATIONS.get(text)
    if named:
        return [named]
    if text.startswith("torch.return_types."):
        kind = getattr(torch.return_types, text.rsplit(".", 1)[1], None)
        size = getattr(kind, "n_fields", 0)
        return [f"tuple[{','.join(['tensor'] * size)}]"] if size else []
    if re.fullmatch(r"(tuple|Tuple)\[(torch\.)?Tensor, \.\.\.\]|(list|List|Sequence)\[(torch\.)?Tensor\]", text):
        return ["list[tensor]"]
    if re.fullmatch(r"(tuple|Tuple)\[(torch\.)?Tensor(, (torch\.)?Tensor)*\]", text):
        return [f"tuple[{','.join(['tensor'] * text.count('Tensor'))}]"]
    if " | " in text and "[" not in text:
        return [kind for part in text.split(" | ") for kind in _annotated(part)]
    return []


@functools.cache
def schemas() -> Mapping[str, tuple[tuple[str, ...], bool]]:
    """The same from the operator schemas, under `aten` names; overloads that write into `out` are left out."""
    import torch

    found: dict[str, tuple[list[str], bool]] = {}
    for schema in torch._C._jit_get_all_schemas():
        tensors = [argument for argument in schema.arguments if "Tensor" in str(argument.type)]
        written = any(a.alias_info is not None and a.alias_info.is_write and a.kwarg_only for a in schema.arguments)
        if not schema.name.startswith("aten::") or written or not tensors:
            continue
        kinds, dtype = found.setdefault(schema.name[6:], ([], False))
        kinds.extend(_schema_kind([str(result.type) for result in schema.returns]))
        found[schema.name[6:]] = kinds, dtype or any(a.name == "dtype" for a in schema.arguments)
    return {name: (tuple(dict.fromkeys(kinds)), dtype) for name, (kinds, dtype) in found.items()}


def _schema_kind(types: list[str]) -> list[str]:
    one = {
        "Tensor": "tensor",
        "bool": "bool",
        "int": "int",
        "float": "float",
        "number": "scalar",
        "List[Tensor]": "list[tensor]",
    }
    if len(types) == 1:
        return [one[types[0]]] if types[0] in one else []
    return [f"tuple[{','.join(['tensor'] * len(types))}]"] if types and set(types) == {"Tensor"} else []


def operator_name(dotted: str) -> str:
    """The `aten` operator that a public name stands for, as torch names them: `torch.linalg.eigh` is `linalg_eigh`."""
    name = dotted.rsplit(".", 1)[-1]
    prefix = re.match(r"torch\.(linalg|fft|special)\.", dotted)
    return f"{prefix.group(1)}_{name}" if prefix else name


def documented(dotted: str, value: Any, seen: bool) -> tuple[tuple[str, ...], bool]:
    """What torch's files say `dotted` returns, and whether it takes a `dtype` (then no element type is fixed)."""
    kinds, dtype = stubs().get(dotted, ((), False))
    if dotted.startswith("torch.") and dotted.count(".") <= 3:
        listed, takes = schemas().get(operator_name(dotted), ((), False))
        dtype = dtype or takes
        kinds = kinds or (listed if not seen else ())
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return kinds, dtype
    dtype = dtype or "dtype" in signature.parameters
    if not kinds and dotted.startswith("torch.") and signature.return_annotation is not signature.empty:
        annotation = signature.return_annotation
        named = annotation.__name__ if type(annotation) is type else str(annotation)
        kinds = tuple(_annotated(named))
    return kinds, dtype
