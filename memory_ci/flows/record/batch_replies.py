"""The two engines of a backfill: one that keeps what it is asked, one that answers with what came back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from memory_ci.errors import EngineError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.prompt import request_key
from memory_ci.records.candidate import EngineReply, Known, Request


class Collector:
    """An engine that keeps what it is asked and answers nothing; a reply without a stop reason is not kept."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def extract(self, request: Request) -> EngineReply:
        """No learnings."""
        self.requests.append(request)
        return EngineReply(text='{"learnings": []}', stop_reason="")


class BatchReplies:
    """An engine that answers with what came back, keyed by the request as it was sent: with memory as `known` then.

    What did not come back, or was not sent like this, is asked of `engine`, and counted. The usage of what came back
    is metered when it is read.
    """

    def __init__(
        self, engine: Engine, known: tuple[Known, ...], found: Mapping[str, EngineReply | EngineError]
    ) -> None:
        self._engine, self._known, self._found = engine, known, found
        self._again: Counter[str] = Counter()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(
            f"{count} of the batches' answers, so the model is asked again: {reason}"
            for reason, count in sorted(self._again.items())
        )

    def extract(self, request: Request) -> EngineReply:
        """The reply from a batch, else that of the engine. Raises EngineError as the engine."""
        found = self._found.get(request_key(known_as(request, self._known)))
        if isinstance(found, EngineReply):
            return found
        reason = "range, model or prompt changed since" if found is None else "failed, expired or missing"
        self._again[reason] += 1
        return self._engine.extract(request)


def known_as(request: Request, known: tuple[Known, ...] | None) -> Request:
    """The request as it is with this digest of memory; None leaves its own."""
    return request if known is None else msgspec.structs.replace(request, existing=known)
