"""Which functions start a region, which ones drive what is compiled, and which ones lead to a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from compilelint.record import record
from compilelint.static.project.compiled_names import called_name, compiled_by, compiled_names, namesakes
from compilelint.static.project.contents import HEAD_LINES, classes, functions, only_tests
from compilelint.static.project.definitions import ClassAttribute, ClassRef, FunctionRef, class_members
from compilelint.static.project.index import ModuleIndex
from compilelint.static.project.program import Program
from compilelint.static.project.syntax import nodes_in


@record(frozen=True, slots=True)
class Root:
    """A function that starts a region. `receiver` is the class whose instance it is called on, for a method."""

    ref: FunctionRef
    receiver: ClassRef | None
    why: str


COMPILED_STEPS = ("training_step", "validation_step", "test_step", "predict_step")
"""What Lightning compiles of a LightningModule besides its forward.

Source: Lightning documentation, "Speed up models by compiling them".
"""


def module_roots(program: Program, module: ModuleIndex) -> Iterator[Root]:
    """`forward`, and Lightning's steps, of every torch.nn.Module class of a file, own or inherited from the project.

    What a file of tests defines is a root where the file, or what its tests call, compiles it.
    """
    if only_tests(module):
        return
    regional = _repeated_blocks(module)
    for ref in classes(module):
        if not program.is_module(ref):
            continue
        forward = program.method(ref, "forward")
        if isinstance(forward, FunctionRef) and (forward.owner == ref or _differs(ref)):
            yield Root(forward, ref, _why_forward(ref, regional))
        for name in COMPILED_STEPS:
            step = class_members(ref).get(name)
            if isinstance(step, FunctionRef):
                yield Root(step, ref, f"`{ref.qualname}.{name}` is a step that Lightning compiles with the module")


def hooking(program: Program, module: ModuleIndex) -> list[FunctionRef]:
    """The functions of a file that make one of its modules, where something in the file puts forward hooks on modules.

    What they hand it to may hook it, and such a hook runs with the module's own `forward`.
    """
    if only_tests(module) or not any("register_forward_" in line for line in module.lines):
        return []
    models = {ref.qualname for ref in classes(module) if program.is_module(ref)}
    return [
        ref
        for ref in functions(module)
        if (ref.owner is None or not program.is_module(ref.owner))
        and any(isinstance(node, ast.Call) and called_name(node.func) in models for node in nodes_in(ref.node))
    ]


def _differs(ref: ClassRef) -> bool:
    """Whether an inherited `forward` may run otherwise here: the class has methods or fields, or makes parts for it.

    `super().__init__(nn.GRU(4, 4))` and `self.cell = nn.GRU(4, 4)` are parts that the base class knows nothing of; with
    other numbers alone `forward` does what it does for the base class.
    """
    members = class_members(ref)
    init = members.get("__init__")
    return bool(members.keys() - {"__init__"}) or (isinstance(init, FunctionRef) and any(_parts_made(init.node)))


def _parts_made(init: ast.AST) -> Iterator[ast.expr]:
    """What a constructor makes and hands to that of a base class, or keeps."""
    for node in nodes_in(init):
        kept: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            kept = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Assign) and any(isinstance(target, ast.Attribute) for target in node.targets):
            kept = [node.value]
        yield from (value for value in kept if isinstance(value, (ast.Call, ast.Lambda)))


def _why_forward(ref: ClassRef, regional: frozenset[str]) -> str:
    if any("support_torch_compile" in ast.unparse(decorator) for decorator in ref.node.decorator_list):
        return f"`{ref.qualname}` is decorated with support_torch_compile: vLLM compiles its forward"
    if ref.qualname in regional:
        return f"`{ref.qualname}` is one of the repeated blocks that regional compilation compiles one by one"
    return f"`{ref.qualname}` is a torch.nn.Module: its forward is what torch.compile compiles"


def _repeated_blocks(module: ModuleIndex) -> frozenset[str]:
    """The classes that `_repeated_blocks = ["Block"]` of a diffusers model names for `compile_repeated_blocks`.

    Source: diffusers documentation, "Regional compilation".
    """
    found: set[str] = set()
    for ref in classes(module):
        member = class_members(ref).get("_repeated_blocks")
        if isinstance(member, ClassAttribute) and member.value is not None:
            names = (node.value for node in ast.walk(member.value) if isinstance(node, ast.Constant))
            found |= {name for name in names if isinstance(name, str)}
    return frozenset(found)


def is_template(program: Program, module: ModuleIndex) -> bool:
    """Whether nothing ever imports a file, since it is what the file beside it was generated from.

    `modular_siglip2.py` of transformers inherits from other models' classes; `modeling_siglip2.py`, written from it,
    holds every method in full and is what runs. Source: transformers documentation, "Modular Transformers".
    """
    package, _, name = module.name.rpartition(".")
    if not name.startswith("modular_"):
        return False
    written = program.module(f"{package}.{name.replace('modular_', 'modeling_', 1)}".lstrip("."))
    if written is None:
        return False
    program.note(written.name, "head")
    return any("generated from" in line and f"{name}.py" in line for line in written.lines[:HEAD_LINES])


def drives(ref: FunctionRef, program: Program, module: ModuleIndex) -> bool:
    """Whether a function uses what its file compiles: it may call it."""
    is_module = ref.owner is not None and program.is_module(ref.owner)
    if isinstance(ref.node, ast.Lambda) or compiled_by(ref.node) or (is_module and ref.node.name == "forward"):
        return False
    return mentions_compiled(ref.node, module)


def leading_to(wanted: Iterable[FunctionRef], module: ModuleIndex) -> list[FunctionRef]:
    """The functions of a file through which others of it are reached by name.

    A method is reached by who calls it on `self`, and by who makes an object of its class.
    """
    wanted = list(wanted)
    calls = {ref: _called_names(ref) for ref in functions(module)} if wanted else {}
    leading: set[FunctionRef] = set()
    names = _names_of(wanted)
    while more := {ref for ref, called in calls.items() if called & names} - leading:
        leading |= more
        names = _names_of([*wanted, *leading])
    return [ref for ref in calls if ref in leading]


def outermost(leading: list[FunctionRef]) -> list[FunctionRef]:
    """Those of some functions that none of them leads to."""
    inner = set().union(*(_called_names(ref) for ref in leading))
    return [ref for ref in leading if not _names_of([ref]) & inner]


def _names_of(refs: Iterable[FunctionRef]) -> set[str]:
    """By which names functions are reached."""
    found = {ref.qualname.rpartition(".")[2] for ref in refs} - {"forward", "__call__", "__init__"}
    return found | {ref.owner.qualname for ref in refs if ref.owner is not None}


def _called_names(ref: FunctionRef) -> set[str]:
    """`sample` of `sample(…)` and of `self.sample(…)`."""
    functions_called = (node.func for node in nodes_in(ref.node) if isinstance(node, ast.Call))
    return {name for function in functions_called if (name := _own_name(function))}


def _own_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        of_self = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
        return function.attr if of_self else ""
    return function.id if isinstance(function, ast.Name) else ""


def mentions_compiled(tree: ast.AST, module: ModuleIndex) -> bool:
    """Whether a name that the file binds to something compiled stands in a piece of it."""
    names = compiled_names(module.tree)
    variables = names - namesakes(module.tree).get(tree, frozenset())
    return bool(names) and any(
        isinstance(node, (ast.Attribute, ast.Name))
        and {called_name(node), f"{called_name(node)}()"} & (variables if isinstance(node, ast.Name) else names)
        for node in nodes_in(tree)
    )
