"""Notebooks as tests write them."""

from __future__ import annotations

import json
from typing import Any


def cell(source: object, kind: str = "code", **metadata: object) -> dict[str, Any]:
    """A cell; its source is one text or a list of lines with their ends."""
    return {"cell_type": kind, "metadata": metadata, "source": source}


def notebook_text(*cells: dict[str, Any], language: str = "python", indent: int | None = 1, ascii: bool = False) -> str:
    """The JSON of a notebook with these cells, laid out as Jupyter does unless asked otherwise."""
    document = {"cells": cells, "metadata": {"language_info": {"name": language}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=indent, ensure_ascii=ascii) + "\n"
