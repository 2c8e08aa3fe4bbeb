"""Upkeep of cites of code: renames are followed, entries whose code is long gone are retired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, get_lines, may_hide, parse_anchor, strip_layout
from memory_ci.anchors.verdicts import judge_entry, list_differences
from memory_ci.lifecycle.compaction import make_retirement, may_retire
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding, Level
from memory_ci.text import plural, shorten

Verdicts = Mapping[tuple[str, str], Verdict]
"""What became of each anchor, by entry id and cite."""

MAX_NAMED = 3
"""Entries that a finding names."""


class CiteChange(msgspec.Struct, frozen=True):
    """A cite of an entry before a range of commits and after it.

    Attributes:
        located: the entry.
        old_verdict: the verdict at the start of the range: whether and where the code is there.
        new_verdict: the verdict at its end.
        old_text: the text of the cited file at the start, "" if the file does not exist.
        new_text: its text at the end.
    """

    located: Located
    old_verdict: Verdict
    new_verdict: Verdict
    old_text: str
    new_text: str


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
    for located_entry in located:
        if located_entry.entry.status == "retired":
            continue
        cites: list[str] = []
        moves: list[str] = []
        for cite in located_entry.entry.cites:
            verdict = verdicts.get((located_entry.entry.id, cite))
            new_cite = _follow_moved_code(cite, verdict, commit)
            cites.append(new_cite)
            if new_cite != cite:
                moves.append(f"{_path_of_cite(cite)} is now {_path_of_cite(new_cite)}")
        if moves:
            entry = replace(located_entry.entry, cites=tuple(dict.fromkeys(cites)))
            why = shorten(", ".join(dict.fromkeys(moves)), 150)
            changes.append(
                Change(
                    step="consolidate", kind="update", path=located_entry.path, entry=entry, why=why
                )
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
    for located_entry in located:
        entry = located_entry.entry
        since = gone_since.get(entry.id, today)
        is_long_gone = (today - since).days > after_days
        if may_retire(entry) and is_gone(entry, verdicts) and is_long_gone:
            changes.append(make_retirement(located_entry, f"its code has been gone since {since}"))
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


def report_changed_cites(cite_changes: Iterable[CiteChange]) -> tuple[Finding, ...]:
    """Return a finding for each piece of cited code that a range of commits changed or moved.

    A cite is the code that an entry is about, such as `src/client.py:3-9`. Entries that cite the
    same code share one finding, which names them. It also names the edits of the code, such as a
    renamed parameter, unless the code only moved.

    Args:
        cite_changes: the cites before and after the range.
    """
    # Cites with the same finding are of the same code if their files had the same path before.
    changes_by_place: defaultdict[tuple[str, Finding], list[CiteChange]] = defaultdict(list)
    for cite_change in cite_changes:
        finding = _report_changed_cite(cite_change)
        if finding:
            changes_by_place[cite_change.old_verdict.path, finding].append(cite_change)

    def finding_order(key: tuple[str, Finding]) -> tuple[str, str, int, Level, str]:
        old_path, finding = key
        return finding.code, finding.path, finding.line, finding.level, old_path

    findings: list[Finding] = []
    for key in sorted(changes_by_place, key=finding_order):
        _, finding = key
        group = changes_by_place[key]
        edit_names: dict[str, None] = {}  # without duplicates, in order
        if finding.code != "anchor-moved":
            for cite_change in group:
                if cite_change.new_verdict.edit:
                    edit_names[str(cite_change.new_verdict.edit)] = None
        edits = f" ({', '.join(edit_names)})" if edit_names else ""
        entries = {change.located.entry.id: change.located for change in group}
        message = f"{finding.message}{edits}: {_name_entries(list(entries.values()))}"
        findings.append(replace(finding, message=message))
    return tuple(findings)


def _name_entries(located_entries: Sequence[Located]) -> str:
    """Return the first entries by id, title and place, and how many more there are."""
    names: list[str] = []
    for located_entry in located_entries[:MAX_NAMED]:
        title = shorten(located_entry.entry.title, 60)
        names.append(
            f'{located_entry.entry.id[:8]} "{title}" at {located_entry.path}:{located_entry.line}'
        )
    text = ", ".join(names)
    if len(located_entries) > MAX_NAMED:
        text += f" and {plural(len(located_entries) - MAX_NAMED, 'entry')} more"
    return text


def _report_changed_cite(cite_change: CiteChange) -> Finding | None:
    """Return a finding if a range of commits removed, changed or moved the code of a cite.

    The code was there before the range, or nothing is reported.
    """
    old_verdict = cite_change.old_verdict
    new_verdict = cite_change.new_verdict
    if old_verdict.kind in ("gone", "unverifiable") or new_verdict.kind == "unverifiable":
        return None

    changed_line = _find_changed_line(cite_change)
    if new_verdict.kind == "gone":
        hint = (
            "Reword it or set `status: retired`; retrieval withholds an entry whose code is gone."
        )
        message = "this change removes the code that memory speaks about"
        return Finding(new_verdict.path, changed_line or 1, "anchor-gone", message, hint, "warning")
    if changed_line is not None:
        hint = "If it no longer holds, reword it or set `status: retired`."
        message = "memory speaks about the code that changes here"
        is_whole_file = get_lines(old_verdict) is None
        level: Level = "notice" if is_whole_file else "warning"
        return Finding(new_verdict.path, changed_line, "anchor-changed", message, hint, level)
    if new_verdict.path != old_verdict.path:
        hint = "Nothing to do: `memory-ci record` points the entry at the new place."
        message = f"was {old_verdict.path}, which memory speaks about"
        return Finding(new_verdict.path, 1, "anchor-moved", message, hint, "notice")
    return None


def _find_changed_line(cite_change: CiteChange) -> int | None:
    """Return the line of the new file at which the code of a cite changed, None if it did not."""
    new_verdict = cite_change.new_verdict
    if new_verdict.kind not in ("changed", "gone"):
        return None
    old_lines = get_lines(cite_change.old_verdict)
    changed_line = find_first_changed_line(cite_change.old_text, cite_change.new_text, old_lines)
    is_whole_file = old_lines is None
    if changed_line is not None and is_whole_file and new_verdict.first is not None:
        return new_verdict.first  # the part of the file that the entry names
    return changed_line


def find_first_changed_line(
    old_text: str, new_text: str, lines: tuple[int, int] | None
) -> int | None:
    """Return the line of the new text at which some lines of the old text changed.

    White space and blank lines do not count. If lines were only removed, it is the line after them.

    Args:
        old_text: the old text.
        new_text: the new text.
        lines: the first and the last line of the old text; None for all.

    Returns:
        A 1-based line, or None if these lines did not change.
    """
    old_lines = _number_lines(old_text)
    new_lines = _number_lines(new_text)
    old_numbers = [number for number, _ in old_lines]
    old_line_texts = [text for _, text in old_lines]
    new_line_texts = [text for _, text in new_lines]
    for difference in list_differences(old_line_texts, new_line_texts):
        lines_before = _count_lines_before_range(
            old_numbers, difference.old_start, difference.old_stop, lines
        )
        if lines_before is None:
            continue  # the difference is outside of the lines
        # As many lines after the start of the new lines, but not behind their end.
        last_new_index = max(difference.new_start, difference.new_stop - 1)
        index = min(difference.new_start + lines_before, last_new_index, len(new_lines) - 1)
        if index < 0:
            return 1  # the new text is empty
        number, _ = new_lines[index]
        return number
    return None


def _number_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, white space folded, with their 1-based numbers."""
    numbered = enumerate((strip_layout(line) for line in text.split("\n")), start=1)
    return [(number, line) for number, line in numbered if line]


def _count_lines_before_range(
    numbers: Sequence[int], start: int, end: int, lines: tuple[int, int] | None
) -> int | None:
    """Count the lines of a difference that are before a range of lines.

    Args:
        numbers: the numbers of the lines that were compared.
        start: the index of the first line that differs.
        end: the index after the last line that differs; `start` for an insertion.
        lines: the first and the last line number of the range; None for all lines.

    Returns:
        The count, or None if no line of the difference is in the range.
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
