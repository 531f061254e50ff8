"""GitHub's `primaryLocationLineHash`: what code scanning recognises an alert by when lines move.

The same as the upload action computes (github/codeql-action, fingerprints): for every line, a polynomial in 37 modulo
2**64 over the 100 UTF-16 units from the line's start, blanks and tabs left out, line ends folded to one, the end of the
file marked by 0xFFFF; then `:n` for the n-th line with that hash.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

WINDOW = 100
BASE = 37
MASK = 2**64 - 1
OUTGOING = pow(BASE, WINDOW, MASK + 1)
LINE_END = ord("\n")
END_OF_FILE = 0xFFFF


def line_hashes(text: str) -> list[str]:
    """The hash of every line of `text`, the first at index 0."""
    folded = text.replace("\r\n", "\n").replace("\r", "\n").replace(" ", "").replace("\t", "")
    data = folded.encode("utf-16-le", errors="surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]
    starts = [0, *(at + 1 for at, unit in enumerate(units) if unit == LINE_END)]
    padded = [*units, END_OF_FILE, *[0] * WINDOW]
    prefix = list(accumulate(padded, lambda value, unit: (value * BASE + unit) & MASK, initial=0))
    seen: Counter[int] = Counter()
    hashes = []
    for start in starts:
        value = (prefix[start + WINDOW] - prefix[start] * OUTGOING) & MASK
        seen[value] += 1
        hashes.append(f"{value:x}:{seen[value]}")
    return hashes
