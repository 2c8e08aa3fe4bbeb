"""The model of a run: which engine reads the evidence and why, what it is asked, what it may cost, what it did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, UsageError
from memory_ci.evidence.window import choose
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.meter import Meter
from memory_ci.extraction.engines.replay import KeptReplies
from memory_ci.extraction.engines.rules import is_telling
from memory_ci.extraction.engines.selection import choose_engine
from memory_ci.extraction.grounding import QUOTABLE
from memory_ci.flows.workspace import workspace_at
from memory_ci.gitrepo.log import find_objects
from memory_ci.gitrepo.repo import Repository
from memory_ci.records.candidate import EngineReply, Known, Request
from memory_ci.records.config import Config, EngineConfig, EngineName
from memory_ci.records.entry import Entry
from memory_ci.records.event import EvidenceSet
from memory_ci.records.plan import EngineUse
from memory_ci.text import estimate_tokens

KNOWN_TOKENS = 6_000
"""Room in a prompt for the titles of what is known already: the most important, the same in each call of a run."""


NOTHING = '{"learnings": []}'
"""What a model that refuses is taken to have said: it would refuse again, and the change is learned from by rule."""


class Answer(NamedTuple):
    """The reply to one request, the name its entries will have as their engine, and what it was not shown."""

    text: str
    engine: str
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
            notice=window.notice,
            about=evidence.about,
            changed=evidence.changed if window.tokens + estimate_tokens(evidence.changed) <= self._budget else "",
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
            return Answer(NOTHING, _engine_name(self._name, reply), "everything: the model refused to answer")
        return Answer(reply.text, _engine_name(self._name, reply), request.notice)


def _digest(existing: Sequence[Entry]) -> Iterator[Known]:
    """The entries whose titles a model is shown, as many as there is room for."""
    room = KNOWN_TOKENS
    for entry in sorted(existing, key=lambda entry: (-entry.importance, entry.id)):
        room -= estimate_tokens(f"{entry.id} {entry.title}")
        if room < 0:
            return
        if entry.status == "active":
            yield Known(entry.id, entry.title)


def _engine_name(name: str, reply: EngineReply) -> str:
    return f"{name}:{reply.model}" if reply.model else name


class Model(NamedTuple):
    """The engine of a run, None for the rules alone, which always run; and the meter of its calls.

    `is_metered`: the engine counts its calls on that meter itself. `lacks` is what `auto` would need to be installed.
    """

    name: str
    reason: str
    engine: Engine | None
    meter: Meter
    settings: EngineConfig
    is_metered: bool = False
    lacks: str = ""

    def asker(self, existing: Sequence[Entry], kept: Path) -> Asker | None:
        """What asks this model about one change after another; replies are kept in the directory `kept`."""
        if self.engine is None:
            return None
        is_kept = self.name in ("anthropic", "claude-cli")  # what a program answers may change with the program
        place = kept / re.sub(r"[^\w.-]+", "-", f"{self.name}-{self.settings.provider}-{self.settings.model}")
        engine = KeptReplies(self.engine, place) if is_kept else self.engine
        meter = None if self.is_metered else self.meter
        return Asker(self.name, engine, meter, self.settings.prompt_tokens, existing)

    def close(self) -> None:
        """Close the connections of an engine that has some."""
        if close := getattr(self.engine, "close", None):
            close()

    def use(self, asker: Asker | None, failure: EngineError | None) -> EngineUse:
        """What the run took of it, for the report."""
        spent = self.meter.spent
        return EngineUse(
            name=self.name,
            reason=self.reason,
            model=asker.model if asker else "",
            answers=asker.answers if asker else 0,
            tries=spent.tries,
            input_tokens=spent.usage.input_tokens,
            output_tokens=spent.usage.output_tokens,
            cache_read_tokens=spent.usage.cache_read_tokens,
            cache_write_tokens=spent.usage.cache_write_tokens,
            cost_usd=spent.cost_usd,
            failure=f"{failure.message} [{failure.slug}]" if failure else "",
            hint=failure.hint if failure else "",
        )


def choose_model(settings: EngineConfig, wanted: EngineName | None, environ: Mapping[str, str]) -> Model:
    """The engine that is asked for, else the one that the settings name; the rules need none.

    Raises UsageError or EngineError for an engine that cannot be had.
    """
    if wanted is not None:
        settings = replace(settings, name=wanted)
    engine, choice = choose_engine(settings, environ)
    reason = "--engine" if wanted not in (None, "auto") else choice.reason
    meter = getattr(engine, "meter", None)
    is_model = choice.name != "rules"
    return Model(
        choice.name,
        reason,
        engine if is_model else None,
        meter or Meter(settings),
        settings,
        is_metered=meter is not None,
        lacks=choice.lacks,
    )


def trusted_config(repo: Repository, base: str) -> Config:
    """The configuration at `base`; what decides how evidence is read is as it was before the newest change.

    A change must not choose who reads it, who is trusted, or whether a forge is asked who brought it.
    """
    config = workspace_at(repo, base).config
    names = (f"{base}^1^{{commit}}", f"{base}^1:{CONFIG_FILE}", f"{base}:{CONFIG_FILE}")
    before, old_file, new_file = find_objects(repo, names)
    if before is None or old_file == new_file:
        return config
    try:
        old = workspace_at(repo, before).config
    except UsageError:  # it could not be read, and this change mends it
        return config
    return replace(config, engine=old.engine, extraction=old.extraction, sessions=old.sessions, forge=old.forge)
