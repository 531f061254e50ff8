"""The command line: which command, what it raises as one line, and the exit code.

Exit codes: 0 clean, 1 findings (or an input or target that failed while others were checked), 2 nothing could be
checked: a usage or configuration error, no file, an error of compilelint's own; and for an interrupt, after the report
of what was seen by then if targets or a program were running.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from compilelint.command.options import COMMANDS, parse
from compilelint.config import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: sys.argv) and return its exit code; only argparse's own exits raise SystemExit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if sys.flags.optimize > 1:
            raise ConfigError("python -OO drops the docstrings that the rules are documented in: use -O")
        options = parse(arguments)
        return COMMANDS[options.command](options)
    except ConfigError as error:
        print(f"compilelint: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("compilelint: interrupted", file=sys.stderr)
    except BrokenPipeError:
        # The reader (head, less) has gone; without this Python complains once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        traceback.print_exc()
        print("compilelint: internal error; please report it with the lines above", file=sys.stderr)
    return 2
