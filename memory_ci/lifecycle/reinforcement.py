"""Reinforcement: the count of an entry rises when merged work used, confirmed or repeated it."""

from __future__ import annotations

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
from memory_ci.regex import Regex
from memory_ci.text import content_words, unfenced_lines

MAX_NAMED = 3
"""Entries that one turn of an agent may name as used; a turn that names more repeats a listing."""

ID = Regex(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?(?![\w-])")

NO_SENTENCE = Regex(r"[ \t]*(?:[>#|*+-]|\d+[.)]|[\w-]+:[ \t])|.*\u00b7")
"""A line that quotes, lists or is a heading. A middle dot separates the facts of a served entry."""

IDENTIFIER = Regex(r"[^\W\d]\w{3,}")
WORD = Regex(r"[^\W\d_]{2,}")

MIN_WORDS = 4
"""Words of a line that is a sentence."""

MAX_SHARING = 2
"""Entries that may name an identifier which still counts as rare."""


class Use(NamedTuple):
    """The uses of entries by a merged change.

    Attributes:
        label: its name in reports (`#128`).
        ref: its name in feedback (`pr:128`).
        day: when it was merged.
        ids: the entries that count once more for it.
        restated: the entries among `ids` that the change stated again.
    """

    label: str
    ref: str
    day: date
    ids: frozenset[str]
    restated: frozenset[str] = frozenset()


def list_named_ids(text: str) -> tuple[str, ...]:
    """Return the ids of entries that an agent names in the sentences of one turn.

    Headings, lists and quotations are skipped. A turn that names more than MAX_NAMED ids names
    none: it repeats a listing.

    >>> list_named_ids("I follow 0a003ee4 and send a key with each charge.")
    ('0a003ee4',)
    >>> list_named_ids("> See 0a003ee4 for the cause.")
    ()
    """
    ids: dict[str, None] = {}
    for line in unfenced_lines(text.splitlines()):
        other_words = WORD.findall(ID.sub("", line))
        is_sentence = not NO_SENTENCE.match(line) and len(other_words) >= MIN_WORDS
        if is_sentence:
            ids |= dict.fromkeys(ID.findall(line))
    return tuple(ids) if len(ids) <= MAX_NAMED else ()


def find_touched(
    served: Iterable[Entry],
    all_entries: Iterable[Entry],
    paths: Collection[str],
    message: str,
    read_added_lines: Callable[[], str],
) -> frozenset[str]:
    """Return the ids of served entries whose subject a change touches.

    Two of three facts must hold: the change touches a file that the entry cites, the added lines
    hold a rare identifier of the entry, the message holds half of the title's words.
    Measured: true for 3.7 % of the served entries, and for 0.4 % of entries of a placebo.

    Args:
        served: the entries that an agent was served for the work.
        all_entries: all entries, which say how rare an identifier is.
        paths: the files of the change.
        message: its commit messages.
        read_added_lines: returns the added lines as one text; called only where they decide.
    """

    def list_identifiers(entry: Entry) -> list[str]:
        return list_mentions(entry.text, include_weak=False)

    # Called for the first entry that needs it: reading the diff is costly.
    list_added_names = cache(lambda: frozenset(IDENTIFIER.findall(read_added_lines())))
    counts = Counter(name for entry in all_entries for name in list_identifiers(entry))
    message_words = content_words(message)
    touched: list[str] = []
    for entry in served:
        is_cited = _cites_one_of(entry, paths)
        title_words = content_words(entry.title)
        is_in_message = len(title_words & message_words) * 2 >= max(len(title_words), 1)
        is_touched = is_cited and is_in_message
        if is_cited != is_in_message:
            rare_names = [name for name in list_identifiers(entry) if counts[name] <= MAX_SHARING]
            # `Client.send` is added if both `Client` and `send` are.
            is_touched = any(list_added_names().issuperset(name.split(".")) for name in rare_names)
        if is_touched:
            touched.append(entry.id)
    return frozenset(touched)


def _cites_one_of(entry: Entry, paths: Collection[str]) -> bool:
    anchors = [parse_anchor(cite) for cite in entry.cites]
    return any(anchor.path in paths for anchor in anchors if anchor)


def plan_reinforcement(uses: Iterable[Use], located: Mapping[str, Located]) -> tuple[Change, ...]:
    """Plan one update per used entry: its count rises by one for each merged change that used it.

    `last_reinforced` becomes the latest day of these changes. A change that stated the learning
    again is added to the entry's occurrences. Retired entries and unknown ids are left out.

    Args:
        uses: the merged changes and the ids of entries that each used.
        located: the entries of memory by id.
    """
    uses_by_id: defaultdict[str, list[Use]] = defaultdict(list)
    for use in uses:
        for entry_id in use.ids:
            located_entry = located.get(entry_id)
            if located_entry is not None and located_entry.entry.status != "retired":
                uses_by_id[entry_id].append(use)
    changes: list[Change] = []
    for entry_id, entry_uses in sorted(uses_by_id.items()):
        located_entry = located[entry_id]
        entry = located_entry.entry
        restating_refs = [use.ref for use in entry_uses if entry_id in use.restated]
        reinforced = replace(
            entry,
            reinforcement_count=entry.reinforcement_count + len(entry_uses),
            last_reinforced=max(entry.last_reinforced, *(use.day for use in entry_uses)),
            occurrences=tuple(dict.fromkeys((*entry.occurrences, *restating_refs))),
        )
        why = f"for {', '.join(use.label for use in entry_uses)}"
        changes.append(
            Change(
                step="reinforce", kind="update", path=located_entry.path, entry=reinforced, why=why
            )
        )
    return tuple(changes)


def list_occurrences(entry: Entry) -> set[str]:
    """Return a name for each change or session that an entry was learned from, such as `pr:128`.

    Callers count the names. An entry that was written by an earlier version has no such names. The
    ids of the entries that were merged into it are returned instead, with its own id.
    """
    names = set(entry.occurrences or entry.supersedes) - {""}
    if entry.origin:
        names.add(entry.origin)
    elif names:
        names.add(entry.id)
    return names


def unite_occurrences(survivor: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the field `occurrences` of an entry that replaces others.

    It holds a name for each change or session that stated the learning again, of all entries. The
    change that the surviving entry itself was learned from is in its field `origin`, and left out.

    Args:
        survivor: the entry that replaces the others.
        entries: all of them, its own copies included.
    """
    own_names: set[str] = set()
    occurrences: set[str] = set()
    for entry in entries:
        occurrences |= list_occurrences(entry)
        if entry.id == survivor.id:
            own_names |= {entry.origin, entry.id}
    return tuple(sorted(occurrences - own_names))
