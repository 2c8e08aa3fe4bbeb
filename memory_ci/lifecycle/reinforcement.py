"""Reinforcement: an entry that merged work used, confirmed or said again counts once more for that work."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.anchors.symbols import list_mentions
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.text import content_words, unfenced_lines


class Use(NamedTuple):
    """A merged change: what reports and feedback call it (`#128`, `pr:128`), the day it was merged, the ids of the
    entries that count once more for it, and of these the ids that it said again."""

    label: str
    ref: str
    day: date
    ids: frozenset[str]
    restated: frozenset[str] = frozenset()


MAX_NAMED = 3  # Entries that one turn of an agent may name as used; a turn that names more repeats a listing.
ID = re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?(?![\w-])")
# How lines begin that quote, list or head something; a middle dot stands between the facts of an entry as served.
NO_SENTENCE = re.compile(r"[ \t]*(?:[>#|*+-]|\d+[.)]|[\w-]+:[ \t])|.*\u00b7")
IDENTIFIER = re.compile(r"[^\W\d]\w{3,}")
WORD = re.compile(r"[^\W\d_]{2,}")
LEAST_WORDS = 4


def list_named(text: str) -> tuple[str, ...]:
    """The ids, whole or shortened, that a turn of an agent names in sentences of its own.

    >>> list_named("I follow 0a003ee4 and send a key with each charge."), list_named("> See 0a003ee4 for the cause.")
    (('0a003ee4',), ())
    """
    lines = [line for line in unfenced_lines(text.splitlines()) if not NO_SENTENCE.match(line)]
    said = (line for line in lines if len(WORD.findall(ID.sub("", line))) >= LEAST_WORDS)
    named = tuple(dict.fromkeys(one for line in said for one in ID.findall(line)))
    return named if len(named) <= MAX_NAMED else ()


MAX_SHARING = 2  # Entries that may name an identifier which is still a rare one.


def find_touched(
    given: Iterable[Entry],
    every: Iterable[Entry],
    paths: Collection[str],
    message: str,
    added: Callable[[], str],
) -> frozenset[str]:
    """The ids of given entries that the work was about, whether it followed them or not. Two of three facts: a file
    that the entry cites is among the `paths` of the change, a rare identifier of the entry stands in the lines that it
    `added` (asked only where that decides), half of the title's words stand in its message. Measured: 3.7 % of what was
    given, 0.4 % of a placebo."""

    def list_identifiers(entry: Entry) -> list[str]:
        return list_mentions(entry.text, plain=False)

    names = Counter(name for entry in every for name in list_identifiers(entry))
    told, lines = content_words(message), cache(lambda: frozenset(IDENTIFIER.findall(added())))
    found: list[str] = []
    for entry in given:
        title = content_words(entry.title)
        anchors = filter(None, map(parse_anchor, entry.cites))
        facts = any(one.path in paths for one in anchors) + (
            len(title & told) * 2 >= max(len(title), 1)
        )
        rare = [name for name in list_identifiers(entry) if names[name] <= MAX_SHARING]
        if facts == 2 or (facts == 1 and any(lines().issuperset(name.split(".")) for name in rare)):
            found.append(entry.id)
    return frozenset(found)


def plan_reinforcement(uses: Iterable[Use], located: Mapping[str, Located]) -> tuple[Change, ...]:
    """One update per entry: +1 for each merged change that used it, last_reinforced the latest of their dates. A change
    that said the entry again is one of its occurrences. A retired entry is left alone, a compacted one counts like an
    active one, and an id nobody knows is nobody's."""
    found: defaultdict[str, list[Use]] = defaultdict(list)
    for use in uses:
        for entry_id in use.ids:
            if entry_id in located and located[entry_id].entry.status != "retired":
                found[entry_id].append(use)
    changes: list[Change] = []
    for entry_id, own in sorted(found.items()):
        entry, path = located[entry_id].entry, located[entry_id].path
        said = [use.ref for use in own if entry_id in use.restated]
        entry = replace(
            entry,
            reinforcement_count=entry.reinforcement_count + len(own),
            last_reinforced=max(entry.last_reinforced, *(use.day for use in own)),
            occurrences=tuple(dict.fromkeys((*entry.occurrences, *said))),
        )
        why = f"for {', '.join(use.label for use in own)}"
        changes.append(Change(step="reinforce", kind="update", path=path, entry=entry, why=why))
    return tuple(changes)


def list_occurrences(entry: Entry) -> set[str]:
    """What said it; nothing where nothing is known. Before occurrences were kept, each entry that it has taken in
    counts as one, and so does the entry itself where nobody knows who said it."""
    others = entry.occurrences or entry.supersedes
    return {entry.origin or (entry.id if others else ""), *others} - {""}


def unite_occurrences(kept: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The occurrences of an entry that stands for all of these; a copy of it under its own id is not another one."""
    copies = {name for entry in entries if entry.id == kept.id for name in (entry.origin, entry.id)}
    return tuple(sorted(set().union(*map(list_occurrences, entries)) - copies))
