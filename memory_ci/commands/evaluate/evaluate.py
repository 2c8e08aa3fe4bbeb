"""Evaluation of extraction on gold windows: merged changes whose learnings are known.

It uses the grounding, the gate and the judge of a record run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.commands.evaluate.extraction_metrics import is_match, kappa
from memory_ci.commands.evaluate.json_lines import DEFAULT_TIME, load_lines
from memory_ci.commands.evaluate.records import (
    Evaluation,
    GoldLearning,
    GoldPiece,
    GoldWindow,
)
from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import make_sample_entry
from memory_ci.extraction.judge import RULES_ENGINE, JudgedCase, judge_reply
from memory_ci.extraction.settlement import settle_candidates
from memory_ci.memory.model import choose_model
from memory_ci.records.candidate import Candidate, ExistingEntry, Judged, Request
from memory_ci.records.config import EngineConfig, EngineName
from memory_ci.records.event import Evidence
from memory_ci.records.proportion import Share, compute_share
from memory_ci.secrets import find_secrets

MAX_ENTRIES = 3  # Entries that one window may give.
QUOTE_FAULTS = (
    "no-quote",
    "unknown-evidence",
    "quote-not-found",
    "untrusted-quote",
    "quote-too-short",
)
"""Reasons of the gate that are faults of quotes."""


class WindowOutcome(NamedTuple):
    """The outcome of an engine on one window.

    Attributes:
        judged: the candidates and their verdicts.
        dropped: how many learnings of the reply could not be read.
        tokens: the tokens of the call.
        failure: the error of the call, if it failed.
    """

    window: GoldWindow
    judged: tuple[Judged, ...]
    dropped: int = 0
    tokens: int = 0
    failure: EngineError | None = None

    @property
    def written(self) -> list[Candidate]:
        """The candidates that would be written."""
        return [judged.candidate for judged in self.judged if judged.verdict == "written"]

    @property
    def false_positives(self) -> list[Candidate]:
        """The written candidates that match none of the learnings that should be extracted."""
        false_positives = []
        for candidate in self.written:
            if not any(is_match(candidate, learning) for learning in self.window.learnings):
                false_positives.append(candidate)
        return false_positives

    @property
    def duplicates(self) -> int:
        """The number of written candidates with the title of an existing entry."""
        titles = [title.casefold() for title in self.window.existing]
        return sum(candidate.title.casefold() in titles for candidate in self.written)

    @property
    def missed(self) -> list[GoldLearning]:
        """The gold learnings that no extracted candidate matches.

        A candidate that says the same as an existing entry matches, though it is not written.
        """
        extracted = [
            judged.candidate for judged in self.judged if judged.verdict in ("written", "restates")
        ]
        missed_learnings = []
        for learning in self.window.learnings:
            if not any(is_match(candidate, learning) for candidate in extracted):
                missed_learnings.append(learning)
        return missed_learnings


def load_gold(path: Path) -> tuple[GoldWindow, ...]:
    """Load gold windows from JSON lines, and check that their evidence contains their quotes.

    A gold window is the text of one merged change, with the learnings that should be extracted
    from it.

    Raises:
        UsageError: bad-gold, with the number of the line or the window.
    """
    windows = load_lines(path, GoldWindow, "bad-gold", "See `memory-ci help evaluation`.")
    for number, window in enumerate(windows, start=1):
        for learning in window.learnings:
            if any(learning.quote in piece.text for piece in window.evidence):
                continue
            problem = f"{window.id} quotes what its evidence does not say: {learning.quote[:60]!r}"
            hint = "A quote is exact."
            raise UsageError(f"{path}:{number}: {problem}", slug="bad-gold", hint=hint)
    return tuple(windows)


def evaluate_extraction(
    windows: Sequence[GoldWindow],
    settings: EngineConfig,
    wanted_engine: EngineName | None,
    environ: Mapping[str, str],
) -> Evaluation:
    """Run an extraction engine on every window, and compare the results with the gold learnings.

    Args:
        windows: the gold windows.
        settings: the settings of engines.
        wanted_engine: the engine; None: that of the settings.
        environ: the environment, which has the keys of models.

    Raises:
        UsageError: the engine is not available.
        EngineError: all calls of the engine failed. Otherwise the figures would be those of the
            rules, which always run, under the name of the engine.
    """
    model = choose_model(settings, wanted_engine, environ)
    with closing(model):
        outcomes = [_run_window(window, model.engine, model.name) for window in windows]
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if failures and len(failures) == len(outcomes):
        raise failures[0]
    return _summarise_outcomes(outcomes, model.name)


def _run_window(window: GoldWindow, engine: Engine | None, name: str) -> WindowOutcome:
    """Extract candidates from one window with the rules and an engine, and judge them.

    As in a record run, the rules always run, and a failure of the engine leaves their candidates.

    Args:
        window: the gold window.
        engine: the engine; None: the rules alone.
        name: the name of the engine.
    """
    pieces = [
        _make_evidence(number, piece) for number, piece in enumerate(window.evidence, start=1)
    ]
    existing_entries = tuple(
        make_sample_entry(number, title) for number, title in enumerate(window.existing, start=1)
    )
    case = JudgedCase(label=window.id, tip="", pieces=tuple(pieces), existing=existing_entries)
    request = Request(change=case.label, evidence=case.pieces)
    judged_of_rules = judge_reply(case, RulesEngine().extract(request).text).judged
    if engine is None:
        return WindowOutcome(window, settle_candidates(judged_of_rules, MAX_ENTRIES))

    titles = tuple(ExistingEntry(entry.id, entry.title) for entry in existing_entries)
    try:
        reply = engine.extract(msgspec.structs.replace(request, existing=titles))
        verdicts = judge_reply(case, reply.text, name)
    except EngineError as error:
        return WindowOutcome(window, settle_candidates(judged_of_rules, MAX_ENTRIES), failure=error)
    usage = reply.usage
    tokens = usage.input_tokens + usage.output_tokens
    tokens += usage.cache_read_tokens + usage.cache_write_tokens
    judged = settle_candidates((*judged_of_rules, *verdicts.judged), MAX_ENTRIES)
    return WindowOutcome(window, judged, len(verdicts.dropped), tokens)


def _make_evidence(number: int, piece: GoldPiece) -> Evidence:
    """Return a gold piece as evidence, with an id and an origin that are made of its number."""
    kind = "commit" if piece.kind in ("commit", "adr") else "session"
    origin = {"kind": kind, "id": f"{number:040x}", "line": number}
    fields = {"id": f"e{number}", "origin": origin, "at": DEFAULT_TIME}
    return msgspec.convert(msgspec.to_builtins(piece) | fields, Evidence)


def _summarise_outcomes(outcomes: Sequence[WindowOutcome], engine: str) -> Evaluation:
    """Return the figures of an engine over all windows: precision, recall, abstention and faults.

    A window is a merged change, for which people have listed the learnings to extract. Some windows
    were listed by two people; their agreement (Cohen's kappa) is a figure, too.

    Args:
        outcomes: the outcome of the engine on each window.
        engine: the name of the engine.
    """
    written_candidates: list[Candidate] = []
    misses: list[str] = []
    false_positives: list[str] = []
    for outcome in outcomes:
        window_id = outcome.window.id
        written_candidates += outcome.written
        misses += [f"{window_id}: {learning.says}" for learning in outcome.missed]
        false_positives += [
            f"{window_id}: {candidate.title}" for candidate in outcome.false_positives
        ]

    gold_count = sum(len(outcome.window.learnings) for outcome in outcomes)
    abstention = _measure_abstention(outcomes)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    tokens = sum(outcome.tokens for outcome in outcomes)
    agreement, labelled_twice = kappa([outcome.window for outcome in outcomes])
    return Evaluation(
        engine=engine,
        windows=len(outcomes),
        negatives=abstention.total,
        precision=compute_share(
            len(written_candidates) - len(false_positives), len(written_candidates)
        ),
        recall=compute_share(gold_count - len(misses), gold_count),
        abstention=abstention,
        evidence_validity=_measure_evidence_validity(outcomes, engine),
        duplicates=sum(outcome.duplicates for outcome in outcomes),
        dropped=sum(outcome.dropped for outcome in outcomes),
        secrets_leaked=sum(_has_secret(candidate) for candidate in written_candidates),
        injections_obeyed=_count_obeyed_injections(outcomes),
        failures=len(failures),
        failed_because=f"{failures[0].message} [{failures[0].slug}]" if failures else "",
        tokens_per_window=round(tokens / max(1, len(outcomes)), 1),
        agreement=agreement,
        labelled_twice=labelled_twice,
        misses=tuple(misses),
        false_positives=tuple(false_positives),
    )


def _measure_abstention(outcomes: Sequence[WindowOutcome]) -> Share:
    """Return on which share of the windows without a gold learning nothing was written."""
    negatives = [outcome for outcome in outcomes if not outcome.window.learnings]
    return compute_share(sum(not outcome.written for outcome in negatives), len(negatives))


def _measure_evidence_validity(outcomes: Sequence[WindowOutcome], engine: str) -> Share:
    """Return the share of an engine's candidates whose quotes hold.

    The quotes of a candidate are the words that prove it. They do not hold if the candidate was
    refused for one of the reasons in QUOTE_FAULTS.

    Args:
        outcomes: the outcome on each window, with candidates of the engine and of the rules.
        engine: the engine whose candidates count; that may be the rules themselves.
    """
    candidate_count = 0
    valid_count = 0
    for outcome in outcomes:
        for judged in outcome.judged:
            if judged.candidate.engine == RULES_ENGINE and engine != RULES_ENGINE:
                continue
            candidate_count += 1
            has_quote_fault = any(fault in judged.reason for fault in QUOTE_FAULTS)
            if judged.verdict != "quarantined" or not has_quote_fault:
                valid_count += 1
    return compute_share(valid_count, candidate_count)


def _count_obeyed_injections(outcomes: Sequence[WindowOutcome]) -> int:
    """Count the false positives on windows whose evidence has a prompt injection."""
    return sum(len(outcome.false_positives) for outcome in outcomes if outcome.window.attack)


def _has_secret(candidate: Candidate) -> bool:
    texts = [candidate.title, candidate.body, *(quote.text for quote in candidate.quotes)]
    return bool(find_secrets("\n".join(texts)))
