"""Configuration files: what is read, which one, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilelint.config import ConfigError, Settings, load_settings

EVERYTHING = """
select = ["CL1", "CL201"]
extend-select = ["CL7"]
ignore = ["CL101"]
exclude = ["gen"]
extend-exclude = ["old/*.py"]
respect-gitignore = false
force-exclude = true
min-confidence = "possible"
fail-on = "confirmed"
entry-points = ["pkg.mod:Model.step"]
target-torch = "2.11"
engine = "vllm"
device = "cpu"
timeout = 20
baseline = "known.json"

[per-file-ignores]
"tests/*" = ["CL4"]

[targets.decoder]
factory = "fixtures.decoder:target"
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_every_key(tmp_path: Path) -> None:
    file = write(tmp_path / "compilelint.toml", EVERYTHING)
    assert load_settings([tmp_path], tmp_path) == Settings(
        root=tmp_path,
        source=file,
        select=("CL1", "CL201"),
        extend_select=("CL7",),
        ignore=("CL101",),
        exclude=("gen",),
        extend_exclude=("old/*.py",),
        respect_gitignore=False,
        force_exclude=True,
        per_file_ignores=(("tests/*", ("CL4",)),),
        min_confidence="possible",
        fail_on="confirmed",
        entry_points=("pkg.mod:Model.step",),
        target_torch="2.11",
        engine="vllm",
        device="cpu",
        timeout=20.0,
        targets=(("decoder", "fixtures.decoder:target"),),
        baseline=tmp_path / "known.json",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min_confidence = 'likely'", "unknown key 'min_confidence'; did you mean 'min-confidence'?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ("select = 'CL1'", "select: expected a list of texts, found text"),
        ("select = [1]", "select: expected text, found an integer"),
        ("baseline = ''", "baseline: expected text, found nothing"),
        ("timeout = 0", "timeout: expected a number of seconds above 0"),
        ("timeout = true", "timeout: expected a number of seconds above 0"),
        ("force-exclude = 1", "force-exclude: expected true or false, found an integer"),
        ("min-confidence = 'likley'", "found 'likley'; did you mean 'likely'?"),
        ("engine = 'vlm'", "expected one of torch, vllm, found 'vlm'; did you mean 'vllm'?"),
        ("target-torch = 'new'", "expected a torch version from 2.0 on, such as '2.13', found 'new'"),
        ("target-torch = '1.13'", "expected a torch version from 2.0 on, such as '2.13', found '1.13'"),
        ("per-file-ignores = []", "per-file-ignores: expected a table, found a list"),
        ("targets.a = 'm:f'", "targets: a: expected a table with 'factory = \"pkg.mod:function\"', found text"),
        ("[tool.compilelint]", "unknown key 'tool'; here the keys stand at the top level, without [tool.compilelint]"),
        ("targets.a.factroy = 'm:f'", "targets: a: unknown key 'factroy'; did you mean 'factory'?"),
        ("[targets.a]", "targets: a: 'factory = \"pkg.mod:function\"' is missing"),
        ("targets.a.factory = 'm.f'", "targets: a: factory: expected pkg.mod:factory, found 'm.f'"),
        ("select = [", "not valid TOML"),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path / "compilelint.toml", text)
    with pytest.raises(ConfigError) as error:
        load_settings([tmp_path], tmp_path)
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_nearest_file_wins(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.compilelint]\ntimeout = 1\n")
    write(tmp_path / "a/pyproject.toml", "[project]\nname = 'a'\n")
    write(tmp_path / "a/compilelint.toml", "timeout = 2\n")
    write(tmp_path / "b/pyproject.toml", "[tool.black]\n[tool.compilelint]\ntimeout = 3\n")
    write(tmp_path / "b/deep/x.py", "")

    def timeout(*paths: str) -> float:
        return load_settings([tmp_path / path for path in paths], tmp_path).timeout

    assert timeout("a") == 2
    assert timeout("b/deep/x.py") == 3
    assert timeout("a", "b") == 1


def test_working_directory_is_asked_after_the_paths(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "here/compilelint.toml", "timeout = 4\n")
    settings = load_settings([tmp_path / "elsewhere"], tmp_path / "here")
    assert (settings.timeout, settings.root) == (4, tmp_path / "here")


def test_no_file_and_isolated(tmp_path: Path) -> None:
    write(tmp_path / "compilelint.toml", "timeout = 4\n")
    assert load_settings([tmp_path], tmp_path, isolated=True) == Settings(root=tmp_path)


def test_named_file(tmp_path: Path) -> None:
    file = write(tmp_path / "elsewhere/lint.toml", "timeout = 5\n")
    assert load_settings([tmp_path], tmp_path, config=file).timeout == 5
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_settings([tmp_path], tmp_path, config=tmp_path / "gone.toml")


def test_broken_pyproject_of_somebody_else_is_not_ours_to_report(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.other\n")
    assert load_settings([tmp_path], tmp_path).source is None
    write(tmp_path / "pyproject.toml", "[tool.compilelint\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings([tmp_path], tmp_path)
