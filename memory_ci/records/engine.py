"""What an engine is asked, and what it answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.event import Evidence

Task = Literal["learnings", "premortem"]


class Known(msgspec.Struct, frozen=True):
    """An entry that memory holds already: a model may say again or contradict it by its id."""

    id: str
    title: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may read of one merged change.

    `scopes` are the extraction scopes asked for; `existing` is a digest of what is already known; `notice` says what
    the window left out.
    """

    change: str
    evidence: tuple[Evidence, ...]
    existing: tuple[Known, ...] = ()
    scopes: tuple[str, ...] = ()
    notice: str = ""
    task: Task = "learnings"


class Usage(msgspec.Struct, frozen=True):
    """Tokens that a call cost; an engine without a model costs none. `input_tokens` are those not read from a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_batch: bool = False


class EngineReply(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answered: JSON `{"learnings": [...]}` (see reply.py), possibly cut short or wrapped.

    `tries` counts the calls that it took; `usage` is that of all of them.
    """

    text: str
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    tries: int = 1
