"""`--show-settings`: the settings in force, as the configuration file that would give them."""

from __future__ import annotations

import json

from compilelint.config import Settings


def settings_text(settings: Settings) -> str:
    """TOML for `compilelint.toml`, with where the settings came from as a comment."""
    lines = [f"# from {settings.source or 'the defaults'}; patterns are relative to {settings.root}"]
    lines += [
        f"{name.replace('_', '-')} = {_value(value)}"
        for name in settings.__dataclass_fields__
        if name not in ("root", "source", "targets", "per_file_ignores", "baseline", "cache_dir", "cache")
        and (value := getattr(settings, name)) is not None
    ]
    if settings.baseline:
        lines.append(f"baseline = {_value(str(settings.baseline))}")
    if settings.cache_folder:
        lines.append(f"cache-dir = {_value(str(settings.cache_folder))}")
    if settings.per_file_ignores:
        lines += ["", "[per-file-ignores]"]
        lines += [f"{_value(pattern)} = {_value(codes)}" for pattern, codes in settings.per_file_ignores]
    for name, factory in settings.targets:
        lines += ["", f"[targets.{_value(name)}]", f"factory = {_value(factory)}"]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """A TOML value; for texts, numbers, flags and lists of texts JSON's notation is TOML's."""
    return json.dumps(value, ensure_ascii=False)
