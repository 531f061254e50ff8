"""compilelint: a static and runtime linter for torch.compile hazards."""

from __future__ import annotations

from compilelint.runtime.target import Call, Target

__all__ = ["Call", "Target", "__version__"]

__version__ = "0.1.0"
