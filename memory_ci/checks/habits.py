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

MAX_SHARE_OF_OTHERS = 0.1
"""The greatest share of the other changes that touch the second kind: else it says nothing."""

MIN_CHANGES_OF_PAIR = LEAST_SUPPORT * LEAST_CONFIDENCE
"""The fewest changes that touch both kinds of a habit."""

YEAR = timedelta(days=365)
RECENT_PERIOD = timedelta(days=91)
LEAST_RECENT = 3
"""Changes of the last three months that touch the first kind."""

MAX_FILES = 30
"""Files of a change that is counted; larger ones rename, format or import."""

MAX_DEPTH = 2  # Directories of a kind.

CODE_ENDINGS = frozenset(
    """c cc cpp cs css cxx dart ex exs go h hpp hs java jl js jsx kt lua m mjs mm php pl py pyi r rb
    rs scala scss sh sql svelte swift ts tsx vue zig""".split()
)
"""Endings of code: a single file of code is no kind."""

LOCK_FILE = Regex(r".*[.-]lock(?:\.\w+)?|.*\.sum|npm-shrinkwrap\.json", re.IGNORECASE)
"""A file that a tool writes from another one: it follows, and asks for nothing itself."""

ROUTINE_SUBJECT = Regex(
    r"(?i)\A(?:\[\w+\] |\w+(?:\([^)]*\))?: )?"
    r"(?:release|bump|version|style|re?format|format(?:ting)?|fmt|lint|black|prettier|prepare"
    r"|revert|merge)\b|\bversion packages\b|\bbump version\b"
)
"""The subject of a release, of formatting, of an update or of a revert."""

NAME = Regex(r"(?:.*/)?(?P<name>[^/]+?)(?P<ending>\.[A-Za-z][\w-]{0,12})?")
GLOB_CHARACTERS = Regex(r"[*?\[\]\\!#\s]")
"""Characters with a meaning in globs; a path that has one is no kind."""


TEST_KIND = Regex(
    r"(?:.*/)?_*(?:tests?|specs?|e2e)_*(?:/.*)?|(?:.*/)?(?:test_.*|.*[._](?:test|spec)\..*|.*\.snap)",
    re.IGNORECASE,
)
PROSE_KIND = Regex(
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
        return len(self.paths) > MAX_FILES or ROUTINE_SUBJECT.search(self.subject) is not None


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


class _ChangeKinds(NamedTuple):
    """The kinds of files that a change touches, without those that too few changes touch.

    Attributes:
        is_recent: whether the change was merged in the last three months.
        paths_by_kind: the touched files of each kind. A kind is a glob, such as `docs/**`.
    """

    is_recent: bool
    paths_by_kind: dict[str, frozenset[str]]


def find_habits(changes: Iterable[MergedFiles], today: date) -> list[Habit]:
    """Return which kinds of files changed together in the last year and still do, clearest first.

    A kind is a glob, such as `docs/**` or `*.proto`. A habit is a pair of kinds: most changes that
    touch the first kind touch the second as well, and other changes seldom do.

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

    change_kinds = _list_frequent_kinds(changes_of_year, today)
    change_counts = _count_changes_by_kind(change_kinds)
    generated_kinds = _list_generated_kinds(changes_of_year)
    clear_habits: list[Habit] = []
    for habit in _count_pairs(change_kinds):
        is_clear = _is_clear(habit, len(change_kinds), change_counts[habit.also])
        if is_clear and habit.when not in generated_kinds:
            clear_habits.append(habit)
    return _without_repetitions(sorted(clear_habits, key=_rank_habit))[:MAX_HABITS]


def _list_generated_kinds(changes: Iterable[MergedFiles]) -> set[str]:
    """Return the kinds of the lock files in some changes.

    Tools write lock files, so a changed lock file does not mean that another file must change.
    """
    kinds: set[str] = set()
    for change in changes:
        for path in change.paths:
            if LOCK_FILE.fullmatch(path):
                kinds.update(list_kinds(path))
    return kinds


def list_kinds(path: str) -> list[str]:
    """Return the kinds of a file as globs: its name, its extension, its directories.

    >>> list_kinds("docs/guide/start.md")
    ['start.md', '*.md', 'docs/**', 'docs/guide/**']
    """
    match = NAME.fullmatch(path)
    if match is None or GLOB_CHARACTERS.search(path) or not path.isprintable():
        return []  # Bytes that are not UTF-8 are not printable either.
    ending = match["ending"] or ""
    kinds: list[str] = []
    if ending.lower().removeprefix(".") not in CODE_ENDINGS:
        kinds.append(match["name"] + ending)
    if ending:
        kinds.append(f"*{ending}")
    directories = path.split("/")[:-1]
    for depth in range(1, min(len(directories), MAX_DEPTH) + 1):
        kinds.append("/".join(directories[:depth]) + "/**")
    return kinds


def _list_frequent_kinds(changes: Sequence[MergedFiles], today: date) -> list[_ChangeKinds]:
    """Return the kinds of files of each change, without those that too few changes touch.

    A habit needs LEAST_SUPPORT changes with the first kind, and LEAST_CONFIDENCE of them have the
    second. So both kinds are touched by at least LEAST_SUPPORT * LEAST_CONFIDENCE changes.
    """
    all_change_kinds: list[_ChangeKinds] = []
    for change in changes:
        paths_by_kind: defaultdict[str, set[str]] = defaultdict(set)
        for path in change.paths:
            for kind in list_kinds(path):
                paths_by_kind[kind].add(path)
        is_recent = today - RECENT_PERIOD < change.day
        frozen_paths = {kind: frozenset(paths) for kind, paths in paths_by_kind.items()}
        all_change_kinds.append(_ChangeKinds(is_recent, frozen_paths))

    change_counts = _count_changes_by_kind(all_change_kinds)
    frequent_kinds: list[_ChangeKinds] = []
    for change_kinds in all_change_kinds:
        frequent_paths = {}
        for kind, paths in change_kinds.paths_by_kind.items():
            if change_counts[kind] >= MIN_CHANGES_OF_PAIR:
                frequent_paths[kind] = paths
        frequent_kinds.append(change_kinds._replace(paths_by_kind=frequent_paths))
    return frequent_kinds


def _count_changes_by_kind(changes: Iterable[_ChangeKinds]) -> Counter[str]:
    """Return how many changes touch each kind of files."""
    change_counts: Counter[str] = Counter()
    for change in changes:
        change_counts.update(change.paths_by_kind.keys())
    return change_counts


def _count_pairs(changes: Sequence[_ChangeKinds]) -> list[Habit]:
    """Return the counts of each pair of kinds that could be a habit.

    A quick count of the changes that touch both kinds selects the pairs. Of the changes with the
    first kind, only half the wanted share needs to touch both: some of them are not applicable, and
    `_count_pair` leaves them out.
    """
    change_counts = _count_changes_by_kind(changes)
    pair_counts: Counter[tuple[str, str]] = Counter()
    for change in changes:
        pair_counts.update(permutations(change.paths_by_kind, 2))
    habits: list[Habit] = []
    for (when, also), count in pair_counts.items():
        has_enough_changes = count >= MIN_CHANGES_OF_PAIR
        if has_enough_changes and count >= LEAST_CONFIDENCE / 2 * change_counts[when]:
            habits.append(_count_pair(changes, when, also))
    return habits


def _count_pair(changes: Iterable[_ChangeKinds], when: str, also: str) -> Habit:
    """Count how often files of the kind `also` changed together with files of the kind `when`.

    Not all changes that touch the kind `when` are applicable:

    - A file may be of both kinds, such as `docs/tutorial.md` of `*.md` and `docs/**`. Alone it
      makes no change applicable, because it would follow the habit by itself.
    - Changes before the first one with the kind `also` do not count: there was no habit yet.

    If `when` is a directory, its own files do not count as files of the kind `also`: that files of
    one directory change together is no habit worth a check.

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
        when_paths = change.paths_by_kind.get(when, frozenset())
        also_paths = change.paths_by_kind.get(also, frozenset())
        only_when_paths = when_paths - also_paths
        has_habit_begun = bool(also_paths) or applicable > 0
        if not only_when_paths or not has_habit_begun:
            continue
        if when.endswith("/**"):
            also_paths -= when_paths
        is_followed = bool(also_paths)
        applicable += 1
        followed += is_followed
        recent += change.is_recent
        recently_followed += change.is_recent and is_followed
    return Habit(when, also, applicable, followed, recent, recently_followed)


def _is_clear(habit: Habit, change_count: int, also_count: int) -> bool:
    """Return whether a habit is followed, still is, and is not what all changes do.

    Args:
        habit: the habit.
        change_count: the number of all changes.
        also_count: how many of them touch the second kind.
    """
    if habit.applicable < LEAST_SUPPORT or habit.confidence < LEAST_CONFIDENCE:
        return False
    if habit.recent < LEAST_RECENT or _only_describes(habit):
        return False
    if habit.followed == habit.applicable:
        return False  # A tool writes both; nobody forgets it.
    if habit.recently_followed < LEAST_CONFIDENCE * habit.recent:
        return False
    # Of the changes without the first kind, only a few may touch the second one.
    other_change_count = change_count - habit.applicable
    other_also_count = also_count - habit.followed
    return other_also_count <= MAX_SHARE_OF_OTHERS * other_change_count


def _only_describes(habit: Habit) -> bool:
    """Return whether the first kind describes or tests the second, which need not change then."""
    if PROSE_KIND.fullmatch(habit.when):
        return PROSE_KIND.fullmatch(habit.also) is None
    return TEST_KIND.fullmatch(habit.when) is not None and TEST_KIND.fullmatch(habit.also) is None


def _rank_habit(habit: Habit) -> tuple[int, float, int, str, str]:
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
