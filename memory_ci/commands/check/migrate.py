"""Migrate: the memory files of a branch from one format to another, as one commit."""

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
from memory_ci.memory.workspace import Workspace, branch_tip, list_memory_files, workspace_at
from memory_ci.records.config import FORMAT

FORMAT_LINE = re.compile(rb"^format[ \t]*:.*\r?\n?", re.MULTILINE)
Rewrite = Callable[[str, bytes], bytes]  # A memory file, by its path, as the other format has it.


class FormatStep(NamedTuple):
    """How a memory file gets from a format to the next one, and back."""

    up: Rewrite
    down: Rewrite


STEPS: Mapping[int, FormatStep] = MappingProxyType({})
"""By the format that each starts from. There is one format yet, so there is no step."""


class Migration(msgspec.Struct, frozen=True):
    """The formats before and after, the files that differ, and the tip of the branch afterwards."""

    ref: str
    before: int
    after: int
    files: tuple[str, ...]
    tip: str


def migrate(
    workspace: Workspace,
    branch: str | None,
    wanted: int | None,
    now: datetime,
    *,
    dry_run: bool = False,
    in_actions: bool = False,
) -> Migration:
    """Bring the files of a branch to the format `wanted`, None for the newest one known. Raises UsageError
    (unknown-format), RepositoryError: what reading and committing raise."""
    ref, base = branch_tip(workspace, branch)
    here = workspace_at(workspace.repo, base)
    before, after = here.config.format, wanted or FORMAT
    known = (1, FORMAT, *STEPS, *(number + 1 for number in STEPS))
    if unknown := {before, after}.difference(known):
        message = f"format {max(unknown)} is not known to this memory-ci, which knows {max(known)}"
        raise UsageError(
            message, slug="unknown-format", hint="Use the memory-ci that wrote it, or a newer one."
        )
    rewrites = [STEPS[number].up for number in range(before, after)]
    rewrites += [STEPS[number].down for number in range(before - 1, after - 1, -1)]
    old = here.at(base).read([CONFIG_FILE, *(file.path for file in list_memory_files(here, base))])
    new = dict(old)
    for rewrite in rewrites:
        new |= {path: rewrite(path, data) for path, data in new.items() if path != CONFIG_FILE}
    if before != after:  # Format 1 is that of a configuration that names none.
        rest = FORMAT_LINE.sub(b"", old.get(CONFIG_FILE, b""))
        new[CONFIG_FILE] = rest if after == 1 else b"format: %d\n" % after + rest
    files = {path: data for path, data in new.items() if data != old.get(path)}
    if files and not dry_run:
        message = f"memory: migrate to format {after}\n\nMemory-CI-Step: migrate\n"
        commits = [PlannedCommit(files, message)]
        who = choose_identity(here.config.publish, in_actions=in_actions)
        base = commit_series(
            workspace.repo, ref=ref, expected=base, commits=commits, identity=who, when=now
        )
    return Migration(ref, before, after, tuple(sorted(files)), base)
