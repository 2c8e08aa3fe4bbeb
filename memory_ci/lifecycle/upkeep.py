"""Upkeep of cites of code: renames are followed, entries whose code is long gone are retired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, get_lines, may_hide, parse_anchor, strip_layout
from memory_ci.anchors.verdicts import judge_entry, list_differences
from memory_ci.lifecycle.compaction import may_retire, retire
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding, Level
from memory_ci.text import plural, shorten

Verdicts = Mapping[tuple[str, str], Verdict]
"""What became of each anchor, by entry id and cite."""

MAX_NAMED = 3
"""Entries that a finding names."""


class CiteComparison(msgspec.Struct, frozen=True):
    """A cite of an entry before a range of commits and after it.

    Attributes:
        place: the entry.
        before: the verdict at the start of the range.
        after: the verdict at its end.
        old: the text of the cited file at the start, "" if the file does not exist.
        new: its text at the end.
    """

    place: Located
    before: Verdict
    after: Verdict
    old: str
    new: str


def plan_repoint(located: Iterable[Located], verdicts: Verdicts, commit: str) -> tuple[Change, ...]:
    """Plan an update of `cites` for each entry whose code is in another file now.

    A cite names code, such as `src/client.py:3-9@1a2b3c4`. Lines that shifted inside a file are
    found again at each reading, and not rewritten.

    Args:
        located: the entries.
        verdicts: the verdicts at the commit.
        commit: the commit that new cites name.
    """
    changes: list[Change] = []
    for place in located:
        if place.entry.status == "retired":
            continue
        cites: list[str] = []
        moves: list[str] = []
        for cite in place.entry.cites:
            verdict = verdicts.get((place.entry.id, cite))
            new_cite = _follow_moved_code(cite, verdict, commit)
            cites.append(new_cite)
            if new_cite != cite:
                moves.append(f"{_path_of_cite(cite)} is now {_path_of_cite(new_cite)}")
        if moves:
            entry = replace(place.entry, cites=tuple(dict.fromkeys(cites)))
            why = shorten(", ".join(dict.fromkeys(moves)), 150)
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
    """Plan the retirement of entries whose cited code has all been gone for over `after_days`.

    Entries that a person pinned stay. Entries about a rejected approach stay, too: they expect that
    its code is gone.

    Args:
        located: the entries.
        verdicts: the verdicts on their cites.
        gone_since: since when all code of an entry is gone, by id.
        today: the day.
        after_days: how long the code must have been gone.
    """
    changes: list[Change] = []
    for place in located:
        entry = place.entry
        since = gone_since.get(entry.id, today)
        is_long_gone = (today - since).days > after_days
        if may_retire(entry) and is_gone(entry, verdicts) and is_long_gone:
            changes.append(retire(place, f"its code has been gone since {since}"))
    return tuple(changes)


def list_verdicts(entry: Entry, verdicts: Verdicts) -> tuple[Verdict, ...]:
    """Return the verdicts on the cites of an entry, in the order of the cites."""
    keys = [(entry.id, cite) for cite in entry.cites]
    return tuple(verdicts[key] for key in keys if key in verdicts)


def is_gone(entry: Entry, verdicts: Verdicts) -> bool:
    """Return whether all code that an entry cites is gone, so that the entry is withheld.

    At least one of its cites must be of a kind that may withhold an entry.
    """
    if judge_entry(list_verdicts(entry, verdicts)) != "gone":
        return False
    anchors = [parse_anchor(cite) for cite in entry.cites]
    return any(may_hide(anchor, entry) for anchor in anchors if anchor)


def _follow_moved_code(cite: str, verdict: Verdict | None, commit: str) -> str:
    """Return a cite of the file that the code moved to, or the same cite if it did not move.

    Args:
        cite: a cite of an entry.
        verdict: what became of the cited code; None if that is unknown.
        commit: the commit that a new cite names.
    """
    anchor = parse_anchor(cite)
    if anchor is None or verdict is None or verdict.kind != "moved" or verdict.path == anchor.path:
        return cite
    is_whole_file = anchor.first is None and anchor.symbol is None
    followed = replace(
        anchor,
        path=verdict.path,
        first=verdict.first,
        last=verdict.last,
        commit=commit[: len(anchor.commit)],
        # Other parts of a whole file may have been edited, so it is hashed again.
        digest=None if is_whole_file else anchor.digest,
    )
    return format_anchor(followed)


def _path_of_cite(cite: str) -> str:
    anchor = parse_anchor(cite)
    return anchor.path if anchor else cite


def report_changed_cites(comparisons: Iterable[CiteComparison]) -> tuple[Finding, ...]:
    """Return one finding for each cited place that changed, with the entries that cite it."""
    groups: defaultdict[tuple[str, Finding], list[CiteComparison]] = defaultdict(list)
    for comparison in comparisons:
        finding = _report_changed_cite(comparison)
        if finding:
            groups[comparison.before.path, finding].append(comparison)

    def order(key: tuple[str, Finding]) -> tuple[str, str, int, Level, str]:
        old_path, finding = key
        return finding.code, finding.path, finding.line, finding.level, old_path

    findings: list[Finding] = []
    for key in sorted(groups, key=order):
        _, finding = key
        group = groups[key]
        edits = ""
        if finding.code != "anchor-moved":
            names = dict.fromkeys(str(item.after.edit) for item in group if item.after.edit)
            edits = f" ({', '.join(names)})" if names else ""
        places = {item.place.entry.id: item.place for item in group}
        message = f"{finding.message}{edits}: {_name_entries(list(places.values()))}"
        findings.append(replace(finding, message=message))
    return tuple(findings)


def _name_entries(places: Sequence[Located]) -> str:
    """Return the first entries by id, title and place, and how many more there are."""
    names: list[str] = []
    for place in places[:MAX_NAMED]:
        title = shorten(place.entry.title, 60)
        names.append(f'{place.entry.id[:8]} "{title}" at {place.path}:{place.line}')
    text = ", ".join(names)
    if len(places) > MAX_NAMED:
        text += f" and {plural(len(places) - MAX_NAMED, 'entry')} more"
    return text


def _report_changed_cite(comparison: CiteComparison) -> Finding | None:
    """Return a finding if a range of commits removed, changed or moved the code of a cite."""
    before, after = comparison.before, comparison.after
    if before.kind in ("gone", "unverifiable") or after.kind == "unverifiable":
        return None
    lines = get_lines(before)
    changed_line = None
    if after.kind in ("changed", "gone"):
        changed_line = first_change(comparison.old, comparison.new, lines)
    if changed_line is not None and lines is None and after.first is not None:
        changed_line = after.first  # the part of a whole file that the entry names
    if after.kind == "gone":
        hint = (
            "Reword it or set `status: retired`; retrieval withholds an entry whose code is gone."
        )
        message = "this change removes the code that memory speaks about"
        return Finding(after.path, changed_line or 1, "anchor-gone", message, hint, "warning")
    if changed_line is not None:
        hint = "If it no longer holds, reword it or set `status: retired`."
        message = "memory speaks about the code that changes here"
        level: Level = "warning" if lines else "notice"
        return Finding(after.path, changed_line, "anchor-changed", message, hint, level)
    if after.path != before.path:
        hint = "Nothing to do: `memory-ci record` points the entry at the new place."
        message = f"was {before.path}, which memory speaks about"
        return Finding(after.path, 1, "anchor-moved", message, hint, "notice")
    return None


def first_change(old: str, new: str, lines: tuple[int, int] | None) -> int | None:
    """Return the line of the new text at which some lines of the old text changed.

    White space and blank lines do not count. If lines were only removed, it is the line after them.

    Args:
        old: the old text.
        new: the new text.
        lines: the first and the last line of the old text; None for all.

    Returns:
        A 1-based line, or None if these lines did not change.
    """
    old_lines = _number_lines(old)
    new_lines = _number_lines(new)
    old_numbers = [number for number, _ in old_lines]
    old_texts = [text for _, text in old_lines]
    new_texts = [text for _, text in new_lines]
    for difference in list_differences(old_texts, new_texts):
        offset = _find_offset(old_numbers, difference.old_start, difference.old_stop, lines)
        if offset is None:
            continue
        last_changed = max(difference.new_start, difference.new_stop - 1)
        index = min(difference.new_start + offset, last_changed, len(new_lines) - 1)
        if index < 0:
            return 1
        number, _ = new_lines[index]
        return number
    return None


def _number_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, white space folded, with their 1-based numbers."""
    numbered = enumerate((strip_layout(line) for line in text.split("\n")), start=1)
    return [(number, line) for number, line in numbered if line]


def _find_offset(
    numbers: Sequence[int], start: int, end: int, lines: tuple[int, int] | None
) -> int | None:
    """Return how many lines after the start of a difference the first line of a range is.

    Args:
        numbers: the numbers of the lines that were compared.
        start: the index of the first line that differs.
        end: the index after the last line that differs; `start` for an insertion.
        lines: the first and the last line number of the range; None for all lines.

    Returns:
        The offset from `start`, or None if the difference is outside of the range.
    """
    if lines is None:
        return 0
    first, last = lines
    if start == end:
        # An insertion touches the lines only between two of them.
        if not 0 < start < len(numbers):
            return None
        is_inside = numbers[start - 1] >= first and numbers[start] <= last
        return 0 if is_inside else None
    for index in range(start, end):
        if first <= numbers[index] <= last:
            return index - start
    return None
