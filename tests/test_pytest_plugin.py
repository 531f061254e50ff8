"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytest.importorskip("torch")

pytest_plugins = ["pytester"]

MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        for _ in range(2):
            print("step")
            x = x * 2
        return x


@torch.compile(backend="eager")
def clean(x):
    return x.relu() * 2


@torch.compile(backend="eager")
def grows(x, cache=[]):
    cache.append(1)
    return x + len(cache)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a model to test, whose runs load this plugin and those named with -p, and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(model=MODEL)
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("-p", "compilelint.pytest_plugin", *options, timeout=240)


def test_a_marked_test_fails_where_the_compiler_breaks_and_says_where(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import logging.config
        import pytest, torch
        import model

        X = torch.ones(3)

        def test_unmarked_runs_first_and_passes():
            torch.compile(model.Model(), backend="eager")(X)

        @pytest.mark.compile_clean
        def test_breaks():
            torch._dynamo.reset()
            torch._logging.set_logs(graph_breaks=False)
            logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
            torch.compile(model.Model(), backend="eager")(X)

        @pytest.mark.compile_clean
        def test_recompiles():
            for _ in range(4):
                model.grows(X)

        @pytest.mark.compile_clean
        @pytest.mark.parametrize("size", [2, 3, 4])
        def test_clean(size):
            model.clean(torch.ones(size))
            model.clean(torch.ones(size + 1))

        @pytest.mark.compile_clean(allow=["GB0170", "frame-skip"])
        def test_allowed():
            torch.compile(model.Model(), backend="eager")(X)

        @pytest.mark.compile_clean(allow="GB0170")
        def test_allowed_in_part():
            torch.compile(model.Model(), backend="eager")(X)

        @pytest.mark.compile_clean
        def test_compiles_nothing():
            assert model.Model()(X) is not None

        @pytest.mark.compile_clean(allow=["CL201"])
        def test_allows_what_is_no_id():
            model.clean(X)

        @pytest.mark.compile_clean
        @pytest.mark.xfail(strict=True)
        def test_known_to_break():
            torch.compile(model.Model(), backend="eager")(X)

        @pytest.mark.compile_clean
        def test_fails_by_itself():
            torch.compile(model.Model(), backend="eager")(X)
            assert X is None
        """
    )
    result = run(suite, "--strict-markers", "-rf")
    result.assert_outcomes(passed=5, failed=6, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "compile_clean: the compiler did not get through this test cleanly:",
            "model.py:6 in Model.forward: the compiled graph breaks here: *data-dependent branching* [[]GB0170[]]",
            "    hint: *",
            "model.py:9 in Model.forward: the compiler gives up on the whole function here: * [[]GB0059[]]",
            "*_ test_recompiles _*",
            "model.py:* in grows: the compiler compiles this function again: A guard failed: *cache*",
            "*_ test_allowed_in_part _*",
            "model.py:9 *",
            "compile_clean: nothing was compiled in this test*",
            "compile_clean: allow: 'CL201' is neither a graph-break id*",
            "E*assert * is None",
        ]
    )
    result.stdout.no_fnmatch_line("*= compilelint =*")


SUITE = """
import pytest, torch
import model

@pytest.fixture(scope="module")
def compiled():
    compiled = torch.compile(model.Model(), backend="eager")
    compiled(torch.ones(3))
    return compiled

@pytest.mark.parametrize("size", [3, 4])
def test_model(compiled, size):
    assert compiled(torch.ones(size)).shape == (size,)

def test_clean():
    model.clean(torch.ones(2))
"""


@pytest.mark.parametrize("workers", ["alone", "xdist"])
def test_the_whole_run_is_summed_up_by_line(suite: pytest.Pytester, workers: str) -> None:
    if workers == "xdist" and find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    suite.makepyfile(SUITE)
    result = run(suite, "--compilelint", *(["-p", "xdist", "-n", "2"] if workers == "xdist" else []))
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*= compilelint =*",
            "model.py:6 in Model.forward: the compiled graph breaks here: * [[]GB0170[]] (*)",
            "model.py:9 in Model.forward: the compiler gives up on the whole function here: * [[]GB0059[]] (*)",
            "1 frame skip, 1 graph break",
        ]
    )


@pytest.mark.parametrize(("options", "lines"), [([], ["no test compiled anything"]), (["--collect-only"], [])])
def test_silence_about_nothing_is_no_praise(suite: pytest.Pytester, options: list[str], lines: list[str]) -> None:
    suite.makepyfile("def test_nothing(): pass")
    result = run(suite, "--compilelint", *options)
    result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*: none*")


def test_a_run_fails_on_what_its_baseline_does_not_accept(suite: pytest.Pytester) -> None:
    suite.makepyfile(SUITE)
    options = ("--compilelint", "--compilelint-baseline", "known.json")
    assert run(suite, *options).ret == pytest.ExitCode.USAGE_ERROR
    result = run(suite, *options, "--compilelint-update-baseline")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["2 places written to known.json"])
    result = run(suite, *options)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["new graph breaks, skipped frames and recompiles: none; 2 in the baseline"])
    suite.makepyfile(
        test_more="import torch, model\n\ndef test_more():\n    [model.grows(torch.ones(1)) for _ in range(3)]"
    )
    result = run(suite, *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["model.py:* in grows: *", "new 1 recompile; 2 in the baseline"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compilelint-baseline", "x.json"], "*go with --compilelint*"),
        (["--compilelint", "--compilelint-update-baseline"], "*say where with --compilelint-baseline FILE*"),
        (
            ["--compilelint", "--compilelint-update-baseline", "--compilelint-baseline", "nowhere/x.json"],
            "*there is no folder nowhere to write to*",
        ),
        (["--compilelint", "--compilelint-baseline", "x.json"], "*no such baseline*--compilelint-update-baseline*"),
    ],
)
def test_options_that_do_not_go_together(suite: pytest.Pytester, options: list[str], message: str) -> None:
    result = run(suite, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_run_that_does_not_ask_for_it_imports_nothing(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys

        def test_modules():
            loaded = {name for name in sys.modules if name.split(".")[0] in ("torch", "compilelint")}
            assert loaded <= {
                "compilelint", "compilelint.pytest_plugin", "compilelint.runtime", "compilelint.runtime.target"
            }
        """
    )
    result = run(suite)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*compilelint =*")


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert hasattr(importlib.import_module(module), "pytest_addoption")
