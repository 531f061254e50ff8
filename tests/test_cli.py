"""The command line from outside: arguments to exit code and output. The static pass is a stand-in."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from samples import CARDS, ITEM, PRINT, SOURCE, confirmed

import compilelint.command.codes
import compilelint.static
from compilelint.cli import main
from compilelint.command.options import parse
from compilelint.config import Settings
from compilelint.model import Failure, Finding, TargetRun


@dataclass
class StaticPass:
    """Stands in for compilelint.static.lint: remembers its arguments, gives back what a test puts here."""

    findings: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()
    files: Sequence[Path] = ()
    settings: Settings | None = None
    texts: Sequence[str] = ()

    def lint(
        self,
        files: Sequence[Path],
        settings: Settings,
        jobs: int = 0,
        cache: Path | None = None,
        words: Collection[bytes] = (),
    ) -> StaticPass:
        self.files, self.settings = files, settings
        self.texts = [file.read_text(encoding="utf-8") for file in files]
        return self

    @property
    def without_words(self) -> frozenset[str]:
        """Every file may hold some."""
        return frozenset()


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StaticPass]:
    fake = StaticPass((ITEM, PRINT))
    monkeypatch.setattr(compilelint.static, "lint", fake.lint, raising=False)
    rules = [SimpleNamespace(card=card, code=card.code, bad=(), good=()) for card in CARDS]
    monkeypatch.setattr("compilelint.rulebook.load_rules", lambda: tuple(rules))
    compilelint.command.codes.all_cards.cache_clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SOURCE)
    yield fake
    compilelint.command.codes.all_cards.cache_clear()


Runs = Callable[..., None]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Replaces the worker processes by given runs; the merge confirms CL201."""

    def install(*runs: TargetRun) -> None:
        monkeypatch.setattr("compilelint.command.targets.run_targets", lambda specs, **_: runs)
        monkeypatch.setattr("compilelint.merge.merge", lambda findings, _: (confirmed(), *findings[1:]))

    return install


def test_findings_give_one_and_concise_lines(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output-format", "concise"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("model.py:6:17: CL201 `x.sum().item()` reads a tensor back.")
    assert out[2:] == ["Found 2 findings in 1 file.", "1 can be fixed with --fix --unsafe-fixes."]


def test_check_may_be_left_out(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["check"], ["check", "."], ["."], ["model.py"], ["check", "model.py"]):
        assert main([*arguments, "--output-format=json"]) == 1
        assert [path.name for path in static.files] == ["model.py"]


def test_clean_gives_zero(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings = ()
    assert main(["--output-format", "concise"]) == 0
    assert capsys.readouterr().out == "No findings in 1 file.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["chek", "model.py"], "no command, file or folder is called 'chek'; did you mean 'check'?"),
        (["empty"], "no Python files found under empty"),
        (["--selct", "CL2"], "unknown option --selct; did you mean '--select'?"),
        (["--device", "tpu"], "argument --device: invalid choice: 'tpu'"),
        (["--timeout", "soon"], "expected a number of seconds above 0, found 'soon'"),
        (["--select", "CL2O1"], "select: no rule has the code 'CL2O1'; did you mean 'CL201'?"),
        (["--ignore", "X"], "ignore: no rule has the code 'X'"),
        (["--per-file-ignores", "x.py"], "expected PATTERN:CODES"),
        (["--per-file-ignores", "x.py:CL999"], "per-file-ignores: no rule has the code 'CL999'"),
        (["--output-format", "jsno"], "'jsno' is not one of"),
        (["--output-format", "json", "--output-format", "concise"], "both go to standard output"),
        (["--output-format", "json:a", "-o", "b"], "every --output-format has a file already"),
        (["--output-format", "json:no/such/folder"], "cannot be written"),
        (["--config", "gone.toml"], "no such configuration file"),
        (["--config", "a.toml", "--isolated"], "exclude each other"),
        (["--baseline", "gone.json"], "no such baseline"),
        (["--baseline", "model.py"], "not a compilelint baseline"),
        (["--update-baseline"], "say where"),
        (["--diff-base", "main"], "--diff-base: "),
        (["--stdin-filename", "a.py"], "goes with '-'"),
        (["-", "model.py"], "takes no other path"),
        (["rule", "CL777"], "no rule is called 'CL777'"),
        (["explain", "model.py"], "expected FILE:LINE"),
        (["explain"], "the following arguments are required: FILE:LINE ("),
        (["explain", "gone.py:3"], "gone.py: no such file"),
        (["explain", "model.py:10"], "model.py has 9 lines, so no line 10"),
        (["--target-torch", "newest"], "expected a torch version from 2.0 on, such as '2.13', found 'newest'"),
    ],
)
def test_bad_input_gives_two_and_one_line(
    static: StaticPass, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert code == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_one_bad_input_does_not_stop_the_others(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings, static.failures = (), (Failure("other.py", "invalid syntax", 3),)
    assert main(["model.py", "gone.py", "--output-format", "json"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "compilelint: gone.py: no such file or folder",
        "compilelint: other.py:3: invalid syntax",
    ]
    assert [failure["path"] for failure in json.loads(captured.out)["failures"]] == ["gone.py", "other.py"]


def test_nothing_readable_gives_two(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings, static.failures = (), (Failure("model.py", "invalid syntax", 3),)
    assert main([]) == 2
    assert capsys.readouterr().err == "compilelint: model.py:3: invalid syntax\n"


def test_all_files_excluded_by_force_is_clean(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model.py", "--force-exclude", "--extend-exclude", "model.py"]) == 0
    assert not static.files


def test_selection_and_confidence(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    def codes(*arguments: str) -> list[str]:
        main([*arguments, "--output-format", "json"])
        return [finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]]

    assert codes() == ["CL201", "CL401"]
    assert codes("--select", "CL2") == ["CL201"]
    assert codes("--select", "item-call,cl4".replace("item-call,", "")) == ["CL401"]
    assert codes("--ignore", "CL4,CL201") == []
    assert codes("--ignore", "CL4", "--extend-select", "CL401") == ["CL201", "CL401"]
    assert codes("--min-confidence", "certain") == ["CL201"]
    assert codes("--per-file-ignores", "mod*.py:CL2") == ["CL401"]
    Path("compilelint.toml").write_text('ignore = ["CL201"]\n')
    assert codes() == ["CL401"]
    assert codes("--ignore", "CL401") == []
    assert codes("--select", "ALL") == ["CL201", "CL401"]
    assert codes("--isolated") == ["CL201", "CL401"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--fail-on", "any"], 1), (["--fail-on", "certain"], 0), (["--fail-on", "confirmed"], 0), (["--exit-zero"], 0)],
)
def test_fail_on(static: StaticPass, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    static.findings = (PRINT,)
    assert main(arguments) == code


def test_refuted_findings_do_not_fail(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings = (replace(ITEM, verdict="handled"),)
    assert main([]) == 0
    static.findings = (replace(ITEM, verdict="not-reached"),)
    assert main([]) == 1


def test_several_outputs_at_once(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output-format", "concise", "--output-format", "json:a.json", "--output-format", "jsonl:b"]) == 1
    assert "Found 2 findings" in capsys.readouterr().out
    assert len(json.loads(Path("a.json").read_text())["findings"]) == 2
    assert [json.loads(line)["kind"] for line in Path("b").read_text().splitlines()] == ["run", "finding", "finding"]
    assert main(["--output-format", "json", "--output-file", "c.json"]) == 1
    assert capsys.readouterr().out == ""
    assert Path("c.json").read_text() == Path("a.json").read_text()


def test_baseline_accepts_what_it_holds(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings = (ITEM,)
    assert main(["--baseline", "known.json", "--update-baseline"]) == 0
    assert main(["--baseline", "known.json"]) == 0
    static.findings = (ITEM, PRINT)
    capsys.readouterr()
    assert main(["--baseline", "known.json", "--output-format", "concise"]) == 1
    out = capsys.readouterr().out
    assert "CL201" not in out
    assert out.endswith("Found 1 finding in 1 file; 1 more in the baseline.\n")


def test_only_files_that_could_be_read_count_as_checked(
    static: StaticPass, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    static.findings, static.failures = (), (Failure("broken.py", "invalid syntax", 1),)
    assert main([]) == 1
    assert capsys.readouterr().out == "No findings in 1 file; 1 input could not be checked.\n"


def test_with_a_baseline_code_of_others_fails_nothing(
    static: StaticPass, runtime: Runs, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runtime(TargetRun("gate", "ok", torch="2.13.0"))
    static.findings = (ITEM,)
    runs = ["--target", "pkg:gate"]
    assert main([*runs, "--baseline", "known.json", "--update-baseline"]) == 0
    foreign = replace(PRINT, path="/opt/site-packages/lib/a.py", verdict="runtime-only")
    static.findings = (ITEM, foreign)
    assert main([*runs, "--baseline", "known.json"]) == 0
    assert "/opt/site-packages/lib/a.py:8:13" in capsys.readouterr().out
    assert main(runs) == 1
    static.findings = (ITEM, replace(PRINT, path=(tmp_path / "model.py").as_posix()), foreign)
    assert main([*runs, "--baseline", "known.json"]) == 1


def test_stdin(
    static: StaticPass, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("x = 'é'\n".encode())))
    assert main(["-", "--stdin-filename", "pkg/new.py"]) == 1
    assert [file.name for file in static.files] == ["new.py"]
    assert static.texts == ["x = 'é'\n"]


def test_show_files_and_settings(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-files"]) == 0
    assert capsys.readouterr().out == "model.py\n"
    config = "timeout = 7\n[targets.a]\nfactory = 'm:f'\n[per-file-ignores]\n'x' = ['CL2']\n"
    Path("compilelint.toml").write_text(config)
    assert main(["--show-settings", "--ignore", "CL2"]) == 0
    shown = capsys.readouterr().out
    assert 'ignore = ["CL2"]' in shown
    Path("again.toml").write_text(shown)
    assert main(["--show-settings", "--config", "again.toml"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == shown.splitlines()[1:]


def test_rule_documentation(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("CL201", "cl201", "item-call"):
        assert main(["rule", word]) == 0
        assert capsys.readouterr().out.startswith("# item-call (CL201)\n\nReads a tensor back")
    assert main(["rule", "--all", "--output-format", "json"]) == 0
    assert [card["code"] for card in json.loads(capsys.readouterr().out)] == ["CL000", "CL001", "CL201", "CL401"]
    assert main(["rule"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["CL201", "item-call"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("explain", "select", "sarif", "certain", "timeout"):
        assert word in script


def test_bash_completion_runs(tmp_path: Path) -> None:
    program = """
        source <("$0" -m compilelint completion bash)
        for line in "ch" "check --sel" "--device c" "rule --output-format j"; do
            COMP_WORDS=(compilelint $line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _compilelint
            echo "${COMPREPLY[@]}"
        done
    """
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    done = subprocess.run(
        [bash, "-c", program, sys.executable], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["check", "--select", "cpu cuda", "json"]


def test_hooks_call_what_the_command_line_has() -> None:
    hooks = (Path(__file__).parent.parent / ".pre-commit-hooks.yaml").read_text()
    entries = re.findall(r"entry: compilelint (.*)", hooks)
    assert len(entries) == 2
    for entry in entries:
        assert parse([*entry.split(), "model.py"]).paths == ["model.py"]


def test_context_is_read_but_not_reported(
    static: StaticPass, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/caller.py").write_text("")
    static.findings = (ITEM, replace(PRINT, path="pkg/caller.py"))
    assert main(["model.py", "--context", "pkg", "--output-format", "json"]) == 1
    assert [file.name for file in static.files] == ["model.py", "caller.py"]
    assert [finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]] == ["CL201"]


@pytest.mark.parametrize("format", ["concise", "full"])
def test_quiet_leaves_out_the_sum(static: StaticPass, capsys: pytest.CaptureFixture[str], format: str) -> None:
    assert main(["-q", "--output-format", format]) == 1
    out = capsys.readouterr().out
    assert "CL201" in out
    assert "Found" not in out
    static.findings = ()
    assert main(["--quiet", "--output-format", format]) == 0
    assert capsys.readouterr().out == ""


def test_statistics(static: StaticPass, capsys: pytest.CaptureFixture[str]) -> None:
    static.findings = (PRINT, replace(PRINT, fingerprint="2"), ITEM)
    assert main(["--statistics", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["2  CL401  print-call", "1  CL201  item-call"]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--version"], ["--help"], ["check", "--help"], ["rule", "-h"], ["explain", "-h"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        assert "compilelint" in capsys.readouterr().out


def test_an_internal_error_is_not_a_finding(
    static: StaticPass, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(compilelint.static, "lint", fail)
    assert main([]) == 2
    assert capsys.readouterr().err.endswith("internal error; please report it with the lines above\n")


def test_python_without_docstrings_is_told_in_one_line() -> None:
    run = subprocess.run([sys.executable, "-OO", "-m", "compilelint", "rule"], capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr == "compilelint: python -OO drops the docstrings that the rules are documented in: use -O\n"


def test_outcomes_are_kept_where_one_says_and_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SOURCE)
    assert main(["model.py", "--no-cache", "--exit-zero"]) == 0
    assert not (tmp_path / ".compilelint_cache").exists()
    assert main(["model.py", "--exit-zero"]) == 0
    assert (tmp_path / ".compilelint_cache" / ".gitignore").read_text() == "*\n"
    assert main(["model.py", "--exit-zero", "--cache-dir", "kept"]) == 0
    assert list((tmp_path / "kept").glob("*.json"))
    assert main(["clean"]) == 0
    assert not (tmp_path / ".compilelint_cache").exists()
    (tmp_path / "other").mkdir()
    assert main(["clean"]) == 0
    assert capsys.readouterr().out.endswith(f"nothing to remove: there is no {tmp_path / '.compilelint_cache'}\n")
    assert main(["clean", "--cache-dir", "other"]) == 2
    assert (tmp_path / "other").exists()
    (tmp_path / "compilelint.toml").write_text('cache-dir = "kept"')
    assert main(["clean"]) == 0
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("comment", ["noqa: CL201", "NOQA: CL201", "CompileLint: ignore[CL201]"])
def test_a_finding_is_held_back_in_whatever_letters(
    comment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(
        f"import torch\n\n\n@torch.compile\ndef f(x):\n    return x.sum().item()  # {comment}\n"
    )
    assert main(["--no-cache"]) == 0, capsys.readouterr().out
    assert main([]) == 0, capsys.readouterr().out
