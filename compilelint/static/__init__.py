"""The static pass. It never imports torch and never imports or runs the code it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compilelint.knowledge.table import installed
    from compilelint.static.session import StaticResult, explain, lint

__all__ = ["StaticResult", "explain", "installed", "lint"]


def __getattr__(name: str) -> Any:
    """The pass itself is loaded on first use: rules import value kinds from this package without loading the tracer."""
    if name == "installed":
        from compilelint.knowledge.table import installed

        return installed
    if name in __all__:
        from compilelint.static import session

        return getattr(session, name)
    raise AttributeError(name)
