"""Init: the three files a repository starts with. What is there already is left as it is."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.config import CONFIG_FILE
from memory_ci.flows.workspace import Workspace, work_tree
from memory_ci.store.files import write_file

CONFIG_TEXT = """\
# memory-ci: every key is optional; these are the defaults. All keys: docs/configuration.md of memory-ci.

# extraction:
#   max_entries_per_change: 3       # how many learnings one merged change may add
#   trusted_authors: ['*']          # whose marks become memory: globs over "Name <e-mail>"

# retrieve:
#   max_chars: 8000                 # how much ranked memory an agent's job is given
#   institutional_max_chars: 4000   # how much of institutional.md, which is always given
"""
PROJECT_TEXT = """\
# Memory

<!-- What this project has learned, one entry each. `memory-ci record` adds to it from merged work;
     `memory-ci add` puts an entry into the inbox. Edit entries as you like: the files are the truth. -->
"""
INSTITUTIONAL_TEXT = """\
# Institutional memory

<!-- Norms that always hold. Every agent's job is given all of this, so keep it short. -->
"""
FILES = {CONFIG_FILE: CONFIG_TEXT, "MEMORY.md": PROJECT_TEXT, "institutional.md": INSTITUTIONAL_TEXT}


class InitStep(msgspec.Struct, frozen=True):
    """One file and what became of it."""

    path: str
    result: Literal["written", "kept"]


def init_repository(workspace: Workspace, *, dry_run: bool = False) -> tuple[InitStep, ...]:
    """Write the files that are missing; with `dry_run` only say which.

    Raises RepositoryError (bare-repository, write-failed).
    """
    root = work_tree(workspace)
    steps = []
    for path, text in FILES.items():
        exists = (root / path).exists()
        if not exists and not dry_run:
            write_file(root / path, text.encode(), root)
        steps.append(InitStep(path, "kept" if exists else "written"))
    return tuple(steps)
