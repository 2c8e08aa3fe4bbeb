"""The selection of the checks that `memory-ci check --backtest` runs over past changes.

A check is a test of changes that an entry of memory (a note for coding agents) defines.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path

from memory_ci.errors import UsageError
from memory_ci.files import read_regular
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.rules import collect_rules, make_rule, make_rules
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.check import RuleCheck
from memory_ci.store.checkfield import parse_check_text
from memory_ci.store.memory_files import load_file

MAX_BYTES = 1_000_000  # Bytes of a file with checks.
NO_CHECK_HINT = "docs/checks.md has the forms: `memory-ci help checks`."


def list_tested_checks(workspace: Workspace, name: str | None, today: date) -> list[RuleCheck]:
    """Return the checks of all entries, of one entry, or of a file.

    A check tests whether changes follow the rule that an entry states.

    Args:
        workspace: the repository, whose work tree has the memory.
        name: the start of an entry's id, or a file with entries or with a check alone; None for
            the checks of all entries in force.
        today: the day on which they are in force.

    Raises:
        UsageError: unknown-entry, ambiguous-entry, bad-check; no-check if no check is found.
    """
    if name is not None and Path(name).is_file():
        return _read_file(workspace, Path(name))
    memory = load_memory(workspace, None)
    if name is None:
        all_checks = collect_rules(memory.located, today)
        if not all_checks:
            raise UsageError("no entry has a check", slug="no-check", hint=NO_CHECK_HINT)
        return all_checks
    checks = make_rules(find_entry(memory.located, name, memory.findings).entry)
    if not checks:
        raise UsageError(f"the entry {name} has no check", slug="no-check", hint=NO_CHECK_HINT)
    return checks


def _read_file(workspace: Workspace, path: Path) -> list[RuleCheck]:
    """Return the checks of the entries in a file; a file without entries is one check itself.

    Raises:
        UsageError: bad-check; no-check if entries of the file have none.
    """
    data = b""
    with suppress(OSError):  # A file that cannot be read is no check, as an empty one.
        data = read_regular(path, MAX_BYTES)
    located_entries = load_file(path.name, data, workspace.config.scopes).entries
    checks: list[RuleCheck] = []
    for located in located_entries:
        checks += make_rules(located.entry)
    if checks:
        return checks
    if located_entries:
        raise UsageError(f"no entry of {path} has a check", slug="no-check", hint=NO_CHECK_HINT)
    check_field = parse_check_text(data.decode("utf-8", "replace"))
    return [make_rule(check_field, path.name)]
