"""Read and write the table of the default branch's checks, a file in the git directory.

The table is written when a session starts, and hooks of agents read it. A library is needed to
read it. So it is a separate file, and does not exist if there are no checks: then a hook need not
load the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.files import read_regular, save_if_changed
from memory_ci.records.check import RuleCheck
from memory_ci.sessions.moments import RULES

MAX_TABLE = 200_000  # Bytes of the table.


def load_rules(common_dir: Path | None) -> tuple[RuleCheck, ...]:
    """Return the checks in the table of a repository, none if it is missing or cannot be read."""
    if common_dir is None:
        return ()
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data = read_regular(common_dir / "memory-ci" / RULES, MAX_TABLE)
        return msgspec.json.decode(data, type=tuple[RuleCheck, ...])
    return ()


def save_rules(common_dir: Path, rules: Iterable[RuleCheck]) -> None:
    """Write the table of checks if it changes, and delete it if there are no checks.

    Checks that would make it longer than `MAX_TABLE` are left out.
    """
    table: list[RuleCheck] = []
    size = len("[]")
    for rule in rules:
        size += len(msgspec.json.encode(rule)) + len(",")
        if size > MAX_TABLE:
            break
        table.append(rule)
    path = common_dir / "memory-ci" / RULES
    if table:
        save_if_changed(path, msgspec.json.encode(table))
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)
