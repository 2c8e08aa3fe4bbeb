"""The language model of a run: the choice of an engine, its requests, and its budget."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, UsageError
from memory_ci.evidence.window import choose_pieces
from memory_ci.extraction.engines import Engine, choose_engine
from memory_ci.extraction.engines.meter import Meter
from memory_ci.extraction.engines.replay import CachingEngine
from memory_ci.extraction.engines.rules import has_learning_signs
from memory_ci.extraction.prompt import PROMPT_TOKENS
from memory_ci.extraction.support import QUOTABLE_TRUST
from memory_ci.gitrepo.history import list_versions
from memory_ci.gitrepo.record_commits import sum_costs
from memory_ci.gitrepo.repo import Repository, find_objects
from memory_ci.memory.workspace import (
    PRIVATE_REFS,
    Workspace,
    narrow_at,
    read_config_at,
    workspace_at,
)
from memory_ci.records.candidate import EngineReply, ExistingEntry, Request
from memory_ci.records.config import Config, EngineConfig, EngineName, ExtractionConfig
from memory_ci.records.entry import Entry
from memory_ci.records.event import Evidence, EvidenceSet
from memory_ci.records.plan import EngineUse
from memory_ci.text import content_words, estimate_tokens, stem

KNOWN_TOKENS = 6_000
"""Tokens in a prompt for the titles of the most important entries, equal in each call of a run."""

NEAR_WORDS = 2
"""Number of words that the title of a new entry must share with the evidence to be shown."""

MAX_NEAR = 10
"""Number of new entries that are shown with the evidence."""

NOTHING = '{"learnings": []}'
"""The reply in place of a refusal.

The model would refuse again, and the rules still learn from the change.
"""


class Answer(NamedTuple):
    """The reply to one request.

    Attributes:
        text: the reply.
        engine: the name that its entries get as their engine.
        notice: a sentence on evidence that the model was not shown.
    """

    text: str
    engine: str
    notice: str


class ModelClient:
    """The requests of one run to its model.

    Attributes:
        answers: the number of replies, cached ones included.
        model: the model that gave the last reply.
    """

    def __init__(
        self, name: str, engine: Engine, meter: Meter | None, budget: int, existing: Sequence[Entry]
    ) -> None:
        """Prepare the requests.

        Args:
            name: the name of the engine.
            engine: the engine.
            meter: counts the calls, for an engine that does not count them itself.
            budget: the tokens of a prompt.
            existing: the entries in memory.
        """
        self._name = name
        self._engine = engine
        self._meter = meter
        self._budget = budget
        self._existing_titles = _choose_important_titles(existing)
        self._existing_ids = {entry.id for entry in existing}
        self.answers = 0
        self.model = ""

    def ask(
        self, change: str, evidence: EvidenceSet, current_entries: Sequence[Entry] = ()
    ) -> Answer | None:
        """Ask the model for the learnings of a merged change.

        The request names entries, so that the model does not repeat them: the most important ones
        in memory, and those of this run that share words with the evidence.

        Args:
            change: the label of the change.
            evidence: its evidence.
            current_entries: the entries in memory and those that this run has added.

        Returns:
            None if nothing in the evidence could prove a learning.

        Raises:
            EngineError: as the engine does.
        """
        if not any(piece.trust in QUOTABLE_TRUST for piece in evidence.pieces):
            return None

        window = choose_pieces(evidence, self._budget, has_learning_signs)
        new_entries = []
        for entry in current_entries:
            if entry.status == "active" and entry.id not in self._existing_ids:
                new_entries.append(entry)
        near_titles = _choose_near_titles(new_entries, window.pieces)
        tokens = window.tokens + estimate_tokens(evidence.changed)
        request = Request(
            change=change,
            evidence=window.pieces,
            existing=(*self._existing_titles, *near_titles),
            notice=window.notice,
            about=evidence.about,
            changed=evidence.changed if tokens <= self._budget else "",
        )

        reply = self.extract(request)
        engine = f"{self._name}:{reply.model}" if reply.model else self._name
        if reply.stop_reason == "refusal":
            notice = "everything: the model refused to answer"
            return Answer(text=NOTHING, engine=engine, notice=notice)
        return Answer(text=reply.text, engine=engine, notice=request.notice)

    def extract(self, request: Request) -> EngineReply:
        """Send a request to the engine, and count the reply and its cost.

        Raises:
            EngineError: as the engine does.
        """
        reply = self._engine.extract(request)
        self.answers += 1
        self.model = reply.model
        if self._meter and reply.tries:
            self._meter.add_try()
            self._meter.add_call(reply.usage)
        return reply


def _choose_near_titles(
    entries: Sequence[Entry], pieces: Sequence[Evidence]
) -> list[ExistingEntry]:
    """Return the new entries whose titles share most words with the evidence.

    To show all of them in each call would cost too much.

    Args:
        entries: the entries that a run has added.
        pieces: the evidence that the model is shown.
    """
    if not entries:
        return []
    evidence_stems: set[str] = set()
    for piece in pieces:
        evidence_stems.update(stem(word) for word in content_words(piece.text))

    ranked = []
    for entry in entries:
        title_stems = [stem(word) for word in content_words(entry.title)]
        shared = len(evidence_stems.intersection(title_stems))
        if shared >= NEAR_WORDS:
            ranked.append((-shared, entry.id, entry.title))
    ranked.sort()
    return [ExistingEntry(entry_id, title) for _, entry_id, title in ranked[:MAX_NEAR]]


def _choose_important_titles(entries: Sequence[Entry]) -> list[ExistingEntry]:
    """Return the entries whose titles the model is shown: the most important, KNOWN_TOKENS long.

    Entries that are not active count for the length as well, but are not shown.
    """
    shown_entries = []
    tokens = 0
    for entry in sorted(entries, key=lambda entry: (-entry.importance, entry.id)):
        tokens += estimate_tokens(f"{entry.id} {entry.title}")
        if tokens > KNOWN_TOKENS:
            break
        if entry.status == "active":
            shown_entries.append(ExistingEntry(entry.id, entry.title))
    return shown_entries


class Model(NamedTuple):
    """The engine of a run, and the meter of its calls.

    Attributes:
        name: the name of the engine.
        reason: why it was chosen.
        engine: the engine; None for the rules alone, which always run.
        meter: the meter of its calls.
        settings: its configuration.
        unlanded_usd: the cost of earlier runs whose memory requests are not merged yet.
        engine_uses_meter: whether the engine counts its calls on the meter itself.
        missing_extra: the extra that has to be installed so that `auto` can choose a better engine.
        cache_name: a name under which replies of a program are cached; "" to cache them only for
            engines whose replies are always cached.
        reuses_stale_replies: whether a cached reply counts although memory had other entries when
            the model gave it.
    """

    name: str
    reason: str
    engine: Engine | None
    meter: Meter
    settings: EngineConfig
    unlanded_usd: float = 0.0
    engine_uses_meter: bool = False
    missing_extra: str = ""
    cache_name: str = ""
    reuses_stale_replies: bool = False

    def make_client(self, existing: Sequence[Entry], cache: Path) -> ModelClient | None:
        """Return the client by which a run asks this model.

        Args:
            existing: the entries in memory.
            cache: the directory in which replies are cached.

        Returns:
            The client; None if the run has no model, and extracts entries by rules only.
        """
        if self.engine is None:
            return None

        engine = self.engine
        # Replies of other engines are not cached, because a program may change and keep its name.
        if self.cache_name or self.name in ("anthropic", "claude-cli"):
            name = f"{self.name}-{self.settings.provider}-{self.settings.model}{self.cache_name}"
            directory = cache / re.sub(r"[^\w.-]+", "-", name)
            engine = CachingEngine(engine, directory, is_reusing=self.reuses_stale_replies)
        if self.engine_uses_meter:
            client_meter = None  # the client would count each call a second time
        else:
            client_meter = self.meter
        return ModelClient(self.name, engine, client_meter, PROMPT_TOKENS, existing)

    def close(self) -> None:
        """Close the connections of the engine, if it has any."""
        close = getattr(self.engine, "close", None)
        if close:
            close()

    def describe_use(self, client: ModelClient | None, failure: EngineError | None) -> EngineUse:
        """Return the requests of a run to the model and their cost, for the report.

        A try is a request that was sent, an answer a reply that was used: from the model or from
        the cache. Tries and costs are those that the meter counted.

        Args:
            client: the client that asked the model, if the run has a model.
            failure: the error that ended the use of the model, if any.
        """
        spent = self.meter.spent
        return EngineUse(
            name=self.name,
            reason=self.reason,
            model=client.model if client else "",
            answers=client.answers if client else 0,
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
    """Choose the engine of a run; `auto` takes the rules if no model is available.

    Args:
        settings: the configuration.
        wanted: the engine of `--engine`; None for that of the configuration.
        environ: the environment.

    Raises:
        UsageError: policy-forbids, if the configuration does not allow the engine; and for an
            engine that is not available.
        EngineError: for an engine that is not available.
    """
    if wanted is not None:
        settings = replace(settings, name=wanted)
    allowed_text = ", ".join(settings.allowed)
    if settings.allowed and settings.name not in ("auto", "rules", *settings.allowed):
        raise UsageError(
            f"the engine {settings.name!r} is not allowed here: engine.allowed is {allowed_text}",
            slug="policy-forbids",
            hint="The configuration says so, or the policy that it extends.",
        )

    engine, choice = choose_engine(settings, environ)
    if settings.allowed and choice.name not in ("rules", *settings.allowed):
        # `auto` chose an engine that is not allowed. The rules need no model, so they always are.
        engine, choice = choose_engine(replace(settings, name="rules"), environ)
        choice = choice._replace(reason=f"engine.allowed is {allowed_text}")

    own_meter = getattr(engine, "meter", None)
    return Model(
        name=choice.name,
        reason="--engine" if wanted not in (None, "auto") else choice.reason,
        engine=engine if choice.name != "rules" else None,
        meter=own_meter or Meter(settings),
        settings=settings,
        engine_uses_meter=own_meter is not None,
        missing_extra=choice.lacks,
    )


class SpentMonth(NamedTuple):
    """An engine that refuses all requests, because the budget of the month is spent (USD)."""

    spent: float
    limit: float

    def extract(self, request: Request) -> EngineReply:  # noqa: ARG002 - that of an engine
        """Refuse a request.

        Raises:
            EngineError: cost-limit.
        """
        raise EngineError(
            f"{self.spent:.4f} USD are spent this month: "
            f"engine.max_cost_usd_month is {self.limit:g}",
            slug="cost-limit",
            hint="Raise it, or wait for the next month: what was merged meanwhile is read then.",
        )


def choose_run_model(
    workspace: Workspace,
    base: str,
    wanted: EngineName | None,
    today: date,
    environ: Mapping[str, str],
) -> Model:
    """Choose the model of a run, limited to the remaining budget of the month.

    The cost of earlier runs is in trailers of their commits: those of the branch, and those of
    memory requests that have not landed. It raises as `choose_model` does.

    Args:
        workspace: the repository with the configuration of the run.
        base: the tip of the branch.
        wanted: the engine of `--engine`.
        today: the day of the run.
        environ: the environment.
    """
    settings = workspace.config.engine
    model = choose_model(settings, wanted, environ)
    if model.engine is None:
        return model

    repo = workspace.repo
    month_start = today.replace(day=1)
    request_branches = f"refs/remotes/*/{workspace.config.publish.branch}*"
    request_refs = (f"--glob={PRIVATE_REFS}*", f"--glob={request_branches}")
    unlanded = sum_costs(repo, month_start, *request_refs, "--not", base)
    limit = settings.max_cost_usd_month
    if not limit:
        return model._replace(unlanded_usd=unlanded)

    model.close()  # it is chosen again below, with the limit that remains
    spent = unlanded + sum_costs(repo, month_start, "--first-parent", base)
    remaining = limit - spent
    if remaining <= 0:
        engine = SpentMonth(spent, limit)
        return model._replace(engine=engine, engine_uses_meter=True, unlanded_usd=unlanded)

    run_limit = min(settings.max_cost_usd or remaining, remaining)
    model = choose_model(replace(settings, max_cost_usd=run_limit), wanted, environ)
    return model._replace(unlanded_usd=unlanded)


TRUSTED_PARTS = ("engine", "extraction", "sessions", "forge")
"""The parts of a configuration that say how evidence is read, and who is trusted."""


def trust_config_at(repo: Repository, base: str) -> Workspace:
    """Return the repository with the configuration by which the changes of a commit are read.

    That is the configuration at the commit, except for TRUSTED_PARTS: these are taken from its
    first parent. They say which model reads a change, whose words are trusted, and whether a forge
    is asked for its author. Anyone may edit the configuration in a pull request. So the commit that
    merges such a request must not be read by the values that the request sets.

    In the end the policy that the configuration extends at the commit restricts all parts.

    Args:
        repo: the repository.
        base: the commit.

    Raises:
        UsageError: bad-config, if the configuration at `base` cannot be read; or the error of a
            policy that forbids it.
    """
    # Names of objects, which one git process looks up.
    names = (
        f"{base}^{{commit}}",
        f"{base}^1^{{commit}}",
        f"{base}^1:{CONFIG_FILE}",
        f"{base}:{CONFIG_FILE}",
    )
    tip, parent, old_file, new_file = find_objects(repo, names)
    if tip is None or parent is None or old_file == new_file:
        return Workspace(repo, workspace_at(repo, base).config)

    old_config = _find_readable_config(repo, parent)
    trusted_parts = {name: getattr(old_config, name) for name in TRUSTED_PARTS}
    config = replace(read_config_at(repo, tip), **trusted_parts)
    return Workspace(repo, narrow_at(repo, tip, config))


def _find_readable_config(repo: Repository, commit: str) -> Config:
    """Return the configuration of a commit, or the newest before it that can be read.

    Without one, nobody is trusted.
    """
    with suppress(UsageError):
        return read_config_at(repo, commit)
    for version in list_versions(repo, commit, [CONFIG_FILE]):
        with suppress(UsageError):
            return read_config_at(repo, version.commit.sha)
    return replace(Config(), extraction=ExtractionConfig(trusted_authors=()))
