"""Reading what Dynamo writes about a graph break: the text of the structured-trace artifact `dynamo_graph_break_reason`
(and of the exception `torch._dynamo.exc.Unsupported`), as torch 2.6 to 2.14 format it. Up to 2.7 a reason is one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compilelint.model import Step
from compilelint.runtime.frames import parse_stack
from compilelint.runtime.registry import gb_ids

_NESTED = "*** While handling this graph break, another graph break occurred: ***"
_HEAD = re.compile(r"^Graph break in user code at [^\n]*\n(?:Graph Break )?Reason: ", re.MULTILINE)
_UNRESUMED_HEADS = (
    "Graph break: torch.compile cannot properly resume from this graph break",
    "Graph break: skip: from user code at:",
)
_SKIPPED = "Skipping the function and falling back to eager"
_MESSAGE = re.compile(
    r"^(?P<type>[^\n]+)\n"
    r"(?:[ ]+Higher Order Operator:[^\n]*\n)?"
    r"[ ]+Explanation:(?P<explanation>.*?)"
    r"(?P<hints>(?:^[ ]+Hint:.*?)?)"
    r"^[ ]+Developer debug context:(?P<context>.*?)"
    r"(?=^[ ]*For more details about this graph break|\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"/gb/gb(\d+)\.html")
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class BreakText:
    """What one graph-break message says. `consequence` is the second break, the one that keeps Dynamo from resuming."""

    type: str
    gb: str | None
    reason: str
    hint: str | None = None
    consequence: str | None = None


@dataclass(frozen=True, slots=True)
class BreakReport:
    """One artifact: the message, the user stack (outermost first), and whether the whole frame now runs eager."""

    text: BreakText
    stack: tuple[Step, ...]
    skipped: bool

    @property
    def reason(self) -> str:
        """The reason, and what it costs if that is the whole frame."""
        if not self.skipped:
            return self.text.reason
        why = f" ({self.text.consequence})" if self.text.consequence else ""
        return f"{self.text.reason} The whole function runs eagerly{why}."


def parse_report(report: str) -> BreakReport | None:
    """Read one `dynamo_graph_break_reason` artifact; None for the texts under that name that announce no break.

    torch writes such a text when a fake-tensor error is about to become a break, which it then reports as well.
    """
    head = _HEAD.search(report)
    if head:
        body, _, rest = report[head.end() :].partition("\nUser code traceback:")
        body = body.partition("\nStack variable source attribution:")[0]
        frames = re.split(r"^(?:NOTE:|Traceback \(most recent call last\):)", rest, maxsplit=1, flags=re.MULTILINE)[0]
        return BreakReport(parse_message(body), parse_stack(frames), _SKIPPED in body)
    if report.startswith(_UNRESUMED_HEADS):
        frames, _, trace = report.partition("\nTraceback (most recent call last):")
        message = re.split(r"^torch\._dynamo\.exc\.\w+: ", trace, flags=re.MULTILINE)[-1]
        return BreakReport(parse_message(message), parse_stack(frames), skipped=True)
    return None


def parse_message(message: str) -> BreakText:
    """Read the message of a break. Of several (a break while a break was handled) the first is the cause."""
    root, *later = message.partition("\n\nfrom user code:")[0].split(_NESTED)
    found = _MESSAGE.search(root)
    if found is None:
        return BreakText("", None, one_line(_without_prefix(root).removeprefix("Unsupported: ")) or "unknown reason")
    kind = found["type"].strip()
    link = _LINK.search(root, found.end())
    explanation = one_line(found["explanation"].partition("The branch condition involves")[0])
    return BreakText(
        type=kind,
        gb=gb_ids().get(kind) or (f"GB{link[1]}" if link else None),
        reason=explanation or one_line(f"{kind}: {found['context']}"),
        hint=_hints(found["hints"]),
        consequence=_type_of(later[-1]) if later else None,
    )


def one_line(text: str, longest: int = _LONGEST) -> str:
    """Text on one line, cut to `longest` characters, without memory addresses (they differ from run to run)."""
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _type_of(message: str) -> str | None:
    found = _MESSAGE.search(message)
    return found["type"].strip() if found else None


def _hints(text: str) -> str | None:
    hints = [one_line(hint) for hint in re.split(r"^[ ]+Hint:", text, flags=re.MULTILINE)]
    return " ".join(hint for hint in hints if hint) or None


def _without_prefix(message: str) -> str:
    """The message without the sentence that Dynamo puts before it, which ends in a colon and an empty line."""
    head, gap, rest = message.strip().partition(":\n\n")
    return rest if gap and "\n" not in head else message
