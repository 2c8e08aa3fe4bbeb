"""What the parts of an installation share: what became of each, and text files that are written only if they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.store.files import write_file

Result = Literal["written", "kept", "removed", "absent"]


class InstallStep(msgspec.Struct, frozen=True):
    """One part, where it is, and what became of it."""

    part: Literal["merge-driver", "attributes", "hook", "agent"]
    path: str
    result: Result


def put_text(path: Path, text: str, dry_run: bool) -> Result:
    """Make the file hold this text. Raises RepositoryError (write-failed)."""
    if read_text(path) == text:
        return "kept"
    if not dry_run:
        write_file(path, text.encode("utf-8", "surrogateescape"))
    return "written"


def read_text(path: Path) -> str:
    """The text of a file; empty if there is none. Any bytes survive being written back."""
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
