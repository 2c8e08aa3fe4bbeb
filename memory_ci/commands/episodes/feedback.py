"""Feedback by hand, of a person or an agent on an entry, as a file of its own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from memory_ci.errors import FindingsError, UsageError
from memory_ci.gitrepo.repo import find_commit, find_setting
from memory_ci.lifecycle.episodes import (
    combine,
    event_key,
    find_heirs_among,
    list_feedback,
    make_amendment,
)
from memory_ci.lifecycle.relations import SHORTEST
from memory_ci.lifecycle.utility import Utility, delta_of, replay
from memory_ci.memory.episodes import load_episodes, save_telling
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.screening import UNSAFE_HINT, is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory, work_tree
from memory_ci.records.entry import NO_FEEDBACK, Located
from memory_ci.records.episode import Episode, Feedback
from memory_ci.records.names import SHA_WIDTH, SHORT_ID, work_ref
from memory_ci.records.report import Finding
from memory_ci.store.episodes import telling_path

SHORTEST_COMMIT = 8
LONGEST = 200
NUMBER = re.compile(r"[#!]?([1-9][0-9]{0,17})")
NAMED = re.compile(r"[a-z][a-z-]{1,20}:\S+")
REF = re.compile(rf"pr:(?P<number>[0-9]{{1,18}})|commit:(?P<sha>{SHORT_ID})")


class GivenFeedback(msgspec.Struct, frozen=True):
    """What became of a piece of feedback: its file, whether that was written now, and the entry's utility by it. `path`
    is "" where the event was noted before. `findings` are of episode files that could not be read."""

    feedback: Feedback
    path: str
    is_new: bool
    amends: str
    before: float
    after: float
    findings: tuple[Finding, ...] = ()


def give_feedback(workspace: Workspace, said: Feedback, *, dry_run: bool = False) -> GivenFeedback:
    """Note in the work tree what was said of the entry whose id begins with `said.id`, unless that is noted already.

    Without `by` it is who git says the user is. Raises UsageError (unknown-feedback, short-id, unknown-entry,
    ambiguous-entry), FindingsError (refused-text), RepositoryError (bare-repository, write-failed).
    """
    work_tree(workspace)
    delta_of(said.kind)
    by = said.by or find_setting(workspace.repo, "user.name") or ""
    located = load_memory(workspace, None).located
    entry = _find(located, said.id).entry
    said = replace(said, id=entry.id, by=_safe("by", by), ref=_reference(_safe("ref", said.ref)))
    told = load_episodes(workspace, None)
    episode = _find_episode(combine(told.tellings), said.ref)
    if (
        episode is not None
    ):  # the same work by the name that facts give it, so that one event counts once
        said = replace(said, ref=work_ref(episode.action.pr, episode.action.commit))
    known = list_feedback(told.tellings)
    policy = workspace.config.episodes.ignored_policy
    heirs = find_heirs_among(place.entry for place in located)
    before, after = (
        replay(events, policy, heirs=heirs).get(said.id, Utility(NO_FEEDBACK, 0))
        for events in (known, (*known, said))
    )
    amends = episode.id if episode else ""
    values = amends, before.value, after.value, told.findings
    if event_key(said) in map(event_key, known):
        return GivenFeedback(said, "", False, *values)
    amendment = make_amendment(said.at, amends, feedback=(said,))
    if not dry_run:
        save_telling(workspace, amendment)
    return GivenFeedback(said, telling_path(amendment), True, *values)


def name_work(workspace: Workspace, session: str | None) -> str:
    """The reference of an agent's work at hand: its session, else the commit it goes on from."""
    if session:
        return f"session:{session}"
    return f"mcp:{(find_commit(workspace.repo, 'HEAD') or 'none')[:SHA_WIDTH]}"


def parse_time(text: str) -> datetime:
    """A moment as ISO 8601 writes it, in UTC where it names no zone. Raises UsageError (bad-time).

    >>> parse_time("2026-11-20T15:00+01:00").isoformat(), parse_time("2026-11-20").isoformat()
    ('2026-11-20T14:00:00+00:00', '2026-11-20T00:00:00+00:00')
    """
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        hint = "Write it as 2026-11-20T15:00:00+00:00, or the day alone."
        raise UsageError(f"{text!r} is not a time", slug="bad-time", hint=hint) from error


def check_length(prefix: str) -> None:
    """Raises UsageError (short-id) for the start of an id that is easily another entry's."""
    if len(prefix) < SHORTEST:
        hint = f"Write at least {SHORTEST} characters of it; `memory-ci list` shows them."
        raise UsageError(f"{prefix!r} is too short for an id", slug="short-id", hint=hint)


def _find(located: Sequence[Located], prefix: str) -> Located:
    check_length(prefix)
    try:
        return find_entry(located, prefix)
    except UsageError as error:
        ids = sorted((place.entry.id for place in located), reverse=True)
        starts = {one[: len(prefix)]: one for one in ids}
        near = [starts[start] for start in difflib.get_close_matches(prefix.lower(), starts)]
        if error.slug != "unknown-entry" or not near:
            raise
        raise UsageError(
            error.message, slug=error.slug, hint=f"Near it: {', '.join(near)}."
        ) from error


def _safe(name: str, text: str) -> str:
    """A short text that goes into a file others are shown. Raises FindingsError (refused-text)."""
    if len(text) > LONGEST or not text.isprintable() or is_unsafe(text):
        message = f"not noted: --{name} is no short text that may be kept"
        raise FindingsError(message, slug="refused-text", hint=UNSAFE_HINT)
    return text


def _reference(ref: str) -> str:
    """A reference in its one form, `128` and `#128` as pr:128. Raises UsageError (bad-reference).

    >>> _reference("#128"), _reference("commit:9d0c3f2"), _reference("")
    ('pr:128', 'commit:9d0c3f2', '')
    """
    if match := NUMBER.fullmatch(ref):
        return f"pr:{int(match[1])}"
    if ref and not NAMED.fullmatch(ref):
        hint = "Name the work: pr:128, commit:9d0c3f2, review:128#r199 or session:ID."
        raise UsageError(f"{ref!r} names no work", slug="bad-reference", hint=hint)
    return ref


def _find_episode(episodes: Sequence[Episode], ref: str) -> Episode | None:
    """The episode that a reference names; None where none is known."""
    match = REF.fullmatch(ref)
    if match is None:
        return None
    number, sha = match["number"], match["sha"]
    for episode in episodes:
        commit = episode.action.commit
        if number and episode.action.pr == int(number):
            return episode
        if (
            sha
            and commit
            and (
                commit.startswith(sha)
                or (len(commit) >= SHORTEST_COMMIT and sha.startswith(commit))
            )
        ):
            return episode
    return None
