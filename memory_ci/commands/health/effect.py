"""Does memory help? Sessions that are given nothing (`retrieve.holdout`), compared with the others (docs/health.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

from memory_ci.commands.health.records import ArmComparison, EffectReport
from memory_ci.extraction.wording import find_steering
from memory_ci.lifecycle.episodes import combine
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.entry import Entry
from memory_ci.records.episode import Episode
from memory_ci.records.event import Session
from memory_ci.records.proportion import Share, share
from memory_ci.sessions.session_join import CapturedSessions
from memory_ci.sessions.session_note import HELD_OUT, is_held_out, list_given, mark_session
from memory_ci.text import content_words

AGAIN = 0.5  # the share of a correction's content words from which on an entry says the same
LEAST_SAID = 3  # Content words of a correction that say something.
TO_SEE = 1 / 3  # The part of the share that memory is hoped to take away.
Z_BOTH, Z_POWER = 1.959964, 0.841621  # Two-sided 5 %, power 80 %.


def measure_effect(workspace: Workspace, today: date) -> EffectReport:
    """What became of sessions and changes in both arms, since the first session is known to have been held out."""
    part = workspace.config.retrieve.holdout
    episodes = combine(load_episodes(workspace, None).tellings)
    marks = {mark for one in episodes for mark in _marks(one)}
    captured = CapturedSessions(workspace)
    sessions = (
        [one for one in captured.said if one.started] if workspace.config.sessions.read else []
    )
    told = [
        one
        for one in sessions
        if mark_session(one.id) in marks or HELD_OUT in list_given(workspace, one.id)
    ]
    starts = [one.started for one in told if one.started] + [
        one.occurred_at for one in episodes if _marks(one)
    ]
    if not starts:
        return EffectReport(part)
    start, seen = min(starts), {mark_session(one.id) for one in told} | marks
    weeks = max(
        (datetime(today.year, today.month, today.day, tzinfo=UTC) - start).total_seconds()
        / 604_800,
        1.0,
    )
    entries = [place.entry for place in load_memory(workspace, None).located]
    arms = []
    for one in sessions:
        if one.started and one.started >= start:
            mark, said = mark_session(one.id), list(_steers(captured.whole(one)))
            is_held = mark in seen or is_held_out(mark, part)
            arms.append((is_held, bool(said), _is_said_again(said, one.started.date(), entries)))
    changes = [
        (bool(_marks(one)), one)
        for one in episodes
        if one.occurred_at >= start
        and (_marks(one) or one.retrieved or one.context.get("sessions"))
    ]
    undone = [(arm, one.outcome == "failure") for arm, one in changes if one.action.commit]
    effects = (
        compare("steered", [(arm, steered) for arm, steered, _ in arms], weeks, part),
        compare("corrected again", [(arm, again) for arm, _, again in arms], weeks, part),
        compare(
            "changes requested",
            [(arm, one.outcome == "partial") for arm, one in changes],
            weeks,
            part,
        ),
        compare("reverted", undone, weeks, part),
    )
    return EffectReport(part, start.date(), effects)


def compare(
    name: str, found: Iterable[tuple[bool, bool]], weeks: float, part: float
) -> ArmComparison:
    """What was found in both arms: (is held out, did it happen) of each session or change within so many weeks."""
    known = list(found)
    arms = ([happened for arm, happened in known if arm is of] for of in (False, True))
    given, held = (share(sum(arm), len(arm)) for arm in arms)
    low, high = newcombe(given, held) if given.total and held.total else (None, None)
    rate = sum(happened for _, happened in known) / len(known) if known else 0.0
    needed = (
        find_needed(rate, part or held.total / len(known)) if 0 < rate < 1 and held.total else None
    )
    wait = round(needed * weeks / len(known), 1) if needed else None
    return ArmComparison(name, given, held, low, high, needed, wait)


def newcombe(one: Share, other: Share) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares: method 10 of Newcombe (Statistics in Medicine, 1998)."""
    (p, low, high), (q, least, most) = (
        (s.hits / s.total, s.low or 0.0, s.high or 0.0) for s in (one, other)
    )
    return p - q - math.hypot(p - low, most - q), p - q + math.hypot(high - p, q - least)


def find_needed(rate: float, part: float) -> int:
    """How many there must be in both arms together to see `rate` lowered by a third, the smaller arm being `part` of
    them: two-sided 5 %, power 80 % (Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, 2003)."""
    lowered = rate * (1 - TO_SEE)
    variance = rate * (1 - rate) / part + lowered * (1 - lowered) / (1 - part)
    return math.ceil((Z_BOTH + Z_POWER) ** 2 * variance / (rate - lowered) ** 2)


def _marks(episode: Episode) -> list[str]:
    return [mark for mark in episode.context.get("holdout", "").split(", ") if mark]


def _steers(session: Session) -> Iterator[str]:
    """What a person said to steer, "" for a rejection or an interrupt; the first turn is the task."""
    people = [event for event in session.events if event.actor == "human"]
    first = next((event for event in people if event.kind == "text"), None)
    for event in people:
        if event is not first:
            if event.kind in ("rejection", "interrupt"):
                yield ""
            yield from (suspect.text for suspect in find_steering(event.text))


def _is_said_again(said: Iterable[str], day: date, entries: Iterable[Entry]) -> bool:
    """Whether an entry from before that day says the same as a correction."""
    asked = [words for text in said if len(words := content_words(text)) >= LEAST_SAID]
    known = (
        [entry for entry in entries if entry.created_at and entry.created_at < day] if asked else []
    )
    texts = [content_words(entry.text) for entry in known]
    return any(len(words & text) >= AGAIN * len(words) for words in asked for text in texts)
