"""What the GPU passes make of torch's words and of its code. The passes themselves need a GPU; these tests don't."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from compilelint.model import Step, TargetRun
from compilelint.runtime import generated, sync, unpinned
from compilelint.runtime.cudagraph import CudagraphLog
from compilelint.runtime.device import place
from compilelint.runtime.exercise import Job
from compilelint.runtime.mutation import InputWrites
from compilelint.runtime.rewritten import FirstBreaks
from compilelint.runtime.sync import sync_warnings
from compilelint.runtime.sync_watch import SyncWatch
from compilelint.runtime.target import Target
from compilelint.runtime.wire import Recorder, fold, read_records

MESSAGE = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:1.)"
HERE = str(Path(__file__).absolute())


def line_of(mark: str) -> int:
    """The 1-based line of this file that ends in `# mark`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def logged(tmp_path: Path, *messages: str, writes: InputWrites | None = None) -> TargetRun:
    records = tmp_path / "records"
    listener = CudagraphLog(Recorder(str(records), "t"), writes or InputWrites())
    for message in messages:
        listener.hear(message)
    listener.finish()
    return fold("t", read_records(records)[0])


def test_an_op_left_out_of_cuda_graphs_is_at_the_line_of_its_stack(tmp_path: Path) -> None:
    outcome = logged(
        tmp_path,
        "Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable",
        "    buf1: reason=DeviceCopy ops, ir=DeviceCopy, fx=prims.device_put.default(x, cpu)",
        '         File "/home/u/net.py", line 8, in forward',
        "             y = self.inner(x)",
        '         File "/home/u/net.py", line 3, in inner',
        "             return x.cpu()",
        "  Partition 2: 3 nodes, cudagraphable, inputs=1, outputs=1",
        "    buf7: reason=cpu ops, ir=ComputedBuffer",
        '         File "/home/u/net.py", line 9, in forward',
        "    op3_op4: reason=cpu ops, ir=NoneType",
        '         File "/home/u/net.py", line 10, in forward',
    )
    assert [(item.line, item.function, item.reason) for item in outcome.evidence] == [
        (3, "inner", "CUDA graphs leave out prims.device_put.default: DeviceCopy ops."),
        (9, "forward", "CUDA graphs leave out ComputedBuffer: cpu ops."),
        (10, "forward", "CUDA graphs leave out a fused kernel: cpu ops."),
    ]
    assert {(item.channel, item.hazard) for item in outcome.evidence} == {("cudagraph", "cudagraph-skip")}
    assert len(outcome.evidence[0].stack) == 2


def test_a_graph_that_is_not_recorded_names_the_mutation(tmp_path: Path) -> None:
    outcome = logged(
        tmp_path,
        "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"
        '   File "/home/u/net.py", line 16, in forward\n    self.cache[0] = x',
    )
    (found,) = outcome.evidence
    assert (found.line, found.reason) == (16, "No CUDA graph is recorded: mutated inputs (1 instances).")


def test_a_skip_without_a_stack_is_at_the_call(tmp_path: Path) -> None:
    (found,) = logged(tmp_path, "skipping cudagraphs due to cpu device (arg0_1)").evidence
    assert found.path == HERE


def test_what_a_graph_is_recorded_again_for_is_told_and_what_is_no_cuda_graph_is_not(tmp_path: Path) -> None:
    outcome = logged(
        tmp_path,
        "    op0: reason=partition includes all ops when cudagraphs is disabled, ir=ComputedBuffer",
        "Recording cudagraph tree for graph without symints",
        "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size.",
        *(f"Recording cudagraph tree for symint key ({size}, 2)" for size in (8, 8, 12, 16)),
        "[0/0] Re-recording function=partition_0, reason=static input data pointer changed.\n"
        'input name: arg0_1. input stack trace:   File "/home/u/net.py", line 3, in forward',
    )
    sizes, moved = outcome.evidence
    assert (sizes.path, sizes.hits) == (HERE, 2)
    assert sizes.reason == "A CUDA graph is recorded for each size of an input, now for (12, 2)."
    assert (moved.line, moved.reason) == (3, "A CUDA graph is recorded again: static input data pointer changed.")


def test_all_lines_of_an_op_that_is_left_out_are_known_while_inductor_works(tmp_path: Path) -> None:
    from torch._inductor.scheduler import Scheduler

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x * 2  # first part
        waves = x.sin()  # second part
        return waves, x.cos()  # fused with it

    listener = CudagraphLog(Recorder(str(tmp_path / "records"), "t"), InputWrites())
    names: list[str] = []
    codegen = Scheduler.codegen

    def codegen_heard(scheduler: Any) -> Any:
        names.extend(node.get_name() for node in scheduler.nodes)
        for name in names:
            listener.hear(f"    {name}: reason=cpu ops, ir=ComputedBuffer")
        listener.finish()
        return codegen(scheduler)

    with pytest.MonkeyPatch.context() as patch, torch._inductor.config.patch(force_disable_caches=True):
        patch.setattr(Scheduler, "codegen", codegen_heard)
        torch.compile(step)(torch.ones(3))
    outcome = fold("t", read_records(tmp_path / "records")[0])
    marks = ("first part", "second part", "fused with it")
    assert {item.line for item in outcome.evidence} == set(map(line_of, marks))
    assert names == ["op0_op1"]


def test_a_sync_is_at_the_innermost_line_of_the_program() -> None:
    with sync_warnings(FirstBreaks()) as seen:
        for _ in range(2):
            json.loads("{}", object_hook=lambda value: warnings.warn(MESSAGE, stacklevel=1))
        warnings.warn("something else", stacklevel=1)
    ((stack, hits),) = seen.items()
    assert (stack[-1].path, stack[-1].function, hits) == (HERE, "<lambda>", 2)


@pytest.fixture
def waiting_op() -> Any:
    """An operator that Inductor has no kernel for, and that warns as an operator does that waits for the GPU.

    Its code has no file, as C++ has none.
    """
    space: dict[str, Any] = {"warnings": warnings, "MESSAGE": MESSAGE}
    exec(compile("def wait(x):\n    warnings.warn(MESSAGE)\n    return x.clone()", "<operator>", "exec"), space)
    library = torch.library.Library("compilelint_tests", "FRAGMENT")
    library.define("wait(Tensor x) -> Tensor")
    library.impl("wait", space["wait"], "CPU")
    library.impl("wait", torch.empty_like, "Meta")
    yield torch.ops.compilelint_tests.wait
    library._destroy()


def test_a_sync_inside_a_graph_is_at_the_line_that_was_traced(waiting_op: Any) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return waiting_op(x)  # inner

    def step(x: torch.Tensor) -> torch.Tensor:
        x = inner(x)  # outer
        torch._dynamo.graph_break()
        return waiting_op(x)  # resumed

    breaks = FirstBreaks()
    with generated.marked_origins(), breaks.watching():
        compiled = torch.compile(step)
        compiled(torch.ones(3))
    with sync_warnings(breaks) as seen:
        compiled(torch.ones(3))
    stacks = [[(step.line, step.function) for step in stack if step.path == HERE] for stack in seen]
    assert [stack[1:] for stack in stacks] == [
        [(line_of("outer"), "step"), (line_of("inner"), "inner")],
        [(line_of("resumed"), "step")],
    ]


def test_a_sync_at_the_line_where_a_function_goes_on_eagerly_is_at_that_line(waiting_op: Any) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = torch._dynamo.graph_break() or waiting_op(x)  # goes on here
        for _ in range(2):
            torch._dynamo.graph_break()
        return x

    breaks = FirstBreaks()
    with breaks.watching():
        compiled = torch.compile(step, backend="eager")
        compiled(torch.ones(3))
    with sync_warnings(breaks) as seen:
        compiled(torch.ones(3))
    assert [(stack[-1].line, stack[-1].function) for stack in seen] == [(line_of("goes on here"), "step")]


def test_a_call_that_cannot_be_made_again_and_again_shows_what_it_showed_before(
    waiting_op: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = iter(range(4))  # for two rounds of two calls

    def fill(x: torch.Tensor, fills: bool) -> torch.Tensor:
        if fills:
            next(places)
        return waiting_op(x)  # while there are places

    def steady(x: torch.Tensor) -> torch.Tensor:
        return waiting_op(x)  # always

    target = Target(
        lambda x, fills: steady(fill(x, fills)), [(torch.ones(3), True)] * 2 + [(torch.ones(3), False)], False
    )
    monkeypatch.setattr(sync, "device_of", lambda job: "cuda")
    monkeypatch.setattr(sync, "build", lambda job: target)
    monkeypatch.setattr(sync, "syncs", sync_warnings)
    records = str(tmp_path / "records")
    sync.watch(Job("t", "", "cuda", records), Recorder(records, "t"))
    outcome = fold("t", read_records(Path(records))[0])
    assert [(item.line, item.hits) for item in outcome.evidence] == [
        (line_of("while there are places"), 3),
        (line_of("always"), 3),
    ]


def test_what_a_rewritten_function_does_for_a_break_is_at_the_break() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:  # definition
        y = x + 1
        print(f"{y}")  # reported
        return y * 2

    lines: list[tuple[str, int, int]] = []

    def on_call(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename == HERE and frame.f_code.co_name == "__format__":
            lines.append((event, caller.f_lineno, breaks.line_of(caller)))

    breaks = FirstBreaks()
    with breaks.watching():
        compiled = torch.compile(step, backend="eager")
        compiled(torch.ones(3))
    sys.setprofile(on_call)
    try:
        compiled(torch.ones(3))
    finally:
        sys.setprofile(None)
    assert lines[0] == ("call", line_of("definition"), line_of("reported"))


def test_an_explicit_wait_is_a_sync() -> None:
    with sync_warnings(FirstBreaks()) as seen, contextlib.suppress(RuntimeError):
        torch._C._accelerator_synchronizeDevice(0)  # waits, or finds nothing to wait for
    ((stack, hits),) = seen.items()
    assert (stack[-1].line, hits) == (line_of("waits, or finds nothing to wait for"), 1)


def test_a_mutated_input_is_at_every_line_that_writes_to_it(tmp_path: Path) -> None:
    def step(x: torch.Tensor, cache: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        cache[0] = x[0]  # first write
        cache.view(-1)[3:].mul_(2)  # second write
        kept.add_(1)
        local = x * 2
        local.add_(1)
        torch.mul(x, 2, out=local)
        return local + cache

    writes = InputWrites()

    def backend(module: Any, inputs: Any) -> Any:
        writes.add(module.graph)
        space = {"hear": listener.hear, "said": skipped, "forward": module.forward}
        exec(compile("def run(*values):\n    hear(said)\n    return forward(*values)", "<graph>", "exec"), space)
        return space["run"]

    skipped = "skipping cudagraphs due to mutated inputs (2 instances)"
    listener = CudagraphLog(Recorder(str(tmp_path / "records"), "t"), writes)
    kept = torch.zeros(2, 2)
    torch._dynamo.mark_static_address(kept)
    with writes.watching():
        torch.compile(step, backend=backend)(torch.ones(2, 2), torch.zeros(2, 2), kept)
    outcome = fold("t", read_records(tmp_path / "records")[0])
    written = [line_of("first write"), line_of("second write")]
    assert [item.line for item in outcome.evidence] == written

    named = f'{skipped}. Found from : \n   File "{HERE}", line {written[1]}, in step'
    (tmp_path / "named").mkdir()
    stacks = [item.stack for item in logged(tmp_path / "named", named, writes=writes).evidence]
    assert [stack[-1].line for stack in stacks] == written


def test_a_target_moves_with_its_marks() -> None:
    cache = torch.zeros(2)
    torch._dynamo.mark_static_address(cache)
    weight = torch.ones(2, requires_grad=True)
    table = {"cache": cache}
    target = Target(lambda x: x + table["cache"] * weight, calls=[(cache, {"again": cache})])
    moved = place(target, "meta")
    first, keyed = moved.arguments[0].args
    assert (first.device.type, first is keyed["again"]) == ("meta", True)
    assert first._dynamo_static_input_type == cache._dynamo_static_input_type
    held = [cell.cell_contents for cell in moved.model.__closure__]
    assert [(value.is_leaf, value.requires_grad) for value in held if isinstance(value, torch.Tensor)] == [(True, True)]
    assert next(value for value in held if isinstance(value, dict))["cache"] is first


class Side:
    """A tensor as far as a copy shows it."""

    def __init__(self, device: str, pinned: bool = False) -> None:
        self.device = torch.device(device)
        self.is_pinned = lambda: pinned


@pytest.mark.parametrize(
    ("source", "destination", "waits"),
    [
        (Side("cpu"), Side("cuda"), True),
        (Side("cuda"), Side("cpu"), True),
        (Side("cpu", pinned=True), Side("cuda"), False),
        (Side("cuda"), Side("cpu", pinned=True), False),
        (Side("cuda:0"), Side("cuda:1"), False),
        (Side("cpu"), Side("cpu"), False),
    ],
)
def test_a_copy_waits_for_memory_that_is_not_pinned(source: Side, destination: Side, waits: bool) -> None:
    assert unpinned.waits(source, destination) is waits


def test_only_copies_that_ask_not_to_wait_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpinned, "waits", lambda source, destination: True)
    x, here = torch.ones(2), (Step(HERE, 1, "step"),)
    with unpinned.copies(lambda: here) as seen:
        x.to("cpu", non_blocking=True)
        x.to("cpu", torch.float64, True)
        x.copy_(torch.zeros(2), True)
        x.to("cpu", copy=True)
        x.copy_(torch.zeros(2))
    x.to("cpu", non_blocking=True)
    assert seen == {here: 3}
    assert "to" not in vars(torch.Tensor)


def test_syncs_of_a_program_are_heard_whatever_it_does_with_warnings(tmp_path: Path) -> None:
    watch = SyncWatch(Recorder(str(tmp_path / "records"), "t"), FirstBreaks())
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for name in ("_showwarnmsg", "_add_filter", "resetwarnings"):
            patch.setattr(warnings, name, getattr(warnings, name))
        watch.take_warnings()
        with warnings.catch_warnings(record=True) as recorded:
            for action in ("error", "ignore", "always"):
                warnings.simplefilter(action)  # type: ignore[arg-type]
                warnings.warn(MESSAGE, stacklevel=1)  # again and again
            warnings.resetwarnings()
            warnings.warn("its own", stacklevel=1)
            warnings.warn(MESSAGE, stacklevel=1)  # once
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="its own"):
                warnings.warn("its own", stacklevel=1)
        watch.record_rest()
    assert [str(warning.message) for warning in recorded] == ["its own"]
    outcome = fold("t", read_records(tmp_path / "records")[0])
    assert [(item.line, item.hits) for item in outcome.evidence] == [(line_of("again and again"), 3)]
