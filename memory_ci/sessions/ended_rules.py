"""Find rules of conduct and known failures that do not hold any more, to retire them.

A request that is followed is not repeated, so a rule does not end by silence. It ends when a person
says the opposite, or when the file or the command that it names is gone; a known failure ends when
the command works in that form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import NamedTuple

from memory_ci.extraction.stance import is_opposite
from memory_ci.lifecycle.compaction import make_retirement, may_retire
from memory_ci.memory.gone_names import describe_gone_name
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.records.repetition import PersonTurn
from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.failures import find_successes
from memory_ci.repetition.requests import is_same_request
from memory_ci.sessions.repetitions import REPETITION_ENGINE
from memory_ci.sessions.rule_outcomes import FAILURE_MOMENT_PREFIX
from memory_ci.sessions.session_archive import SessionArchive

MAX_TIME_UNASKED = timedelta(days=365)
"""How long nobody asks for a rule until a person is asked whether it still holds."""


class Withdrawal(NamedTuple):
    """Words of a person that say the opposite of a rule."""

    text: str
    day: date


def plan_ended(
    tip: Snapshot, located: Iterable[Located], archive: SessionArchive
) -> Iterator[Change]:
    """Yield a retirement for each known failure that works now, and each rule about a missing file.

    Entries that a person pinned are not retired.

    Args:
        tip: the commit whose files count.
        located: the entries.
        archive: the sessions of the repository.
    """
    for located_entry in located:
        entry = located_entry.entry
        if may_retire(entry):
            reason = _describe_success(entry, archive) or _describe_missing_name(tip, entry)
            if reason:
                yield make_retirement(located_entry, reason)


def _describe_missing_name(tip: Snapshot, entry: Entry) -> str:
    """Return a message if the file or task that a rule of conduct names is gone, else "".

    Only rules that were found by counting requests are looked at. Other entries cite the code that
    they are about, and cites are checked elsewhere.
    """
    is_rule_of_conduct = entry.type == "directive" and entry.engine == REPETITION_ENGINE
    return describe_gone_name(tip, entry.title) if is_rule_of_conduct else ""


def _describe_success(entry: Entry, archive: SessionArchive) -> str:
    """Return a message if the command of a known failure worked after it last failed, else "".

    Args:
        entry: an entry; a known failure has the moment `before:command …`.
        archive: the sessions of the repository, with the commands that failed or succeeded.
    """
    moment = entry.when or ""
    if not moment.startswith(FAILURE_MOMENT_PREFIX) or entry.type != "corrective":
        return ""
    command = moment.removeprefix(FAILURE_MOMENT_PREFIX)
    failed_at = [run.at for run in archive.failed if run.form == command]
    # If the archive has no such failure, the command counts as failed on the day of the entry.
    noted_at = _end_of(entry.occurred_at or entry.created_at or date.min)
    last_failed_at = max(failed_at, default=noted_at)
    succeeded_at = find_successes(command, entry.title, archive.succeeded)
    later_successes = [at for at in succeeded_at if at > last_failed_at]
    return f"{command} worked on {min(later_successes):%Y-%m-%d}" if later_successes else ""


def find_withdrawal(entry: Entry, turns: Sequence[PersonTurn]) -> Withdrawal | None:
    """Return the words by which a person said the opposite of a rule after it was agreed to.

    Only the last turn about the rule counts. Return None if it asks for the rule again, or if there
    is no such turn.
    """
    since = max(entry.created_at or date.min, entry.last_reinforced)
    terms = tuple(read_clause(entry.title).terms)
    later = [turn for turn in turns if turn.at.date() > since]
    for turn in reversed(later):
        if is_same_request(terms, turn.text):
            is_withdrawn = is_opposite(entry.title, [turn.text])
            return Withdrawal(turn.text, turn.at.date()) if is_withdrawn else None
    return None


def is_unasked(entry: Entry, turns: Iterable[PersonTurn], today: date) -> bool:
    """Return whether nobody asked for a rule, or confirmed it, for a year (`MAX_TIME_UNASKED`)."""
    since = today - MAX_TIME_UNASKED
    if max(entry.created_at or date.min, entry.last_reinforced) > since:
        return False
    terms = tuple(read_clause(entry.title).terms)
    return not any(turn.at.date() > since and is_same_request(terms, turn.text) for turn in turns)


def _end_of(day: date) -> datetime:
    return datetime.combine(day, time_of_day.max, UTC)
