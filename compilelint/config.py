"""Settings: defaults, then the nearest configuration file. The command line is laid on top by compilelint.command.

A configuration file is `compilelint.toml` (keys at the top level) or a `pyproject.toml` that has `[tool.compilelint]`.
Keys are written in kebab-case and checked: an unknown key or a value of the wrong type is an error, never ignored.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from compilelint.model import CONFIDENCES, ENGINES, Confidence, Engine
from compilelint.record import record

FailOn = Literal["any", "certain", "confirmed", "never"]
Device = Literal["auto", "cpu", "cuda"]

FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)
DEVICES: tuple[Device, ...] = get_args(Device)

DEFAULT_EXCLUDE = (
    ".bzr",
    ".compilelint_cache",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class ConfigError(Exception):
    """A setting that cannot be used; the message is one line and says where it is and what to write."""


@record(frozen=True, slots=True)
class Settings:
    """What one run goes by.

    `root` is the folder of the configuration file, or the working directory where there is none; the patterns of
    `exclude`, `extend_exclude` and `per_file_ignores` are relative to it. `select` and `ignore` hold code prefixes or
    `ALL`. `target_torch` is the torch version findings speak about (None: the one that is installed), `engine` what
    runs the compiled code. `timeout` is in seconds, for each target. `targets` are (name, `pkg.mod:factory`) pairs.
    `cache_dir` is where outcomes are kept if `cache` is true (None: in `root`).
    """

    root: Path
    source: Path | None = None
    select: tuple[str, ...] = ("ALL",)
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    min_confidence: Confidence = "likely"
    fail_on: FailOn = "any"
    entry_points: tuple[str, ...] = ()
    target_torch: str | None = None
    engine: Engine = "torch"
    device: Device = "auto"
    timeout: float = 300.0
    targets: tuple[tuple[str, str], ...] = ()
    baseline: Path | None = None
    cache_dir: Path | None = None
    cache: bool = True

    @property
    def cache_folder(self) -> Path | None:
        """Where outcomes are kept between runs; None if they are not."""
        return (self.cache_dir or self.root / ".compilelint_cache") if self.cache else None


def load_settings(paths: Iterable[Path], cwd: Path, config: Path | None = None, isolated: bool = False) -> Settings:
    """The settings for a run over `paths` (absolute): the nearest configuration file's, or the defaults.

    Nearest: the first one found going up from the folder that all of `paths` share, else going up from `cwd`. `config`
    names the file instead; `isolated` reads none. Raises ConfigError.
    """
    if isolated:
        return Settings(root=cwd)
    if config is not None:
        table = _read(config, required=True)
        return _settings(config, table or {})
    for start in (_shared_folder(list(paths)), cwd):
        for folder in (start, *start.parents) if start else ():
            for name in ("compilelint.toml", "pyproject.toml"):
                table = _read(folder / name)
                if table is not None:
                    return _settings(folder / name, table)
    return Settings(root=cwd)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word that is closest to `word`, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def factory_name(text: str) -> str:
    """`text` if it has the form `pkg.mod:factory`, or `hf:CLASS`; raises ValueError."""
    if text.startswith("hf:") and not re.fullmatch(r"hf:[^\W\d]\w*(\.[^\W\d]\w*)?", text):
        raise ValueError(f"expected a class of transformers, such as hf:LlamaForCausalLM, found '{text}'")
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", text):
        raise ValueError(f"expected pkg.mod:factory, found '{text}'")
    return text


def torch_release(value: object) -> str:
    """`value` if it is a version of torch that has torch.compile, such as `2.13` or `2.14.1+cpu`; raises ValueError."""
    if not re.match(r"([2-9]|\d\d+)\.\d+", text := _text(value)):
        raise ValueError(f"expected a torch version from 2.0 on, such as '2.13', found '{text}'")
    return text


def _shared_folder(paths: list[Path]) -> Path | None:
    folders = [path if path.is_dir() else path.parent for path in paths]
    if not folders:
        return None
    shared = folders[0]
    while not all(folder.is_relative_to(shared) for folder in folders):
        shared = shared.parent
    return shared


def _read(file: Path, required: bool = False) -> Mapping[str, Any] | None:
    """compilelint's own table in `file`, or None where there is none."""
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f"{file}: no such configuration file") from None
        return None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from None
    ours = file.name != "pyproject.toml"
    if not ours and b"compilelint" not in data:
        return {} if required else None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    if ours:
        return table
    section = table.get("tool", {})
    section = section.get("compilelint") if isinstance(section, dict) else None
    if section is None:
        return {} if required else None
    if not isinstance(section, dict):
        raise ConfigError(f"{file}: tool.compilelint: expected a table, found {_kind(section)}")
    return section


def _settings(file: Path, table: Mapping[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            nested = "; here the keys stand at the top level, without [tool.compilelint]" if key == "tool" else ""
            raise ConfigError(f"{file}: unknown key '{key}'{nested or did_you_mean(key, _KEYS)}")
        try:
            values[key.replace("-", "_")] = _KEYS[key](value)
        except ValueError as error:
            raise ConfigError(f"{file}: {key}: {error}") from None
    settings = replace(Settings(root=file.resolve().parent, source=file.resolve()), **values)
    if settings.baseline is not None:
        settings = replace(settings, baseline=settings.root / settings.baseline)
    if settings.cache_dir is not None:
        settings = replace(settings, cache_dir=settings.root / settings.cache_dir)
    return settings


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "an integer", float: "a number", str: "text", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected text, found {_kind(value) if value != '' else 'nothing'}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of texts, found {_kind(value)}")
    return tuple(_text(item) for item in value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {_kind(value)}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError("expected a number of seconds above 0")
    return float(value)


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise ValueError(
                f"expected one of {', '.join(choices)}, found {value!r}{did_you_mean(str(value), choices)}"
            )
        return str(value)

    return check


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a table, found {_kind(value)}")
    return value


def _ignores(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((pattern, _texts(codes)) for pattern, codes in _table(value).items())


def _targets(value: object) -> tuple[tuple[str, str], ...]:
    targets = []
    for name, entry in _table(value).items():
        if not isinstance(entry, dict):
            raise ValueError(f"""{name}: expected a table with 'factory = "pkg.mod:function"', found {_kind(entry)}""")
        for key in entry:
            if key != "factory":
                raise ValueError(f"{name}: unknown key '{key}'{did_you_mean(key, ['factory'])}")
        if "factory" not in entry:
            raise ValueError(f"""{name}: 'factory = "pkg.mod:function"' is missing""")
        try:
            targets.append((name, factory_name(_text(entry["factory"]))))
        except ValueError as error:
            raise ValueError(f"{name}: factory: {error}") from None
    return tuple(targets)


_KEYS: dict[str, Callable[[object], object]] = {
    "select": _texts,
    "extend-select": _texts,
    "ignore": _texts,
    "exclude": _texts,
    "extend-exclude": _texts,
    "respect-gitignore": _flag,
    "force-exclude": _flag,
    "per-file-ignores": _ignores,
    "min-confidence": _one_of(CONFIDENCES),
    "fail-on": _one_of(FAIL_ON),
    "entry-points": _texts,
    "target-torch": torch_release,
    "engine": _one_of(ENGINES),
    "device": _one_of(DEVICES),
    "timeout": _seconds,
    "targets": _targets,
    "baseline": lambda value: Path(_text(value)),
    "cache-dir": lambda value: Path(_text(value)),
}
