"""Episodes of a repository: those of a view, their feedback on entries, and new ones."""

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
from memory_ci.records.episode import EpisodeRecord, Feedback, UseCount
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
    """The tellings of all episode files of a view, and findings on unreadable ones."""

    tellings: tuple[EpisodeRecord, ...] = ()
    findings: tuple[Finding, ...] = ()


def list_episode_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """Return the episode files of a view, which is one as in `list_memory_files`."""
    files = list_view(workspace, view, [f"{EPISODES}/*.md"])
    return tuple(file for file in files if is_episode_path(file.path))


def load_episodes(workspace: Workspace, view: str | None) -> Episodes:
    """Read the episode files of a view.

    Content that cannot be read becomes a finding, and never an error.
    """
    tellings: list[EpisodeRecord] = []
    findings: list[Finding] = []
    for _, parsed in read_episode_files(workspace, list_episode_files(workspace, view)):
        tellings += parsed.tellings
        findings += parsed.findings
    return Episodes(tuple(tellings), tuple(findings))


def load_usage(
    workspace: Workspace, view: str | None, entries: Iterable[Entry]
) -> Mapping[str, UseCount]:
    """Return the usage of those entries of a view that were served, by id."""
    tellings = load_episodes(workspace, view).tellings
    return count_usage(combine(tellings), find_heirs_among(entries))


def read_episode_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> list[tuple[bytes, ParsedEpisodes]]:
    """Return the bytes and the tellings of files, in order.

    One git process reads all files that are in git.
    """
    parsed_files: list[tuple[bytes, ParsedEpisodes]] = []
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        path = readable_path(content.file)
        if content.data is not None:
            parsed_files.append((content.data, parse_episode_file(path, content.data)))
            continue
        finding = Finding(
            path, 1, "file-unreadable", f"the file {content.problem}", "Restore it from git."
        )
        parsed_files.append((b"", ParsedEpisodes(path, (), (finding,))))
    return parsed_files


def find_episode_findings(read: Iterable[tuple[bytes, ParsedEpisodes]]) -> tuple[Finding, ...]:
    """Return findings on episode files.

    They are on files that cannot be read, on ids with two different texts, and on texts that must
    not be in memory.
    """
    findings: list[Finding] = []
    first_by_id: dict[str, tuple[EpisodeRecord, str]] = {}
    for data, file in read:
        findings += (*file.findings, *find_credentials(file.path, data))
        for line, telling in zip(file.lines, file.tellings, strict=True):
            findings += _find_unsafe_texts(file.path, line, telling)
            place = f"{file.path}:{line}"
            first_telling, first_place = first_by_id.setdefault(telling.id, (telling, place))
            if first_telling != telling:
                findings.append(_report_duplicate(file.path, line, telling, first_place))
    return tuple(findings)


def _find_unsafe_texts(path: str, line: int, telling: EpisodeRecord) -> Iterable[Finding]:
    findings: dict[Finding, None] = {}
    # Each text is screened alone: the words of a title and of a branch do not form a sentence.
    for text in list_texts(telling):
        findings |= dict.fromkeys(find_unsafe_text(path, line, text))
    return findings


def _report_duplicate(path: str, line: int, telling: EpisodeRecord, first_place: str) -> Finding:
    message = f"{telling.id} stands at {first_place} already, and says something else"
    return Finding(path, line, "duplicate-episode", message, "Keep the one that is true.")


def load_feedback(workspace: Workspace, files: Sequence[TreeFile]) -> Iterator[LoadedFile]:
    """Yield the feedback of files on entries, for the index, without texts that must not be served.

    A file that is no episode file has no feedback.
    """
    episode_files = []
    for file in files:
        if is_episode_path(file.path):
            episode_files.append(file)
        else:
            yield LoadedFile(path=readable_path(file), scope=PROJECT)
    for _, parsed in read_episode_files(workspace, episode_files):
        yield _load_feedback_of(parsed)


def _load_feedback_of(parsed: ParsedEpisodes) -> LoadedFile:
    located_feedback = []
    findings = list(parsed.findings)
    for line, telling in zip(parsed.lines, parsed.tellings, strict=True):
        for feedback in telling.feedback:
            masked = mask_feedback(feedback)
            located_feedback.append((line, masked))
            if masked != feedback:
                findings += _report_unsafe_feedback(parsed.path, line, feedback)
    return LoadedFile(
        path=parsed.path,
        scope=PROJECT,
        feedback=tuple(located_feedback),
        findings=tuple(findings),
    )


def _report_unsafe_feedback(path: str, line: int, feedback: Feedback) -> list[Finding]:
    text = "\n".join((feedback.id, feedback.by, feedback.ref))
    findings = list(find_unsafe_text(path, line, text))
    if findings:
        return findings
    message = "feedback holds what looks like a credential"
    return [Finding(path, line, "credential", message, CREDENTIAL_HINT)]


def mask_feedback(said: Feedback) -> Feedback:
    """Replace the unsafe texts of an event by digests.

    Equal texts have equal digests, so that the event still counts once, and for its job.
    """
    return replace(said, id=_mask(said.id), by=_mask(said.by), ref=_mask(said.ref))


@lru_cache(maxsize=8192)  # the same names and ids occur very often
def _mask(text: str) -> str:
    if not text or not is_unsafe(text):
        return text
    return f"[withheld:{hashlib.sha256(text.encode()).hexdigest()[:8]}]"


def save_telling(workspace: Workspace, telling: EpisodeRecord) -> Path:
    """Write a telling into a file of its own in the work tree.

    An equal file is not written again.

    Raises:
        UsageError: bad-episode.
        RepositoryError: episode-exists, bare-repository, write-failed.
    """
    root = work_tree(workspace)
    telling = tombstones_here(workspace).mask_all(telling)
    path = root / telling_path(telling)
    data = format_telling(telling)
    if not path.is_symlink() and not path.exists():
        write_file(path, data, root)
        return path

    with suppress(OSError):
        if not path.is_symlink() and read_regular(path, len(data)) == data:
            return path
    raise RepositoryError(
        f"{telling_path(telling)} is there, and says something else",
        slug="episode-exists",
        hint="What was told is never rewritten: write what was learned since as an amendment.",
    )
