"""What a range of commits did to the code that entries speak about, said at the line that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

import msgspec

from memory_ci.lifecycle.anchors import fold
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, Level
from memory_ci.text import plural, shorten

MAX_PAIRS = 2_000_000
"""Of files with more pairs of differing lines, all from the first to the last difference counts as changed."""

MAX_NAMED = 3

Opcode = tuple[str, int, int, int, int]
Numbered = Sequence[tuple[int, str]]


class Touch(msgspec.Struct, frozen=True):
    """An anchor of an entry before a range and after it; `old` and `new` are the texts of its file, "" if none."""

    place: Located
    before: Verdict
    after: Verdict
    old: str
    new: str


def list_touch_findings(touches: Iterable[Touch]) -> tuple[Finding, ...]:
    """One finding for each place and what happened there, naming the entries that speak about it."""
    groups: dict[tuple[str, str, int, Level, str], list[Touch]] = {}
    for touch in touches:
        for place in _place(touch):
            groups.setdefault(place, []).append(touch)
    return tuple(_finding(place, group) for place, group in sorted(groups.items(), key=lambda item: item[0]))


def first_change(old: str, new: str, lines: tuple[int, int] | None) -> int | None:
    """The line of `new` at which the lines `lines` of `old` (None: all) are another text; None if they are not.

    White space and blank lines do not count. Where lines were only removed, it is the line after them.
    """
    before, after = _numbered(old), _numbered(new)
    for opcode in list_differences([text for _, text in before], [text for _, text in after]):
        _, start, end, there, there_end = opcode
        inside = _inside(before, start, end, lines)
        if inside is not None:
            at = min(there + inside, max(there, there_end - 1), len(after) - 1)
            return after[at][0] if at >= 0 else 1
    return None


def _place(touch: Touch) -> Iterator[tuple[str, str, int, Level, str]]:
    """(code, path, line, level, old path) of what happened, if a reviewer should know."""
    before, after = touch.before, touch.after
    if before.kind in ("gone", "unverifiable") or after.kind == "unverifiable":
        return
    lines = (before.first, before.last) if before.first is not None and before.last is not None else None
    line = first_change(touch.old, touch.new, lines) if after.kind in ("changed", "gone") else None
    if after.kind == "gone":
        yield "anchor-gone", after.path, line or 1, "warning", before.path
    elif line is not None:
        yield "anchor-changed", after.path, line, "warning" if lines else "notice", before.path
    elif after.path != before.path:
        yield "anchor-moved", after.path, 1, "notice", before.path


def _finding(place: tuple[str, str, int, Level, str], touches: Sequence[Touch]) -> Finding:
    code, path, line, level, old_path = place
    named = _names([touch.place for touch in touches])
    what = ", ".join(dict.fromkeys(str(touch.after.edit) for touch in touches if touch.after.edit))
    said = f" ({what})" if what else ""
    if code == "anchor-gone":
        hint = "Reword it or set `status: retired`; retrieval withholds an entry whose code is gone."
        return Finding(
            path,
            line,
            "anchor-gone",
            f"this change removes the code that memory speaks about{said}: {named}",
            hint,
            level,
        )
    if code == "anchor-moved":
        hint = "Nothing to do: `memory-ci record` points the entry at the new place."
        return Finding(path, line, "anchor-moved", f"was {old_path}, which memory speaks about: {named}", hint, level)
    hint = "If it no longer holds, reword it or set `status: retired`."
    return Finding(
        path, line, "anchor-changed", f"memory speaks about the code that changes here{said}: {named}", hint, level
    )


def _names(places: Sequence[Located]) -> str:
    distinct = {place.entry.id: place for place in places}
    named = [
        f'{place.entry.id[:8]} "{shorten(place.entry.title, 60)}" at {place.path}:{place.line}'
        for place in list(distinct.values())[:MAX_NAMED]
    ]
    rest = len(distinct) - len(named)
    return ", ".join(named) + (f" and {plural(rest, 'entry')} more" if rest else "")


def _numbered(text: str) -> list[tuple[int, str]]:
    lines = enumerate(map(fold, text.split("\n")), start=1)
    return [(number, line) for number, line in lines if line]


def list_differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Opcodes of difflib but for the equal ones; the equal beginning and end, most of a file, are cut off first."""
    short = min(len(old), len(new))
    head = next((i for i in range(short) if old[i] != new[i]), short)
    tail = next((i for i in range(short - head) if old[-1 - i] != new[-1 - i]), short - head)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    whole = [("replace", 0, len(left), 0, len(right))] if left or right else []
    is_small = len(left) * len(right) <= MAX_PAIRS
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes() if is_small else whole:
        if tag != "equal":
            yield tag, head + a, head + b, head + c, head + d


def _inside(old: Numbered, start: int, end: int, lines: tuple[int, int] | None) -> int | None:
    """How far into a difference of old[start:end] the lines begin; None if it does not touch them."""
    if lines is None:
        return 0
    first, last = lines
    if start == end:  # an insertion touches what it splits
        is_split = 0 < start < len(old) and old[start - 1][0] >= first and old[start][0] <= last
        return 0 if is_split else None
    return next((at - start for at in range(start, end) if first <= old[at][0] <= last), None)
