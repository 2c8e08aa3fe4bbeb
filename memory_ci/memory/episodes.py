"""Episodes (records of merged work) of a commit or work tree, and their feedback on entries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.files import read_regular
from memory_ci.gitrepo.blobs import FileContent, TreeFile, read_files
from memory_ci.lifecycle.episodes import apply_amendments, count_usage, find_successors_among
from memory_ci.memory.forgotten import read_tombstones_at, read_tombstones_here
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
    episode_record_path,
    format_episode_record,
    is_episode_path,
    list_texts,
    parse_episode_file,
)
from memory_ci.store.files import write_file
from memory_ci.store.layout import EPISODES, RECORDED_FILE
from memory_ci.store.ranges import Recorded, parse_recorded


class Episodes(msgspec.Struct, frozen=True):
    """The episodes and amendments of a view.

    Attributes:
        records: the episodes and amendments.
        findings: remarks on files that cannot be read.
        problem: why the episodes of git's history are missing; "" if they are not.
    """

    records: tuple[EpisodeRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    problem: str = ""


class EpisodeFiles(msgspec.Struct, frozen=True):
    """The content of the directory of episodes.

    Attributes:
        written: the episodes and amendments that have a file.
        recorded: the ranges whose other episodes are derived from git's history.
    """

    written: Episodes
    recorded: Recorded


def list_episode_files(workspace: Workspace, view: str | None) -> tuple[TreeFile, ...]:
    """Return the episode files of a revision, or of the work tree if `view` is None."""
    files = list_view(workspace, view, [f"{EPISODES}/*.md"])
    return tuple(file for file in files if is_episode_path(file.path))


def load_episodes(workspace: Workspace, view: str | None) -> Episodes:
    """Return all episodes of a revision: those with a file, and those of git's history.

    Content that cannot be read becomes a finding, and never an error.

    Args:
        workspace: the repository.
        view: the revision; None for the work tree.
    """
    files = load_episode_files(workspace, view)
    return add_derived_episodes(workspace, files, view)


def add_derived_episodes(workspace: Workspace, files: EpisodeFiles, view: str | None) -> Episodes:
    """Return the episodes that have a file, and those that are derived from git's history.

    A run lists the ranges of history that it has read in a file (recorded ranges). A merged change
    in such a range that has no episode file gets an episode that is made of its commits. If the
    clone is shallow and lacks a range, the episodes of that range are missing.

    Args:
        workspace: the repository.
        files: the content of the directory of episodes, with the recorded ranges.
        view: the revision that has it; None for the work tree.
    """
    written = files.written
    if not files.recorded.ranges:
        return written
    # Imported here because it is slow, and needed only where runs have read history.
    from memory_ci.memory.git_episodes import load_derived

    tombstones = _load_tombstones(workspace, view)
    derived = load_derived(workspace, files.recorded, written.records, tombstones)
    all_records = (*written.records, *derived.episodes)
    return replace(written, records=all_records, problem=derived.problem)


def cache_derived_episodes(workspace: Workspace, files: Iterable[TreeFile]) -> None:
    """Derive the episodes of the recorded ranges now, so that the next command has them cached.

    Args:
        workspace: the repository.
        files: the files of the work tree; the one that lists the recorded ranges is read.
    """
    recorded_files = [file for file in files if file.path == RECORDED_FILE]
    for content in read_files(workspace.repo, recorded_files, MAX_FILE_BYTES):
        episode_files = EpisodeFiles(Episodes(), parse_recorded(content.data or b""))
        add_derived_episodes(workspace, episode_files, None)  # it saves what it derives


def _load_tombstones(workspace: Workspace, view: str | None) -> Tombstones:
    """Return the hashes of forgotten text of a revision, or of the work tree."""
    if view is None and workspace.repo.root is not None:
        return read_tombstones_here(workspace)
    return read_tombstones_at(workspace.at(view or "HEAD"))


def load_written(workspace: Workspace, view: str | None) -> Episodes:
    """Return the episodes of a view that have a file.

    These are all that say which entries work was served and used.
    """
    return load_episode_files(workspace, view).written


def load_episode_files(workspace: Workspace, view: str | None) -> EpisodeFiles:
    """Read the episode files and the recorded ranges of a revision, or of the work tree.

    One git process reads all files.
    """
    listed = list_view(workspace, view, [f"{EPISODES}/*.md"])
    recorded_files = [file for file in listed if file.path == RECORDED_FILE]
    episode_files = [file for file in listed if is_episode_path(file.path)]
    records: list[EpisodeRecord] = []
    findings: list[Finding] = []
    recorded = Recorded()
    for content in read_files(workspace.repo, [*recorded_files, *episode_files], MAX_FILE_BYTES):
        if content.file.path == RECORDED_FILE:
            recorded = parse_recorded(content.data or b"")
        else:
            _, parsed = _parse_content(content)
            records += parsed.records
            findings += parsed.findings
    return EpisodeFiles(Episodes(tuple(records), tuple(findings)), recorded)


def load_usage(
    workspace: Workspace, view: str | None, entries: Iterable[Entry]
) -> Mapping[str, UseCount]:
    """Return how often work was served and used each entry, by id.

    Args:
        workspace: the repository.
        view: the revision whose episodes are counted; None for the work tree.
        entries: its entries.
    """
    records = load_written(workspace, view).records
    return count_usage(apply_amendments(records), find_successors_among(entries))


def read_episode_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> list[tuple[bytes, ParsedEpisodes]]:
    """Return the bytes and the episodes of files, in order.

    One git process reads all files that are in git.
    """
    contents = read_files(workspace.repo, files, MAX_FILE_BYTES)
    return [_parse_content(content) for content in contents]


def _parse_content(content: FileContent) -> tuple[bytes, ParsedEpisodes]:
    """Return the bytes and the episodes of a file; no bytes and a finding if it is unreadable."""
    path = readable_path(content.file)
    if content.data is not None:
        return content.data, parse_episode_file(path, content.data)
    finding = Finding(
        path, 1, "file-unreadable", f"the file {content.problem}", "Restore it from git."
    )
    return b"", ParsedEpisodes(path, (), (finding,))


def find_episode_findings(files: Iterable[tuple[bytes, ParsedEpisodes]]) -> tuple[Finding, ...]:
    """Return findings on episode files.

    They are on files that cannot be read, on ids with two different texts, and on texts that must
    not be in memory.

    Args:
        files: the bytes and the episodes of each file.
    """
    findings: list[Finding] = []
    first_by_id: dict[str, tuple[EpisodeRecord, str]] = {}  # the first of an id, and its place
    for data, file in files:
        findings += (*file.findings, *find_credentials(file.path, data))
        for line, record in zip(file.lines, file.records, strict=True):
            findings += _find_unsafe_texts(file.path, line, record)
            place = f"{file.path}:{line}"
            first_record, first_place = first_by_id.setdefault(record.id, (record, place))
            if first_record != record:
                findings.append(_report_duplicate(file.path, line, record, first_place))
    return tuple(findings)


def _find_unsafe_texts(path: str, line: int, record: EpisodeRecord) -> Iterable[Finding]:
    findings: dict[Finding, None] = {}
    # Each text is screened alone: the words of a title and of a branch do not form a sentence.
    for text in list_texts(record):
        findings |= dict.fromkeys(find_unsafe_text(path, line, text))
    return findings


def _report_duplicate(path: str, line: int, record: EpisodeRecord, first_place: str) -> Finding:
    message = f"{record.id} is at {first_place} already, with another text"
    return Finding(path, line, "duplicate-episode", message, "Keep the one that is true.")


def iter_feedback_files(workspace: Workspace, files: Sequence[TreeFile]) -> Iterator[LoadedFile]:
    """Yield the feedback on entries in each episode file, in the form in which the index loads it.

    Texts that agents must not be served are masked. A file that is no episode file has no feedback.
    """
    episode_files = []
    for file in files:
        if is_episode_path(file.path):
            episode_files.append(file)
        else:
            yield LoadedFile(path=readable_path(file), scope=PROJECT)
    for _, parsed in read_episode_files(workspace, episode_files):
        yield _read_feedback(parsed)


def _read_feedback(parsed: ParsedEpisodes) -> LoadedFile:
    """Return the feedback on entries of one episode file, with findings for masked texts."""
    feedback_by_line = []
    findings = list(parsed.findings)
    for line_number, record in zip(parsed.lines, parsed.records, strict=True):
        for feedback in record.feedback:
            masked_feedback = mask_feedback(feedback)
            feedback_by_line.append((line_number, masked_feedback))
            if masked_feedback != feedback:
                findings += _report_masked_feedback(parsed.path, line_number, feedback)
    return LoadedFile(
        path=parsed.path,
        scope=PROJECT,
        feedback=tuple(feedback_by_line),
        findings=tuple(findings),
    )


def _report_masked_feedback(path: str, line: int, feedback: Feedback) -> list[Finding]:
    """Return findings on feedback at a line of an episode file, of which some text was masked.

    Text is masked if it holds instructions to agents or a credential. `find_unsafe_text` reports
    only the former, so feedback on which it reports nothing holds a credential.
    """
    text = "\n".join((feedback.id, feedback.by, feedback.ref))
    findings = list(find_unsafe_text(path, line, text))
    if findings:
        return findings
    message = "feedback holds what looks like a credential"
    return [Finding(path, line, "credential", message, CREDENTIAL_HINT)]


def mask_feedback(feedback: Feedback) -> Feedback:
    """Replace the unsafe texts of feedback by digests.

    Equal texts have equal digests, so that the feedback still counts once, and for its work.
    """
    return replace(feedback, id=_mask(feedback.id), by=_mask(feedback.by), ref=_mask(feedback.ref))


@lru_cache(maxsize=8192)  # the same names and ids occur very often
def _mask(text: str) -> str:
    if not text or not is_unsafe(text):
        return text
    return f"[withheld:{hashlib.sha256(text.encode()).hexdigest()[:8]}]"


def save_episode_record(workspace: Workspace, record: EpisodeRecord) -> Path:
    """Write an episode or amendment into a file of its own in the work tree.

    A file with the same content is left as it is.

    Raises:
        UsageError: bad-episode.
        RepositoryError: episode-exists, bare-repository, write-failed.
    """
    root = work_tree(workspace)
    record = read_tombstones_here(workspace).mask_all(record)
    path = root / episode_record_path(record)
    data = format_episode_record(record)
    if not path.is_symlink() and not path.exists():
        write_file(path, data, root)
        return path

    with suppress(OSError):
        if not path.is_symlink() and read_regular(path, len(data)) == data:
            return path
    raise RepositoryError(
        f"{episode_record_path(record)} exists already with another text",
        slug="episode-exists",
        hint="Episodes are never rewritten: write an amendment with what was learned since.",
    )
