"""Edits as people make them, to measure what a second run costs: each changes one file of a folder."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

Edit = Callable[[Path], None]
"""Changes the folder given."""

_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


def comment(folder: Path) -> None:
    """A comment before the first function or class of the largest file: all lines below move."""
    file = largest(folder)
    _insert(file, _first_line(_definitions(file)[0]), "# changed")


def leaf_body(folder: Path) -> None:
    """One statement more in a function of a model file that only its package imports."""
    file = leaf_file(folder)
    _into_body(file, _functions(file)[-1])


def attribute(folder: Path) -> None:
    """One class attribute more in such a file."""
    file = leaf_file(folder)
    classes = [node for node in _definitions(file) if isinstance(node, ast.ClassDef)]
    last = classes[-1].body[-1]
    _insert(file, (last.end_lineno or last.lineno) + 1, f"{' ' * last.col_offset}changed = True")


def shared(folder: Path) -> None:
    """One statement more in the first function of the file that most others import."""
    file = most_imported(folder)
    _into_body(file, _functions(file)[0])


EDITS: dict[str, Edit] = {
    "comment": comment,
    "body in a leaf": leaf_body,
    "attribute in a leaf": attribute,
    "body that many use": shared,
}


def largest(folder: Path) -> Path:
    """The largest Python file that defines a class."""
    return max(_with_classes(folder), key=_size)


def leaf_file(folder: Path) -> Path:
    """The largest such file among those that at most one other file imports; the largest of all if each is."""
    counted = _imports(folder)
    files = _with_classes(folder)
    return max([file for file in files if counted[file.stem] <= 1] or files, key=_size)


def most_imported(folder: Path) -> Path:
    """The Python file with a function whose name most import statements end in."""
    counted = _imports(folder)
    return max((file for file in sorted(folder.rglob("*.py")) if _functions(file)), key=lambda file: counted[file.stem])


def _imports(folder: Path) -> Counter[str]:
    """How many files import a module of each name; none of the standard library's names."""
    counted: Counter[str] = Counter()
    for file in folder.rglob("*.py"):
        counted.update({name.rpartition(".")[2] for name in _IMPORT.findall(_text(file))} - sys.stdlib_module_names)
    return counted


def _with_classes(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.py"))
    return [file for file in files if any(isinstance(node, ast.ClassDef) for node in _definitions(file))]


def _size(file: Path) -> int:
    return file.stat().st_size


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _definitions(file: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    return [node for node in ast.parse(_text(file)).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def _functions(file: Path) -> list[ast.FunctionDef]:
    """Functions and methods whose body starts on a line of its own."""
    found = (node for node in ast.walk(ast.parse(_text(file))) if isinstance(node, ast.FunctionDef))
    return [node for node in found if node.body[0].lineno > node.lineno]


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _into_body(file: Path, function: ast.FunctionDef) -> None:
    last = function.body[-1]
    _insert(file, last.lineno, f"{' ' * last.col_offset}changed = True")


def _insert(file: Path, line: int, text: str) -> None:
    """Put a line before the 1-based `line`."""
    lines = _text(file).split("\n")
    file.write_text("\n".join([*lines[: line - 1], text, *lines[line - 1 :]]), encoding="utf-8")
