"""Kept replies: what a model answered to the same prompt before is not asked and not paid for again.

So `record` after `record --dry-run` writes what was shown, and a range from which nothing was learned, which leaves no
commit behind, costs once.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import EngineError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.replay import ReplayEngine, record_reply
from memory_ci.extraction.reply import parse_reply
from memory_ci.records.engine import EngineReply, Request, Usage
from memory_ci.secrets import find_secrets


class KeptReplies:
    """An engine before which a directory is asked. It only holds replies that ended by themselves, of which a
    learning could be read if there was any, and that hold no credentials."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine, self._directory = engine, directory
        self._kept = ReplayEngine(directory)

    def extract(self, request: Request) -> EngineReply:
        """The reply of before, which took no try and no token, else that of the engine. Raises as the engine."""
        with suppress(EngineError):
            return msgspec.structs.replace(self._kept.extract(request), usage=Usage(), tries=0)
        reply = self._engine.extract(request)
        if reply.stop_reason == "end_turn" and not find_secrets(reply.text):
            with suppress(OSError, EngineError):
                read = parse_reply(reply.text)
                if read.learnings or not read.reasons:
                    record_reply(self._directory, request, reply)
        return reply
