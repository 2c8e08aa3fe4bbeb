"""Habits of a history: when files of one kind change, files of another kind change as well.

A kind is a glob: a file name with an ending that is not code (`pyproject.toml`), an ending
(`*.proto`), or a directory (`docs/**`). Habits are counted, without any session, as association
rules: support, confidence, and lift against the changes without the first kind.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import permutations, product
from typing import NamedTuple

from memory_ci.regex import Regex

MAX_HABITS = 3
"""Habits that are proposed for one repository."""

LEAST_SUPPORT = 20
"""Changes of a year that touch the first kind."""

LEAST_CONFIDENCE = 0.9
"""The share of them that touch the second kind as well."""

MOST_OTHERWISE = 0.1
"""The greatest share of the other changes that touch the second kind: else it says nothing."""

YEAR = timedelta(days=365)
RECENT = timedelta(days=91)
LEAST_RECENT = 3
"""Changes of the last three months that touch the first kind."""

MAX_FILES = 30
"""Files of a change that is counted; larger ones rename, format or import."""

MAX_DEPTH = 2  # Directories of a kind.

CODE = frozenset(
    """c cc cpp cs css cxx dart ex exs go h hpp hs java jl js jsx kt lua m mjs mm php pl py pyi r rb
    rs scala scss sh sql svelte swift ts tsx vue zig""".split()
)
"""Endings of code: a single file of code is no kind."""

LOCKED = Regex(r".*[.-]lock(?:\.\w+)?|.*\.sum|npm-shrinkwrap\.json", re.IGNORECASE)
"""A file that a tool writes from another one: it follows, and asks for nothing itself."""

ROUTINE = Regex(
    r"(?i)\A(?:\[\w+\] |\w+(?:\([^)]*\))?: )?"
    r"(?:release|bump|version|style|re?format|format(?:ting)?|fmt|lint|black|prettier|prepare"
    r"|revert|merge)\b|\bversion packages\b|\bbump version\b"
)
"""The subject of a release, of formatting, of an update or of a revert."""

NAME = Regex(r"(?:.*/)?(?P<name>[^/]+?)(?P<ending>\.[A-Za-z][\w-]{0,12})?")
UNSAFE = Regex(r"[*?\[\]\\!#\s]")
"""Characters with a meaning in globs; a path that has one is no kind."""


TESTS = Regex(
    r"(?:.*/)?_*(?:tests?|specs?|e2e)_*(?:/.*)?|(?:.*/)?(?:test_.*|.*[._](?:test|spec)\..*|.*\.snap)",
    re.IGNORECASE,
)
PROSE = Regex(
    r".*\.(?:md|mdx|rst|adoc|txt)|docs?/.*"
    r"|\.?(?:changes?|changesets?|changelog[\w.-]*|newsfragments|news)/.*",
    re.IGNORECASE,
)
"""Kinds of tests and of prose: what explains or tests a thing asks for no change of the thing."""


class MergedFiles(NamedTuple):
    """The day of a merged change, the files that it touched, and the subject of its commit."""

    day: date
    paths: tuple[str, ...]
    subject: str = ""

    @property
    def is_routine(self) -> bool:
        """Whether it is a release, formatting or the like, or too large to show a habit."""
        return len(self.paths) > MAX_FILES or ROUTINE.search(self.subject) is not None


class Habit(NamedTuple):
    """A habit of a history.

    Attributes:
        when: the glob of the files that change.
        also: the glob of those that change with them.
        applicable: the changes of the last year that touch the first kind.
        followed: those of them that touch the second kind.
        recent: the changes of the last three months that touch the first kind.
        recently_followed: those of them that touch the second kind.
    """

    when: str
    also: str
    applicable: int
    followed: int
    recent: int
    recently_followed: int

    @property
    def confidence(self) -> float:
        """The share of the applicable changes that followed it."""
        return self.followed / self.applicable


class _Counted(NamedTuple):
    """The kinds of one change that occur often enough, with the files of each."""

    is_recent: bool
    kinds: dict[str, frozenset[str]]


def find_habits(changes: Iterable[MergedFiles], today: date) -> list[Habit]:
    """Return the habits of the last year that still hold, the clearest first.

    Args:
        changes: merged changes without those of bots, those of a day oldest first.
        today: the day of the newest one that counts.
    """
    of_year = [
        change for change in changes if today - YEAR < change.day <= today and not change.is_routine
    ]
    of_year.sort(key=lambda change: change.day)
    counted = _count_kinds(of_year, today)
    touching: Counter[str] = Counter(kind for change in counted for kind in change.kinds)
    written = {
        kind
        for change in of_year
        for path in change.paths
        if LOCKED.fullmatch(path)
        for kind in list_kinds(path)
    }
    habits = [
        habit
        for habit in _count_pairs(counted)
        if habit.when not in written and _is_clear(habit, len(counted), touching[habit.also])
    ]
    return _without_repetitions(sorted(habits, key=_rank))[:MAX_HABITS]


def list_kinds(path: str) -> list[str]:
    """Return the kinds of a file.

    >>> list_kinds("docs/guide/start.md")
    ['start.md', '*.md', 'docs/**', 'docs/guide/**']
    """
    match = NAME.fullmatch(path)
    if match is None or UNSAFE.search(path):
        return []
    ending = (match["ending"] or "").lower()
    kinds = []
    if ending.removeprefix(".") not in CODE:
        kinds.append(match["name"] + (match["ending"] or ""))
    if ending:
        kinds.append(f"*{match['ending']}")
    directories = path.split("/")[:-1]
    for depth in range(1, min(len(directories), MAX_DEPTH) + 1):
        kinds.append("/".join(directories[:depth]) + "/**")
    return kinds


def _count_kinds(changes: Sequence[MergedFiles], today: date) -> list[_Counted]:
    """Return the kinds of each change, without those that too few changes touch."""
    all_kinds: list[dict[str, set[str]]] = []
    touching: Counter[str] = Counter()
    for change in changes:
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for path in change.paths:
            for kind in list_kinds(path):
                kinds[kind].add(path)
        all_kinds.append(kinds)
        touching.update(kinds.keys())
    return [
        _Counted(
            today - RECENT < change.day,
            {
                kind: frozenset(paths)
                for kind, paths in kinds.items()
                if touching[kind] >= LEAST_SUPPORT * LEAST_CONFIDENCE
            },
        )
        for change, kinds in zip(changes, all_kinds, strict=True)
    ]


def _count_pairs(changes: Iterable[_Counted]) -> list[Habit]:
    """Return each pair of kinds whose second kind is nearly always touched with the first.

    A file of both kinds does not make a change applicable: it would follow its own habit.
    """
    changes = list(changes)
    touching: Counter[str] = Counter(kind for change in changes for kind in change.kinds)
    together: Counter[tuple[str, str]] = Counter()
    for change in changes:
        together.update(permutations(change.kinds, 2))
    likely = [
        pair
        for pair, count in together.items()
        if count >= LEAST_CONFIDENCE * LEAST_SUPPORT
        and count >= LEAST_CONFIDENCE / 2 * touching[pair[0]]
    ]
    return [_count_pair(changes, when, also) for when, also in likely]


def _count_pair(changes: Iterable[_Counted], when: str, also: str) -> Habit:
    applicable = followed = recent = recently_followed = 0
    for change in changes:
        first = change.kinds.get(when, frozenset())
        second = change.kinds.get(also, frozenset())
        if not first - second or not (second or applicable):
            continue  # It follows another habit, or the second kind is not there yet.
        second -= first if when.endswith("/**") else frozenset()  # its own files show no habit
        applicable += 1
        followed += bool(second)
        recent += change.is_recent
        recently_followed += change.is_recent and bool(second)
    return Habit(when, also, applicable, followed, recent, recently_followed)


def _is_clear(habit: Habit, changes: int, touching: int) -> bool:
    """Return whether a habit holds, still holds, and is not what all changes do.

    Args:
        habit: the habit.
        changes: the number of all changes.
        touching: how many of them touch the second kind.
    """
    if habit.applicable < LEAST_SUPPORT or habit.confidence < LEAST_CONFIDENCE:
        return False
    if habit.recent < LEAST_RECENT or _only_describes(habit):
        return False
    if habit.followed == habit.applicable:
        return False  # A tool writes both; nobody forgets it.
    if habit.recently_followed < LEAST_CONFIDENCE * habit.recent:
        return False
    others = changes - habit.applicable
    return touching - habit.followed <= MOST_OTHERWISE * others


def _only_describes(habit: Habit) -> bool:
    """Return whether the first kind describes or tests the second, which need not change then."""
    if PROSE.fullmatch(habit.when):
        return PROSE.fullmatch(habit.also) is None
    return TESTS.fullmatch(habit.when) is not None and TESTS.fullmatch(habit.also) is None


def _rank(habit: Habit) -> tuple[int, float, int, str, str]:
    """Return the sort key: names before endings before directories, then the surest."""
    vagueness = _vagueness(habit.when) + _vagueness(habit.also)
    return vagueness, -habit.confidence, -habit.applicable, habit.when, habit.also


def _vagueness(kind: str) -> int:
    return 2 if kind.endswith("/**") else int(kind.startswith("*"))


def _without_repetitions(habits: Iterable[Habit]) -> list[Habit]:
    """Return habits without those about the same files as a clearer one, in either direction."""
    distinct: list[Habit] = []
    for habit in habits:
        clearer_kinds = [kind for clearer in distinct for kind in clearer[:2]]
        pairs = product(habit[:2], clearer_kinds)
        if not any(_is_same(kind, clearer_kind) for kind, clearer_kind in pairs):
            distinct.append(habit)
    return distinct


def _is_same(left: str, right: str) -> bool:
    """Return whether one of two kinds is the other, or holds it."""
    return left == right or _holds(left, right) or _holds(right, left)


def _holds(wide: str, narrow: str) -> bool:
    """Return whether all files of a kind are of a wider one: `*.md` holds `start.md`."""
    if wide.endswith("/**"):
        return narrow.startswith(wide.removesuffix("**"))
    return wide.startswith("*") and narrow.endswith(wide.removeprefix("*"))
