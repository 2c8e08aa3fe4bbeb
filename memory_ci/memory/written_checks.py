"""Checks that a model wrote for rules, cached in the git directory.

So a rule is asked about once in a clone, `review` shows the check without the model, and a person
accepts the check that was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.extraction.entries import compute_content_key
from memory_ci.files import read_regular, save_if_changed
from memory_ci.memory.workspace import Workspace
from memory_ci.records.check import ChangeCheck
from memory_ci.store.checkfield import format_check, parse_check_text

FILE = "checks.json"
MAX_FILE = 1_000_000  # Bytes of the file.
MAX_KEPT = 500  # Checks that are kept, the newest.


class WrittenChecks:
    """The checks that a model wrote, by the words of their rules.

    The file has hashes of the rules, and the checks as text.
    """

    def __init__(self, workspace: Workspace) -> None:
        """Read the file; a file that is missing or cannot be read has no checks."""
        self._path = workspace.repo.common_dir / "memory-ci" / FILE
        self._texts = _read_cache(self._path)

    def find(self, rule: str) -> ChangeCheck | None:
        """Return the check that a model wrote for a rule; None if it is missing or not readable.

        Args:
            rule: the rule in words.
        """
        text = self._texts.get(compute_content_key(rule, ""))
        if text is None:
            return None
        with suppress(UsageError):
            return parse_check_text(text)
        return None

    def add(self, checks: Mapping[str, ChangeCheck]) -> None:
        """Add checks to the file, by the words of their rules; the oldest above MAX_KEPT go."""
        for rule, check in checks.items():
            self._texts[compute_content_key(rule, "")] = format_check(check)
        newest = dict(list(self._texts.items())[-MAX_KEPT:])
        save_if_changed(self._path, msgspec.json.encode(newest))


def _read_cache(path: Path) -> dict[str, str]:
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        return msgspec.json.decode(read_regular(path, MAX_FILE), type=dict[str, str])
    return {}
