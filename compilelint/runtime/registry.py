"""torch's own list of graph breaks (`torch/_dynamo/graph_break_registry.json`): which id belongs to a break's type."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def gb_ids() -> dict[str, str]:
    """Break type to id (`"Data-dependent branching"` to `"GB0170"`), of the installed torch; empty where it has none.

    The file came with torch 2.8. It keeps the older wordings of an id too, and where two ids share a wording, the
    later one counts, as in torch's own look-up.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(next(iter(spec.submodule_search_locations)), "_dynamo", "graph_break_registry.json")
    try:
        registry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {entry["Gb_type"]: gb for gb, entries in registry.items() for entry in entries}
