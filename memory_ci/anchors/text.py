"""A verdict on a cite, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_ci.records.anchor import Verdict, place_of

if TYPE_CHECKING:
    pass


def say_verdict(verdict: Verdict) -> str:
    """What became of one place that is cited."""
    return f"{verdict.kind}: {''.join(place_of(verdict))}"
