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
    """Return which kinds of files changed together in the last year and still do, clearest first.

    Args:
        changes: merged changes by people, in any order of days; changes of the same day must be
            ordered, oldest first.
        today: the last day of the year; later changes do not count.
    """
    changes_of_year: list[MergedFiles] = []
    for change in changes:
        if today - YEAR < change.day <= today and not change.is_routine:
            changes_of_year.append(change)
    changes_of_year.sort(key=lambda change: change.day)

    counted = _count_kinds(changes_of_year, today)
    touching: Counter[str] = Counter(kind for change in counted for kind in change.kinds)
    generated_kinds = _list_generated_kinds(changes_of_year)
    clear: list[Habit] = []
    for habit in _count_pairs(counted):
        is_clear = _is_clear(habit, len(counted), touching[habit.also])
        if is_clear and habit.when not in generated_kinds:
            clear.append(habit)
    return _without_repetitions(sorted(clear, key=_rank))[:MAX_HABITS]


def _list_generated_kinds(changes: Iterable[MergedFiles]) -> set[str]:
    """Return the kinds of the lock files in some changes.

    Tools write lock files, so a changed lock file does not mean that another file must change.
    """
    kinds: set[str] = set()
    for change in changes:
        for path in change.paths:
            if LOCKED.fullmatch(path):
                kinds.update(list_kinds(path))
    return kinds


def list_kinds(path: str) -> list[str]:
    """Return the kinds of a file as globs: its name, its extension, its directories.

    >>> list_kinds("docs/guide/start.md")
    ['start.md', '*.md', 'docs/**', 'docs/guide/**']
    """
    match = NAME.fullmatch(path)
    if match is None or UNSAFE.search(path) or not path.isprintable():
        return []  # Bytes that are not UTF-8 are not printable either.
    ending = match["ending"] or ""
    kinds: list[str] = []
    if ending.lower().removeprefix(".") not in CODE:
        kinds.append(match["name"] + ending)
    if ending:
        kinds.append(f"*{ending}")
    directories = path.split("/")[:-1]
    for depth in range(1, min(len(directories), MAX_DEPTH) + 1):
        kinds.append("/".join(directories[:depth]) + "/**")
    return kinds


def _count_kinds(changes: Sequence[MergedFiles], today: date) -> list[_Counted]:
    """Return the kinds of files of each change, without those that too few changes touch."""
    kinds_by_change: list[dict[str, set[str]]] = []
    touching: Counter[str] = Counter()
    for change in changes:
        paths_by_kind: defaultdict[str, set[str]] = defaultdict(set)
        for path in change.paths:
            for kind in list_kinds(path):
                paths_by_kind[kind].add(path)
        kinds_by_change.append(paths_by_kind)
        touching.update(paths_by_kind.keys())

    counted: list[_Counted] = []
    for change, kinds in zip(changes, kinds_by_change, strict=True):
        is_recent = today - RECENT < change.day
        frequent: dict[str, frozenset[str]] = {}
        for kind, paths in kinds.items():
            if touching[kind] >= LEAST_SUPPORT * LEAST_CONFIDENCE:
                frequent[kind] = frozenset(paths)
        counted.append(_Counted(is_recent, frequent))
    return counted


def _count_pairs(changes: Sequence[_Counted]) -> list[Habit]:
    """Return the counts of each pair of kinds that could be a habit.

    Half the confidence suffices here, because `_count_pair` counts fewer changes of the first kind.
    """
    touching: Counter[str] = Counter(kind for change in changes for kind in change.kinds)
    together: Counter[tuple[str, str]] = Counter()
    for change in changes:
        together.update(permutations(change.kinds, 2))
    habits: list[Habit] = []
    for (when, also), count in together.items():
        has_support = count >= LEAST_CONFIDENCE * LEAST_SUPPORT
        if has_support and count >= LEAST_CONFIDENCE / 2 * touching[when]:
            habits.append(_count_pair(changes, when, also))
    return habits


def _count_pair(changes: Iterable[_Counted], when: str, also: str) -> Habit:
    """Count how often files of the kind `also` changed with those of the kind `when`.

    A file of both kinds does not make a change applicable: it would follow its own habit. Changes
    before the first with the kind `also` do not count.

    Args:
        changes: the changes, oldest first.
        when: the first kind, a glob.
        also: the second kind.
    """
    applicable = 0
    followed = 0
    recent = 0
    recently_followed = 0
    for change in changes:
        when_paths = change.kinds.get(when, frozenset())
        also_paths = change.kinds.get(also, frozenset())
        if not when_paths - also_paths:
            continue
        if not also_paths and not applicable:
            continue
        if when.endswith("/**"):
            # Files below one directory show no habit of it.
            also_paths -= when_paths
        is_followed = bool(also_paths)
        applicable += 1
        followed += is_followed
        recent += change.is_recent
        recently_followed += change.is_recent and is_followed
    return Habit(when, also, applicable, followed, recent, recently_followed)


def _is_clear(habit: Habit, changes: int, touching: int) -> bool:
    """Return whether a habit is followed, still is, and is not what all changes do.

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
    other_changes = changes - habit.applicable
    touching_otherwise = touching - habit.followed
    return touching_otherwise <= MOST_OTHERWISE * other_changes


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
    """Return habits without those about the same files as an earlier one, in either direction."""
    distinct: list[Habit] = []
    used_kinds: list[str] = []
    for habit in habits:
        kinds = (habit.when, habit.also)
        if not any(_is_same(kind, used) for kind, used in product(kinds, used_kinds)):
            distinct.append(habit)
            used_kinds += kinds
    return distinct


def _is_same(left: str, right: str) -> bool:
    """Return whether one of two kinds is the other, or includes it."""
    return left == right or _includes(left, right) or _includes(right, left)


def _includes(wide: str, narrow: str) -> bool:
    """Return whether all files of a kind are of a wider one: `*.md` includes `start.md`."""
    if wide.endswith("/**"):
        return narrow.startswith(wide.removesuffix("**"))
    return wide.startswith("*") and narrow.endswith(wide.removeprefix("*"))
