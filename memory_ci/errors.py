"""Errors that a user can act on.

Each subclass has its own exit status, each slug an explanation in cli/explanations.toml.
"""

from __future__ import annotations

from typing import ClassVar


class MemoryCIError(Exception):
    """An error that a user can act on.

    Attributes:
        message: what happened, and where.
        slug: a stable name of the error.
        hint: what to do about it.
        place: path, number from 1 and text of the line that the error is about, if there is one.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, slug: str, hint: str = "", place: tuple[str, int, str] | None = None
    ) -> None:
        """Create an error.

        Args:
            message: what happened, and where.
            slug: a stable name of the error.
            hint: what to do about it.
            place: the line of a file that the error is about: the path of the file, the number of
                the line from 1, and its text, which is shown below the message.
        """
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
