"""What pydantic calls when a model is made in compiled code is compiled too; nothing else that its class has."""

from __future__ import annotations

import pytest
from projects import check

PROGRAM = """\
import pydantic
import torch
from torch import nn


def _positive(value):
    if torch.any(value < 0):
        raise ValueError("negative")
    return value


class Base(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class Batch(Base):
    scores: torch.Tensor
    names: str = ""

{validator}


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return {made}
"""
FIELD = """\
    @pydantic.field_validator("scores", mode="before")
    @classmethod
    def check_scores(cls, value):
        return _positive(value)
"""
MODEL = """\
    @pydantic.model_validator(mode="after")
    def check(self):
        if self.scores.sum() < 0:
            raise ValueError("negative")
        return self
"""
AFTERWARDS = """\
    def model_post_init(self, context):
        if self.scores.sum() < 0:
            raise ValueError("negative")
"""
SHAPE = """\
    @pydantic.field_validator("scores")
    @classmethod
    def check_scores(cls, value):
        if value.dim() != 2:
            raise ValueError("no batch")
        return value
"""
NAMES = """\
    @pydantic.field_validator("names")
    @classmethod
    def check_names(cls, value):
        if not value:
            raise ValueError("no name")
        return value
"""
UNCALLED = """\
    def check(self, value: torch.Tensor):
        return _positive(value)
"""


@pytest.mark.parametrize(
    ("validator", "made", "found"),
    [
        (FIELD, "Batch(scores=self.proj(x)).scores", ["CL101", "CL535"]),
        (MODEL, "Batch(scores=self.proj(x)).scores", ["CL535"]),
        (AFTERWARDS, "Batch(scores=self.proj(x)).scores", ["CL535"]),
        (SHAPE, "Batch(scores=self.proj(x)).scores", ["CL535"]),
        (NAMES, "Batch(scores=self.proj(x), names='a').scores", ["CL535"]),
        (UNCALLED, "Batch(scores=self.proj(x)).scores", ["CL535"]),
        (FIELD, "self.proj(x)", []),
    ],
)
def test_validators_run(validator: str, made: str, found: list[str]) -> None:
    findings = check(PROGRAM.format(validator=validator, made=made))
    assert sorted(finding.rule for finding in findings) == found
