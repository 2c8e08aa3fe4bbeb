"""Engines: request in, reply text out. Parsing, salvage, grounding and gating are outside, and the same for all."""

from __future__ import annotations

from typing import Protocol

from memory_ci.records.candidate import EngineReply, Request


class Engine(Protocol):
    """Anything that answers a request. Raises EngineError when it cannot."""

    def extract(self, request: Request) -> EngineReply:
        """The reply to `request`."""
        ...
