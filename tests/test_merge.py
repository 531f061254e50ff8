"""What becomes of findings once targets have run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compilelint.merge import merge
from compilelint.model import Evidence, Finding, Span, Step, TargetRun

SOURCE = """\
class Rope:
    def ensure(self, n):
        if n > self.known:
            self.known = n
        return self.helper(
            n,
        )

    def helper(self, n):
        return n.item()

    def unused(self):
        print("never")
"""
CHANNELS = frozenset({"graph-break", "frame-skip", "recompile", "recompile-limit"})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "rope.py"
    path.write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return str(path)


def finding(line: int, hazard: str = "graph-break", last: int | None = None) -> Finding:
    return Finding(
        rule="CL201",
        name="item-call",
        hazard=hazard,  # type: ignore[arg-type]
        path="rope.py",
        span=Span(line, 9, last or line, 20),
        function="Rope.ensure",
        message="",
        instead="",
        confidence="likely",
        statement=(line, last or line),
        fingerprint=f"{line}",
    )


def seen(path: str, line: int, channel: str = "graph-break", **more: object) -> Evidence:
    hazard = {"recompile-limit": "recompile", "sync": "host-sync"}.get(channel, channel)
    item = Evidence("t", channel, hazard, path, line, "ensure", "because", stack=(Step(path, line, "ensure"),))  # type: ignore[arg-type]
    return replace(item, **more)  # type: ignore[arg-type]


def ran(path: str, *evidence: Evidence, traced: set[int] = frozenset(), **more: object) -> TargetRun:  # type: ignore[assignment]
    outcome = TargetRun(
        "t",
        "ok",
        calls=3,
        watched=CHANNELS,  # type: ignore[arg-type]
        evidence=evidence,
        executed={path: frozenset({3, 4, 5, 10})},
        traced={path: frozenset(traced)},
    )
    return replace(outcome, **more)  # type: ignore[arg-type]


def test_without_runs_findings_stay_as_they_are() -> None:
    assert merge([finding(3)], []) == (finding(3),)


def test_evidence_inside_the_statement_confirms(file: str) -> None:
    item = seen(file, 6, "frame-skip", gb="GB0124")
    (merged,) = merge([finding(5, last=7)], [ran(file, item)])
    assert (merged.verdict, merged.evidence) == ("confirmed", (item,))


def test_evidence_of_several_targets_meets_in_one_finding(file: str) -> None:
    runs = [ran(file, seen(file, 3)), ran(file, seen(file, 3, target="u"))]
    (predicted,) = merge([finding(3)], runs)
    assert [item.target for item in predicted.evidence] == ["t", "u"]
    (unpredicted,) = merge([], runs)
    assert [item.target for item in unpredicted.evidence] == ["t", "u"]


def test_a_break_that_nobody_predicted_is_a_finding_of_its_own(file: str) -> None:
    (merged,) = merge([], [ran(file, seen(file, 3), seen(file, 3, "frame-skip", hint="do not"))])
    assert (merged.rule, merged.name, merged.verdict, merged.confidence) == (
        "CL000",
        "runtime-break",
        "runtime-only",
        "certain",
    )
    assert (merged.hazard, merged.path, merged.function) == ("frame-skip", "rope.py", "Rope.ensure")
    assert (merged.span, merged.statement) == (Span(3, 9, 3, 27), (3, 3))
    assert merged.instead == "do not"
    assert len(merged.evidence) == 2


def test_of_recompiles_the_message_is_about_the_limit(file: str) -> None:
    recompile = seen(file, 3, "recompile", hits=2, reason="A guard failed: n == 1")
    limit = replace(recompile, channel="recompile-limit", reason="forward reached the recompile limit")
    (merged,) = merge([], [ran(file, recompile, limit)])
    assert merged.message == "the compiler compiles this function again: forward reached the recompile limit"


def test_a_break_confirms_a_sync_but_does_not_replace_the_break(file: str) -> None:
    sync, break_ = merge([finding(3, "host-sync")], [ran(file, seen(file, 3))])
    assert (sync.verdict, break_.rule) == ("confirmed", "CL000")


def test_a_break_says_nothing_about_a_recompile(file: str) -> None:
    recompile, break_ = merge([finding(3, "recompile")], [ran(file, seen(file, 3))])
    assert (recompile.verdict, break_.rule) == ("static", "CL000")


def test_a_loop_is_not_confirmed_by_a_break_in_a_statement_of_its_body(file: str) -> None:
    outer, inner = merge([finding(3, last=7), finding(4)], [ran(file, seen(file, 4))])
    assert (outer.verdict, inner.verdict) == ("static", "confirmed")


def test_handled_is_a_traced_line_without_evidence(file: str) -> None:
    assert verdict(finding(3), ran(file, traced={3})) == "handled"
    assert verdict(finding(3), ran(file)) == "static"


def test_only_runs_whose_executed_lines_are_known_say_that_a_line_was_not_reached(file: str) -> None:
    assert verdict(finding(12), ran(file)) == "not-reached"
    assert verdict(finding(12), ran(file, traced={3}, executed={})) == "static"
    runs = [ran(file), ran(file, traced={3}, executed={})]
    assert [item.verdict for item in merge([finding(12), finding(3)], runs)] == ["static", "handled"]


def test_silence_on_a_channel_that_was_not_watched_proves_nothing(file: str) -> None:
    assert verdict(finding(3, "host-sync"), ran(file, traced={3})) == "static"
    assert verdict(finding(3, "stale-result"), ran(file, traced={3})) == "static"
    assert verdict(finding(3), ran(file, traced={3}, watched=frozenset({"recompile"}))) == "static"
    assert verdict(finding(3, "host-sync"), ran(file, traced={3}, watched=frozenset({"sync"}))) == "handled"


def test_a_single_call_cannot_show_a_recompile(file: str) -> None:
    assert verdict(finding(3, "recompile"), ran(file, traced={3}, calls=1)) == "static"
    assert verdict(finding(3, "recompile"), ran(file, traced={3}, calls=2)) == "handled"


def test_a_call_on_the_way_to_a_break_is_not_handled(file: str) -> None:
    deeper = seen(file, 10, stack=(Step(file, 5, "ensure"), Step(file, 10, "helper")))
    caller, _ = merge([finding(5)], [ran(file, deeper, traced={5})])
    assert caller.verdict == "static"


def test_not_reached_is_a_statement_that_no_sound_target_ran(file: str) -> None:
    assert verdict(finding(13), ran(file)) == "not-reached"
    assert verdict(finding(13), ran(file, status="crashed")) == "static"
    other = replace(finding(3), path="other.py")
    assert verdict(other, ran(file)) == "not-reached"


def test_what_a_crashed_target_showed_counts(file: str) -> None:
    assert verdict(finding(3), ran(file, seen(file, 3), status="crashed")) == "confirmed"


def test_a_write_is_confirmed_by_the_guard_that_reads_it(file: str) -> None:
    item = seen(file, 3, "recompile", guard="self._modules['rope'].known == 5")
    write, read = merge([finding(4, "recompile")], [ran(file, item, traced={3, 4})])
    assert (write.verdict, read.rule, read.span.line) == ("confirmed", "CL000", 3)


@pytest.mark.parametrize("guard", ["not self.kept", "len(self.kept) == 2", "tensor 'x' size mismatch at index 1."])
def test_a_guard_on_something_else_confirms_nothing(file: str, guard: str) -> None:
    assert merge([finding(4, "recompile")], [ran(file, seen(file, 3, "recompile", guard=guard))])[0].verdict == "static"


def test_one_recompile_for_a_new_kind_of_input_is_no_finding(file: str) -> None:
    once = seen(file, 2, "recompile", stack=(), guard="tensor 'n' size mismatch at index 0. expected 3, actual 5")
    assert merge([], [ran(file, once)]) == ()
    assert [found.hazard for found in merge([], [ran(file, replace(once, hits=2))])] == ["recompile"]
    assert len(merge([], [ran(file, replace(once, channel="recompile-limit"))])) == 1


def test_equal_lines_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text("def f(x):\n    print(x)\n    print(x)\n")
    first, second = merge([], [ran(str(path), seen(str(path), 2), seen(str(path), 3))])
    assert first.fingerprint != second.fingerprint
    path.write_text("import torch\n\ndef f(x):\n    print(x)\n    print(x)\n")
    assert len(first.fingerprint) == 16


def test_a_file_that_cannot_be_read_is_reported_by_its_line_alone() -> None:
    (merged,) = merge([], [ran("/nowhere/x.py", seen("/nowhere/x.py", 3))])
    assert (merged.path, merged.span, merged.function) == ("/nowhere/x.py", Span(3, 1, 3, 1), "ensure")


def verdict(predicted: Finding, outcome: TargetRun) -> str:
    return merge([predicted], [outcome])[0].verdict
