"""Insert our block into text files of a user, take it out, and write files that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.store.files import write_file

MAX_BYTES = 10_000_000  # Of settings, attributes and hooks.
StepResult = Literal["written", "kept", "removed", "absent", "renamed", "restored"]
"""Result of a step. A file of the user is "renamed" to its path, or "restored" in its old place."""


class InstallStep(msgspec.Struct, frozen=True):
    """A step of an installation: the part, its path, and the result."""

    part: Literal["merge-driver", "attributes", "hook", "exclude", "agent", "cloud"]
    path: str
    result: StepResult


class Fence(NamedTuple):
    """The first and the last line of our block in a file of somebody else."""

    begin: str
    end: str

    def find(self, text: str) -> re.Match[str] | None:
        """Return the block in a text, with the newline before it that `insert_block` adds.

        The words in brackets at the end of its first line do not count: versions differ in them.
        """
        opening = re.escape(self.begin.partition(" (")[0])
        return re.search(rf"\n?{opening}.*?\n{re.escape(self.end)}(?:\n|\Z)", text, re.DOTALL)


HASHES = Fence("# memory-ci: begin (memory-ci init --clone)", "# memory-ci: end")
MARKDOWN = Fence(
    "<!-- memory-ci install: begin (`memory-ci init --remove --clone` takes it out) -->",
    "<!-- memory-ci install: end -->",
)


def insert_block(text: str, fence: Fence, lines: Sequence[str]) -> str:
    """Return a text with our block in place of the old one, or at the end after a newline."""
    block = "".join(f"{line}\n" for line in (fence.begin, *lines, fence.end))
    old_block = fence.find(text)
    if old_block is None:
        return f"{text}\n{block}" if text else block
    gap = "\n" if old_block.group().startswith("\n") else ""
    return text[: old_block.start()] + gap + block + text[old_block.end() :]


def remove_block(text: str, fence: Fence) -> str:
    """Return a text without our block, the inverse of `insert_block`."""
    block = fence.find(text)
    if block is None:
        return text
    before = text[: block.start()]
    after = text[block.end() :]
    needs_newline = before and after and not before.endswith("\n")
    return f"{before}\n{after}" if needs_newline else before + after


def write_if_changed(path: Path, text: str, dry_run: bool) -> StepResult:
    """Write a text to a file, if its content differs.

    Args:
        path: the file.
        text: the text.
        dry_run: whether to write nothing, and only return what would be done.

    Raises:
        RepositoryError: the file cannot be written (write-failed).
    """
    if read_text(path) == text:
        return "kept"
    if not dry_run:
        write_file(path, text.encode("utf-8", "surrogateescape"))
    return "written"


def read_text(path: Path) -> str:
    """Return the text of a file; "" if it is missing.

    Bytes that are not UTF-8 survive if the text is written back.

    Raises:
        RepositoryError: it is no regular file (not-a-file).
    """
    try:
        if not path.exists():
            return ""
        return read_regular(path, MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        hint = "Put a regular file in its place, or none."
        raise RepositoryError(message, slug="not-a-file", hint=hint) from error
