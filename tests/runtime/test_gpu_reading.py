"""The GPU passes' reading of what torch says, fed by hand: the passes themselves need a GPU."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

from compilelint.model import TargetRun
from compilelint.runtime.cudagraph import CudagraphLog
from compilelint.runtime.sync import sync_warnings
from compilelint.runtime.wire import Recorder, fold, read_records

MESSAGE = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:1.)"
HERE = str(Path(__file__).absolute())


def logged(tmp_path: Path, *messages: str) -> TargetRun:
    records = tmp_path / "records"
    listener = CudagraphLog(Recorder(str(records), "t"))
    for message in messages:
        listener.emit(logging.LogRecord("x", logging.DEBUG, "x", 1, message, None, None))
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
    )
    assert [(item.line, item.function, item.reason) for item in outcome.evidence] == [
        (3, "inner", "CUDA graphs leave out prims.device_put.default: DeviceCopy ops."),
        (9, "forward", "CUDA graphs leave out ComputedBuffer: cpu ops."),
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


def test_a_sync_is_at_the_innermost_line_of_the_program() -> None:
    with sync_warnings() as seen:
        for _ in range(2):
            json.loads("{}", object_hook=lambda value: warnings.warn(MESSAGE, stacklevel=1))
        warnings.warn("something else", stacklevel=1)
    ((stack, hits),) = seen.items()
    assert (stack[-1].path, stack[-1].function, hits) == (HERE, "<lambda>", 2)
