"""A file's text before it is parsed: what tells one content from another, and which names it may bind."""

from __future__ import annotations

import hashlib
import re


def names_digest(data: bytes) -> str:
    """What tells one set of names that a file's text may bind from another; "" where the text cannot tell them."""
    names = top_level_names(data)
    return "" if names is None else digest_of("\n".join(sorted(names)).encode())


def digest_of(data: bytes) -> str:
    """What tells one content of a file from another."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


_EXPORTS = re.compile(rb"^__all__\s*(?::[^=\n]*)?=\s*[\[(]([^\])]*)[\])]", re.MULTILINE)
_TOP_LEVEL = re.compile(
    rb"^[^\S\n]*(?:class|def|async def)\s+(\w+)"  # a definition, under an `if` too; methods do no harm
    rb"|^[^\S\n]*(\w+)\s*[:=]"  # an assignment
    rb"|^[^\S\n]*(?:from\s+\S+\s+)?import\s+(\([^)]*\)|[^\n(]*)",  # an import, in parentheses over several lines
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+")


def top_level_names(text: bytes) -> frozenset[str] | None:
    """Names that `from file import *` may bind, by the file's text; None where only parsing it can tell."""
    exports = _EXPORTS.findall(text)
    names: set[bytes] = set()
    if len(exports) == 1 and text.count(b"__all__") == 1:
        names.update(_WORD.findall(exports[0]))
    else:
        for match in _TOP_LEVEL.finditer(text):
            if match[3] is None:
                names.add(match[1] or match[2])
            elif b"*" in match[3] or b"\\" in match[3]:
                return None
            else:
                names.update(_WORD.findall(match[3]))
    return frozenset(name.decode(errors="replace") for name in names)
