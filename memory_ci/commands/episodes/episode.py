"""Episodes by hand: an episode that somebody writes, and how much one matters, each as a file of its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec
from msgspec.structs import replace

from memory_ci.commands.episodes.recall import is_safe, is_visible
from memory_ci.errors import FindingsError, UsageError
from memory_ci.findings import printable
from memory_ci.lifecycle.episodes import combine, make_amendment
from memory_ci.memory.episodes import load_episodes, save_telling
from memory_ci.memory.screening import UNSAFE_HINT
from memory_ci.memory.workspace import Workspace, repository_path, work_tree
from memory_ci.records.episode import Action, Episode, Outcome, Situation
from memory_ci.store.episodes import telling_path
from memory_ci.text import shorten

MAX_CONTENT = 8_000  # Characters of a text: it becomes one line.
MAX_WORD = 200  # Characters of a domain, a topic, a session and of each part of a context.
MAX_CONTEXT = 16
SUMMARY_WIDTH = 120
KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
# Of a context: what tells of a machine and not of the work; and a session is said by who it is, not by a context.
NOT_KEPT = ("cwd", "timestamp_local", "session")
RENAMED = {"git_branch": "branch"}


class Noted(msgspec.Struct, frozen=True):
    """The file that an episode, or what was added to it, stands in, and whether that was written now. `left_out` names
    the parts of a context that were not kept."""

    path: str
    episode: Episode
    is_new: bool
    left_out: tuple[str, ...] = ()


def create_episode(
    workspace: Workspace,
    content: str,
    context: Mapping[str, str],
    outcome: Outcome,
    valence: float,
    session: str | None,
    now: datetime,
    *,
    situation: Situation | None = None,
    dry_run: bool = False,
) -> Noted:
    """Write an episode into the work tree, unless the same was told before.

    `file` and `tool` of the context say what was touched, and with what. Raises UsageError (empty-episode,
    episode-too-long, bad-context, bad-valence), FindingsError (refused-text), RepositoryError (bare-repository,
    write-failed).
    """
    work_tree(workspace)
    about = situation or Situation()
    text = " ".join(content.split())
    _refuse_unfit(
        text, {"domain": about.domain, "topic": about.topic, "session": session or ""}, context
    )
    kept = {key: _keep(workspace, key, value) for key, value in context.items()}
    named = {
        RENAMED.get(key, key): value
        for key, value in kept.items()
        if value and key not in ("file", "tool")
    }
    # two sessions may write the same text, each for itself
    said = f"{session}\n{text}" if session else text
    episode = Episode(
        id=f"note-{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:12]}",
        occurred_at=now.replace(microsecond=0),
        situation=replace(about, summary=shorten(about.summary or text, SUMMARY_WIDTH)),
        context=named | ({"session": session} if session else {}),
        action=Action(
            files=tuple(filter(None, [kept.get("file")])),
            tools=tuple(filter(None, [kept.get("tool")])),
        ),
        text=text,
        outcome=outcome,
        valence=_check_valence(valence),
    )
    if not is_safe(episode):
        raise FindingsError(
            "not noted: an agent must not be given this text", slug="refused-text", hint=UNSAFE_HINT
        )
    known = _find(workspace, episode.id)
    if known is None and not dry_run:
        save_telling(workspace, episode)
    left_out = tuple(sorted(key for key, value in context.items() if value and not kept[key]))
    return Noted(
        telling_path(known or episode), known or episode, is_new=known is None, left_out=left_out
    )


def mark_important(
    workspace: Workspace, episode_id: str, valence: float, now: datetime, session: str | None = None
) -> Noted:
    """Say how much an episode matters, by an amendment: what was written stays, and the last word counts. Raises
    UsageError (unknown-episode, bad-valence), RepositoryError (bare-repository, write-failed)."""
    work_tree(workspace)
    known = _find(workspace, episode_id)
    if known is None or not is_visible(known, session):
        hint = "`memory-ci recall --json` shows the ids."
        raise UsageError(f"no episode has the id {episode_id!r}", slug="unknown-episode", hint=hint)
    if _check_valence(valence) == known.valence:
        return Noted(telling_path(known), known, is_new=False)
    amendment = make_amendment(at=now.replace(microsecond=0), amends=known.id, valence=valence)
    save_telling(workspace, amendment)
    return Noted(telling_path(amendment), replace(known, valence=valence), is_new=True)


def _refuse_unfit(text: str, said: Mapping[str, str], context: Mapping[str, str]) -> None:
    """Raises UsageError (empty-episode, episode-too-long, bad-context)."""
    if len(context) > MAX_CONTEXT:
        raise UsageError(
            f"a context of {len(context)} parts",
            slug="bad-context",
            hint=f"Keep {MAX_CONTEXT} of them.",
        )
    for key, value in (*said.items(), *context.items()):
        if not KEY.fullmatch(key) or len(value) > MAX_WORD or printable(value) != value:
            message = f"{printable(key[:40])!r} is not kept as it stands"
            hint = f"A name, and at most {MAX_WORD} characters in one line."
            raise UsageError(message, slug="bad-context", hint=hint)
    if not text:
        raise UsageError(
            "there is nothing to note", slug="empty-episode", hint="Say in a line what happened."
        )
    if len(text) > MAX_CONTENT:
        message = f"the text has {len(text):,} characters, over the limit of {MAX_CONTENT:,}"
        raise UsageError(
            message, slug="episode-too-long", hint="Say what was asked and what solved it."
        )


def _check_valence(valence: float) -> float:
    """Raises UsageError (bad-valence)."""
    if not 0 <= valence <= 1:
        hint = "0.5 is usual, 0.9 for what must not be forgotten."
        raise UsageError(
            f"the valence {valence} is not from 0.0 to 1.0", slug="bad-valence", hint=hint
        )
    return valence


def _keep(workspace: Workspace, key: str, value: str) -> str:
    """A part of a context as it may be committed; "" if it tells of a machine. A path is one of the repository."""
    if key in NOT_KEPT:
        return ""
    if key == "file" and value:
        value = (
            repository_path(workspace, Path(value))
            if Path(value).is_absolute()
            else PurePosixPath(value).as_posix()
        )
    is_local = (
        PurePosixPath(value).is_absolute()
        or PureWindowsPath(value).is_absolute()
        or value.startswith("~")
    )
    return "" if is_local or (key == "file" and ".." in PurePosixPath(value).parts) else value


def _find(workspace: Workspace, episode_id: str) -> Episode | None:
    episodes = combine(load_episodes(workspace, None).tellings)
    return next((episode for episode in episodes if episode.id == episode_id), None)
