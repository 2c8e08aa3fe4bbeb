"""Asking a model: one call for each merged change, within its window, counted and bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.evidence.window import choose
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.meter import Meter
from memory_ci.extraction.engines.rules import is_telling
from memory_ci.extraction.gate import QUOTABLE
from memory_ci.extraction.scopes import scopes_for
from memory_ci.records.candidate import EngineReply, Known, Request
from memory_ci.records.entry import Entry
from memory_ci.records.event import EvidenceSet
from memory_ci.text import estimate_tokens

KNOWN_TOKENS = 6_000
"""Room in a prompt for the titles of what is known already: the most important, the same in each call of a run."""


NOTHING = '{"learnings": []}'
"""What a model that refuses is taken to have said: it would refuse again, and the change is learned from by rule."""


class Answer(NamedTuple):
    """The reply to one request, the name its entries will have as their engine, what it was asked for and not shown."""

    text: str
    engine: str
    scopes: tuple[str, ...]
    notice: str


class Asker:
    """The model of one run. `answers` counts what it answered, also from memory; `model` is the last that did.

    With `meter` the calls are counted here: the engine does not do it itself.
    """

    def __init__(self, name: str, engine: Engine, meter: Meter | None, budget: int, existing: Sequence[Entry]) -> None:
        self._name, self._engine, self._meter, self._budget = name, engine, meter, budget
        self.answers, self.model = 0, ""
        self._known = tuple(_digest(existing))

    def request(self, change: str, evidence: EvidenceSet) -> Request | None:
        """What would be asked about a change; None where there is nothing that could prove a learning."""
        if not any(piece.trust in QUOTABLE for piece in evidence.pieces):
            return None
        window = choose(evidence, self._budget, is_telling)
        return Request(
            change=change,
            evidence=window.pieces,
            existing=self._known,
            scopes=scopes_for(window.pieces),
            notice=window.notice,
        )

    def ask(self, change: str, evidence: EvidenceSet) -> Answer | None:
        """The answer about one change, or None where there was nothing to ask. Raises EngineError as the engine."""
        request = self.request(change, evidence)
        if request is None:
            return None
        reply = self._engine.extract(request)
        self.answers, self.model = self.answers + 1, reply.model
        if self._meter and reply.tries:
            self._meter.add_try()
            self._meter.add(reply.usage)
        if reply.stop_reason == "refusal":
            return Answer(NOTHING, _engine_name(self._name, reply), (), "everything: the model refused to answer")
        return Answer(reply.text, _engine_name(self._name, reply), request.scopes, request.notice)


def _digest(existing: Sequence[Entry]) -> Iterator[Known]:
    """Entries of which a model is told the title, as long as there is room."""
    room = KNOWN_TOKENS
    for entry in sorted(existing, key=lambda entry: (-entry.importance, entry.id)):
        room -= estimate_tokens(f"{entry.id} {entry.title}")
        if room < 0:
            return
        if entry.status == "active":
            yield Known(entry.id, entry.title)


def _engine_name(name: str, reply: EngineReply) -> str:
    return f"{name}:{reply.model}" if reply.model else name
