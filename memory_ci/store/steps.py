"""What the parts of an installation share: what became of each, and text files that are written only if they differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.store.files import write_file

MAX_BYTES = 10_000_000  # of settings, attributes and hooks
StepResult = Literal["written", "kept", "removed", "absent", "renamed", "restored"]
"""`renamed`: the user's, now at this path. `restored`: the user's, in its place again."""


class InstallStep(msgspec.Struct, frozen=True):
    """One part, where it is, and what became of it."""

    part: Literal["merge-driver", "attributes", "hook", "exclude", "agent", "cloud"]
    path: str
    result: StepResult


class Fence(NamedTuple):
    """The lines around a block of ours in a file of somebody else."""

    begin: str
    end: str

    def find(self, text: str) -> re.Match[str] | None:
        """The block, with the newline before it that `with_block` puts there."""
        opening = re.escape(self.begin.partition(" (")[0])
        return re.search(rf"\n?{opening}.*?\n{re.escape(self.end)}(?:\n|\Z)", text, re.DOTALL)


HASHES = Fence("# memory-ci: begin (memory-ci install)", "# memory-ci: end")
MARKDOWN = Fence(
    "<!-- memory-ci install: begin (`memory-ci uninstall` takes it out) -->",
    "<!-- memory-ci install: end -->",
)


def with_block(text: str, fence: Fence, lines: Sequence[str]) -> str:
    """The text with our block in place of the old one, or at the end after a newline of its own."""
    block = "".join(f"{line}\n" for line in (fence.begin, *lines, fence.end))
    if found := fence.find(text):
        return (
            text[: found.start()]
            + "\n" * found.group().startswith("\n")
            + block
            + text[found.end() :]
        )
    return f"{text}\n{block}" if text else block


def without_block(text: str, fence: Fence) -> str:
    """The text as it was before `with_block`."""
    if (found := fence.find(text)) is None:
        return text
    before, after = text[: found.start()], text[found.end() :]
    return before + ("\n" if before and after and not before.endswith("\n") else "") + after


def put_text(path: Path, text: str, dry_run: bool) -> StepResult:
    """Make the file hold this text. Raises RepositoryError (write-failed)."""
    if read_text(path) == text:
        return "kept"
    if not dry_run:
        write_file(path, text.encode("utf-8", "surrogateescape"))
    return "written"


def read_text(path: Path) -> str:
    """The text of a file; empty if there is none. Any bytes survive being written back. Raises RepositoryError
    (not-a-file)."""
    try:
        return (
            read_regular(path, MAX_BYTES).decode("utf-8", "surrogateescape")
            if path.exists()
            else ""
        )
    except OSError as error:
        message, hint = (
            f"{path} cannot be read: {error.strerror}",
            "Put a regular file in its place, or none.",
        )
        raise RepositoryError(message, slug="not-a-file", hint=hint) from error
