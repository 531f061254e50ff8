"""What each Python process of an observed program runs first: Python imports a module of this name when it starts.

Until the process imports Dynamo, all this does is wait for that import; because of it, the process imports neither
torch nor the rest of compilelint. A `sitecustomize` that was there before runs as if this one did not exist.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_AWAITED = "torch._dynamo.convert_frame"
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib is slow to import)
_RECORDS = os.environ.get("COMPILELINT_RECORDS")  # now: the program may clear its environment


class AwaitedImport:
    """The first of the import system's finders, until the module `name` is imported; then `then` is given it."""

    def __init__(self, name: str, then: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing for any other module: the finders that come after answer for those."""
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)  # others may await it as well
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_imported(name: str, then: Callable[[ModuleType], object]) -> None:
    """Call `then` with the module `name` once it is imported, at once if it is already."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AwaitedImport(name, then))


def _observe(dynamo: ModuleType) -> None:
    """Attach the observers. If they cannot be had in this process, that costs the observation and not the program."""
    try:
        _find_compilelint()
        importlib.import_module("compilelint.runtime.attach").attach(_RECORDS, when_imported)
    except Exception as error:
        _note(f"process {os.getpid()} could not be observed: {type(error).__name__}: {error}")


def _find_compilelint() -> None:
    """Make compilelint importable, and nothing else of the environment it is installed in."""
    if "compilelint" in sys.modules:
        return
    from importlib.util import module_from_spec, spec_from_file_location

    home = os.path.dirname(os.path.dirname(_HERE))  # noqa: PTH120
    file = os.path.join(home, "__init__.py")  # noqa: PTH118
    spec = spec_from_file_location("compilelint", file, submodule_search_locations=[home])
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    sys.modules["compilelint"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["compilelint"])


def _note(text: str) -> None:
    import json
    from contextlib import suppress

    record = json.dumps({"kind": "note", "text": text})
    with suppress(OSError), open(f"{_RECORDS}/{os.getpid()}.jsonl", "a", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(record + "\n")


def _run_the_one_before() -> None:
    """Import the `sitecustomize` that Python would have found without this folder, if there is one."""
    own = sys.modules.pop(__name__)
    sys.path[:] = [folder for folder in sys.path if folder != _HERE]
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if _RECORDS:
    when_imported(_AWAITED, _observe)
_run_the_one_before()
