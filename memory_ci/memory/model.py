"""The model of a run: which engine reads the evidence and why, what it is asked, what it may cost, what it did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, UsageError
from memory_ci.evidence.window import choose
from memory_ci.extraction.engines import Engine, choose_engine
from memory_ci.extraction.engines.meter import Meter
from memory_ci.extraction.engines.replay import KeptReplies
from memory_ci.extraction.engines.rules import is_telling
from memory_ci.extraction.support import QUOTABLE
from memory_ci.gitrepo.history import list_versions, sum_costs
from memory_ci.gitrepo.repo import Repository, find_objects
from memory_ci.memory.workspace import PRIVATE, Workspace, narrow_at, read_config_at, workspace_at
from memory_ci.records.candidate import EngineReply, Known, Request
from memory_ci.records.config import Config, EngineConfig, EngineName, ExtractionConfig
from memory_ci.records.entry import Entry
from memory_ci.records.event import Evidence, EvidenceSet
from memory_ci.records.plan import EngineUse
from memory_ci.text import content_words, estimate_tokens, stem

KNOWN_TOKENS = 6_000
"""Room in a prompt for the titles of what is known already: the most important, the same in each call of a run."""


NEAR_WORDS, MAX_NEAR = 2, 10
"""Words that the title of what this run wrote must share with a window to be shown there, and how many are."""

NOTHING = '{"learnings": []}'
"""What a model that refuses is taken to have said: it would refuse again, and the change is learned from by rule."""


class Answer(NamedTuple):
    """The reply to one request, the name its entries will have as their engine, and what it was not shown."""

    text: str
    engine: str
    notice: str


class Asker:
    """The model of one run. `answers` counts what it answered, also from memory; `model` is the last that did. With
    `meter` the calls are counted here: the engine does not do it itself."""

    def __init__(
        self, name: str, engine: Engine, meter: Meter | None, budget: int, existing: Sequence[Entry]
    ) -> None:
        self._name, self._engine, self._meter, self._budget = name, engine, meter, budget
        self.answers, self.model = 0, ""
        self._known, self._known_ids = tuple(_digest(existing)), {entry.id for entry in existing}

    def ask(
        self, change: str, evidence: EvidenceSet, written: Sequence[Entry] = ()
    ) -> Answer | None:
        """The answer about one change, or None where there is nothing that could prove a learning. Of what the run has
        `written` itself the request shows what is near to the evidence. Raises EngineError as the engine."""
        if not any(piece.trust in QUOTABLE for piece in evidence.pieces):
            return None
        window = choose(evidence, self._budget, is_telling)
        fresh = [
            entry
            for entry in written
            if entry.id not in self._known_ids and entry.status == "active"
        ]
        request = Request(
            change=change,
            evidence=window.pieces,
            existing=(*self._known, *_nearest(fresh, window.pieces)),
            notice=window.notice,
            about=evidence.about,
            changed=evidence.changed
            if window.tokens + estimate_tokens(evidence.changed) <= self._budget
            else "",
        )
        reply = self.extract(request)
        engine = f"{self._name}:{reply.model}" if reply.model else self._name
        if reply.stop_reason == "refusal":
            return Answer(NOTHING, engine, "everything: the model refused to answer")
        return Answer(reply.text, engine, request.notice)

    def extract(self, request: Request) -> EngineReply:
        """The reply to any request, counted. Raises EngineError as the engine."""
        reply = self._engine.extract(request)
        self.answers, self.model = self.answers + 1, reply.model
        if self._meter and reply.tries:
            self._meter.add_try()
            self._meter.add(reply.usage)
        return reply


def _nearest(written: Sequence[Entry], pieces: Sequence[Evidence]) -> Iterator[Known]:
    """Of what a run has written, the titles that share most words with the evidence: all would cost each time."""
    said = (
        frozenset(stem(word) for piece in pieces for word in content_words(piece.text))
        if written
        else frozenset()
    )
    shared = {
        entry.id: len(said.intersection(map(stem, content_words(entry.title)))) for entry in written
    }
    near = [entry for entry in written if shared[entry.id] >= NEAR_WORDS]
    for entry in sorted(near, key=lambda entry: (-shared[entry.id], entry.id))[:MAX_NEAR]:
        yield Known(entry.id, entry.title)


def _digest(existing: Sequence[Entry]) -> Iterator[Known]:
    """The entries whose titles a model is shown, as many as there is room for."""
    room = KNOWN_TOKENS
    for entry in sorted(existing, key=lambda entry: (-entry.importance, entry.id)):
        room -= estimate_tokens(f"{entry.id} {entry.title}")
        if room < 0:
            return
        if entry.status == "active":
            yield Known(entry.id, entry.title)


class Model(NamedTuple):
    """The engine of a run, None for the rules alone, which always run; and the meter of its calls. `is_metered`: the
    engine counts its calls on that meter itself. `lacks` is what `auto` would need to be installed. `kept_as` names the
    program whose replies are kept all the same. `is_reusing`: a kept reply counts though memory held other entries
    when it was given."""

    name: str
    reason: str
    engine: Engine | None
    meter: Meter
    settings: EngineConfig
    unlanded_usd: float = 0.0
    is_metered: bool = False
    lacks: str = ""
    kept_as: str = ""
    is_reusing: bool = False

    def asker(self, existing: Sequence[Entry], kept: Path) -> Asker | None:
        """What asks this model about one change after another; replies are kept in the directory `kept`."""
        if self.engine is None:
            return None
        # What a program answers may change with the program.
        is_kept = self.kept_as or self.name in ("anthropic", "claude-cli")
        name = f"{self.name}-{self.settings.provider}-{self.settings.model}{self.kept_as}"
        directory = kept / re.sub(r"[^\w.-]+", "-", name)
        engine = (
            KeptReplies(self.engine, directory, is_reusing=self.is_reusing)
            if is_kept
            else self.engine
        )
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
            unlanded_usd=self.unlanded_usd,
            failure=f"{failure.message} [{failure.slug}]" if failure else "",
            hint=failure.hint if failure else "",
        )


def choose_model(
    settings: EngineConfig, wanted: EngineName | None, environ: Mapping[str, str]
) -> Model:
    """The engine that is asked for, else the one that the settings name; the rules need none. Raises UsageError or
    EngineError for an engine that cannot be had, UsageError (policy-forbids) for one that the settings do not allow;
    `auto` takes the rules then."""
    if wanted is not None:
        settings = replace(settings, name=wanted)
    if settings.allowed and settings.name not in ("auto", "rules", *settings.allowed):
        message = f"the engine {settings.name!r} is not allowed here: engine.allowed is {', '.join(settings.allowed)}"
        hint = "The configuration says so, or the policy that it extends."
        raise UsageError(message, slug="policy-forbids", hint=hint)
    engine, choice = choose_engine(settings, environ)
    if settings.allowed and choice.name not in ("rules", *settings.allowed):
        engine, choice = choose_engine(replace(settings, name="rules"), environ)
        choice = choice._replace(reason=f"engine.allowed is {', '.join(settings.allowed)}")
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


class SpentMonth(NamedTuple):
    """The engine of a run for which the month leaves nothing: it answers nothing. USD."""

    spent: float
    limit: float

    def extract(self, request: Request) -> EngineReply:
        """Raises EngineError [cost-limit]."""
        message = f"{self.spent:.4f} USD are spent this month: engine.max_cost_usd_month is {self.limit:g}"
        hint = "Raise it, or wait for the next month: what was merged meanwhile is read then."
        raise EngineError(message, slug="cost-limit", hint=hint)


def choose_run_model(
    here: Workspace, base: str, wanted: EngineName | None, today: date, environ: Mapping[str, str]
) -> Model:
    """The model of a run on a branch whose tip is `base`: it may take what the month leaves. Raises as `choose_model`.
    What runs took stands in trailers of their commits: of the branch, and of memory requests that have not landed."""
    repo, settings, first = here.repo, here.config.engine, today.replace(day=1)
    model = choose_model(settings, wanted, environ)
    if model.engine is None:
        return model
    requests = (f"--glob={PRIVATE}*", f"--glob=refs/remotes/*/{here.config.publish.branch}*")
    unlanded = sum_costs(repo, first, *requests, "--not", base)
    if limit := settings.max_cost_usd_month:
        model.close()
        spent = unlanded + sum_costs(repo, first, "--first-parent", base)
        if (left := limit - spent) <= 0:
            return model._replace(
                engine=SpentMonth(spent, limit), is_metered=True, unlanded_usd=unlanded
            )
        model = choose_model(
            replace(settings, max_cost_usd=min(settings.max_cost_usd or left, left)),
            wanted,
            environ,
        )
    return model._replace(unlanded_usd=unlanded)


TRUSTED_PARTS = ("engine", "extraction", "sessions", "forge")
"""The parts of a configuration that say how evidence is read, and who is believed."""


def trusted_at(repo: Repository, base: str) -> Workspace:
    """Return the repository with the configuration at `base`, in which the newest change decides nothing of its own.

    A change must not choose who reads it, who is trusted, or whether a forge is asked who brought it: these parts are
    as they were before it. The policy at `base` then narrows the whole.

    Raises:
        UsageError: the configuration at `base` cannot be read (bad-config), or its policy forbids it.
    """
    names = (
        f"{base}^{{commit}}",
        f"{base}^1^{{commit}}",
        f"{base}^1:{CONFIG_FILE}",
        f"{base}:{CONFIG_FILE}",
    )
    tip, before, old_file, new_file = find_objects(repo, names)
    if tip is None or before is None or old_file == new_file:
        return Workspace(repo, workspace_at(repo, base).config)
    old = _last_readable(repo, before)
    parts = {name: getattr(old, name) for name in TRUSTED_PARTS}
    config = replace(read_config_at(repo, tip), **parts)
    return Workspace(repo, narrow_at(repo, tip, config))


def _last_readable(repo: Repository, before: str) -> Config:
    """Return the newest readable configuration at or before a commit; without one nobody is trusted."""
    with suppress(UsageError):
        return read_config_at(repo, before)
    for version in list_versions(repo, before, [CONFIG_FILE]):
        with suppress(UsageError):
            return read_config_at(repo, version.commit.sha)
    return replace(Config(), extraction=ExtractionConfig(trusted_authors=()))
