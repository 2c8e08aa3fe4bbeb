"""Labelled data in files of JSON lines: one object a line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from memory_ci.errors import UsageError
from memory_ci.files import read_regular

T = TypeVar("T")
DEFAULT_TIME = datetime(2026, 1, 1, tzinfo=UTC)  # The time of labelled data that has none.
MAX_BYTES = 200_000_000


def load_lines(path: Path, kind: type[T], slug: str, hint: str) -> list[T]:
    """Load a file of JSON lines; empty lines are skipped.

    Args:
        path: the file.
        kind: the type of each line.
        slug: the slug of errors.
        hint: the hint of errors.

    Raises:
        UsageError: `slug`, with the number of the line.
    """
    decoder = msgspec.json.Decoder(kind)
    records: list[T] = []
    # Not splitlines(): JSON strings may contain other line separators, such as U+2028.
    for number, line in enumerate(read_labelled_file(path, slug, hint).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}:{number}: {error}", slug=slug, hint=hint) from error
    return records


def read_labelled_file(path: Path, slug: str, hint: str) -> str:
    """Read a file of labelled data.

    Args:
        path: the file.
        slug: the slug of errors.
        hint: the hint of errors.

    Raises:
        UsageError: `slug`.
    """
    try:
        return read_regular(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", slug=slug, hint=hint) from error
