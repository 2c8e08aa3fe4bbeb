"""One tree of errors; each subclass is one exit status, each slug one paragraph of docs/errors.md."""

from __future__ import annotations

from typing import ClassVar


class MemoryCIError(Exception):
    """Something a user can act on: what happened and where, a stable slug, and what to do. `place`, where it is about a
    line of a file: its path, the line from 1, and the text of that line."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, slug: str, hint: str = "", place: tuple[str, int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.place = place
        self.message = message
        self.slug = slug
        self.hint = hint


class FindingsError(MemoryCIError):
    """Exit 1: the input was read and something in it is not in order."""

    exit_code = 1


class UsageError(MemoryCIError):
    """Exit 2: the command line or the configuration is wrong."""

    exit_code = 2


class UnreadableMemoryError(MemoryCIError):
    """Exit 3: a memory file cannot be read or must not be rewritten."""

    exit_code = 3


class RepositoryError(MemoryCIError):
    """Exit 4: git, the repository or its file system refused."""

    exit_code = 4


class EngineError(MemoryCIError):
    """Exit 5: an engine or the network failed; the same call may work later."""

    exit_code = 5
