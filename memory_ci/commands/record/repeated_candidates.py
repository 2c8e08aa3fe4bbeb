"""The part of a run that proposes entries for requests that people repeat, and for failures.

People repeat requests in several agent sessions ("run the linter first"). The same command may fail
in several sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.request_titles import title_requests
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
    describe_repetition,
    find_repeated,
    save_pending_lines,
)
from memory_ci.sessions.session_archive import add_reviews
from memory_ci.store.layout import parse_target

SESSIONS_LABEL = "all sessions"
"""The label of what many sessions say, in place of a merged change."""

MAX_ASKED_REQUESTS = 20  # Repeated requests that a model is asked about.

MIN_SESSIONS_UNASKED = 4
MIN_DAYS_UNASKED = 3
"""Sessions and days of a request that is written without a person, where the settings say so."""


def judge_repeated(
    run: RecordRun, accepted_keys: frozenset[str], problems: list[str]
) -> list[Judged]:
    """Return the requests that people repeat in sessions, and the commands that fail in several.

    Each has a verdict: to be written as an entry, or to be asked about in `review`. The list is
    also saved in the git directory, where hooks read it.

    Args:
        run: the run.
        accepted_keys: content keys of candidates that a person accepted.
        problems: problems of the run; those of reading sessions are added.

    Raises:
        RepositoryError: git-failed.
    """
    mode = run.workspace.config.extraction.repeated
    if mode == "off":
        return []
    archive = add_reviews(run.workspace, run.gatherer.archive, run.gatherer.review_turns)
    problems += archive.problems
    if run.client is None:
        repetitions = find_repeated(run.base, archive, MAX_REQUESTS)
    else:
        # The model drops requests that are no rules of conduct, so more of them are read.
        repetitions = find_repeated(run.base, archive, MAX_ASKED_REQUESTS)
        repetitions = _select_by_model(run.client, repetitions, problems)
    save_pending_lines(run.workspace, repetitions)
    return [_judge_repetition(item, mode, accepted_keys) for item in repetitions]


def _select_by_model(
    client: ModelClient, repetitions: list[Repeated], problems: list[str]
) -> list[Repeated]:
    """Return the requests that are rules of conduct according to a model, then all failures.

    The requests get titles in the words of the model. If it cannot be asked, that is a problem of
    the run, and all requests are returned unchanged, up to the limit.
    """
    try:
        return _first_requests(title_requests(client, repetitions))
    except EngineError as error:
        problems.append(f"how people want work done: {error.message} [{error.slug}]")
        return _first_requests(repetitions)


def _first_requests(repetitions: Iterable[Repeated]) -> list[Repeated]:
    """Return the first `MAX_REQUESTS` requests, and all failures after them."""
    requests: list[Repeated] = []
    failures: list[Repeated] = []
    for item in repetitions:
        is_request = bool(item.occurrences)
        if is_request:
            requests.append(item)
        else:
            failures.append(item)
    return [*requests[:MAX_REQUESTS], *failures]


def plan_repeated(run: RecordRun, judged_candidates: Sequence[Judged]) -> Iterator[Change]:
    """Yield the additions of entries for repeated requests and failures with verdict "written".

    An entry is dated as of the last time that people asked. A transcript can claim any time, so the
    date is kept between `EARLIEST_DATE` and today.
    """
    for judged in judged_candidates:
        candidate = judged.candidate
        path = run.draft.path_of(parse_target(candidate.scope))
        if judged.verdict != "written" or path is None or candidate.repetition is None:
            continue
        day = candidate.occurred_at or EARLIEST_DATE
        day = min(max(day, EARLIEST_DATE), run.today)
        entry = to_entry(candidate, entry_id=entry_id(candidate), today=run.today, merged_on=day)
        why = describe_repetition(candidate.repetition)
        yield Change(step="extract", kind="add", path=path, entry=entry, why=why)


def _judge_repetition(item: Repeated, mode: RepeatedMode, accepted_keys: frozenset[str]) -> Judged:
    """Return a repeated request, or a command that fails in several sessions, with its verdict.

    The verdict is "written" if a person accepted it, or if the settings allow to write frequent
    requests without asking and its title fits an entry. Else it is "suspected": a person is asked.

    Args:
        item: the request or failure.
        mode: the setting: "write" allows to write frequent requests without asking.
        accepted_keys: content keys of candidates that a person accepted.
    """
    candidate = item.candidate
    reason = describe_repetition(candidate.repetition) if candidate.repetition else ""
    is_accepted = not item.keys.isdisjoint(accepted_keys)
    if is_accepted:
        candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
    may_write_unasked = (
        mode == "write" and _is_frequent(candidate, item.days) and not is_unfit(candidate.title)
    )
    if not is_accepted and not may_write_unasked:
        return Judged(
            candidate=candidate, verdict="suspected", reason=reason, change=SESSIONS_LABEL
        )
    return Judged(
        candidate=candidate,
        verdict="written",
        reason=reason,
        change=SESSIONS_LABEL,
        entry_id=entry_id(candidate),
    )


def _is_frequent(candidate: Candidate, days: int) -> bool:
    """Return whether a request was repeated in enough sessions and on enough days."""
    repetition = candidate.repetition
    if repetition is None or repetition.kind != "request":
        return False
    return repetition.sessions >= MIN_SESSIONS_UNASKED and days >= MIN_DAYS_UNASKED
