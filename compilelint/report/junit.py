"""JUnit XML, for CI systems that read test results: a suite per file, a case per finding; a suite for the targets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from compilelint.model import Finding, Report
from compilelint.report import Look
from compilelint.report.rank import by_place
from compilelint.source import Sources

# XML 1.0 has no way to write these, not even escaped.
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report, look: Look) -> str:
    """The report as a `<testsuites>` document; findings are failures, what could not be checked is an error."""
    root = Element("testsuites", name="compilelint")
    for path, findings in groupby(by_place(report.findings), key=lambda finding: finding.path):
        _suite(root, path, [_finding_case(finding, look.sources) for finding in findings])
    errors = [
        _case(failure.path, "not-checked", "error", failure.message, f"{failure.path}: {failure.message}")
        for failure in report.failures
    ]
    if errors:
        _suite(root, "not checked", errors)
    if report.targets:
        _suite(root, "targets", [_target_case(run.name, run.status, run.detail) for run in report.targets])
    if not len(root):
        _suite(root, "compilelint", [Element("testcase", name="No findings", classname="compilelint")])
    cases = list(root.iter("testcase"))
    root.set("tests", str(len(cases)))
    root.set("failures", str(_count(cases, "failure")))
    root.set("errors", str(_count(cases, "error")))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, name: str, cases: list[Element]) -> None:
    suite = SubElement(root, "testsuite", name=_writable(name), tests=str(len(cases)))
    suite.set("failures", str(_count(cases, "failure")))
    suite.set("errors", str(_count(cases, "error")))
    suite.extend(cases)


def _count(cases: Iterable[Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _finding_case(finding: Finding, sources: Sources) -> Element:
    span = finding.span
    place = sources.place(finding.path, span.line, span.column)
    lines = [f"{place}: {finding.message}", f"verdict: {finding.verdict}"]
    lines += [f"{item.target}: {item.gb or item.channel}: {item.reason}" for item in finding.evidence]
    if finding.instead:
        lines.append(f"instead: {finding.instead}")
    name = f"{finding.rule} {finding.name}{place.removeprefix(finding.path)}"
    case = _case(name, finding.path, "failure", finding.message, "\n".join(lines))
    case.set("file", _writable(finding.path))
    case.set("line", str(sources.in_file(finding.path, span).line))
    return case


def _target_case(name: str, status: str, detail: str) -> Element:
    if status == "ok":
        return Element("testcase", name=_writable(name), classname="targets")
    return _case(name, "targets", "error", status, detail)


def _case(name: str, group: str, outcome: str, message: str, text: str) -> Element:
    case = Element("testcase", name=_writable(name), classname=_writable(group))
    SubElement(case, outcome, message=_writable(message)).text = _writable(text)
    return case


def _writable(text: str) -> str:
    return UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
