"""The texts of a merged change: commit messages, decision records, and notes of its agent."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memory_ci.evidence.content import redact
from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.tombstones import NO_TOMBSTONES, Tombstones
from memory_ci.gitrepo.blobs import Tree
from memory_ci.memory.agents_block import drop_block
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace
from memory_ci.records.event import Event
from memory_ci.records.history import MergedChange
from memory_ci.sources.commits import (
    list_added_adrs,
    list_job_files,
    make_commit_events,
    make_file_event,
    make_job_events,
)


def iter_file_events(workspace: Workspace, merged: MergedChange) -> Iterator[Event]:
    """Yield the texts that a change added in files: decision records, and notes of its agent.

    An agent may write what it learned into a file of its job. Only the notes that the change added
    to such a file are yielded. In decision records the block of memory (`drop_block`) is left out.

    Yields:
        An event for each decision record and each note.
    """
    tree = Tree(workspace.repo, merged.tip.sha)
    adr_paths = list_added_adrs(merged, workspace.config.extraction.adr_paths)
    for path, text in _read_texts(tree, adr_paths):
        yield make_file_event(merged, path, "adr", drop_block(text))

    note_paths = list_job_files(merged)
    start = find_start(merged)
    old_texts: dict[str, str] = {}
    if start:
        old_texts = dict(_read_texts(Tree(workspace.repo, start), note_paths))
    for path, text in _read_texts(tree, note_paths):
        yield from make_job_events(merged, path, text, old_texts.get(path, ""))


def read_change_texts(
    workspace: Workspace, merged: MergedChange, forgotten: Tombstones = NO_TOMBSTONES
) -> Iterator[tuple[str, str]]:
    """Yield the texts that a record run reads in the commits and files of a change.

    Args:
        workspace: the repository with the configuration of the run.
        merged: the change.
        forgotten: hashes of texts that people had forgotten, which are masked.

    Yields:
        The shortened commit, and the redacted text with single blanks.
    """
    for event in (*make_commit_events(merged), *iter_file_events(workspace, merged)):
        redacted = redact(forgotten.mask(event.text))
        yield event.origin.id[:SHA_WIDTH], fold_blanks(redacted.text)


def fold_blanks(text: str) -> str:
    """Replace each run of white space by one blank."""
    return " ".join(text.split())


def _read_texts(tree: Tree, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of files in a tree."""
    if not paths:
        return  # most changes have none, and cost no process
    for content in tree.read(paths, MAX_FILE_BYTES):
        if content.data is not None:
            yield content.file.path, content.data.decode("utf-8", "replace")


def find_start(merged: MergedChange) -> str | None:
    """Return the commit that a change is based on: the first parent of its first commit."""
    first = merged.tip if merged.kind == "merge" else merged.commits[0]
    return first.parents[0] if first.parents else None
