"""What a finding is recognised by from one run to the next, in baselines and in SARIF."""

from __future__ import annotations

import hashlib


def fingerprint(path: str, function: str, rule: str, source_line_text: str, occurrence: int = 0) -> str:
    """16 hexadecimal digits that stay the same when lines above the finding move or its indentation changes.

    `path` is relative to the project. `occurrence` counts findings, from 0, that are equal in all the rest.
    """
    parts = (path.replace("\\", "/"), function, rule, " ".join(source_line_text.split()), str(occurrence))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]
