"""`python -m compilelint`."""

from __future__ import annotations

import sys

from compilelint.cli import main

if __name__ == "__main__":
    sys.exit(main())
