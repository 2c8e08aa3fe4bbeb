"""What episodes say of tasks: what came of them, and what was tried and declined (docs/similar.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from memory_ci.flows.episodes import list_episode_files
from memory_ci.flows.workspace import Workspace, readable_path
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.lifecycle.episodes import WORSE, combine
from memory_ci.records.episode import Amendment, Episode
from memory_ci.records.retrieval import Task
from memory_ci.store.episodes import MAX_FILE_BYTES, parse_episode_file

SHORT = 7
"""Digits of a commit that an episode must name."""


class Heard(msgspec.Struct, frozen=True):
    """What one file tells, as it is kept from run to run: an episode file never changes under its object id."""

    episodes: tuple[Episode, ...] = ()
    amendments: tuple[Amendment, ...] = ()


class Verdicts(msgspec.Struct, frozen=True):
    """What episodes say of the outcome of requests and of commits, which are known by their first seven digits.

    `amended` are the ids of those that were put right.
    """

    by_number: Mapping[int, Episode]
    by_commit: Mapping[str, Episode]
    amended: frozenset[str]

    def judge(self, task: Task, shas: Iterable[str]) -> Task:
        """The task with the outcome that its episode says.

        What git tells of later (a revert, a fix-up) counts as well, and the worse of both holds, until an amendment
        speaks: it was written by who knew.
        """
        episode = self.by_number.get(task.number or 0) or self._find_by_commit(shas)
        if episode is None or episode.outcome == task.outcome:
            return task
        is_worse = WORSE.index(episode.outcome) > WORSE.index(task.outcome) and not _is_declined(episode)
        if is_worse or episode.id in self.amended:
            return msgspec.structs.replace(task, outcome=episode.outcome, why="")
        return task

    def _find_by_commit(self, shas: Iterable[str]) -> Episode | None:
        named = ((sha, self.by_commit.get(sha[:SHORT])) for sha in shas)
        return next((episode for sha, episode in named if episode and sha.startswith(episode.action.commit)), None)

    def list_declined(self, merged: Collection[int]) -> Iterator[Episode]:
        """The requests that were closed unmerged; not those of one session alone, for tasks are everybody's."""
        for number, episode in self.by_number.items():
            if _is_declined(episode) and number not in merged and not episode.context.get("session"):
                yield episode


def list_unheard(workspace: Workspace, heard: Collection[str], tip: str) -> tuple[TreeFile, ...]:
    """The episode files of a commit that are not among the object ids `heard`. Raises RepositoryError (git-failed)."""
    return tuple(file for file in list_episode_files(workspace, tip) if file.oid not in heard)


def hear(workspace: Workspace, heard: Mapping[str, Heard], tip: str) -> dict[str, Heard]:
    """What the episode files of a commit tell, by object id; only new ones are read."""
    listed = list_episode_files(workspace, tip)
    fresh = [file for file in listed if file.oid not in heard]
    read = {
        content.file.oid: _sort(readable_path(content.file), content.data)
        for content in read_files(workspace.repo, fresh, MAX_FILE_BYTES)
    }
    return {file.oid: heard[file.oid] if file.oid in heard else read[file.oid] for file in listed}


def weigh_heard(heard: Mapping[str, Heard]) -> Verdicts:
    """All that was heard, put together."""
    amendments = [told for file in heard.values() for told in file.amendments]
    episodes = combine([*amendments, *(told for file in heard.values() for told in file.episodes)])
    return Verdicts(
        {episode.action.pr: episode for episode in episodes if episode.action.pr},
        {episode.action.commit[:SHORT]: episode for episode in episodes if len(episode.action.commit) >= SHORT},
        frozenset(told.amends for told in amendments if told.outcome is not None),
    )


def _is_declined(episode: Episode) -> bool:
    """Whether an episode tells of a request that was closed unmerged; it may have been merged after all."""
    return episode.outcome == "failure" and not episode.action.commit and episode.action.pr is not None


def _sort(path: str, data: bytes | None) -> Heard:
    tellings = () if data is None else parse_episode_file(path, data).tellings
    return Heard(
        tuple(told for told in tellings if isinstance(told, Episode)),
        tuple(told for told in tellings if isinstance(told, Amendment)),
    )
