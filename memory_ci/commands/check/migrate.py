"""`memory-ci check --migrate`: rewrites a branch's memory files in another format, by a commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.gitrepo.writer import PlannedCommit, choose_identity, commit_series
from memory_ci.memory.workspace import Workspace, find_branch_tip, list_memory_files, workspace_at
from memory_ci.records.config import FORMAT
from memory_ci.regex import Regex

FORMAT_LINE = Regex(rb"^format[ \t]*:.*\r?\n?", re.MULTILINE)  # `format: 1`
Rewrite = Callable[[str, bytes], bytes]
"""A function from the path and the text of a memory file to its text in another format."""


class FormatStep(NamedTuple):
    """The rewrites of a memory file from a format to the next one, and back."""

    up: Rewrite
    down: Rewrite


FORMAT_STEPS: Mapping[int, FormatStep] = MappingProxyType({})
"""The steps by the format that each starts from. There is only one format, so there is no step."""


class Migration(msgspec.Struct, frozen=True):
    """The result of a migration.

    Attributes:
        ref: the branch.
        before: the format before.
        after: the format after.
        files: the paths of files that change.
        tip: the tip of the branch afterwards.
    """

    ref: str
    before: int
    after: int
    files: tuple[str, ...]
    tip: str


def migrate(
    workspace: Workspace,
    branch: str | None,
    wanted_format: int | None,
    now: datetime,
    *,
    dry_run: bool = False,
    in_actions: bool = False,
) -> Migration:
    """Rewrite the memory files of a branch in another format, and commit them.

    Args:
        workspace: the repository.
        branch: the branch, None for the checked-out branch.
        wanted_format: the number of the format, None for the newest one.
        now: the time of the commit.
        dry_run: commit nothing.
        in_actions: the program runs in GitHub Actions.

    Raises:
        UsageError: unknown-format.
        RepositoryError: the branch cannot be read or committed to.
    """
    ref, tip = find_branch_tip(workspace, branch)
    branch_workspace = workspace_at(workspace.repo, tip)
    old_format = branch_workspace.config.format
    new_format = wanted_format or FORMAT
    _refuse_unknown_formats({old_format, new_format})

    memory_files = list_memory_files(branch_workspace, tip)
    paths = [CONFIG_FILE, *(file.path for file in memory_files)]
    old_texts = branch_workspace.at(tip).read(paths)
    new_texts = _rewrite_texts(old_texts, old_format, new_format)
    changed_texts = {path: data for path, data in new_texts.items() if data != old_texts.get(path)}

    if changed_texts and not dry_run:
        message = f"memory: migrate to format {new_format}\n\nMemory-CI-Step: migrate\n"
        identity = choose_identity(branch_workspace.config.publish, in_actions=in_actions)
        commits = [PlannedCommit(changed_texts, message)]
        tip = commit_series(
            workspace.repo, ref=ref, expected=tip, commits=commits, identity=identity, when=now
        )
    return Migration(ref, old_format, new_format, tuple(sorted(changed_texts)), tip)


def _refuse_unknown_formats(formats: set[int]) -> None:
    """Raise UsageError (unknown-format) if this version cannot read or write a format.

    It can handle the first format, the newest one (FORMAT), and those that a step of
    FORMAT_STEPS starts from or leads to.
    """
    supported_formats = {1, FORMAT}
    for number in FORMAT_STEPS:
        supported_formats |= {number, number + 1}
    unknown_formats = formats - supported_formats
    if unknown_formats:
        newest = max(supported_formats)
        unknown = max(unknown_formats)
        message = f"format {unknown} is not known to this memory-ci, which knows {newest}"
        hint = "Use the memory-ci that wrote it, or a newer one."
        raise UsageError(message, slug="unknown-format", hint=hint)


def _rewrite_texts(
    texts: Mapping[str, bytes], old_format: int, new_format: int
) -> dict[str, bytes]:
    """Return the texts of memory files and of the configuration, by path, in another format."""
    rewritten = dict(texts)
    if old_format == new_format:
        return rewritten
    # One of the two ranges is empty.
    rewrites = [FORMAT_STEPS[number].up for number in range(old_format, new_format)]
    rewrites += [FORMAT_STEPS[number].down for number in range(old_format - 1, new_format - 1, -1)]
    for rewrite in rewrites:
        for path, data in rewritten.items():
            if path != CONFIG_FILE:
                rewritten[path] = rewrite(path, data)

    config = FORMAT_LINE.sub(b"", texts.get(CONFIG_FILE, b""))
    # A configuration that names no format has format 1.
    format_line = b"" if new_format == 1 else b"format: %d\n" % new_format
    rewritten[CONFIG_FILE] = format_line + config
    return rewritten
