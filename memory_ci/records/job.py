"""What a job writes down before and while it works: risks that it sees, assumptions that it makes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

State = Literal["open", "held", "failed"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may go wrong: why, how one would notice, what to do; `source` is where it is known from."""

    title: str
    why: str = ""
    signal: str = ""
    mitigation: str = ""
    source: str = ""


class Assumption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `.assumptions.jsonl`: what was taken for granted at a milestone, and what became of it.

    `by` is the session of the agent that noted it, `<agent>:<id>`; "" stands for a person.
    """

    at: datetime
    assumption: str
    state: State
    milestone: str = ""
    because: str = ""
    by: str = ""
