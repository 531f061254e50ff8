"""SARIF objects to JSON text.

jschema_to_python's serialiser, which sarif-om's own documentation uses, leaves out every value that equals its
default, `level` among them: a `warning` on a rule whose default is `error` would be read as an error. It also writes
misspelt attributes.
"""

from __future__ import annotations

import json
from typing import Any

import attr

ALWAYS_WRITTEN = frozenset({"level"})


def sarif_text(log: object) -> str:
    """The JSON text of a sarif_om object. Raises TypeError for an attribute that SARIF does not have."""
    return json.dumps(_plain(log), indent=1, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if not attr.has(type(value)):
        return value
    fields = attr.fields(type(value))
    if strays := vars(value).keys() - {field.name for field in fields}:
        raise TypeError(f"{type(value).__name__} has no {', '.join(sorted(strays))}")
    written = {}
    for field in fields:
        item = getattr(value, field.name)
        if item is None or (item == _default(field) and field.name not in ALWAYS_WRITTEN):
            continue
        written[field.metadata["schema_property_name"]] = _plain(item)
    return written


def _default(field: Any) -> Any:
    return field.default.factory() if isinstance(field.default, attr.Factory) else field.default  # type: ignore[arg-type]
