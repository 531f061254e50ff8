"""Reading the logs that `--trace` names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from compilelint.config import ConfigError
from compilelint.model import TargetRun
from compilelint.runtime.trace import TraceError, read_trace


def read_traces(folders: Sequence[Path], files: Sequence[Path]) -> tuple[TargetRun, ...]:
    """One run for each folder of logs; what the logs lack is told on standard error. Raises ConfigError.

    `files` are the linted files (absolute), onto which paths of another machine are mapped.
    """
    try:
        runs = tuple(read_trace(folder, files) for folder in folders)
    except TraceError as error:
        raise ConfigError(f"--trace: {error}") from None
    for run in runs:
        if run.detail:
            print(f"compilelint: {run.name}: {run.detail}", file=sys.stderr)
    return runs
