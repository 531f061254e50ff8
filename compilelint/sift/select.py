"""Selection: which rules, how sure, in which files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from compilelint.config import ConfigError, Settings, did_you_mean
from compilelint.model import CONFIDENCES, Confidence, Finding

SEEN = frozenset({"confirmed", "runtime-only"})
"""Verdicts with the compiler's own word behind them."""


def check_codes(codes: Iterable[str], known: Collection[str], where: str) -> None:
    """Raise ConfigError for a code or prefix that no known rule starts with; `where` names the option."""
    for code in codes:
        if code != "ALL" and not (code and any(rule.startswith(code) for rule in known)):
            raise ConfigError(f"{where}: no rule has the code '{code}'{did_you_mean(code, [*known, 'ALL'])}")


def selected(findings: Iterable[Finding], settings: Settings) -> tuple[Finding, ...]:
    """The findings of the rules that are switched on."""
    chosen = (*settings.select, *settings.extend_select)
    enabled: dict[str, bool] = {}
    for code in {finding.rule for finding in findings}:
        # The longer prefix speaks: `--select CL2 --ignore CL20 --extend-select CL201`. On a tie it is ignored.
        enabled[code] = _strength(code, chosen) > _strength(code, settings.ignore)
    return tuple(finding for finding in findings if enabled[finding.rule])


def outside_per_file_ignores(findings: Iterable[Finding], settings: Settings, cwd: Path) -> tuple[Finding, ...]:
    """The findings whose file has no per-file ignore for their rule; patterns are relative to `settings.root`."""
    if not settings.per_file_ignores:
        return tuple(findings)
    from pathspec import GitIgnoreSpec

    specs = [(GitIgnoreSpec.from_lines([pattern]), codes) for pattern, codes in settings.per_file_ignores]
    ignored: dict[str, tuple[str, ...]] = {}

    def codes_of(path: str) -> tuple[str, ...]:
        if path not in ignored:
            absolute = cwd / path
            inside = absolute.is_relative_to(settings.root)
            name = (absolute.relative_to(settings.root) if inside else absolute).as_posix().lstrip("/")
            ignored[path] = tuple(code for spec, codes in specs if spec.match_file(name) for code in codes)
        return ignored[path]

    return tuple(finding for finding in findings if not _strength(finding.rule, codes_of(finding.path)))


def sure_enough(findings: Iterable[Finding], least: Confidence) -> tuple[Finding, ...]:
    """The findings at least that sure; one that the compiler was seen to do is sure whatever the rule thought."""
    kept = CONFIDENCES[: CONFIDENCES.index(least) + 1]
    return tuple(finding for finding in findings if finding.confidence in kept or finding.verdict in SEEN)


def _strength(code: str, prefixes: Iterable[str]) -> int:
    """How closely the prefixes name `code`: 0 not at all, 1 by `ALL`, else one more than the longest one's length."""
    return max((1 if prefix == "ALL" else 1 + len(prefix) for prefix in prefixes if _covers(prefix, code)), default=0)


def _covers(prefix: str, code: str) -> bool:
    return prefix == "ALL" or code.startswith(prefix)
