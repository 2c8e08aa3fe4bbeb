"""Episodes of a repository: read from a view, and new ones written into the work tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.flows.forgotten import tombstones_here
from memory_ci.flows.screening import find_credentials, find_unsafe_text
from memory_ci.flows.workspace import Workspace, list_view, readable_path, work_tree
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.lifecycle.episodes import combine, count_usage, find_heirs_among
from memory_ci.records.entry import Entry
from memory_ci.records.episode import Telling, UseCount
from memory_ci.records.report import Finding
from memory_ci.store.episodes import (
    MAX_FILE_BYTES,
    ParsedEpisodes,
    format_telling,
    is_episode_path,
    list_texts,
    parse_episode_file,
    telling_path,
)
from memory_ci.store.files import write_file
from memory_ci.store.layout import EPISODES


class Episodes(msgspec.Struct, frozen=True):
    """All that the episode files of a view tell, and what of them cannot be read."""

    tellings: tuple[Telling, ...] = ()
    findings: tuple[Finding, ...] = ()


def list_episode_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """The episode files of a view, as `list_memory_files` knows views."""
    files = list_view(workspace, view, [f"{EPISODES}/*.md"])
    return tuple(file for file in files if is_episode_path(file.path))


def load_episodes(workspace: Workspace, view: str | None) -> Episodes:
    """What the episode files of a view tell. Never raises for what a file holds."""
    read = [file for _, file in read_episode_files(workspace, list_episode_files(workspace, view))]
    return Episodes(
        tuple(telling for file in read for telling in file.tellings),
        tuple(finding for file in read for finding in file.findings),
    )


def load_usage(workspace: Workspace, view: str | None, entries: Iterable[Entry]) -> Mapping[str, UseCount]:
    """The usage of each of the entries of a view that some work was given, by id."""
    return count_usage(combine(load_episodes(workspace, view).tellings), find_heirs_among(entries))


def read_episode_files(workspace: Workspace, files: Iterable[TreeFile]) -> list[tuple[bytes, ParsedEpisodes]]:
    """The bytes of these files and what they tell, in their order; one git process for all that git holds."""
    found: list[tuple[bytes, ParsedEpisodes]] = []
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is not None:
            found.append((content.data, parse_episode_file(path, content.data)))
            continue
        finding = Finding(path, 1, "file-unreadable", f"the file {content.problem}", "Restore it from git.")
        found.append((b"", ParsedEpisodes(path, (), (finding,))))
    return found


def find_episode_findings(read: Iterable[tuple[bytes, ParsedEpisodes]]) -> tuple[Finding, ...]:
    """Findings on episode files that were read: unreadable, two different texts of one id, or not to be kept."""
    found: list[Finding] = []
    first: dict[str, tuple[Telling, str]] = {}
    for data, file in read:
        found += (*file.findings, *find_credentials(file.path, data))
        for line, telling in zip(file.lines, file.tellings, strict=True):
            # Text by text: words of a title and of a branch, one after the other, are nobody's sentence.
            found += dict.fromkeys(
                one for text in list_texts(telling) for one in find_unsafe_text(file.path, line, text)
            )
            known, place = first.setdefault(telling.id, (telling, f"{file.path}:{line}"))
            if known != telling:
                message = f"{telling.id} stands at {place} already, and says something else"
                found.append(Finding(file.path, line, "duplicate-episode", message, "Keep the one that is true."))
    return tuple(found)


def save_telling(workspace: Workspace, telling: Telling) -> Path:
    """Write a telling into the work tree, a file of its own; the same one already there is left alone.

    Raises UsageError (bad-episode), RepositoryError (episode-exists, bare-repository, write-failed).
    """
    root, telling = work_tree(workspace), tombstones_here(workspace).mask_all(telling)
    path, data = root / telling_path(telling), format_telling(telling)
    if not path.is_symlink() and not path.exists():
        write_file(path, data, root)
    elif not _holds(path, data):
        hint = "What was told is never rewritten: write what was learned since as an amendment."
        raise RepositoryError(
            f"{telling_path(telling)} is there, and says something else", slug="episode-exists", hint=hint
        )
    return path


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file, no link to one, has these bytes."""
    try:
        return not path.is_symlink() and read_regular(path, len(data)) == data
    except OSError:
        return False
