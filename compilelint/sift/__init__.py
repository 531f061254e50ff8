"""From everything that was found to what this user wants to read.

Pure functions from findings to findings, in the order in which `compilelint check` applies them: suppression comments
(first, so that unused ones can be told from all findings), selection, per-file ignores, confidence, the baseline,
changed lines.
"""

from __future__ import annotations

from compilelint.model import RuleCard

SUPPRESSION_CARD = RuleCard(
    code="CL001",
    name="unused-suppression",
    hazard="suppression",
    summary="A suppression comment that holds nothing back, or that cannot be understood.",
    help="""\
## What it does

Reports a `# compilelint: ignore[...]` comment (or a `CL` code in a `# noqa:`) that matched no finding, names a code
that does not exist, or is misspelt.

## Why it costs

A suppression that outlives its hazard hides the next one on that line; a misspelt one hides nothing while looking as
if.

## Write instead

Delete the comment or the unused code in it. The forms are

```python
x = y.item()  # compilelint: ignore[CL201] read once per request

# compilelint: ignore[CL201] on a line of its own it speaks for the statement below
x = y.item()

def sample(self, logits):  # compilelint: ignore[CL201] the whole function
    ...

# compilelint: ignore-file[CL201]
```

## Limits

A comment is reported as unused only in files that were found below a folder argument: where single files are named, as
pre-commit does, the code that calls them may be out of sight. `ignore[CL000]` is about the runtime pass and is
reported only when that ran.
""",
)

RUNTIME_CARD = RuleCard(
    code="CL000",
    name="runtime-break",
    hazard="graph-break",
    summary="The compiler broke or recompiled here and no rule had said so.",
    help="""\
## What it does

Reports what the compiler itself was seen to do at a line where no rule of the static pass speaks: a graph break, a
skipped frame, a recompile. Needs `--runtime`.

## Why it costs

A break splits the compiled graph: the code between the parts runs eagerly, kernels cannot be fused across it, and
CUDA graphs end there.

## Write instead

The finding carries torch's reason, its graph-break id and the stack of the code that led there. torch documents each id
under `https://meta-pytorch.org/compile-graph-break-site/`.
""",
)

BUILT_IN_CARDS = (RUNTIME_CARD, SUPPRESSION_CARD)
