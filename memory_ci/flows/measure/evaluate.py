"""Evaluate: an engine on gold windows, through the same grounding, gate and judge as a record run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.judge import RULES, JudgedCase, judge_reply, settle
from memory_ci.extraction.metrics import is_match, kappa, share
from memory_ci.files import read_regular
from memory_ci.flows.model import choose_model
from memory_ci.records.candidate import EngineReply, Judged, Known, Request
from memory_ci.records.config import EngineConfig, EngineName
from memory_ci.records.entry import Entry
from memory_ci.records.event import Evidence, Origin
from memory_ci.records.health import Evaluation, GoldPiece, GoldWindow
from memory_ci.secrets import find_secrets

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
MAX_ENTRIES = 3
MAX_GOLD_BYTES = 50_000_000


class WindowOutcome(NamedTuple):
    """What one window gave: its verdicts, what could not be read of the reply, and what the call took."""

    window: GoldWindow
    judged: tuple[Judged, ...]
    dropped: int = 0
    tokens: int = 0
    failure: EngineError | None = None

    @property
    def written(self) -> list[Judged]:
        return [one for one in self.judged if one.verdict == "written"]


def load_gold(path: Path) -> tuple[GoldWindow, ...]:
    """Gold windows from JSON lines. Raises UsageError (bad-gold) with the line."""
    windows = []
    try:
        lines = read_regular(path, MAX_GOLD_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", slug="bad-gold") from error
    for number, line in enumerate(lines, start=1):
        try:
            window = msgspec.json.decode(line, type=GoldWindow)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path}:{number}: {error}", slug="bad-gold", hint="See `memory-ci help evaluation`."
            ) from error
        _check(window, f"{path}:{number}")
        windows.append(window)
    return tuple(windows)


def _check(window: GoldWindow, where: str) -> None:
    for learning in window.learnings:
        if not any(learning.quote in piece.text for piece in window.evidence):
            message = f"{where}: {window.id} quotes what its evidence does not say: {learning.quote[:60]!r}"
            raise UsageError(message, slug="bad-gold", hint="A quote is exact.")


def evaluate_extraction(
    windows: Sequence[GoldWindow], settings: EngineConfig, wanted: EngineName | None, environ: Mapping[str, str]
) -> Evaluation:
    """Run the engine on every window, and count.

    Raises UsageError for an engine that cannot be had, and the EngineError of one that never answered: what the rules
    found meanwhile would pass for its work.
    """
    model = choose_model(settings, wanted, environ)
    with closing(model):
        outcomes = [_outcome(window, model.engine, model.name) for window in windows]
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if failures and len(failures) == len(outcomes):
        raise failures[0]
    return _count(outcomes, model.name)


def _outcome(window: GoldWindow, engine: Engine | None, name: str) -> WindowOutcome:
    case = JudgedCase(
        label=window.id,
        tip="",
        pieces=tuple(_piece(number, piece) for number, piece in enumerate(window.evidence, start=1)),
        existing=tuple(sample_entry(number, title) for number, title in enumerate(window.existing, start=1)),
    )
    rules = judge_reply(case, RulesEngine().extract(Request(change=case.label, evidence=case.pieces)).text)
    if engine is None:
        return WindowOutcome(window, settle(rules.judged, MAX_ENTRIES))
    try:
        reply = engine.extract(_request(case))
        found = judge_reply(case, reply.text, name)
    except EngineError as error:
        return WindowOutcome(window, settle(rules.judged, MAX_ENTRIES), failure=error)
    judged = settle((*rules.judged, *found.judged), MAX_ENTRIES)
    return WindowOutcome(window, judged, len(found.dropped), _tokens(reply))


def _request(case: JudgedCase) -> Request:
    known = tuple(Known(entry.id, entry.title) for entry in case.existing)
    return Request(change=case.label, evidence=case.pieces, existing=known)


def _tokens(reply: EngineReply) -> int:
    use = reply.usage
    return use.input_tokens + use.cache_read_tokens + use.cache_write_tokens + use.output_tokens


def _piece(number: int, piece: GoldPiece) -> Evidence:
    origin = Origin(kind="commit" if piece.kind in ("commit", "adr") else "session", id=f"{number:040x}", line=number)
    return Evidence(
        id=f"e{number}",
        kind=piece.kind,
        text=piece.text,
        trust=piece.trust,
        origin=origin,
        at=WHEN,
        actor=piece.actor,
        paths=piece.paths,
        labels=piece.labels,
    )


def _count(outcomes: Sequence[WindowOutcome], engine: str) -> Evaluation:
    windows = [outcome.window for outcome in outcomes]
    negatives = [outcome for outcome in outcomes if not outcome.window.learnings]
    written = [(outcome.window, one) for outcome in outcomes for one in outcome.written]
    right = [pair for pair in written if _is_right(*pair)]
    found = [(outcome, learning) for outcome in outcomes for learning in outcome.window.learnings]
    missed = [(o, g) for o, g in found if not any(is_match(one.candidate, g) for one in o.judged if _is_kept(one))]
    proposed = [
        one for outcome in outcomes for one in outcome.judged if one.candidate.engine != RULES or engine == RULES
    ]
    agreement, labelled_twice = kappa(windows)
    return Evaluation(
        engine=engine,
        windows=len(outcomes),
        negatives=len(negatives),
        precision=share(len(right), len(written)),
        recall=share(len(found) - len(missed), len(found)),
        abstention=share(sum(not outcome.written for outcome in negatives), len(negatives)),
        evidence_validity=share(sum(map(_is_grounded, proposed)), len(proposed)),
        duplicates=sum(_is_duplicate(window, one) for window, one in written),
        dropped=sum(outcome.dropped for outcome in outcomes),
        secrets_leaked=sum(bool(find_secrets(_text(one))) for _, one in written),
        injections_obeyed=sum(bool(window.attack) and not _is_right(window, one) for window, one in written),
        failures=sum(outcome.failure is not None for outcome in outcomes),
        failed_because=next((f"{one.failure.message} [{one.failure.slug}]" for one in outcomes if one.failure), ""),
        tokens_per_window=round(sum(outcome.tokens for outcome in outcomes) / max(1, len(outcomes)), 1),
        agreement=agreement,
        labelled_twice=labelled_twice,
        misses=tuple(f"{outcome.window.id}: {learning.says}" for outcome, learning in missed),
        false_positives=tuple(_named(written, right)),
    )


def _named(written: Sequence[tuple[GoldWindow, Judged]], right: Sequence[tuple[GoldWindow, Judged]]) -> Iterator[str]:
    for window, one in written:
        if (window, one) not in right:
            yield f"{window.id}: {one.candidate.title}"


def _is_kept(one: Judged) -> bool:
    """Whether a learning reached memory, or was there already."""
    return one.verdict in ("written", "restates")


def _is_right(window: GoldWindow, one: Judged) -> bool:
    return any(is_match(one.candidate, learning) for learning in window.learnings)


UNGROUNDED = ("no-quote", "unknown-evidence", "quote-not-found", "untrusted-quote", "quote-too-short")


def _is_grounded(one: Judged) -> bool:
    return not (one.verdict == "quarantined" and any(reason in one.reason for reason in UNGROUNDED))


def _is_duplicate(window: GoldWindow, one: Judged) -> bool:
    return one.candidate.title.casefold() in {title.casefold() for title in window.existing}


def _text(one: Judged) -> str:
    return "\n".join((one.candidate.title, one.candidate.body, *(quote.text for quote in one.candidate.quotes)))


def sample_entry(number: int, title: str) -> Entry:
    """An entry that says `title`; equal numbers have equal ids."""
    return Entry(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=date(2026, 1, 1),
        status="active",
        title=title,
    )
