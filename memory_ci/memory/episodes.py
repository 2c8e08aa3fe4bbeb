"""Episodes of a repository: read from a view, what they say of entries, and new ones written into the work tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.lifecycle.episodes import combine, count_usage, find_heirs_among
from memory_ci.memory.forgotten import tombstones_here
from memory_ci.memory.screening import (
    CREDENTIAL_HINT,
    find_credentials,
    find_unsafe_text,
    is_unsafe,
)
from memory_ci.memory.workspace import Workspace, list_view, readable_path, work_tree
from memory_ci.records.entry import PROJECT, Entry
from memory_ci.records.episode import Feedback, Telling, UseCount
from memory_ci.records.report import Finding, LoadedFile
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


def load_usage(
    workspace: Workspace, view: str | None, entries: Iterable[Entry]
) -> Mapping[str, UseCount]:
    """The usage of each of the entries of a view that some work was given, by id."""
    return count_usage(combine(load_episodes(workspace, view).tellings), find_heirs_among(entries))


def read_episode_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> list[tuple[bytes, ParsedEpisodes]]:
    """The bytes of these files and what they tell, in their order; one git process for all that git holds."""
    found: list[tuple[bytes, ParsedEpisodes]] = []
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is not None:
            found.append((content.data, parse_episode_file(path, content.data)))
            continue
        finding = Finding(
            path, 1, "file-unreadable", f"the file {content.problem}", "Restore it from git."
        )
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
                one
                for text in list_texts(telling)
                for one in find_unsafe_text(file.path, line, text)
            )
            known, place = first.setdefault(telling.id, (telling, f"{file.path}:{line}"))
            if known != telling:
                message = f"{telling.id} stands at {place} already, and says something else"
                found.append(
                    Finding(
                        file.path, line, "duplicate-episode", message, "Keep the one that is true."
                    )
                )
    return tuple(found)


def load_feedback(workspace: Workspace, files: Sequence[TreeFile]) -> Iterator[LoadedFile]:
    """What each file says of entries, for the index, without a text that must not be served; one that is no episode
    file says nothing."""
    for file in files:
        if not is_episode_path(file.path):
            yield LoadedFile(path=readable_path(file), scope=PROJECT)
    for _, read in read_episode_files(
        workspace, [file for file in files if is_episode_path(file.path)]
    ):
        said = [
            (line, one)
            for line, told in zip(read.lines, read.tellings, strict=True)
            for one in told.feedback
        ]
        feedback = tuple((line, mask_feedback(one)) for line, one in said)
        findings = list(read.findings)
        for line, one in said:
            if mask_feedback(one) != one:
                found = tuple(
                    find_unsafe_text(read.path, line, "\n".join((one.id, one.by, one.ref)))
                )
                message = "feedback holds what looks like a credential"
                findings += found or (
                    Finding(read.path, line, "credential", message, CREDENTIAL_HINT),
                )
        yield LoadedFile(path=read.path, scope=PROJECT, feedback=feedback, findings=tuple(findings))


def mask_feedback(said: Feedback) -> Feedback:
    """The same event, its unsafe texts by a digest: it still counts, once and beside those of the same job."""
    return replace(said, id=_mask(said.id), by=_mask(said.by), ref=_mask(said.ref))


@lru_cache(maxsize=8192)  # the same names and ids come again and again
def _mask(text: str) -> str:
    is_masked = text and is_unsafe(text)
    return f"[withheld:{hashlib.sha256(text.encode()).hexdigest()[:8]}]" if is_masked else text


def save_telling(workspace: Workspace, telling: Telling) -> Path:
    """Write a telling into the work tree, a file of its own; the same one already there is left alone. Raises
    UsageError (bad-episode), RepositoryError (episode-exists, bare-repository, write-failed)."""
    root, telling = work_tree(workspace), tombstones_here(workspace).mask_all(telling)
    path, data = root / telling_path(telling), format_telling(telling)
    if not path.is_symlink() and not path.exists():
        write_file(path, data, root)
        return path
    with suppress(OSError):
        if not path.is_symlink() and read_regular(path, len(data)) == data:
            return path
    hint = "What was told is never rewritten: write what was learned since as an amendment."
    message = f"{telling_path(telling)} is there, and says something else"
    raise RepositoryError(message, slug="episode-exists", hint=hint)
