"""Engines: request in, reply text out. Parsing, salvage, grounding and gating are outside, and the same for all."""

from __future__ import annotations

from typing import Protocol

import msgspec

from memory_ci.records.evidence import Evidence


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may read of one merged change; `existing` are titles of what is already known."""

    change: str
    evidence: tuple[Evidence, ...]
    existing: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True):
    """Tokens that a call cost; an engine without a model costs none."""

    input_tokens: int = 0
    output_tokens: int = 0


class EngineReply(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answered: JSON `{"learnings": [...]}` (see reply.py), possibly cut short or wrapped."""

    text: str
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    request_id: str = ""


class Engine(Protocol):
    """Anything that answers a request. Raises EngineError when it cannot."""

    def extract(self, request: Request) -> EngineReply:
        """The reply to `request`."""
        ...
