"""Anchor: the code an entry speaks about; and what became of that code (docs/anchors.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    pass

VerdictKind = Literal["fresh", "moved", "changed", "gone", "unverifiable"]


MARKED: frozenset[VerdictKind] = frozenset({"changed", "gone"})  # An agent is told of it first.


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a commit: a file, or the lines `first` to `last` of it (1-based, both included). `symbol` is the
    definition that stands there, owners first (`Client.post`); `text` the hash of what it says: of its words, or, in
    anchors of old, of its folded lines."""

    path: str
    commit: str
    first: int | None = None
    last: int | None = None
    symbol: str | None = None
    text: str | None = None
    is_by_words: bool = False


class CodeEdit(msgspec.Struct, frozen=True):
    """What changed a cited place last: the definition ("" for lines or a file), the commit, and the number of its
    request where the merge says one. The commit is "" before there is one, None if a forge made it to try a merge."""

    symbol: str
    commit: str | None
    number: int | None = None
    is_removal: bool = False

    def __str__(self) -> str:
        """`` `send` edited in a1b2c3d, #140``."""
        what = f"{f'`{self.symbol}` ' if self.symbol else ''}{'removed' if self.is_removal else 'edited'}"
        number = f", #{self.number}" if self.number is not None else ""
        where = f"in {self.commit[:7]}{number}" if self.commit else "here"
        return f"{what} {where}{', not committed' if self.commit == '' else ''}"


class Verdict(msgspec.Struct, frozen=True):
    """What a view shows of an anchor, and where. Lines are None for a whole file, or where no place is left.

    `edited` is the share of lines that are other in a file that is cited whole; `edit` is looked for where it is shown.

    fresh         the text stands where it stood
    moved         the same text stands at other lines or in another file
    changed       the place is there, its text is another
    gone          neither the place nor the text is there
    unverifiable  there is nothing to compare with: the commit is not in this clone, or the file cannot be read
    """

    kind: VerdictKind
    path: str
    first: int | None = None
    last: int | None = None
    note: str = ""
    edited: float = 0.0
    edit: CodeEdit | None = None


def place_of(verdict: Verdict) -> tuple[str, str]:
    """`PATH:LINE` of a place that is cited, and ` (NOTE), EDIT`: what is known of it."""
    place = f"{verdict.path}:{verdict.first}" if verdict.first is not None else verdict.path
    return place, (f" ({verdict.note})" if verdict.note else "") + (
        f", {verdict.edit}" if verdict.edit else ""
    )
