"""The part of a run that proposes entries for requests that people repeat, and for failures.

People repeat requests in several agent sessions ("run the linter first"). The same command may fail
in several sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from msgspec.structs import replace

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.request_titles import phrase_requests
from memory_ci.errors import EngineError
from memory_ci.extraction.entries import EARLIEST_DATE, entry_id, to_entry
from memory_ci.memory.model import ModelClient
from memory_ci.memory.screening import is_unfit
from memory_ci.records.candidate import ACCEPTED_IN_REQUEST, Candidate, Judged
from memory_ci.records.config import RepeatedMode
from memory_ci.records.plan import Change
from memory_ci.sessions.repetitions import (
    MAX_REQUESTS,
    Repeated,
    describe,
    find_repeated,
    save_pending,
)
from memory_ci.sessions.session_archive import add_reviews
from memory_ci.store.layout import parse_target

SOURCE = "all sessions"
"""The label of what many sessions say, in place of a merged change."""

MAX_JUDGED = 20  # Repeated requests that a model is asked about.

WRITTEN_SESSIONS = 4
WRITTEN_DAYS = 3
"""Sessions and days of a request that is written without a person, where the settings say so."""


def judge_repeated(run: RecordRun, accepted: frozenset[str], problems: list[str]) -> list[Judged]:
    """Return the requests that people repeat in sessions, and the commands that fail in several.

    Each has a verdict: to be written as an entry, or to be asked about in `review`. The list is
    also saved in the git directory, where hooks read it.

    Args:
        run: the run.
        accepted: content keys of candidates that a person accepted.
        problems: problems of the run; those of reading sessions are added.

    Raises:
        RepositoryError: git-failed.
    """
    mode = run.workspace.config.extraction.repeated
    if mode == "off":
        return []
    archive = add_reviews(run.workspace, run.gatherer.archive, run.gatherer.review_turns)
    problems += archive.problems
    limit = MAX_REQUESTS if run.client is None else MAX_JUDGED
    repeated = find_repeated(run.base, archive, limit)
    if run.client is not None:
        repeated = _phrase(run.client, repeated, problems)
    save_pending(run.workspace, repeated)
    return [_judge(item, mode, accepted) for item in repeated]


def _phrase(client: ModelClient, repeated: list[Repeated], problems: list[str]) -> list[Repeated]:
    """Return the requests that a model takes for rules of conduct, in its words, and all failures.

    All requests are returned unchanged if the model cannot be asked.
    """
    try:
        return _first_requests(phrase_requests(client, repeated))
    except EngineError as error:
        problems.append(f"how people want work done: {error.message} [{error.slug}]")
        return _first_requests(repeated)


def _first_requests(repeated: Iterable[Repeated]) -> list[Repeated]:
    """Return the first `MAX_REQUESTS` requests, and all failures after them."""
    requests: list[Repeated] = []
    failures: list[Repeated] = []
    for item in repeated:
        is_request = bool(item.occurrences)
        if is_request:
            requests.append(item)
        else:
            failures.append(item)
    return [*requests[:MAX_REQUESTS], *failures]


def plan_repeated(run: RecordRun, judged: Sequence[Judged]) -> Iterator[Change]:
    """Yield the new entries of repeated requests and failures whose verdict is to write them."""
    for item in judged:
        candidate = item.candidate
        path = run.draft.path_of(parse_target(candidate.scope))
        if item.verdict != "written" or path is None or candidate.repetition is None:
            continue
        day = min(max(candidate.occurred_at or date.min, EARLIEST_DATE), run.today)
        entry = to_entry(candidate, entry_id=entry_id(candidate), today=run.today, merged_on=day)
        why = describe(candidate.repetition)
        yield Change(step="extract", kind="add", path=path, entry=entry, why=why)


def _judge(item: Repeated, mode: RepeatedMode, accepted: frozenset[str]) -> Judged:
    """Return a repeated request, or a command that fails in several sessions, with its verdict.

    It is written if a person accepted it, or if the settings allow to write frequent requests
    without asking. Else a person is asked about it.
    """
    candidate = item.candidate
    reason = describe(candidate.repetition) if candidate.repetition else ""
    is_accepted = not item.keys.isdisjoint(accepted)
    if is_accepted:
        candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
    is_written_unasked = (
        mode == "write" and _is_frequent(candidate, item.days) and not is_unfit(candidate.title)
    )
    if not is_accepted and not is_written_unasked:
        return Judged(candidate=candidate, verdict="suspected", reason=reason, change=SOURCE)
    return Judged(
        candidate=candidate,
        verdict="written",
        reason=reason,
        change=SOURCE,
        entry_id=entry_id(candidate),
    )


def _is_frequent(candidate: Candidate, days: int) -> bool:
    """Return whether a request was repeated in enough sessions and on enough days."""
    repetition = candidate.repetition
    if repetition is None or repetition.kind != "request":
        return False
    return repetition.sessions >= WRITTEN_SESSIONS and days >= WRITTEN_DAYS
