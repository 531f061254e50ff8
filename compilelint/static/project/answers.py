"""Questions about whole files, and what is known of their answers.

To answer one, the bodies of all functions of a file are looked at. What was found out is kept with the outline of a
file, see `bodies`, so that they need not be parsed for it once more: the answers that are names or yes and no, and of
others, as most files give to most questions, those that come to nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeAlias, TypeVar, cast

Question = TypeVar("Question", bound=Callable[[ast.Module], Any])
Answers: TypeAlias = dict[str, Any]
"""By question, None for nothing, True, or a list of names."""


def about_file(nothing: object) -> Callable[[Question], Question]:
    """Keep the answers to a question that hang on the file alone; `nothing` is the one that says nothing."""

    def kept(question: Question) -> Question:
        name = f"{question.__module__}:{question.__qualname__}"

        @lru_cache(maxsize=256)
        @wraps(question)
        def answered(module: ast.Module) -> Any:
            known = answers_of(module)
            if name in known:
                answer = known[name]
                return nothing if answer is None else True if answer is True else frozenset(answer)
            found = question(module)
            if not found:
                known[name] = None
            elif found is True or _are_names(found):
                known[name] = True if found is True else sorted(found)
            return found

        return cast("Question", answered)

    return kept


def answers_of(module: ast.Module) -> Answers:
    """What is known of a file; to be added to."""
    known: Answers = vars(module).setdefault("answers", {})
    return known


def _are_names(found: object) -> bool:
    return isinstance(found, frozenset) and all(isinstance(name, str) for name in found)
