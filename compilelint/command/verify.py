"""`check --fix --verify`: make the fixes whose hazard a target shows, run the targets again, undo what fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from compilelint.command.fix import MOST_PASSES
from compilelint.fix.apply import Change, LeftAloneError, changes, write
from compilelint.fix.verify import fault
from compilelint.model import Finding, Report
from compilelint.report.tally import plural
from compilelint.source import Sources

Check = Callable[[Sources], Report]


def fix_verified(check: Check, files: Iterable[Path], cwd: Path, *, unsafe: bool) -> tuple[Report, Sources]:
    """Fix what can be tried, and keep what holds: the report of what remains, and the sources as they are.

    All fixes are tried together; only if that does not hold, each is tried by itself. What `check` gives has the runs
    of the targets, with results.
    """
    work = _Work(check, frozenset(file.resolve() for file in files), cwd, unsafe)
    report = check(Sources(cwd))
    together = True
    for _ in range(MOST_PASSES + len(work.candidates(report))):
        group = work.candidates(report)
        if not group:
            break
        group = group if together else group[:1]
        after, reason = work.tried(group, report)
        if not reason:
            report = after
            work.held += len(group)
        elif len(group) > 1:
            together = False
        else:
            work.refused[group[0].fingerprint] = reason
    sources = Sources(cwd)
    work.tell(report, sources)
    return work.marked(report), sources


@dataclass(slots=True)
class _Work:
    """Fixes being tried. `refused` says by fingerprint why a finding keeps its hazard; `held` counts the others."""

    check: Check
    files: frozenset[Path]
    cwd: Path
    unsafe: bool
    refused: dict[str, str] = field(default_factory=dict)
    held: int = 0

    def candidates(self, report: Report) -> list[Finding]:
        """The findings that a target which runs has confirmed, and that have a fix which has not failed."""
        sound = {run.name for run in report.targets if run.status == "ok"}
        return [
            finding
            for finding in self._fixable(report)
            if finding.verdict == "confirmed"
            and any(item.target in sound for item in finding.evidence)
            and finding.fingerprint not in self.refused
        ]

    def tried(self, group: Sequence[Finding], before: Report) -> tuple[Report, str]:
        """The report with the group's fixes made, and why they do not hold; they are undone then."""
        made = changes(group, Sources(self.cwd), unsafe=self.unsafe)
        try:
            with self._undone_on_error(made) as undo:
                after = self.check(Sources(self.cwd))
                reason = fault(group, made, before.targets, after.targets)
                if reason:
                    undo()
                return after, reason
        except LeftAloneError as error:
            return before, str(error)

    def tell(self, report: Report, sources: Sources) -> None:
        """What was done and what was not, on standard error."""
        for finding in report.findings:
            if finding.fingerprint in self.refused:
                place = sources.place(finding.path, finding.span.line, finding.span.column)
                print(
                    f"compilelint: {place}: {finding.rule}: fix undone: {self.refused[finding.fingerprint]}",
                    file=sys.stderr,
                )
        untried = sum(finding.fingerprint not in self.refused for finding in self._fixable(report))
        told = f"fixed {plural(self.held, 'finding')}, seen to be gone" if self.held else "fixed nothing"
        rest = f"; {plural(untried, 'change')} not tried, as no target shows the hazard" if untried else ""
        print(f"compilelint: {told}{rest}", file=sys.stderr)

    def marked(self, report: Report) -> Report:
        """The report with the fixes that were tried in vain marked as such."""
        return replace(report, findings=tuple(map(self._marked, report.findings)))

    def _marked(self, finding: Finding) -> Finding:
        if finding.fingerprint not in self.refused:
            return finding
        return replace(finding, fixes=tuple(replace(fix, verified=False) for fix in finding.fixes))

    def _fixable(self, report: Report) -> list[Finding]:
        return [
            finding
            for finding in report.findings
            if any(self.unsafe or fix.safety == "safe" for fix in finding.fixes)
            and (self.cwd / finding.path).resolve() in self.files
        ]

    @contextmanager
    def _undone_on_error(self, made: Sequence[Change]) -> Iterator[Callable[[], None]]:
        """Write the changes; what is given takes them back, as does an error, an interrupt among them."""
        written: list[Change] = []

        def undo() -> None:
            while written:
                change = written.pop()
                try:
                    write(replace(change, before=change.after, after=change.before), self.cwd / change.path)
                except LeftAloneError as reason:
                    print(f"compilelint: {change.path}: the fix is still in it: {reason}", file=sys.stderr)

        try:
            for change in made:
                write(change, self.cwd / change.path)
                written.append(change)
            yield undo
        except BaseException:
            undo()
            raise
