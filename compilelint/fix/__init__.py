"""Fixes: from what rules propose to edits, and from edits to changed files.

`fixed` imports libcst, and only when there is a rewrite to work out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compilelint.model import Finding
from compilelint.source import Sources


def fixed(findings: Sequence[Finding], sources: Sources) -> tuple[Finding, ...]:
    """The findings, with `fixes` where a rule proposed a rewrite that can be made in this source.

    What the compiler was seen to handle needs none.
    """
    return tuple(_fixed(finding, sources) if _wanted(finding) else finding for finding in findings)


def _wanted(finding: Finding) -> bool:
    return finding.rewrite is not None and finding.verdict != "handled"


def _fixed(finding: Finding, sources: Sources) -> Finding:
    from compilelint.fix.edits import fix_of

    assert finding.rewrite is not None
    fix = fix_of(finding.rewrite, sources.text(finding.path))
    return finding if fix is None else replace(finding, fixes=(*finding.fixes, fix))
