"""Upkeep of anchors: a rename followed, and what was lost long ago retired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from msgspec.structs import replace

from memory_ci.lifecycle.anchors import format_anchor, may_hide, parse_anchor
from memory_ci.lifecycle.compaction import KEPT
from memory_ci.lifecycle.verdicts import judge_entry
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.text import shorten

Verdicts = Mapping[tuple[str, str], Verdict]  # What became of an anchor, by (entry id, cite).


def plan_repoint(located: Iterable[Located], verdicts: Verdicts, commit: str) -> tuple[Change, ...]:
    """An update of `cites` for each entry whose code lives in another file now, as it stands at `commit`.

    `verdicts` are those of that commit. Lines that merely shifted inside a file are found each time, and not rewritten.
    """
    return tuple(change for place in located for change in _repoint(place, verdicts, commit))


def plan_stale_retirement(
    located: Iterable[Located], verdicts: Verdicts, gone_since: Mapping[str, date], today: date, after_days: int = 90
) -> tuple[Change, ...]:
    """The retirement of entries all of whose anchors have been gone for more than `after_days` days.

    What a person pinned stays, and so does an entry about a rejected approach: that its code is gone is what it says.
    """
    return tuple(
        _retired(place, gone_since[place.entry.id])
        for place in located
        if _may_retire(place.entry) and is_gone(place.entry, verdicts)
        if (today - gone_since.get(place.entry.id, today)).days > after_days
    )


def list_verdicts(entry: Entry, verdicts: Verdicts) -> tuple[Verdict, ...]:
    """The verdicts on the anchors of one entry, in the order of its cites."""
    return tuple(verdicts[entry.id, cite] for cite in entry.cites if (entry.id, cite) in verdicts)


def is_gone(entry: Entry, verdicts: Verdicts) -> bool:
    """Whether an entry has anchors, all of them are gone, and one of them may hide it."""
    found = list_verdicts(entry, verdicts)
    anchors = (anchor for cite in entry.cites if (anchor := parse_anchor(cite)))
    return judge_entry(found) == "gone" and any(may_hide(anchor, entry) for anchor in anchors)


def _may_retire(entry: Entry) -> bool:
    return entry.status != "retired" and entry.priority not in KEPT


def _retired(place: Located, since: date) -> Change:
    entry = replace(place.entry, status="retired")
    return Change(
        step="retire", kind="update", path=place.path, entry=entry, why=f"its code has been gone since {since}"
    )


def _repoint(place: Located, verdicts: Verdicts, commit: str) -> Iterator[Change]:
    pointed = {cite: _follow(cite, verdicts.get((place.entry.id, cite)), commit) for cite in place.entry.cites}
    if place.entry.status == "retired" or all(cite == new for cite, new in pointed.items()):
        return
    entry = replace(place.entry, cites=tuple(dict.fromkeys(pointed.values())))
    moved = [f"{_path(cite)} is now {_path(new)}" for cite, new in pointed.items() if cite != new]
    why = shorten(", ".join(dict.fromkeys(moved)), 150)
    yield Change(step="consolidate", kind="update", path=place.path, entry=entry, why=why)


def _follow(cite: str, verdict: Verdict | None, commit: str) -> str:
    anchor = parse_anchor(cite)
    if anchor is None or verdict is None or verdict.kind != "moved" or verdict.path == anchor.path:
        return cite
    moved = replace(
        anchor, path=verdict.path, first=verdict.first, last=verdict.last, commit=commit[: len(anchor.commit)]
    )
    return format_anchor(moved)


def _path(cite: str) -> str:
    anchor = parse_anchor(cite)
    return anchor.path if anchor else cite
