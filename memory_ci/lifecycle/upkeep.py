"""Upkeep of anchors: a rename followed, and what was lost long ago retired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import fold, format_anchor, lines_of, may_hide, parse_anchor
from memory_ci.anchors.verdicts import judge_entry, list_differences
from memory_ci.lifecycle.compaction import may_retire, retire
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding, Level
from memory_ci.text import plural, shorten

Verdicts = Mapping[tuple[str, str], Verdict]  # What became of an anchor, by (entry id, cite).


def plan_repoint(located: Iterable[Located], verdicts: Verdicts, commit: str) -> tuple[Change, ...]:
    """An update of `cites` for each entry whose code lives in another file now, as it stands at `commit`. `verdicts`
    are those of that commit. Lines that merely shifted inside a file are found each time, and not rewritten."""
    changes: list[Change] = []
    for place in located:
        if place.entry.status == "retired":
            continue
        pointed = {
            cite: _follow(cite, verdicts.get((place.entry.id, cite)), commit)
            for cite in place.entry.cites
        }
        moved = [
            f"{_path(cite)} is now {_path(new)}" for cite, new in pointed.items() if cite != new
        ]
        if moved:
            entry = replace(place.entry, cites=tuple(dict.fromkeys(pointed.values())))
            why = shorten(", ".join(dict.fromkeys(moved)), 150)
            changes.append(
                Change(step="consolidate", kind="update", path=place.path, entry=entry, why=why)
            )
    return tuple(changes)


def plan_stale_retirement(
    located: Iterable[Located],
    verdicts: Verdicts,
    gone_since: Mapping[str, date],
    today: date,
    after_days: int = 90,
) -> tuple[Change, ...]:
    """The retirement of entries all of whose anchors have been gone for more than `after_days` days. What a person
    pinned stays, and so does an entry about a rejected approach: that its code is gone is what it says."""
    return tuple(
        retire(place, f"its code has been gone since {gone_since[place.entry.id]}")
        for place in located
        if may_retire(place.entry) and is_gone(place.entry, verdicts)
        if (today - gone_since.get(place.entry.id, today)).days > after_days
    )


def list_verdicts(entry: Entry, verdicts: Verdicts) -> tuple[Verdict, ...]:
    return tuple(verdicts[entry.id, cite] for cite in entry.cites if (entry.id, cite) in verdicts)


def is_gone(entry: Entry, verdicts: Verdicts) -> bool:
    """Whether an entry has anchors, all of them are gone, and one of them may hide it."""
    found = list_verdicts(entry, verdicts)
    anchors = (anchor for cite in entry.cites if (anchor := parse_anchor(cite)))
    return judge_entry(found) == "gone" and any(may_hide(anchor, entry) for anchor in anchors)


def _follow(cite: str, verdict: Verdict | None, commit: str) -> str:
    anchor = parse_anchor(cite)
    if anchor is None or verdict is None or verdict.kind != "moved" or verdict.path == anchor.path:
        return cite
    lines = {"first": verdict.first, "last": verdict.last}
    is_whole = anchor.first is None and anchor.symbol is None
    text = (
        None if is_whole else anchor.text
    )  # other parts of the file may have been edited: it is hashed once more
    commit = commit[: len(anchor.commit)]
    return format_anchor(replace(anchor, path=verdict.path, **lines, commit=commit, text=text))


def _path(cite: str) -> str:
    anchor = parse_anchor(cite)
    return anchor.path if anchor else cite


MAX_NAMED = 3


class Touch(msgspec.Struct, frozen=True):
    """An anchor of an entry before a range and after it; `old` and `new` are the texts of its file, "" if none."""

    place: Located
    before: Verdict
    after: Verdict
    old: str
    new: str


def list_touch_findings(touches: Iterable[Touch]) -> tuple[Finding, ...]:
    """One finding for each place and what happened there, naming the entries that speak about it."""
    groups: defaultdict[tuple[str, Finding], list[Touch]] = defaultdict(list)
    for touch in touches:
        if one := _find_touched(touch):
            groups[touch.before.path, one].append(touch)
    found: list[Finding] = []
    for (_, one), own in sorted(groups.items(), key=lambda item: (*_place(item[0][1]), item[0][0])):
        edits = dict.fromkeys(
            str(touch.after.edit)
            for touch in own
            if touch.after.edit and one.code != "anchor-moved"
        )
        said = f" ({', '.join(edits)})" if edits else ""
        places = list({touch.place.entry.id: touch.place for touch in own}.values())
        named = ", ".join(
            f'{place.entry.id[:8]} "{shorten(place.entry.title, 60)}" at {place.path}:{place.line}'
            for place in places[:MAX_NAMED]
        )
        more = (
            f" and {plural(len(places) - MAX_NAMED, 'entry')} more"
            if len(places) > MAX_NAMED
            else ""
        )
        found.append(replace(one, message=f"{one.message}{said}: {named}{more}"))
    return tuple(found)


def _place(finding: Finding) -> tuple[str, str, int, Level]:
    return finding.code, finding.path, finding.line, finding.level


def _find_touched(touch: Touch) -> Finding | None:
    before, after = touch.before, touch.after
    if before.kind in ("gone", "unverifiable") or after.kind == "unverifiable":
        return None
    lines = lines_of(before)
    line = first_change(touch.old, touch.new, lines) if after.kind in ("changed", "gone") else None
    if line is not None and lines is None and after.first is not None:
        line = after.first  # of a file that is cited whole the part that the entry names
    if after.kind == "gone":
        hint = (
            "Reword it or set `status: retired`; retrieval withholds an entry whose code is gone."
        )
        message = "this change removes the code that memory speaks about"
        return Finding(after.path, line or 1, "anchor-gone", message, hint, "warning")
    if line is not None:
        hint = "If it no longer holds, reword it or set `status: retired`."
        message = "memory speaks about the code that changes here"
        return Finding(
            after.path, line, "anchor-changed", message, hint, "warning" if lines else "notice"
        )
    if after.path != before.path:
        hint = "Nothing to do: `memory-ci record` points the entry at the new place."
        message = f"was {before.path}, which memory speaks about"
        return Finding(after.path, 1, "anchor-moved", message, hint, "notice")
    return None


def first_change(old: str, new: str, lines: tuple[int, int] | None) -> int | None:
    """The line of `new` at which the lines `lines` of `old` (None: all) are another text; None if they are not. White
    space and blank lines do not count. Where lines were only removed, it is the line after them."""
    before, after = _numbered(old), _numbered(new)
    for opcode in list_differences([text for _, text in before], [text for _, text in after]):
        _, start, end, there, there_end = opcode
        inside = _inside(before, start, end, lines)
        if inside is not None:
            at = min(there + inside, max(there, there_end - 1), len(after) - 1)
            return after[at][0] if at >= 0 else 1
    return None


def _numbered(text: str) -> list[tuple[int, str]]:
    lines = enumerate(map(fold, text.split("\n")), start=1)
    return [(number, line) for number, line in lines if line]


def _inside(
    old: Sequence[tuple[int, str]], start: int, end: int, lines: tuple[int, int] | None
) -> int | None:
    """How far into a difference of old[start:end] the lines begin; None if it does not touch them."""
    if lines is None:
        return 0
    first, last = lines
    if start == end:  # an insertion touches what it splits
        is_split = 0 < start < len(old) and old[start - 1][0] >= first and old[start][0] <= last
        return 0 if is_split else None
    return next((at - start for at in range(start, end) if first <= old[at][0] <= last), None)
