"""SARIF: valid by the schema that GitHub's upload step enforces, and what the schema cannot say.

data/sarif-schema-2.1.0.json is the copy of the OASIS schema in github/codeql-action.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sarif_om
from jsonschema import Draft202012Validator
from samples import BREAK, ITEM, PRINT, SOURCE, confirmed, report

from compilelint.command.codes import all_cards
from compilelint.model import Edit, Fix, Report, Span, Step
from compilelint.report import Look, render, sarif
from compilelint.report.line_hash import line_hashes
from compilelint.report.sarif_text import sarif_text
from compilelint.sift import BUILT_IN_CARDS
from compilelint.source import Sources

SCHEMA = Path(__file__).parent / "data/sarif-schema-2.1.0.json"


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA.read_text()))


def log_of(what: Report, cwd: Path, source: str = SOURCE, **options: Any) -> dict[str, Any]:
    text = render(what, "sarif", Look(Sources(cwd, {"model.py": source}), **options))
    document: dict[str, Any] = json.loads(text)
    assert [error.message for error in validator().iter_errors(document)] == []
    return document


def run_of(what: Report, cwd: Path, source: str = SOURCE, **options: Any) -> dict[str, Any]:
    run: dict[str, Any] = log_of(what, cwd, source, **options)["runs"][0]
    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo/.git").mkdir(parents=True)
    return tmp_path / "repo"


def test_everything_at_once_is_valid(repository: Path) -> None:
    safe = Fix("drop it", "safe", (Edit(Span(6, 17, 6, 31), "x.sum()"),), verified=True)
    what = report(confirmed(replace(ITEM, fixes=(safe, *ITEM.fixes))), PRINT, cards=(*report().cards, *BUILT_IN_CARDS))
    document = log_of(what, repository, category="nightly")
    run = document["runs"][0]
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    assert run["automationDetails"] == {"id": "nightly/"}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["CL000", "CL001", "CL201", "CL401"]
    assert [fix["description"]["text"] for fix in run["results"][0]["fixes"]] == ["drop it."]


def test_rules_carry_what_github_reads(repository: Path) -> None:
    rule = run_of(report(), repository)["tool"]["driver"]["rules"][0]
    assert (rule["id"], rule["name"]) == ("CL201", "ItemCall")
    assert rule["help"]["markdown"].startswith("Reads a tensor back into Python.\n\n## What it does")
    assert rule["help"]["text"] == "Reads a tensor back into Python.\n\nWhat it does\n\nSyncs."
    assert rule["fullDescription"]["text"] == "Syncs."
    assert rule["properties"] == {
        "tags": ["torch.compile", "graph-break"],
        "precision": "high",
        "problem.severity": "error",
    }
    assert rule["defaultConfiguration"] == {"level": "warning"}


def test_every_rule_has_what_github_requires(repository: Path) -> None:
    """github docs, "SARIF support for code scanning", reportingDescriptor object; required texts may not be empty."""
    rules = run_of(replace(report(), cards=all_cards()), repository)["tool"]["driver"]["rules"]
    assert len(rules) >= len(all_cards())
    for rule in rules:
        assert 0 < len(rule["name"]) <= 255
        assert 0 < len(rule["shortDescription"]["text"]) <= 1024
        assert 0 < len(rule["fullDescription"]["text"]) <= 1024
        assert rule["help"]["text"]
        assert len(rule["properties"]["tags"]) <= 10
        assert rule["properties"]["precision"] in ("very-high", "high", "medium", "low")
        assert rule["properties"]["problem.severity"] in ("error", "warning", "recommendation")
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")


def test_results_point_at_their_rules_and_always_have_a_level(repository: Path) -> None:
    run = run_of(report(confirmed(), PRINT, replace(PRINT, verdict="handled"), cards=()), repository)
    rules = run["tool"]["driver"]["rules"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_message_stands_alone_and_links_to_related_locations(repository: Path) -> None:
    result = run_of(report(confirmed(replace(ITEM, message="`x[i](1)` breaks"))), repository)["results"][0]
    assert result["message"]["text"] == (
        "`x\\[i\\](1)` breaks. Compiled from [torch.compile(Gate())](1). Target gate saw GB0124 at [forward line 6](2)."
    )
    assert [location["id"] for location in result["relatedLocations"]] == [1, 2]


def test_the_definition_of_the_value_is_linked(repository: Path) -> None:
    made = replace(ITEM, region=(), definition=Step("model.py", 5, "Gate.forward", "x"))
    result = run_of(report(made), repository)["results"][0]
    assert result["message"]["text"].endswith("In default mode the graph ends here. `x` is set in [line 5](1).")
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 5}


def test_a_failed_guard_is_named_where_its_value_was_read(repository: Path) -> None:
    seen = replace(BREAK, channel="recompile", hazard="recompile", gb=None, guard="self.steps[0](1) == 3")
    result = run_of(report(confirmed(replace(ITEM, region=()), seen)), repository)["results"][0]
    said = "Target gate saw recompile of the guard `self.steps\\[0\\](1) == 3` at [forward line 6](1)."
    assert result["message"]["text"].endswith(said)
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 6


def test_region_is_a_code_flow_that_ends_at_the_hazard(repository: Path) -> None:
    result = run_of(report(), repository)["results"][0]
    [flow] = result["codeFlows"][0]["threadFlows"]
    lines = [step["location"]["physicalLocation"]["region"]["startLine"] for step in flow["locations"]]
    assert lines == [3, 5, 6]
    assert "codeFlows" not in run_of(report(PRINT), repository)["results"][0]


def test_evidence_is_a_stack_and_properties(repository: Path) -> None:
    result = run_of(report(), repository)["results"][0]
    frames = result["stacks"][0]["frames"]
    assert [frame["location"]["message"]["text"] for frame in frames] == ["forward", "run"]
    evidence = result["properties"]["evidence"][0]
    assert (evidence["gb"], evidence["target"], evidence["hits"]) == ("GB0124", "gate", 2)


@pytest.mark.parametrize(
    ("code_point_column", "utf16_column"),
    [(1, 1), (6, 6), (7, 8), (8, 10)],
)
def test_columns_are_utf16_units(repository: Path, code_point_column: int, utf16_column: int) -> None:
    finding = replace(ITEM, span=Span(1, code_point_column, 1, code_point_column + 1))
    run = run_of(report(finding), repository, "é = '😀😀' + x.item()\n")
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert run["columnKind"] == "utf16CodeUnits"
    assert region["startColumn"] == utf16_column


def uris(value: Any) -> list[tuple[str, str]]:
    """(uriBaseId, uri) of every artifact location in a log."""
    if isinstance(value, list):
        return [found for item in value for found in uris(item)]
    if isinstance(value, dict):
        own = [(value["uriBaseId"], value["uri"])] if "uri" in value else []
        return own + [found for item in value.values() for found in uris(item)]
    return []


def test_no_path_of_this_machine_is_written(repository: Path, tmp_path: Path) -> None:
    package = tmp_path / "venv/lib/python3.12/site-packages/lib x"
    (package / "sub").mkdir(parents=True)
    (repository / "src").mkdir()
    for folder in (package, package / "sub"):
        (folder / "__init__.py").touch()
    reason = f'in File "{package}/sub/a.py", and {repository}/src/m.py, and {Path.home()}/secret.py'
    seen = replace(BREAK, path=f"{package}/sub/a.py", reason=reason, stack=(Step(f"{package}/sub/a.py", 3, "f"),))
    finding = confirmed(replace(ITEM, path="my file.py", message=reason, instead=reason), seen)
    text = render(report(finding), "sarif", Look(Sources(repository / "src")))
    for folder in (str(tmp_path), str(Path.home())):
        assert folder not in text
    assert set(uris(json.loads(text)["runs"][0]["results"])) == {
        ("%SRCROOT%", "src/my%20file.py"),
        ("%SRCROOT%", "src/main.py"),
        ("%SRCROOT%", "src/model.py"),
        ("PACKAGES", "lib%20x/sub/a.py"),
    }
    assert 'in File \\"lib x/sub/a.py\\", and m.py, and ~/secret.py' in text


def test_more_results_than_github_takes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    warnings: list[str] = []
    many = [replace(PRINT, span=Span(n, 1, n, 2)) for n in range(1, 9)]
    run = run_of(report(*many, confirmed()), repository, warn=warnings.append)
    assert [result["ruleId"] for result in run["results"]] == ["CL201", "CL401", "CL401"]
    assert warnings == ["SARIF holds the worst 3 of 9 findings, as GitHub takes no more"]


def test_a_larger_log_than_github_takes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the size that is uploaded, compressed; the catalogue of rules stays whole."""
    digits = [replace(PRINT, span=Span(n, 1, n, 2), message=hashlib.sha512(bytes([n])).hexdigest()) for n in range(99)]
    what = report(*digits, confirmed())
    whole = render(what, "sarif", Look(Sources(repository))).encode()
    limit = len(gzip.compress(whole)) // 2
    monkeypatch.setattr(sarif, "MOST_BYTES", limit)
    warnings: list[str] = []
    text = render(what, "sarif", Look(Sources(repository), warn=warnings.append))
    run = json.loads(text)["runs"][0]
    assert len(whole) > limit > len(gzip.compress(text.encode())) > limit // 2
    assert run["results"][0]["ruleId"] == "CL201"
    assert len(run["tool"]["driver"]["rules"]) == len(what.cards)
    assert warnings == [f"SARIF holds the worst {len(run['results'])} of 100 findings, as GitHub takes no more"]


def test_fingerprints(repository: Path) -> None:
    result = run_of(report(), repository)["results"][0]
    assert result["partialFingerprints"] == {
        "primaryLocationLineHash": line_hashes(SOURCE)[5],
        "compilelint/v1": "f-item",
    }
    gone = run_of(report(replace(ITEM, path="gone.py")), repository)["results"][0]
    assert gone["partialFingerprints"] == {"compilelint/v1": "f-item"}


@pytest.mark.parametrize(
    ("text", "hashes"),
    [
        ("", ["c129715d7a2bc9a3:1"]),
        (" a\nb\n  \t\tc\n d", ["271789c17abda88f:1", "54703d4cd895b18:1", "180aee12dab6264:1", "a23a3dc5e078b07b:1"]),
        (
            "x = 2\nx = 1\nprint(x)\nx = 3\nprint(x)\nx = 4\nprint(x)\n",
            [
                *("e54938cc54b302f1:1", "bb609acbe9138d60:1", "1131fd5871777f34:1", "5c482a0f8b35ea28:1"),
                *("54517377da7028d2:1", "2c644846cb18d53e:1", "f1b89f20de0d133:1", "c129715d7a2bc9a3:1"),
            ],
        ),
        (
            "Lorem ipsum dolor sit amet.\n" * 10,
            [
                *(f"a7f2ff13bc495cf2:{n}" for n in range(1, 7)),
                *("a7f2ff1481e87703:1", "a9cf91f7bbf1862b:1", "55ec222b86bcae53:1", "cc97dc7b1d7d8f7b:1"),
                "c129715d7a2bc9a3:1",
            ],
        ),
    ],
)
def test_line_hashes_are_those_of_the_upload_action(text: str, hashes: list[str]) -> None:
    """Known answers published with the action (github/codeql-action, fingerprints.test.ts)."""
    assert line_hashes(text) == hashes


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_line_ends_do_not_change_a_hash(end: str) -> None:
    text = " hello; \t\nworld!!!\n\n\n  \t\tGreetings\n End\n"
    expected = line_hashes(text)
    assert expected[0] == "e9496ae3ebfced30:1"
    assert line_hashes(text.replace("\n", end)) == expected


def test_misspelt_attributes_are_refused() -> None:
    result = sarif_om.Result(message=sarif_om.Message(text="x"))
    result.rule_idd = "CL201"
    with pytest.raises(TypeError, match="Result has no rule_idd"):
        sarif_text(result)
