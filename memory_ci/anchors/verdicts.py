"""Verdicts: does the code still say what it said when an entry was anchored in it? (docs/anchors.md)"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import (
    TELLING,
    Lines,
    Subject,
    cut_lines,
    cut_words,
    find_subject,
    fold,
    has_hash,
    lines_of,
    say_definition,
)
from memory_ci.anchors.named_parts import FEW_PARTS, find_edited_share
from memory_ci.anchors.symbols import (
    Definition,
    find_definition,
    list_definitions,
    merge_definitions,
    tail_of,
)
from memory_ci.anchors.words import BACK, BLANK, BREAK, FOLLOWERS, Said, read_code
from memory_ci.records.anchor import MARKED, Anchor, Verdict, VerdictKind

EDITED = "edited since"
FILE_LOST = "the file is not there any more"
MAX_WINDOW = 300  # Of more lines than this a text is not looked for by its hash alone: each place would be hashed.
ALIKE = (
    0.6  # So alike in words is a definition of the same name elsewhere that left and was edited.
)
TELLING_PART, MOSTLY_ALIKE = 20, 0.85
"""Of a definition of another name or place, if lines inside of it are to count as those that were cited. One that says
so much and is alike but for its name was renamed."""

MAX_EDITED = 0.02
"""If no more of the words of a file cited whole are edited, it counts as it was (benchmarks/results/truth.md)."""

MAX_PAIRS = (
    2_000_000  # Of more pairs of lines all from the first to the last difference counts as changed.
)
EDGES = re.compile(r"^\W+|\W+$")
CODE_LINE = re.compile(r"\s*[\w@})\]]")  # A line that is no remark, as far as it shows.
TRUTH: Mapping[VerdictKind, float] = {
    "fresh": 1.0,
    "moved": 1.0,
    "unverifiable": 1.0,
    "changed": 0.5,
    "gone": 0.0,
}
Opcode = tuple[str, int, int, int, int]
ORDER: tuple[VerdictKind, ...] = ("moved", "fresh", "unverifiable")


class Place(NamedTuple):
    """A definition in a text of the view, and the words that it says."""

    path: str
    definition: Definition
    said: Said

    @property
    def lines(self) -> Lines:
        return self.definition.first, self.definition.last


class _View(NamedTuple):
    """What `judge` looks at: see there."""

    anchor: Anchor
    then: str
    files: Mapping[str, str]
    successor: str | None
    before: Mapping[str, str]


def judge(
    anchor: Anchor,
    then: str | None,
    files: Mapping[str, str],
    successor: str | None,
    before: Mapping[str, str] | None = None,
) -> Verdict:
    """What became of an anchor. Pure: the caller reads.
    `then` is the text of its file at its commit, None where that cannot be had. `successor` is the path at which the
    file lives on: its own, or the one it was renamed to. `files` are the texts of a view that may hold what is sought,
    the likeliest first; a successor that is not among them cannot be read. `before` are the texts that some of them had
    at the commit of the anchor: what they said then did not come from elsewhere."""
    lines, now = lines_of(anchor), files.get(successor or "")
    if (
        lines
        and then is not None
        and now is not None
        and successor
        and (same := _map_untouched(then, now, lines))
    ):
        return _standing(anchor, successor, same)
    subject = find_subject(anchor, then) if then is not None else None
    if subject is None and (then is not None or not anchor.text):
        return Verdict(
            "unverifiable",
            anchor.path,
            anchor.first,
            anchor.last,
            "nothing to compare with is known",
        )
    if successor is not None and successor not in files:
        return Verdict(
            "unverifiable", successor, anchor.first, anchor.last, "the file cannot be read"
        )
    if subject is None or then is None:
        return _judge_by_hash(anchor, files, successor)
    view = _View(anchor, then, files, successor, before or {})
    if subject.definition is not None:
        found = _judge_definition(subject, subject.definition, view)
    else:
        found = (
            _find_lines(subject, subject.lines, view)
            if subject.lines
            else _find_file(subject, view)
        )
    return found or _judge_lost(subject, view)


def find_trace(anchor: Anchor, then: str | None, now: str | None) -> str:
    """What to look for in other files: the name of a definition that is not in `now` any more, else the longest of the
    cited lines; "" where neither tells anything. `now` is the text of the file that lives on."""
    subject = find_subject(anchor, then) if then is not None else None
    if subject is None or then is None:
        return tail_of(anchor.symbol or "")
    if subject.definition is not None:
        name = subject.definition.name
        is_there = now is not None and any(
            one.name == name for one in list_definitions(anchor.path, now)
        )
        return "" if is_there else tail_of(name)
    if subject.lines is None or not subject.is_telling:
        return ""
    return max(
        (EDGES.sub("", line) for line in cut_lines(then, subject.lines).split("\n")), key=len
    )


def judge_entry(verdicts: Iterable[Verdict]) -> VerdictKind:
    """What the anchors of one entry say together: gone if all are, changed if any is changed or gone."""
    kinds = {verdict.kind for verdict in verdicts}
    if kinds == {"gone"}:
        return "gone"
    if kinds & {"changed", "gone"}:
        return "changed"
    return next((kind for kind in ORDER if kind in kinds), "fresh")


def judge_parts(anchor: Anchor, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a file that is cited whole, by the verdicts on the parts that hold what its entry names."""
    stale = [verdict for verdict in verdicts if verdict.kind in MARKED]
    is_lost = all(verdict.kind == "gone" and verdict.path == anchor.path for verdict in verdicts)
    if is_lost and FILE_LOST in {verdict.note for verdict in verdicts}:
        return Verdict("gone", anchor.path, note=FILE_LOST)
    if stale and len(verdicts) > FEW_PARTS:
        note = f"{EDITED}: {len(stale)} of {len(verdicts)} places that it names"
        return Verdict(
            "changed", stale[0].path, note=note, edited=round(len(stale) / len(verdicts), 2)
        )
    if stale:
        return replace(stale[0], kind="changed")
    unread = next((verdict for verdict in verdicts if verdict.kind == "unverifiable"), None)
    if unread is not None:
        return replace(unread, first=None, last=None)
    return _standing(anchor, verdicts[0].path, None)


def truth_factor(verdicts: Sequence[Verdict]) -> float:
    """The factor of an entry in ranking, by the verdicts on its anchors; 0 means that it is withheld. It fades with the
    share of lines that are other in a file that is cited whole, down to that of changed code."""
    faded = max(TRUTH["changed"], 1 - max((verdict.edited for verdict in verdicts), default=0.0))
    return min(TRUTH[judge_entry(verdicts)], round(faded, 2))


def _occurrences(said: Said, part: Said) -> Iterator[Lines]:
    """Where the words of `part` stand as whole lines."""
    words, rows, wanted = said.words, said.rows, part.words
    at = -1
    for _ in range(words.count(wanted[0])):
        at = words.index(wanted[0], at + 1)
        end = at + len(wanted)
        if words[at:end] != wanted:
            continue
        if at and rows[at - 1] == rows[at] and words[at - 1] != BREAK and wanted[0] != BLANK:
            continue  # begins inside of a line
        follows = words[end] if end < len(words) else BREAK
        if follows not in (",", BREAK, BLANK) and rows[end] == rows[end - 1] > 0:
            continue  # ends inside of a line
        if follows in FOLLOWERS and wanted[-1] == BACK:
            continue  # gained a branch
        own = [row for row in rows[at:end] if row]
        yield own[0], own[-1]


def _judge_definition(subject: Subject, cited: Definition, view: _View) -> Verdict | None:
    """The verdict on a definition, or on lines inside of one; None if it is nowhere and no other bears its name."""
    anchor, whole = view.anchor, subject.said
    if subject.is_part:
        whole = say_definition(anchor.path, view.then, cited)
    place = _find_place(cited, whole, view, is_part=subject.is_part) or _find_renamed(
        subject, whole, view
    )
    if place is None:
        return None
    if not subject.is_part and place.said.words == whole.words:
        return _standing(anchor, place.path, place.lines)
    is_long = TELLING_PART <= len(whole.words) == len(place.said.words)
    other = [
        pair for pair in zip(whole.words, place.said.words, strict=False) if pair[0] != pair[1]
    ]
    if (
        not subject.is_part
        and is_long
        and other == [(tail_of(cited.name), tail_of(place.definition.name))]
    ):
        return Verdict("moved", place.path, *place.lines, f"was {cited.name}")
    here = list(_occurrences(place.said, subject.said)) if subject.is_part else []
    if here and len(here) >= len(list(_occurrences(whole, subject.said))):
        return _standing(
            anchor, place.path, _nearest(here, place.lines[0] - cited.first + (anchor.first or 0))
        )
    return Verdict("changed", place.path, *place.lines, _was(anchor, place.path))


def _find_place(cited: Definition, whole: Said, view: _View, *, is_part: bool) -> Place | None:
    """Where a definition is now: under its name in its file, else under the end of its name where it was not before."""
    near: list[tuple[float, Place]] = []
    for path, text in view.files.items():
        found = _list_namesakes(path, text, cited)
        named = [place for place in found if place.definition.name == cited.name]
        if path == view.successor and named:
            same = [place for place in named if place.said.words == whole.words]
            return same[0] if same else max(named, key=lambda place: _likeness(place.said, whole))
        had = _list_namesakes(path, view.before[path], cited) if path in view.before else []
        for place in found:
            if place.said.words == whole.words and all(
                one.said.words != whole.words for one in had
            ):
                return place
            if all(one.definition.name != place.definition.name for one in had):
                near.append((_likeness(place.said, whole), place))
    alike, best = max(near, key=lambda pair: pair[0], default=(0.0, None))
    return best if alike >= (MOSTLY_ALIKE if is_part else ALIKE) else None


def _list_namesakes(path: str, text: str, cited: Definition) -> list[Place]:
    """The definitions that have the last part of its name; those of one name as one if they were cited so."""
    tail = tail_of(cited.name)
    found = (
        [one for one in list_definitions(path, text) if tail_of(one.name) == tail]
        if tail in text
        else []
    )
    if len(cited.spans) > 1:
        names = dict.fromkeys(one.name for one in found)
        found = [merge_definitions([one for one in found if one.name == name]) for name in names]
    return [Place(path, one, say_definition(path, text, one)) for one in found]


def _find_renamed(subject: Subject, whole: Said, view: _View) -> Place | None:
    """The definition of another name in the same file that says most of what the one said that is gone."""
    path = view.successor
    least, alike = (TELLING_PART, MOSTLY_ALIKE) if subject.is_part else (TELLING, ALIKE)
    if path is None or len(whole.words) < least:
        return None
    text = view.files[path]
    had = {one.name for one in list_definitions(view.anchor.path, view.then)}
    new = [one for one in list_definitions(path, text) if one.name not in had]
    places = [Place(path, one, say_definition(path, text, one)) for one in new]
    best = max(places, key=lambda place: _likeness(place.said, whole), default=None)
    return best if best and _likeness(best.said, whole) >= alike else None


def _likeness(one: Said, other: Said) -> float:
    return (
        2
        * (Counter(one.words) & Counter(other.words)).total()
        / max(1, len(one.words) + len(other.words))
    )


def _find_file(subject: Subject, view: _View) -> Verdict | None:
    """The place of a file that was cited whole; where it is another, the share of it that was edited."""
    for path, text in view.files.items():
        is_same = read_code(path, text).say_all().words == subject.said.words
        if is_same and (
            path == view.successor or (subject.is_telling and view.before.get(path) != text)
        ):
            return _standing(view.anchor, path, None)
    if view.successor is None:
        return None
    share = find_edited_share(
        view.anchor.path, view.then, view.successor, view.files[view.successor]
    )
    if share <= MAX_EDITED:
        return _standing(view.anchor, view.successor, None)
    note = f"{EDITED}: {share:.0%} of its words"
    return Verdict("changed", view.successor, note=note, edited=round(share, 2))


def _find_lines(subject: Subject, lines: Lines, view: _View) -> Verdict | None:
    """The place of cited lines that stand in no definition: by their words, as many as before, else by a diff."""
    anchor = view.anchor
    there = len(list(_occurrences(read_code(subject.path, view.then).say_all(), subject.said)))
    for path, text in view.files.items():
        here = _list_places(subject, path, text)
        if path != view.successor:
            had = _list_places(subject, path, view.before[path]) if path in view.before else []
            if subject.is_telling and len(here) > len(had):
                return _standing(anchor, path, here[0])
        elif here and (len(here) == there or (len(here) > there and subject.is_telling)):
            return _standing(anchor, path, _nearest(here, lines[0]))
        elif mapped := _map_lines(view.then, text, lines):
            return _standing(anchor, path, mapped)
    return None


def _list_places(subject: Subject, path: str, text: str) -> list[Lines]:
    return list(_occurrences(read_code(path if subject.path else "", text).say_all(), subject.said))


def _nearest(places: Sequence[Lines], first: int) -> Lines:
    return min(places, key=lambda lines: abs(lines[0] - first))


def _map_lines(then: str, text: str, lines: Lines) -> Lines | None:
    """The lines of `text` that a diff by lines shows for those of `then`; None if it touches them."""
    shift = 0
    for _, start, end, _, there_end in list_differences(_stripped(then), _stripped(text)):
        if start >= lines[1]:
            break
        if end >= lines[0]:
            return None
        shift = there_end - end
    return lines[0] + shift, lines[1] + shift


def _map_untouched(then: str, now: str, lines: Lines) -> Lines | None:
    """Where lines are that stand wholly before or behind all that was edited in a file, and so do their neighbours: it
    spares the reading of both texts. None if that is not so, or it is not clear where the lines end."""
    old, ahead, behind, shift = _compare_ends(then, now)
    first, last = lines
    if last > len(old):
        return None
    indent = len(old[first - 1]) - len(old[first - 1].lstrip())
    if last < ahead:
        after = next((line for line in old[last:ahead] if CODE_LINE.match(line)), "")
        return lines if after and len(after) - len(after.lstrip()) <= indent else None
    if first > len(old) - behind + 1:
        above = (old[at] for at in range(first - 2, len(old) - behind - 1, -1))
        before = next((line for line in above if line.strip()), "@")
        return (
            (first + shift, last + shift)
            if CODE_LINE.match(before) and before.lstrip()[0] != "@"
            else None
        )
    return None


@lru_cache(maxsize=64)
def _compare_ends(then: str, now: str) -> tuple[list[str], int, int, int]:
    """(lines of `then`, how many at its beginning are the same, how many at its end, how many lines were added)."""
    old, new = then.split("\n"), now.split("\n")
    short = min(len(old), len(new))
    ahead = next((at for at in range(short) if old[at] != new[at]), short)
    behind = next(
        (at for at in range(short - ahead) if old[-1 - at] != new[-1 - at]), short - ahead
    )
    return old, ahead, behind, len(new) - len(old)


def _stripped(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")]


def list_differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Opcodes of difflib but for the equal ones; the equal beginning and end, most of a file, are cut off first."""
    short = min(len(old), len(new))
    head = next((i for i in range(short) if old[i] != new[i]), short)
    tail = next((i for i in range(short - head) if old[-1 - i] != new[-1 - i]), short - head)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    whole = [("replace", 0, len(left), 0, len(right))] if left or right else []
    is_small = len(left) * len(right) <= MAX_PAIRS
    for tag, a, b, c, d in (
        SequenceMatcher(None, left, right, autojunk=False).get_opcodes() if is_small else whole
    ):
        if tag != "equal":
            yield tag, head + a, head + b, head + c, head + d


def _standing(anchor: Anchor, path: str, lines: Lines | None) -> Verdict:
    first, last = lines or (None, None)
    if path != anchor.path:
        return Verdict("moved", path, first, last, f"was {anchor.path}")
    if anchor.first not in (None, first):
        return Verdict("moved", path, first, last, f"was line {anchor.first}")
    return Verdict("fresh", path, first, last)


def _judge_lost(subject: Subject, view: _View) -> Verdict:
    """The text is nowhere: is the place still there?"""
    anchor, successor = view.anchor, view.successor
    if successor is None:
        return Verdict("gone", anchor.path, note=FILE_LOST)
    if subject.definition is None or subject.is_part:
        return Verdict("changed", successor, note=_was(anchor, successor))
    return Verdict(
        "gone", successor, note=f"{subject.definition.name} is not defined there any more"
    )


def _judge_by_hash(anchor: Anchor, files: Mapping[str, str], successor: str | None) -> Verdict:
    """Without the commit the hash decides: where the name or the lines are, else wherever as many lines have it."""
    lines = lines_of(anchor)
    for path, text in files.items():
        if path != successor and anchor.symbol and tail_of(anchor.symbol) not in text:
            continue
        named = find_definition(path, text, anchor.symbol) if anchor.symbol else None
        if named and has_hash(
            anchor, say_definition(path, text, named), cut_lines(text, (named.first, named.last))
        ):
            return _standing(anchor, path, (named.first, named.last))
        if lines is None and not named and has_hash(anchor, read_code(path, text).say_all(), text):
            return _standing(anchor, path, None)
        for window in (
            _windows(anchor, lines, path, text)
            if lines and not (named and anchor.is_by_words)
            else ()
        ):
            return _standing(anchor, path, window)
        if path == successor and named:
            return Verdict("changed", path, named.first, named.last, _was(anchor, path))
    if successor is None:
        return Verdict("unverifiable", anchor.path, note=FILE_LOST)
    if anchor.symbol:
        return Verdict("gone", successor, note=f"{anchor.symbol} is not defined there any more")
    return Verdict("changed", successor, note=_was(anchor, successor))


def _windows(anchor: Anchor, lines: Lines, path: str, text: str) -> Iterator[Lines]:
    """Where as many lines as there were have the hash, nearest first: all that can be done without the text."""
    written = text.split("\n")
    width = lines[1] - lines[0] + 1
    said = read_code(path, text).say_all()
    folded = [] if anchor.is_by_words else list(map(fold, written))
    starts = range(1, len(written) - width + 2 if width <= MAX_WINDOW else 1)
    for start in sorted(starts, key=lambda start: abs(start - lines[0])):
        place = start, start + width - 1
        if folded and not folded[start - 1]:
            continue
        cited = cut_words(said, place) if anchor.is_by_words else said
        if has_hash(anchor, cited, "".join(folded[start - 1 : place[1]])):
            yield place


def _was(anchor: Anchor, path: str) -> str:
    return f"was {anchor.path}" if path != anchor.path else ""
