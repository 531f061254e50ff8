"""Reading what torch writes: break reports, guard failures, records cut short."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from compilelint.model import Step
from compilelint.runtime.breaks import one_line, parse_message, parse_report
from compilelint.runtime.capture import DynamoWatch
from compilelint.runtime.frames import definition_line, inductor_wrote, parse_stack, user_owned, user_stack
from compilelint.runtime.guards import newest_failure, parse_reason, place_of
from compilelint.runtime.target import Call, Target
from compilelint.runtime.wire import Recorder, fold, read_records

SKIP_IN_A_LOOP = """\
Graph break in user code at /home/u/moe.py:20
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and falling back to eager. \
Graph break encountered:

Dynamic shape operator
  Explanation: Operator `aten.nonzero.default`'s output shape depends on input Tensor data.
  Hint: Enable tracing of dynamic shape operators
  Hint: Or do not

  Developer debug context: aten.nonzero.default

 For more details about this graph break, please visit: https://example.org/gb/gb0036.html

*** While handling this graph break, another graph break occurred: ***

graph break in loop
  Explanation: torch.compile detected a graph break in a for/while loop.
  Hint: Resolve the earlier one.

  Developer debug context: frame skipped: forward (/home/u/moe.py line 18)

 For more details about this graph break, please visit: https://example.org/gb/gb7000.html

Stack variable source attribution:
  ListIteratorVariable(length=4, index=1) originated from:
  File "/home/u/moe.py", line 19
            for e in hit:
            ^^^^^^^^^^^^^

User code traceback:
  File "/home/u/serve.py", line 3, in <module>
    model(x)
  File "/home/u/moe.py", line 20, in torch_dynamo_resume_in_forward_at_18
    slot = torch.where(mask)
           ^^^^^^^^^^^^^^^^^

Traceback (most recent call last):
  File "/home/u/elsewhere.py", line 1, in run
"""


def test_a_skip_report_gives_the_first_cause_and_the_user_stack() -> None:
    report = parse_report(SKIP_IN_A_LOOP)
    assert report is not None and report.skipped
    assert report.text.gb == "GB0036"
    assert report.text.reason == "Operator `aten.nonzero.default`'s output shape depends on input Tensor data."
    assert report.text.hint == "Enable tracing of dynamic shape operators Or do not"
    assert report.text.consequence == "graph break in loop"
    assert report.stack == (Step("/home/u/serve.py", 3, "<module>"), Step("/home/u/moe.py", 20, "forward"))


def test_an_empty_explanation_falls_back_on_the_context() -> None:
    text = parse_message(
        "TypeError when making fake tensor call\n  Explanation: \n\n"
        "  Developer debug context: TypeError f(): missing 'e'\n"
    )
    assert text.reason == "TypeError when making fake tensor call: TypeError f(): missing 'e'"


def test_an_operator_name_between_type_and_explanation_is_passed_over() -> None:
    text = parse_message(
        "Data-dependent branching\n  Higher Order Operator: autograd.Function\n"
        "  Explanation: Detected data-dependent branching. "
        "The branch condition involves a tensor computed as follows: x\n"
        "  Hint: This is fundamental.\n\n  Developer debug context: attempted to jump\n"
    )
    assert (text.type, text.reason) == ("Data-dependent branching", "Detected data-dependent branching.")


def test_a_message_without_the_usual_parts_is_its_own_reason() -> None:
    assert parse_message(
        "when attempting to trace CALL:\n\nDynamic control flow at 0x7f00 is not supported"
    ).reason == ("Dynamic control flow is not supported")


def test_a_report_that_announces_no_break_is_none() -> None:
    assert parse_report("WON'T CONVERT forward /home/u/moe.py line 18\n") is None


def test_a_report_of_a_frame_that_cannot_be_resumed() -> None:
    report = parse_report(
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        "torch.compile will skip tracing the frame f (/home/u/a.py line 1) and fall back to eager.\n"
        'The graph break occurred in the following user code:\n  File "/home/u/a.py", line 4, in f\n    g()\n\n'
        'Traceback (most recent call last):\n  File "/home/u/other.py", line 9, in h\n'
        "torch._dynamo.exc.Unsupported: Odd thing\n  Explanation: It is odd.\n\n  Developer debug context: f\n"
    )
    assert report is not None and report.skipped
    assert report.text.reason == "It is odd."
    assert report.stack == (Step("/home/u/a.py", 4, "f"),)


def test_long_text_is_cut() -> None:
    assert one_line("a  b\nc") == "a b c"
    assert len(one_line("word " * 200)) <= 300


GUARD = (
    "0/3: self.known == 5                # if n > self.known:  # me/u/rope.py:14 in ensure "
    "(HINT: make the integer (self.known) dynamic.)\n"
    "User stack trace:\n"
    '  File "/home/u/rope.py", line 22, in forward\n    self.ensure(n)\n'
    '  File "/home/u/rope.py", line 14, in torch_dynamo_resume_in_ensure_at_3\n    if n > self.known:'
)


def test_the_newest_entry_is_the_one_that_failed() -> None:
    failure = newest_failure(["0/0: tensor 'x' size mismatch at index 1. expected 3, actual 8", GUARD])
    assert failure is not None
    assert (failure.entry, failure.guard) == (3, "self.known == 5")
    assert failure.hint == "make the integer (self.known) dynamic."
    assert place_of(failure, []) == Step("/home/u/rope.py", 14, "ensure")
    assert newest_failure([]) is None


def test_a_guard_in_a_library_function_belongs_to_the_user_line_that_called_it() -> None:
    torch_file = str(Path(__import__("json").__file__))  # a file that is not the user's
    failure = parse_reason(
        f"0/0: ___check_type_id(x, 93992554105568), type=<class 'M'>  # return f(  # {torch_file[3:]}:9 in g\n"
        "User stack trace:\n"
        f'  File "/home/u/net.py", line 20, in forward\n    conv(x)\n  File "{torch_file}", line 9, in g\n    return f('
    )
    assert failure.guard == "___check_type_id(x, …), type=<class 'M'>"
    assert place_of(failure, []) == Step("/home/u/net.py", 20, "forward")


def test_a_guard_on_an_input_names_no_line() -> None:
    failure = parse_reason("0/0: tensor 'x' stride mismatch at index 0. expected 1, actual 2")
    assert failure.guard == "tensor 'x' stride mismatch at index 0. expected 1, actual 2"
    assert place_of(failure, ["/home/u/net.py"]) is None


def test_whose_code_a_file_is(tmp_path: Path) -> None:
    import json

    import compilelint

    assert user_owned(str(tmp_path / "model.py"))
    assert user_owned("/venv/lib/python3.11/site-packages/timm/models/vit.py")
    assert not user_owned(json.__file__)
    assert not user_owned(compilelint.__file__)
    assert not user_owned("<string>")
    assert not user_owned("/tmp/torchinductor_u/ab/cab.py")
    ours, theirs = Step(compilelint.__file__, 1, "f"), Step("/home/u/a.py", 2, "g")
    assert user_stack([ours, theirs]) == (theirs,)
    assert user_stack([ours, Step(json.__file__, 3, "h")]) == (Step(json.__file__, 3, "h"),)


def test_stack_lines_without_a_function_are_read_too() -> None:
    assert parse_stack('  File "/a.py", line 3\n    x\n  File "<string>", line 1, in f\n') == (Step("/a.py", 3, ""),)


def test_a_decorated_function_is_defined_below_its_decorators(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("@wrap(\n    1,\n)\nasync def f():\n    pass\n")
    assert definition_line(str(path), 1) == 4
    assert definition_line(str(tmp_path / "none.py"), 7) == 7


def test_records_are_folded_and_a_line_cut_short_is_left(tmp_path: Path) -> None:
    path = tmp_path / "records"
    recorder = Recorder(str(path), "t")
    recorder.send("hello", torch="2.13.0", device="cpu")
    for value in (3, 4):
        recorder.observe("recompile", Step("/a.py", 3, "f"), "again", guard=f"self.n == {value}")
    recorder.observe("graph-break", Step("/a.py", 3, "f"), "print", gb="GB0059", stack=(Step("/a.py", 3, "f"),))
    recorder.lines("executed", {"/a.py": {2, 1}})
    recorder.send("failed", status="crashed", detail="first")
    recorder.send("failed", status="failed", detail="second")
    with path.open("a") as stream:
        stream.write("not json\n" + '{"kind": "evid')
    records, end = read_records(path)
    outcome = fold("t", records)
    assert end < path.stat().st_size
    assert read_records(path, end) == ([], end)
    assert (outcome.status, outcome.detail, outcome.torch) == ("crashed", "first", "2.13.0")
    assert [(item.hits, item.guard) for item in outcome.evidence] == [(2, "self.n == 4"), (1, None)]
    assert outcome.evidence[1].stack == (Step("/a.py", 3, "f"),)
    assert outcome.executed == {"/a.py": frozenset({1, 2})}


def test_calls_in_their_three_forms() -> None:
    target = Target(print, calls=[(1, 2), {"sep": ""}, Call(1, end="")])
    assert [(call.args, call.kwargs) for call in target.arguments] == [
        ((1, 2), {}),
        ((), {"sep": ""}),
        ((1,), {"end": ""}),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 3}, "the model is of type int"),
        ({"model": print, "calls": [3]}, "call 1 is of type int; give a tuple"),
        ({"model": print, "decode": 3}, "decode is of type int"),
    ],
)
def test_a_wrong_target_is_told_at_once(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Target(**arguments)  # type: ignore[arg-type]


@dataclass
class Scaled:
    """Its `__init__` is source that `dataclasses` makes up, which lies in no file."""

    value: torch.Tensor

    def __post_init__(self) -> None:
        self.value = self.value * 2


def test_a_recompile_of_made_up_source_is_at_the_call(tmp_path: Path) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1):
            print("skipped")
            scaled = Scaled(x)  # made up
        return scaled.value

    records = tmp_path / "records"
    with DynamoWatch(Recorder(str(records), "t")):
        compiled = torch.compile(step, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(3))
    (found,) = [item for item in fold("t", read_records(records)[0]).evidence if item.channel == "recompile"]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert (found.path, lines[found.line - 1].endswith("# made up")) == (str(Path(__file__).absolute()), True)


def test_generated_code_is_known_by_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert inductor_wrote("/tmp/torchinductor_u/ab/cab.py")
    assert not inductor_wrote("/home/u/cache/ab/cab.py")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/home/u/cache")
    assert inductor_wrote("/home/u/cache/ab/cab.py")
