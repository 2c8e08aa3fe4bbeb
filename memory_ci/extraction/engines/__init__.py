"""Engines: request in, reply text out. Parsing, salvage, grounding and gating are outside, and the same for all."""

from __future__ import annotations

from typing import Protocol

from memory_ci.records.engine import EngineReply as EngineReply
from memory_ci.records.engine import Known as Known
from memory_ci.records.engine import Request as Request
from memory_ci.records.engine import Task as Task
from memory_ci.records.engine import Usage as Usage


class Engine(Protocol):
    """Anything that answers a request. Raises EngineError when it cannot."""

    def extract(self, request: Request) -> EngineReply:
        """The reply to `request`."""
        ...
