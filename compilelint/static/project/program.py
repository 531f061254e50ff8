"""All files together: which name means which definition, and how classes inherit.

Modules are read when something first asks for them, so that linting one file of a large project reads only what that
file reaches.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compilelint.notebook import is_notebook
from compilelint.static.project.answers import Answers, answers_of
from compilelint.static.project.bodies import Outline, fill_in_bodies, leave_out_bodies
from compilelint.static.project.definitions import (
    ClassAttribute,
    ClassRef,
    FunctionRef,
    Outside,
    class_inside,
    class_members,
    function_ref,
    is_torch_module,
    merged_orders,
)
from compilelint.static.project.distribution import packages_run_in_place
from compilelint.static.project.index import FunctionNode, Import, ModuleIndex
from compilelint.static.project.naming import are_scripts, folders_towards, is_library, module_names
from compilelint.static.project.parsing import ReadError, parse_module
from compilelint.static.project.text import digest_of, names_digest, top_level_names

if TYPE_CHECKING:
    from compilelint.static.project.parts import Parts

MAX_IMPORT_HOPS = 12
"""Longer chains of re-exports than this are taken for a cycle."""


Note = tuple[str, str, str, int]
Definition = ModuleIndex | FunctionRef | ClassRef | ast.expr | Outside


class Program:
    """The files under lint and whatever project files they import.

    `roots` are the folders imports are looked up in: the parent of every top-level package that holds a linted file,
    and the folder of every script. From the folders `above` these, `models.net` names a script in `models/`.
    """

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.failures: dict[Path, ReadError] = {}
        self._modules: dict[str, ModuleIndex | None] = {}
        self._paths: dict[str, Path] = {}
        self._mro: dict[ClassRef, tuple[ClassRef | str, ...]] = {}
        self._methods: dict[tuple[ClassRef, str, ClassRef | None], FunctionRef | ClassAttribute | None] = {}
        self.roots: list[Path] = []
        self.run_in_place: frozenset[str] = frozenset()
        self.linted: tuple[str, ...] = ()
        self._packages: frozenset[str] = frozenset()
        self._names: dict[Path, str] = {}
        self.above: list[Path] = []
        self._defined: dict[str, frozenset[str] | None] = {}
        self._found: dict[str, Path | None] = {}
        self._missed: dict[str, list[Path]] = {}
        self._digests: dict[Path, str] = {}
        self.unit: frozenset[str] = frozenset()
        self.asked: set[str] = set()
        """The modules that something was asked of since `begin`, whether there are such or not."""
        self._named: set[str] = set()
        self._names_digests: dict[Path, str] = {}
        self.parts: dict[str, Parts] = {}
        """Kept by `reading.parts_of`."""
        self.noted: set[Note] = set()
        """What was looked into besides the surface of files, see `note`."""
        self.outlines: dict[str, Outline] = {}
        """Of files by the digest of their content, as far as they are known."""
        self.outlined: dict[str, Outline] = {}
        """Those that were found out since this was emptied."""
        self.answers: dict[str, Answers] = {}
        """What files answer to questions, by the digest of their content, as far as that is known."""
        self.part_digests: dict[str, dict[str, str]] = {}
        """Digests of parts of files, by the digest of their content, as far as they are known."""
        self._claim(files)

    def _claim(self, files: tuple[Path, ...]) -> None:
        """Give every linted file its module name; two scripts of one name get distinct ones.

        A notebook gets one that no import can name.
        """
        linted = []
        above: dict[Path, None] = {}
        for path, (name, root), script in zip(files, module_names(files), are_scripts(files), strict=True):
            self.roots += [folder for folder in (root, path.parent)[: 1 + script] if folder not in self.roots]
            if script:
                above |= {path.parent: None, path.parent.parent: None}
            taken = name in self._paths and self._paths[name] != path
            if taken or is_notebook(path) or ("." not in name and is_library(name)):
                name = f"{name}@{len(self._paths)}"
            self._paths[name] = path
            self._names[path] = name
            linted.append(name)
        self.above = [folder for folder in above if folder not in self.roots]
        self.linted = tuple(linted)
        self.run_in_place = packages_run_in_place(zip(linted, files, strict=True))
        self._packages = frozenset(name.partition(".")[0] for name in linted if "." in name) | folders_towards(
            files, above
        )

    def module(self, name: str) -> ModuleIndex | None:
        """The module of that dotted name, read on first use; None if the project has none or it cannot be parsed."""
        self.asked.add(name)
        if name not in self._modules:
            path = self._path(name)
            linted = self._names.get(path, name) if path else name
            if linted != name:
                return self.module(linted)
            self._modules[name] = self._parsed(path, name) if path else None
        return self._modules[name]

    def _parsed(self, path: Path, name: str) -> ModuleIndex | None:
        try:
            data = self._bytes(path)
            known = self.outlines.get(self._digests[path]) if not is_notebook(path) else None
            if name in self.unit:
                known = None
            module = parse_module(data, path, name, known)
            answers_of(module.tree).update(self.answers.get(self.content(module), {}))
            if name in self.unit:
                return module
            outline = leave_out_bodies(module.tree, module.lines)
            if known is None and (content := self.content(module)):
                self.outlines[content] = self.outlined[content] = outline
            return module
        except ReadError as error:
            self.failures[path] = error
            return None

    def new_answers(self) -> dict[str, Answers]:
        """As `answers`, of the files of which more has been found out since `begin`."""
        found: dict[str, Answers] = {}
        for name in self.asked:
            module = self._modules.get(name)
            content = self.content(module) if module is not None else ""
            if module is not None and content:
                answers = answers_of(module.tree)
                if len(answers) > len(self.answers.get(content, {})):
                    found[content] = self.answers[content] = dict(answers)
        return found

    def content(self, module: ModuleIndex) -> str:
        """The digest of the text of a file that has been read; "" of a notebook, of which another text is parsed."""
        return "" if is_notebook(module.path) else self._digests.get(module.path, "")

    def _bytes(self, path: Path) -> bytes:
        self._digests[path] = ""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ReadError(f"cannot be read: {error.strerror or error}") from error
        self._digests[path] = digest_of(data)
        return data

    def _path(self, name: str) -> Path | None:
        """The file that a module of that name is read from."""
        if name not in self._found:
            self._found[name] = self._paths.get(name) or self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Path | None:
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts) or not self._is_project(parts):
            return None
        missed = self._missed.setdefault(name, [])
        for root in self.roots if len(parts) == 1 else (*self.roots, *self.above):
            base = root.joinpath(*parts)
            for candidate in (base / "__init__.py", base.with_suffix(".py")):
                if candidate.is_file():
                    return candidate
                missed.append(candidate)
        return None

    def begin(self, unit: Iterable[str] = ()) -> None:
        """Forget what was asked for so far: `read` and `absent` tell what is asked for from here on.

        All functions of the modules in `unit` will be looked at. Of others that are read, few will be entered.
        """
        self.unit = frozenset(unit)
        for name in self.unit:
            module = self._modules.get(name)
            if module is not None:
                fill_in_bodies(module.tree)
        self.asked.clear()
        self._named.clear()
        self.noted.clear()
        self._methods.clear()
        self._mro.clear()  # an answer from here would not ask for the files it comes from

    def note(self, module: str, sort: str, name: str = "", line: int = 0) -> None:
        """Note what is looked into besides a file's surface, by sort of part, its name, and the line where it starts.

        See `parts.Parts`. `walked` is a body too, of a function whose text nobody looks into but the tracer.
        """
        self.noted.add((module, sort, name, line))

    def is_asked(self, name: str) -> bool:
        """Whether more was asked of a module than which names it may bind."""
        return name in self.asked

    def read(self) -> Iterator[tuple[str, Path, str, str]]:
        """The files that were looked into: module name, path, and the digest of their content ("" if unreadable).

        Last, where it was only asked which names a file may bind, their digest.
        """
        for name in sorted(self.asked | self._named):
            path = self._found.get(name)
            if path is not None and name in self.asked and self._names.get(path, name) != name:
                continue  # a linted file by another name: its own was asked for as well
            if path is not None and path in self._digests:
                names = "" if name in self.asked else self._names_digests.get(path, "")
                yield name, path, self._digests[path], names

    @property
    def absent(self) -> frozenset[Path]:
        """The files that were looked for and are not there."""
        return frozenset(path for name in self.asked | self._named for path in self._missed.get(name, ()))

    def unread(self) -> dict[Path, ReadError]:
        """The files among `read` that cannot be read or parsed, and why."""
        return {path: self.failures[path] for _, path, _, _ in self.read() if path in self.failures}

    def _is_project(self, parts: list[str]) -> bool:
        """Whether a dotted name can lie in the project: in a linted package, or a file next to a linted script."""
        return parts[0] in self._packages or (len(parts) == 1 and parts[0] not in sys.stdlib_module_names)

    def _may_define(self, module: str, name: str) -> bool:
        """False if a module certainly does not bind `name`: a look at its text, so that few star imports are parsed."""
        self._named.add(module)
        if module not in self._defined:
            self._defined[module] = self._top_level_names(module)
        names = self._defined[module]
        return names is None or name in names

    def _top_level_names(self, module: str) -> frozenset[str] | None:
        path = self._path(module)
        if path is None or path.name == "__init__.py":
            return None
        try:
            data = self._bytes(path)
        except ReadError:
            return frozenset()
        self._names_digests[path] = names_digest(data)
        return top_level_names(data)

    def resolve(self, module: ModuleIndex, name: str, hops: int = 0) -> Definition | None:
        """What a module-level name of `module` means; None if the module does not bind it."""
        binding = module.bindings.get(name)
        return self._through_stars(module, name, hops) if binding is None else self._meaning(binding, module, hops)

    def earlier(self, module: ModuleIndex, name: str) -> list[Definition | None]:
        """What a module-level name meant, oldest first, before it was bound to something made of itself."""
        return [self._meaning(binding, module, 0) for binding in module.earlier.get(name, ())]

    def _meaning(
        self, binding: Import | FunctionNode | ast.ClassDef | ast.expr, module: ModuleIndex, hops: int
    ) -> Definition | None:
        if isinstance(binding, Import):
            return self._imported(binding, hops)
        if isinstance(binding, ast.ClassDef):
            return ClassRef(module.name, binding.name, binding)
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return function_ref(module.name, "", binding)
        return binding

    def _through_stars(self, module: ModuleIndex, name: str, hops: int) -> Definition | None:
        """What star imports bind to `name`.

        Where it is the name of a submodule, that is what it means: only a star import of the submodule itself
        (`from .scatter import *`) is taken to hide it. The star imports of a large package lead through all of its
        files.
        """
        if hops > MAX_IMPORT_HOPS:
            return None
        stars = module.stars
        submodule = f"{module.name}.{name}"
        if stars and module.is_package and self._path(submodule) is not None:
            stars = [origin for origin in stars if origin == submodule]
        for origin in stars:
            source = self.module(origin) if self._may_define(origin, name) else None
            found = self.resolve(source, name, hops + 1) if source else None
            if found is not None:
                return found
        return None

    def _imported(self, binding: Import, hops: int) -> Definition | None:
        dotted = f"{binding.module}.{binding.attribute}" if binding.attribute else binding.module
        if is_library(binding.module):
            return Outside(dotted)
        if hops > MAX_IMPORT_HOPS:
            return Outside(dotted)
        source = self.module(binding.module)
        if source is None:
            return self.module(dotted) or Outside(dotted)
        if not binding.attribute:
            return source
        if source.bindings.get(binding.attribute) == binding:  # `from . import ops` in the package's own __init__.py
            return self.module(dotted) or Outside(dotted)
        return self.member(source, binding.attribute, hops + 1) or Outside(dotted)

    def member(self, module: ModuleIndex, name: str, hops: int = 0) -> Definition | None:
        """What `module.name` means from outside: a binding, else a submodule."""
        return self.resolve(module, name, hops) or self.module(f"{module.name}.{name}")

    def home(self, definition: Definition, module: ModuleIndex, name: str) -> ModuleIndex:
        """The module an assigned expression was written in, following re-exports from `module`."""
        if not isinstance(definition, ast.expr):
            return module
        for _ in range(MAX_IMPORT_HOPS):
            bound = [*module.earlier.get(name, ()), module.bindings.get(name)]
            if any(binding is definition for binding in bound):
                return module
            following = self._next_home(module, name, bound[0])
            if following is None:
                return module
            module, name = following
        return module

    def _next_home(self, module: ModuleIndex, name: str, binding: object) -> tuple[ModuleIndex, str] | None:
        if isinstance(binding, Import) and binding.attribute:
            source = self.module(binding.module)
            return (source, binding.attribute) if source else None
        for origin in module.stars:
            source = self.module(origin) if self._may_define(origin, name) else None
            if source and self.resolve(source, name) is not None:
                return source, name
        return None

    def bases(self, ref: ClassRef) -> list[ClassRef | str]:
        """The direct bases: project classes as ClassRef, others by dotted name."""
        module = self.module(ref.module)
        found = (self._base(node, module) for node in ref.node.bases) if module else ()
        return [base for base in found if base is not None]

    def _base(self, node: ast.expr, module: ModuleIndex) -> ClassRef | str | None:
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Call):
            return None
        target = self.dotted(node, module)
        if isinstance(target, ClassRef):
            return target
        return target.name if isinstance(target, Outside) else ast.unparse(node)

    def dotted(self, node: ast.expr, module: ModuleIndex) -> Definition | None:
        """What a plain dotted expression (`nn.Module`) at module level means."""
        if isinstance(node, ast.Name):
            return self.resolve(module, node.id)
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.dotted(node.value, module)
        if isinstance(owner, ModuleIndex):
            return self.member(owner, node.attr)
        if isinstance(owner, Outside):
            return Outside(f"{owner.name}.{node.attr}")
        if isinstance(owner, ClassRef):
            return class_inside(owner, node.attr)
        return None

    def mro(self, ref: ClassRef) -> tuple[ClassRef | str, ...]:
        """The method resolution order, `ref` first; classes outside the project appear by dotted name."""
        if ref not in self._mro:
            self._mro[ref] = (ref,)  # a class that inherits from itself ends here
            chains: list[list[ClassRef | str]] = []
            bases = self.bases(ref)
            for base in bases:
                chains.append(list(self.mro(base)) if isinstance(base, ClassRef) else [base])
            merged = merged_orders([*chains, list(bases)])
            self._mro[ref] = (ref, *(base for base in merged if base != ref))
        return self._mro[ref]

    def method(self, ref: ClassRef, name: str, after: ClassRef | None = None) -> FunctionRef | ClassAttribute | None:
        """The class attribute `name` found along the method resolution order, after `after` if given."""
        key = (ref, name, after)
        if key not in self._methods:
            self._methods[key] = self._method(*key)
        return self._methods[key]

    def _method(self, ref: ClassRef, name: str, after: ClassRef | None) -> FunctionRef | ClassAttribute | None:
        order = self.mro(ref)
        if after is not None and after in order:
            order = order[order.index(after) + 1 :]
        for owner in order:
            if isinstance(owner, ClassRef):
                found = class_members(owner).get(name)
                if found is not None:
                    return found
        return None

    def is_module(self, ref: ClassRef) -> bool:
        """Whether a class is a torch.nn.Module: it inherits from one, or from an unknown class and has a `forward`."""
        order = self.mro(ref)
        outside = [name for name in order if isinstance(name, str)]
        if any(is_torch_module(name) for name in outside):
            return True
        if any(name.startswith("torch.") for name in outside):
            return False
        unknown = [name for name in outside if name.partition(".")[0] not in KNOWN_PLAIN_BASES]
        return bool(unknown) and isinstance(self.method(ref, "forward"), FunctionRef)


KNOWN_PLAIN_BASES = frozenset(
    (
        "object abc ABC enum Enum typing Generic Protocol dict list tuple set str int float Exception collections "
        "dataclasses NamedTuple TypedDict threading unittest json argparse contextlib pydantic"
    ).split()
)
"""Bases that say nothing about being a module."""
