"""The pytest plugin: what the compiler does while a test suite runs.

`pytest --compilelint` lists every graph break, skipped frame and recompile of a run by source line.
`@pytest.mark.compile_clean` fails a test in which one happens, with or without the option. Neither imports torch before
a test needs it, and where neither is used, torch is not imported at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from compilelint.model import Evidence, Finding
    from compilelint.runtime.wire import EvidenceKey
    from compilelint.sift.baseline import Known

_MARK = "compile_clean"
_SUITE = "compilelint-suite"
_REPORTED = "compilelint"
_ALLOWED = re.compile(r"GB\d+|graph-break|frame-skip|recompile")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("compilelint", "what torch.compile does in the tests")
    group.addoption("--compilelint", action="store_true", help="list graph breaks, skipped frames and recompiles")
    group.addoption(
        "--compilelint-baseline",
        type=Path,
        metavar="FILE",
        help="with --compilelint: fail if the compiler does anything that this file does not accept",
    )
    group.addoption(
        "--compilelint-update-baseline", action="store_true", help="write what the compiler did to the baseline"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and watch the whole run if that is asked for. Raises UsageError."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(allow=()): fail if the compiler breaks a graph, skips a frame or recompiles in this test; allow "
        "takes graph-break ids ('GB0059') and 'graph-break', 'frame-skip', 'recompile'",
    )
    asked = config.getoption("compilelint")
    if not asked and (config.getoption("compilelint_baseline") or config.getoption("compilelint_update_baseline")):
        raise pytest.UsageError("--compilelint-baseline and --compilelint-update-baseline go with --compilelint")
    if asked:
        if find_spec("torch") is None:
            raise pytest.UsageError("--compilelint needs torch in this environment: pip install torch")
        config.pluginmanager.register(_Suite(config), _SUITE)


# -- one test that has to be clean ----------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the body of a marked test from a fresh start of the compiler, and fail it if that did not go cleanly."""
    marks = list(item.iter_markers(_MARK))
    if not marks:
        return (yield)
    allowed = _allowed(marks)
    from compilelint.runtime.inside import forget_compiled, observing

    forget_compiled()
    with observing(item.nodeid) as heard:
        result = yield
    if not heard.compiled:
        _fail("nothing was compiled in this test, so there is nothing to be clean; is torch.compile switched off?")
    evidence = [seen for seen in heard.run().evidence if not {seen.gb, seen.hazard} & allowed]
    findings = _findings(item.nodeid, evidence)
    if findings:
        _fail("\n".join(["the compiler did not get through this test cleanly:", *map(_described, findings)]))
    return result


def _allowed(marks: Iterable[pytest.Mark]) -> frozenset[str]:
    allowed: set[str] = set()
    for mark in marks:
        if mark.args or mark.kwargs.keys() - {"allow"}:
            _fail("the mark takes one argument, by name: allow=['GB0059', 'recompile']")
        entries = mark.kwargs.get("allow", ())
        for entry in [entries] if isinstance(entries, str) else entries:
            if not _ALLOWED.fullmatch(entry):
                _fail(f"allow: '{entry}' is neither a graph-break id (GB0059) nor graph-break, frame-skip or recompile")
            allowed.add(entry)
    return frozenset(allowed)


def _fail(why: str) -> None:
    pytest.fail(f"{_MARK}: {why}", pytrace=False)


# -- a whole run ----------------------------------------------------------------------------------------------------


class _Suite:
    """Watches each test with its fixtures. Under pytest-xdist the workers watch; their reports carry what they saw."""

    def __init__(self, config: pytest.Config) -> None:
        self._baseline: Path | None = config.getoption("compilelint_baseline")
        self._update: bool = config.getoption("compilelint_update_baseline")
        self._evidence: dict[EvidenceKey, Evidence] = {}
        self._tests: dict[EvidenceKey, set[str]] = {}
        self._ran = self._compiled = False
        if self._update and self._baseline is None:
            raise pytest.UsageError("--compilelint-update-baseline: say where with --compilelint-baseline FILE")
        if self._update and self._baseline is not None and not self._baseline.parent.is_dir():
            raise pytest.UsageError(f"--compilelint-baseline: there is no folder {self._baseline.parent} to write to")
        self._known = {} if self._baseline is None or self._update else _known(self._baseline)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        from compilelint.runtime.inside import observing

        with observing(item.nodeid) as self._heard:
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "teardown":
            findings = _findings(self._heard.target, self._heard.run().evidence)
            seen = [asdict(item) for finding in findings for item in finding.evidence]
            # plain data, which xdist sends along with the report
            setattr(report, _REPORTED, {"compiled": self._heard.compiled, "evidence": seen})
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from compilelint.runtime.wire import counted, evidence_key, evidence_of

        told = getattr(report, _REPORTED, None)
        if told is None:
            return
        self._ran = True
        self._compiled |= told["compiled"]
        for fields in told["evidence"]:
            item = evidence_of(fields)
            key = evidence_key(item)
            self._evidence[key] = counted(self._evidence.get(key), item)
            self._tests.setdefault(key, set()).add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        if self._update and self._baseline is not None:
            from compilelint.sift.baseline import baseline_text

            self._baseline.write_text(baseline_text(self._findings()), encoding="utf-8")
        elif self._baseline is not None and self._new() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._ran:
            return
        findings = self._new()
        terminalreporter.section("compilelint")
        for finding in findings:
            terminalreporter.write_line(self._line(finding))
        terminalreporter.write_line(self._total(findings))

    def _findings(self) -> tuple[Finding, ...]:
        return _findings("pytest", self._evidence.values())

    def _new(self) -> tuple[Finding, ...]:
        from compilelint.sift.baseline import not_in_baseline

        return tuple(sorted(not_in_baseline(self._findings(), self._known), key=_place))

    def _line(self, finding: Finding) -> str:
        hits = sum(item.hits for item in finding.evidence)
        tests = set().union(*(self._tests_of(item) for item in finding.evidence))
        return f"{_headline(finding)} ({_counted(hits, 'time')} in {_counted(len(tests), 'test')})"

    def _tests_of(self, item: Evidence) -> set[str]:
        from compilelint.runtime.wire import evidence_key

        return self._tests.get(evidence_key(item), set())

    def _total(self, findings: Sequence[Finding]) -> str:
        accepted = len(self._findings()) - len(findings)
        if self._update:
            return f"{_counted(len(findings), 'place')} written to {self._baseline}"
        if not self._compiled:
            return "no test compiled anything"
        new = "new " if self._baseline is not None else ""
        rest = f"; {accepted} in the baseline" if accepted else ""
        kinds = Counter(finding.hazard for finding in findings)
        split = ", ".join(_counted(kinds[hazard], hazard.replace("-", " ")) for hazard in sorted(kinds))
        return f"{new}{split or 'graph breaks, skipped frames and recompiles: none'}{rest}"


# -- findings -------------------------------------------------------------------------------------------------------


def _findings(name: str, evidence: Iterable[Evidence]) -> tuple[Finding, ...]:
    """What was seen, by place, without what compiling a function for a second kind of input always takes."""
    from compilelint.merge import merge
    from compilelint.model import TargetRun

    seen = tuple(evidence)
    return merge((), [TargetRun(name, "ok", evidence=seen)]) if seen else ()


def _known(baseline: Path) -> Known:
    from compilelint.config import ConfigError
    from compilelint.sift.baseline import read_baseline

    try:
        return read_baseline(baseline)
    except ConfigError as error:
        message = str(error).replace("--update-baseline", "--compilelint-update-baseline")
        raise pytest.UsageError(message) from None


def _place(finding: Finding) -> tuple[str, int]:
    return finding.path, finding.span.line


def _headline(finding: Finding) -> str:
    ids = sorted({item.gb for item in finding.evidence if item.gb})
    text = f"{finding.path}:{finding.span.line} in {finding.function}: {finding.message}"
    return text + (f" [{', '.join(ids)}]" if ids else "")


def _described(finding: Finding) -> str:
    return f"{_headline(finding)}\n    hint: {finding.instead}" if finding.instead else _headline(finding)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
