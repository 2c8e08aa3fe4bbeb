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
    apply_amendments,
    event_key,
    find_successors_among,
    list_feedback,
    make_amendment,
)
from memory_ci.lifecycle.relations import MIN_PREFIX
from memory_ci.lifecycle.utility import Utility, compute_utilities, get_utility_delta
from memory_ci.memory.episodes import load_episodes, save_episode_record
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.screening import UNSAFE_HINT, is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory, work_tree
from memory_ci.records.entry import NO_FEEDBACK, Located
from memory_ci.records.episode import Episode, Feedback
from memory_ci.records.names import SHA_WIDTH, SHORT_ID, format_work_ref
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.episodes import episode_record_path

MIN_SHA_CHARS = 8
MAX_CHARS = 200
REQUEST_NUMBER = Regex(r"[#!]?([1-9][0-9]{0,17})")  # A pull or merge request: 128, #128 or !128.
KIND_AND_NAME = Regex(r"[a-z][a-z-]{1,20}:\S+")  # A kind and a name: review:128#r199.
WORK_REF = Regex(rf"pr:(?P<number>[0-9]{{1,18}})|commit:(?P<sha>{SHORT_ID})")


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
    """Write feedback on an entry into the work tree, unless the same is noted already.

    Args:
        workspace: the repository.
        feedback: the feedback. Its `id` may be the start of an entry's id. Without `by`, the user
            of git's configuration is its author.
        dry_run: write nothing.

    Returns:
        The feedback as it is written, and the utility of the entry before and after it.

    Raises:
        FindingsError: refused-text.
        RepositoryError: bare-repository, write-failed.
        UsageError: unknown-feedback, short-id, unknown-entry, ambiguous-entry, bad-reference.
    """
    work_tree(workspace)
    get_utility_delta(feedback.kind)  # Refuses an unknown kind.
    author = feedback.by or find_setting(workspace.repo, "user.name") or ""
    located_entries = load_memory(workspace, None).located
    entry = _find_entry(located_entries, feedback.id).entry
    feedback = replace(
        feedback,
        id=entry.id,
        by=_check_text("by", author),
        ref=_normalise_ref(_check_text("ref", feedback.ref)),
    )
    episodes = load_episodes(workspace, None)
    episode = _find_episode_of_work(apply_amendments(episodes.records), feedback.ref)
    if episode is not None:
        # One name for the same work, so that one event counts once.
        feedback = replace(feedback, ref=format_work_ref(episode.action.pr, episode.action.commit))

    earlier_feedback = list_feedback(episodes.records)
    # Feedback on a superseded entry counts for the entry that replaced it, its successor.
    successors = find_successors_among(located.entry for located in located_entries)
    no_feedback = Utility(NO_FEEDBACK, 0)
    utilities_before = compute_utilities(earlier_feedback, successors=successors)
    utilities_after = compute_utilities((*earlier_feedback, feedback), successors=successors)
    episode_id = episode.id if episode else ""
    amendment = make_amendment(feedback.at, episode_id, feedback=(feedback,))
    is_new = event_key(feedback) not in map(event_key, earlier_feedback)
    if is_new and not dry_run:
        save_episode_record(workspace, amendment)
    return GivenFeedback(
        feedback=feedback,
        path=episode_record_path(amendment) if is_new else "",
        is_new=is_new,
        amends=episode_id,
        before=utilities_before.get(entry.id, no_feedback).value,
        after=utilities_after.get(entry.id, no_feedback).value,
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


def _find_entry(located_entries: Sequence[Located], id_prefix: str) -> Located:
    """Return the entry whose id starts with a prefix.

    Raises:
        UsageError: short-id, unknown-entry with similar ids as its hint, ambiguous-entry.
    """
    check_length(id_prefix)
    try:
        return find_entry(located_entries, id_prefix)
    except UsageError as error:
        similar_ids = _list_similar_ids(located_entries, id_prefix)
        if error.slug != "unknown-entry" or not similar_ids:
            raise
        hint = f"Near it: {', '.join(similar_ids)}."
        raise UsageError(error.message, slug=error.slug, hint=hint) from error


def _list_similar_ids(located_entries: Sequence[Located], id_prefix: str) -> list[str]:
    """Return the ids whose first characters are similar to a prefix, the most similar first."""
    ids = sorted(located.entry.id for located in located_entries)
    ids_by_start: dict[str, str] = {}
    for entry_id in ids:
        ids_by_start.setdefault(entry_id[: len(id_prefix)], entry_id)
    starts = difflib.get_close_matches(id_prefix.lower(), ids_by_start)
    return [ids_by_start[start] for start in starts]


def _check_text(option_name: str, text: str) -> str:
    """Return the text of an option if it is short and may be committed.

    Raises:
        FindingsError: refused-text.
    """
    if len(text) > MAX_CHARS or not text.isprintable() or is_unsafe(text):
        message = f"not recorded: --{option_name} is too long, or not safe to store"
        raise FindingsError(message, slug="refused-text", hint=UNSAFE_HINT)
    return text


def _normalise_ref(ref: str) -> str:
    """Return a reference to work in its usual form: `128` and `#128` as `pr:128`.

    Raises:
        UsageError: bad-reference.

    >>> _normalise_ref("#128"), _normalise_ref("commit:9d0c3f2"), _normalise_ref("")
    ('pr:128', 'commit:9d0c3f2', '')
    """
    match = REQUEST_NUMBER.fullmatch(ref)
    if match:
        return f"pr:{int(match[1])}"
    if ref and not KIND_AND_NAME.fullmatch(ref):
        hint = "Name the work: pr:128, commit:9d0c3f2, review:128#r199 or session:ID."
        raise UsageError(f"{ref!r} names no work", slug="bad-reference", hint=hint)
    return ref


def _find_episode_of_work(episodes: Sequence[Episode], ref: str) -> Episode | None:
    """Return the episode of the work that a reference names: `pr:128` or `commit:9d0c3f2`."""
    match = WORK_REF.fullmatch(ref)
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


def _is_same_commit(episode_sha: str, reference_sha: str) -> bool:
    """Return whether two commit ids, one of them or both abbreviated, name one commit.

    Args:
        episode_sha: the commit of an episode, "" if it has none. Files may hold an id that is too
            short to name one commit, so such an id is not taken for the beginning of the other.
        reference_sha: the id in a reference, which is long enough.
    """
    if not episode_sha:
        return False
    if episode_sha.startswith(reference_sha):
        return True
    return len(episode_sha) >= MIN_SHA_CHARS and reference_sha.startswith(episode_sha)
