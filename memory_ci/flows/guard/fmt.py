"""Fmt: memory files of the work tree in their canonical form. All are computed before the first is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.named_code import cite_files
from memory_ci.flows.workspace import (
    Workspace,
    list_memory_files,
    read_memory,
    readable_path,
    repository_path,
    work_tree,
)
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.records.report import Finding
from memory_ci.store.edits import canonical_file
from memory_ci.store.files import write_file
from memory_ci.store.layout import LEGACY_TEAM


class FmtReport(msgspec.Struct, frozen=True):
    """How many files were looked at, which are not canonical, and what in the files could not be read."""

    files: int
    changed: tuple[str, ...]
    findings: tuple[Finding, ...]


def format_memory(workspace: Workspace, paths: Sequence[Path] = (), *, dry_run: bool = False) -> FmtReport:
    """Write the memory files of the work tree, or those of `paths`, in canonical form; with `dry_run` only say which.

    What is written is cited, too; an entry without cites is in canonical form all the same.

    Raises UsageError (not-a-memory-file), UnreadableMemoryError (unsafe-rewrite), RepositoryError (bare-repository,
    write-failed).
    """
    root = work_tree(workspace)
    files = select_files(workspace, paths)
    read: dict[str, bytes] = {}
    texts: dict[str, bytes] = {}
    findings: list[Finding] = []
    for file, (data, _, loaded) in zip(files, read_memory(workspace, files), strict=True):
        findings += (finding for finding in loaded.findings if finding.level == "error")
        formatted = canonical_file(loaded.path, data)
        read[file.path] = data
        if formatted != data:
            texts[file.path] = formatted
    if not dry_run:
        texts |= cite_files(workspace, read | texts)
        for path, text in texts.items():
            write_file(root / path, text, root)
    return FmtReport(len(files), tuple(texts), tuple(findings))


def select_files(workspace: Workspace, paths: Sequence[Path]) -> tuple[TreeFile, ...]:
    """The memory files of the work tree that may be written, or those named. Raises UsageError (not-a-memory-file)."""
    files = {
        readable_path(file): file
        for file in list_memory_files(workspace, None)
        if not LEGACY_TEAM.fullmatch(file.path)  # read only
    }
    wanted = [repository_path(workspace, path) for path in paths]
    for path in wanted:
        if path not in files:
            hint = "MEMORY.md, institutional.md and .memory/inbox/*.md are; `scopes:` in the configuration adds others."
            raise UsageError(f"{path} is no memory file that may be written", slug="not-a-memory-file", hint=hint)
    return tuple(files[path] for path in dict.fromkeys(wanted)) if paths else tuple(files.values())
