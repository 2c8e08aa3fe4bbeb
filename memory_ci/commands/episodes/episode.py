"""Episodes written by hand: one piece of work and its outcome, as a file of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec
from msgspec.structs import replace

from memory_ci.commands.episodes.recall import is_safe, is_visible
from memory_ci.errors import FindingsError, UsageError
from memory_ci.findings import printable
from memory_ci.lifecycle.episodes import apply_amendments, make_amendment
from memory_ci.memory.episodes import load_episodes, save_episode_record
from memory_ci.memory.screening import UNSAFE_HINT
from memory_ci.memory.workspace import Workspace, repository_path, work_tree
from memory_ci.records.episode import Action, Episode, Outcome, Situation
from memory_ci.regex import Regex
from memory_ci.store.episodes import episode_record_path
from memory_ci.text import shorten

MAX_TEXT_CHARS = 8_000  # Characters of the text of an episode, which becomes one line.
MAX_VALUE_CHARS = 200  # Characters of a domain, a topic, a session, and each value of a context.
MAX_CONTEXT_SIZE = 16  # Parts of the context of an episode.
SUMMARY_WIDTH = 120
CONTEXT_KEY = Regex(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
"""The name of a part of a context: `git_branch`, for instance."""

DROPPED_KEYS = ("cwd", "timestamp_local", "session")
"""Keys of a context that are dropped: they describe a machine, and the session has an argument."""

RENAMED_KEYS = {"git_branch": "branch"}
"""Keys of a context that an episode has under another name."""

ACTION_KEYS = ("file", "tool")
"""Keys of a context whose values are the files and tools of the episode's action instead."""


class SavedEpisode(msgspec.Struct, frozen=True):
    """The file of an episode or of an amendment to it.

    Attributes:
        is_new: the file was written now.
        dropped_keys: keys of the context that were dropped; `left_out` in JSON.
    """

    path: str
    episode: Episode
    is_new: bool
    dropped_keys: tuple[str, ...] = msgspec.field(default=(), name="left_out")


def create_episode(
    workspace: Workspace,
    content: str,
    context: Mapping[str, str],
    *,
    outcome: Outcome,
    valence: float,
    session: str | None,
    now: datetime,
    situation: Situation | None = None,
    dry_run: bool = False,
) -> SavedEpisode:
    """Write an episode, a text on one piece of work and its outcome, into the work tree.

    The same text of the same session is written once.

    Args:
        workspace: the repository and its configuration.
        content: the text.
        context: facts on the work, by name; `file` and `tool` become the files and tools of the
            episode.
        outcome: what came of the work.
        valence: the importance of the episode, from 0 to 1.
        session: the only session that may see the episode; None: all may.
        now: the time of the work.
        situation: the domain, topic and summary of the work; by default the text is the summary.
        dry_run: write nothing.

    Raises:
        FindingsError: refused-text.
        RepositoryError: bare-repository, write-failed.
        UsageError: empty-episode, episode-too-long, bad-context, bad-valence.
    """
    work_tree(workspace)  # raises for a bare repository
    situation = situation or Situation()
    text = " ".join(content.split())
    words = {"domain": situation.domain, "topic": situation.topic, "session": session or ""}
    _require_valid_context(words, context)
    _require_valid_text(text)

    values = {key: _clean_value(workspace, key, value) for key, value in context.items()}
    file = values.get("file")
    tool = values.get("tool")
    summary = shorten(situation.summary or text, SUMMARY_WIDTH)
    episode = Episode(
        id=_make_id(text, session),
        occurred_at=now.replace(microsecond=0),
        situation=replace(situation, summary=summary),
        context=_make_context(values, session),
        action=Action(files=(file,) if file else (), tools=(tool,) if tool else ()),
        text=text,
        outcome=outcome,
        valence=_require_valid_valence(valence),
    )
    if not is_safe(episode):
        message = "not recorded: this text must not be served to agents"
        raise FindingsError(message, slug="refused-text", hint=UNSAFE_HINT)

    dropped_keys = tuple(sorted(key for key, value in context.items() if value and not values[key]))
    existing = _find_episode(workspace, episode.id)
    if existing is not None:
        return SavedEpisode(
            episode_record_path(existing), existing, is_new=False, dropped_keys=dropped_keys
        )
    if not dry_run:
        save_episode_record(workspace, episode)
    return SavedEpisode(
        episode_record_path(episode), episode, is_new=True, dropped_keys=dropped_keys
    )


def _make_id(text: str, session: str | None) -> str:
    # Two sessions may write the same text, each for itself.
    identity = f"{session}\n{text}" if session else text
    return f"note-{hashlib.sha256(identity.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _make_context(values: Mapping[str, str], session: str | None) -> dict[str, str]:
    """Return the context of an episode: facts on the work, and its session.

    Args:
        values: the facts by name, "" for one that was dropped. The file and the tool are left out:
            an episode has them as its action.
        session: the session, None for none.
    """
    context = {}
    for key, value in values.items():
        if value and key not in ACTION_KEYS:
            context[RENAMED_KEYS.get(key, key)] = value
    if session:
        context["session"] = session
    return context


def mark_important(
    workspace: Workspace, episode_id: str, valence: float, now: datetime, session: str | None = None
) -> SavedEpisode:
    """Set the importance of an episode, its valence from 0 to 1, by a new file that amends it.

    The newest amendment counts. None is written if the episode has this valence already.

    Args:
        workspace: the repository and its configuration.
        episode_id: the id of the episode.
        valence: the new valence.
        now: the time of the amendment.
        session: the session that asks; episodes of other sessions are unknown to it.

    Raises:
        RepositoryError: bare-repository, write-failed.
        UsageError: unknown-episode, bad-valence.
    """
    work_tree(workspace)  # raises for a bare repository
    episode = _find_episode(workspace, episode_id)
    if episode is None or not is_visible(episode, session):
        hint = "`memory-ci recall --json` shows the ids."
        raise UsageError(f"no episode has the id {episode_id!r}", slug="unknown-episode", hint=hint)
    if _require_valid_valence(valence) == episode.valence:
        return SavedEpisode(episode_record_path(episode), episode, is_new=False)
    amendment = make_amendment(at=now.replace(microsecond=0), amends=episode.id, valence=valence)
    save_episode_record(workspace, amendment)
    return SavedEpisode(
        episode_record_path(amendment), replace(episode, valence=valence), is_new=True
    )


def _require_valid_context(other_fields: Mapping[str, str], context: Mapping[str, str]) -> None:
    """Raise unless all short texts of an episode, and their names, may be committed.

    Args:
        other_fields: short texts that are fields of the episode, by the names of the fields.
        context: the context of the episode: short texts by names that the caller chose.

    Raises:
        UsageError: bad-context, for a name or a text that may not be committed.
    """
    if len(context) > MAX_CONTEXT_SIZE:
        message = f"a context of {len(context)} parts"
        raise UsageError(message, slug="bad-context", hint=f"Keep {MAX_CONTEXT_SIZE} of them.")
    for key, value in (*other_fields.items(), *context.items()):
        if (
            not CONTEXT_KEY.fullmatch(key)
            or len(value) > MAX_VALUE_CHARS
            or printable(value) != value
        ):
            message = f"{printable(key[:40])!r} is not a valid part of a context"
            hint = f"A name, and at most {MAX_VALUE_CHARS} characters in one line."
            raise UsageError(message, slug="bad-context", hint=hint)


def _require_valid_text(text: str) -> None:
    """Raise if an episode's text is empty or too long.

    Raises:
        UsageError: empty-episode, episode-too-long.
    """
    if not text:
        hint = "Say in a line what happened."
        raise UsageError("there is nothing to note", slug="empty-episode", hint=hint)
    if len(text) > MAX_TEXT_CHARS:
        message = f"the text has {len(text):,} characters, over the limit of {MAX_TEXT_CHARS:,}"
        hint = "Write only the task and its solution."
        raise UsageError(message, slug="episode-too-long", hint=hint)


def _require_valid_valence(valence: float) -> float:
    """Return a valence, the importance of an episode, if it is from 0 to 1.

    Raises:
        UsageError: bad-valence.
    """
    if not 0 <= valence <= 1:
        message = f"the valence {valence} is not from 0.0 to 1.0"
        hint = "0.5 is usual, 0.9 for what must not be forgotten."
        raise UsageError(message, slug="bad-valence", hint=hint)
    return valence


def _clean_value(workspace: Workspace, key: str, value: str) -> str:
    """Return a value of a context as it may be committed; "" if it describes this machine.

    The path of a file is made relative to the repository. Absolute paths, paths in the home
    directory and paths outside the repository describe this machine.
    """
    if key in DROPPED_KEYS:
        return ""
    if key == "file" and value:
        if Path(value).is_absolute():
            value = repository_path(workspace, Path(value))
        else:
            value = PurePosixPath(value).as_posix()
        if ".." in PurePosixPath(value).parts:
            return ""
    # A path of another system than this is absolute by its own rules.
    if PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute():
        return ""
    if value.startswith("~"):
        return ""
    return value


def _find_episode(workspace: Workspace, episode_id: str) -> Episode | None:
    episodes = apply_amendments(load_episodes(workspace, None).records)
    return next((episode for episode in episodes if episode.id == episode_id), None)
