"""Anchors of cites, and verdicts on whether the cited code holds (docs/serving.md#anchors)."""

from __future__ import annotations

from typing import Literal

import msgspec

VerdictKind = Literal["fresh", "moved", "changed", "gone", "unverifiable"]

STALE_KINDS: frozenset[VerdictKind] = frozenset({"changed", "gone"})
"""Verdicts that an agent reads before the entry itself."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A file at a commit, or some of its lines.

    Attributes:
        first: the first line, from 1; None for the whole file.
        last: the last line, included.
        symbol: the definition at that place, with its owners first (`Client.post`).
        digest: a hash of the words at that place; in anchors of older versions, of its text without
            white space and punctuation of layout.
        is_word_digest: whether `digest` is a hash of words.
    """

    path: str
    commit: str
    first: int | None = None
    last: int | None = None
    symbol: str | None = None
    digest: str | None = None
    is_word_digest: bool = False


class CodeEdit(msgspec.Struct, frozen=True):
    """The last edit of a cited place.

    Attributes:
        symbol: the edited definition; "" for lines or a file.
        commit: the commit of the edit; "" if it is not committed yet, None if it is a commit that
            a forge made to try a merge.
        number: the number of the pull request, if the merge names it.
    """

    symbol: str
    commit: str | None
    number: int | None = None
    is_removal: bool = False

    def __str__(self) -> str:
        """Return the edit as text, such as `` `send` edited in a1b2c3d, #140``.

        Without the id of a commit it is `edited here, not committed` for a change of the work tree,
        and `edited here` for a commit that a forge made to try a merge, whose id says nothing.
        """
        name = f"`{self.symbol}` " if self.symbol else ""
        verb = "removed" if self.is_removal else "edited"
        if self.commit:
            number = f", #{self.number}" if self.number is not None else ""
            return f"{name}{verb} in {self.commit[:7]}{number}"
        suffix = ", not committed" if self.commit == "" else ""
        return f"{name}{verb} here{suffix}"


class Verdict(msgspec.Struct, frozen=True):
    """The state of a cited place in a commit or work tree.

    Attributes:
        kind: `fresh`: the same text at the same place; `moved`: the same text at other lines or in
            another file; `changed`: another text at the place; `gone`: neither the place nor the
            text exists; `unverifiable`: nothing to compare with, because the commit is not in this
            clone or the file cannot be read.
        first: the first line; None for a whole file, or if the place does not exist.
        last: the last line, as `first`.
        edited: the share of changed lines in a file that is cited whole.
        edit: the last edit; it is searched only where it is shown.
    """

    kind: VerdictKind
    path: str
    first: int | None = None
    last: int | None = None
    note: str = ""
    edited: float = 0.0
    edit: CodeEdit | None = None


def format_place(verdict: Verdict) -> tuple[str, str]:
    """Format a cited place as `PATH:LINE`, and its details as ` (NOTE), EDIT`."""
    place = verdict.path
    if verdict.first is not None:
        place = f"{verdict.path}:{verdict.first}"
    note = f" ({verdict.note})" if verdict.note else ""
    edit = f", {verdict.edit}" if verdict.edit else ""
    return place, note + edit
