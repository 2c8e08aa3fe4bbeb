"""The texts that a merged change brings: messages, decision records, notes of its job."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memory_ci.evidence.content import redact
from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.tombstones import NONE, Tombstones
from memory_ci.gitrepo.blobs import Tree
from memory_ci.memory.agents_block import drop_block
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace
from memory_ci.records.event import Event
from memory_ci.records.history import MergedChange
from memory_ci.sources.commits import (
    adr_paths_added,
    commit_events,
    file_event,
    job_events,
    job_paths,
)


def file_events(workspace: Workspace, merged: MergedChange) -> Iterator[Event]:
    """Decision records that the change added, and what its job wrote down before and while it worked."""
    tree, start = Tree(workspace.repo, merged.tip.sha), start_of(merged)
    for path, text in _texts(tree, adr_paths_added(merged, workspace.config.extraction.adr_paths)):
        yield file_event(merged, path, "adr", drop_block(text))
    paths = job_paths(merged)
    before = dict(_texts(Tree(workspace.repo, start), paths)) if start else {}
    for path, text in _texts(tree, paths):
        yield from job_events(merged, path, text, before.get(path, ""))


def read_said(
    workspace: Workspace, merged: MergedChange, forgotten: Tombstones = NONE
) -> Iterator[tuple[str, str]]:
    """What a run reads in the commits of a change and the files that came in with them, by shortened commit."""
    for event in (*commit_events(merged), *file_events(workspace, merged)):
        yield event.origin.id[:SHA_WIDTH], fold_blanks(redact(forgotten.mask(event.text)).text)


def fold_blanks(text: str) -> str:
    return " ".join(text.split())


def _texts(tree: Tree, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """The text that a tree has of these paths; most changes have none, and cost no process."""
    for content in tree.read(paths, MAX_FILE_BYTES) if paths else ():
        if content.data is not None:
            yield content.file.path, content.data.decode("utf-8", "replace")


def start_of(merged: MergedChange) -> str | None:
    """The commit that the change is based on: the first parent of its first commit on the branch."""
    first = merged.tip if merged.kind == "merge" else merged.commits[0]
    return first.parents[0] if first.parents else None
