"""The checks of the default branch in the git directory, which hooks of agents read.

The table is written when a session starts. It needs a library to be read, so it is a file of its
own: without checks there is none, and a hook with nothing to say loads nothing.
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
    """Return the checks; none if the table is missing or cannot be read."""
    if common_dir is None:
        return ()
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data = read_regular(common_dir / "memory-ci" / RULES, MAX_TABLE)
        return msgspec.json.decode(data, type=tuple[RuleCheck, ...])
    return ()


def save_rules(common_dir: Path, rules: Iterable[RuleCheck]) -> None:
    """Write the table if it changes, and remove it if there are no checks.

    Checks that would make it longer than it is read are left out.
    """
    kept: list[RuleCheck] = []
    size = 2
    for rule in rules:
        size += len(msgspec.json.encode(rule)) + 1
        if size > MAX_TABLE:
            break
        kept.append(rule)
    path = common_dir / "memory-ci" / RULES
    if kept:
        save_if_changed(path, msgspec.json.encode(kept))
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)
