"""Feedback of a person or an agent on an entry, as a file of its own."""

from __future__ import annotations

import difflib
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
from memory_ci.lifecycle.relations import MIN_PREFIX
from memory_ci.lifecycle.utility import Utility, delta_of, replay
from memory_ci.memory.episodes import load_episodes, save_telling
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.screening import UNSAFE_HINT, is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory, work_tree
from memory_ci.records.entry import NO_FEEDBACK, Located
from memory_ci.records.episode import Episode, Feedback
from memory_ci.records.names import SHA_WIDTH, SHORT_ID, format_work_ref
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.episodes import episode_record_path

SHORTEST_COMMIT = 8
LONGEST = 200
NUMBER = Regex(r"[#!]?([1-9][0-9]{0,17})")
NAMED = Regex(r"[a-z][a-z-]{1,20}:\S+")
REF = Regex(rf"pr:(?P<number>[0-9]{{1,18}})|commit:(?P<sha>{SHORT_ID})")


class GivenFeedback(msgspec.Struct, frozen=True):
    """A piece of feedback and its effect.

    Attributes:
        path: its file, "" if the event was noted before.
        is_new: the file was written now.
        amends: the id of the episode that it belongs to, "" for none.
        before: the utility of the entry without it.
        after: the utility of the entry with it.
        findings: remarks on episode files that could not be read.
    """

    feedback: Feedback
    path: str
    is_new: bool
    amends: str
    before: float
    after: float
    findings: tuple[Finding, ...] = ()


def give_feedback(
    workspace: Workspace, feedback: Feedback, *, dry_run: bool = False
) -> GivenFeedback:
    """Write feedback into the work tree, unless the same is noted already.

    Args:
        workspace: the repository.
        feedback: the event; its id may be the start of an entry's id, and git's user gives it if
            it has no `by`.
        dry_run: write nothing.

    Raises:
        FindingsError: refused-text.
        RepositoryError: bare-repository, write-failed.
        UsageError: unknown-feedback, short-id, unknown-entry, ambiguous-entry, bad-reference.
    """
    work_tree(workspace)
    delta_of(feedback.kind)  # Refuses an unknown kind.
    by = feedback.by or find_setting(workspace.repo, "user.name") or ""
    located = load_memory(workspace, None).located
    entry = _find_entry(located, feedback.id).entry
    feedback = replace(
        feedback,
        id=entry.id,
        by=_check_text("by", by),
        ref=_normalise_ref(_check_text("ref", feedback.ref)),
    )
    episodes = load_episodes(workspace, None)
    episode = _find_episode(combine(episodes.tellings), feedback.ref)
    if episode is not None:
        # One name for the same work, so that one event counts once.
        feedback = replace(feedback, ref=format_work_ref(episode.action.pr, episode.action.commit))

    events = list_feedback(episodes.tellings)
    heirs = find_heirs_among(place.entry for place in located)
    no_feedback = Utility(NO_FEEDBACK, 0)
    utilities = replay(events, heirs=heirs)
    new_utilities = replay((*events, feedback), heirs=heirs)
    amendment = make_amendment(feedback.at, episode.id if episode else "", feedback=(feedback,))
    is_new = event_key(feedback) not in map(event_key, events)
    if is_new and not dry_run:
        save_telling(workspace, amendment)
    return GivenFeedback(
        feedback=feedback,
        path=episode_record_path(amendment) if is_new else "",
        is_new=is_new,
        amends=episode.id if episode else "",
        before=utilities.get(entry.id, no_feedback).value,
        after=new_utilities.get(entry.id, no_feedback).value,
        findings=episodes.findings,
    )


def name_work(workspace: Workspace, session: str | None) -> str:
    """Return the reference of an agent's current work: its session, else the HEAD commit."""
    if session:
        return f"session:{session}"
    commit = find_commit(workspace.repo, "HEAD") or "none"
    return f"mcp:{commit[:SHA_WIDTH]}"


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601; one without a zone is in UTC.

    Raises:
        UsageError: bad-time.

    >>> parse_time("2026-11-20T15:00+01:00").isoformat(), parse_time("2026-11-20").isoformat()
    ('2026-11-20T14:00:00+00:00', '2026-11-20T00:00:00+00:00')
    """
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        hint = "Write it as 2026-11-20T15:00:00+00:00, or the day alone."
        raise UsageError(f"{text!r} is not a time", slug="bad-time", hint=hint) from error


def check_length(prefix: str) -> None:
    """Refuse the start of an id that is so short that it could be another entry's.

    Raises:
        UsageError: short-id.
    """
    if len(prefix) < MIN_PREFIX:
        hint = f"Write at least {MIN_PREFIX} characters of it; `memory-ci list` shows them."
        raise UsageError(f"{prefix!r} is too short for an id", slug="short-id", hint=hint)


def _find_entry(located: Sequence[Located], prefix: str) -> Located:
    check_length(prefix)
    try:
        return find_entry(located, prefix)
    except UsageError as error:
        close = _list_close_ids(located, prefix)
        if error.slug != "unknown-entry" or not close:
            raise
        hint = f"Near it: {', '.join(close)}."
        raise UsageError(error.message, slug=error.slug, hint=hint) from error


def _list_close_ids(located: Sequence[Located], prefix: str) -> list[str]:
    """List the ids that start similarly; of several with one start the first in order."""
    ids = sorted((place.entry.id for place in located), reverse=True)
    ids_by_start = {id_[: len(prefix)]: id_ for id_ in ids}
    starts = difflib.get_close_matches(prefix.lower(), ids_by_start)
    return [ids_by_start[start] for start in starts]


def _check_text(name: str, text: str) -> str:
    """Return a short text that may be committed.

    Raises:
        FindingsError: refused-text.
    """
    if len(text) > LONGEST or not text.isprintable() or is_unsafe(text):
        message = f"not noted: --{name} is no short text that may be kept"
        raise FindingsError(message, slug="refused-text", hint=UNSAFE_HINT)
    return text


def _normalise_ref(ref: str) -> str:
    """Return a reference in its one form: `128` and `#128` as `pr:128`.

    Raises:
        UsageError: bad-reference.

    >>> _normalise_ref("#128"), _normalise_ref("commit:9d0c3f2"), _normalise_ref("")
    ('pr:128', 'commit:9d0c3f2', '')
    """
    if match := NUMBER.fullmatch(ref):
        return f"pr:{int(match[1])}"
    if ref and not NAMED.fullmatch(ref):
        hint = "Name the work: pr:128, commit:9d0c3f2, review:128#r199 or session:ID."
        raise UsageError(f"{ref!r} names no work", slug="bad-reference", hint=hint)
    return ref


def _find_episode(episodes: Sequence[Episode], ref: str) -> Episode | None:
    """Return the episode of a reference, or None."""
    match = REF.fullmatch(ref)
    if match is None:
        return None
    number = match["number"]
    sha = match["sha"]
    for episode in episodes:
        if number and episode.action.pr == int(number):
            return episode
        if sha and _is_same_commit(episode.action.commit, sha):
            return episode
    return None


def _is_same_commit(commit: str, sha: str) -> bool:
    """Tell whether one sha is the start of the other; a recorded one must be long enough."""
    if not commit:
        return False
    return commit.startswith(sha) or (len(commit) >= SHORTEST_COMMIT and sha.startswith(commit))
