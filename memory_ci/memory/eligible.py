"""Merged changes that are work of people or agents, not routine, and so can teach something."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from datetime import UTC, date, timedelta

from memory_ci.config import CONFIG_FILE
from memory_ci.evidence.trust import is_author
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.past import find_commit_of_day
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.lifecycle.reverts import find_reverts, is_revert
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.episode import Episode
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import (
    LEARNING_MARK,
    MERGE_LINE,
    MIN_SHA_WIDTH,
    OWN_TRAILER,
    TRAILER_LINE,
    list_change_names,
)
from memory_ci.regex import Regex
from memory_ci.search.query import extract_prose
from memory_ci.sources.commits import format_author

WINDOW = timedelta(days=90)

ROUTINE = Regex(
    r"""(?xi) \s* (?:
        \[automated\] | \[pre-commit | (?:build|chore|ci) \( deps | bump\s | update\s dependenc
      | (?:chore:?\s)? (?:prepare\s (?:for\s)?)? release (?: \Z | :?\s v?\d )
      | (?:version\s)? v?\d+(?:\.\d+)+ \S* \Z
      | (?:docs?:\s)? (?:fix\s)? typos? (?:\s in \s .{0,40})? \Z
      | (?:docs?:\s)? (?:add|update) .{0,40} \b sponsors?\b
    )"""
)
"""Titles of routine changes that teach nothing: versions, releases, typos, sponsors."""

MAX_TITLE = 200
MAX_BYTES = 1_000_000

SETUP_FILES = Regex(rf"{re.escape(CONFIG_FILE)}|\.github/workflows/memory[^/]*\.ya?ml")
"""Files that exist for memory-ci alone."""

SHARED_SETUP_FILES = frozenset({".gitattributes", ".pre-commit-config.yaml"})
"""Files that count as set up for memory-ci if they contain its name."""

OWN_NAME = b"memory-ci"
"""The name by which such a file mentions memory-ci."""


def list_eligible(workspace: Workspace, tip: str, today: date) -> tuple[MergedChange, ...]:
    """Return the changes that were merged in the 90 days up to `today`, oldest first.

    Changes of bots, of memory-ci and of memory files alone are left out.

    Args:
        workspace: the repository.
        tip: the tip of the branch.
        today: the last of the days.

    Raises:
        RepositoryError: shallow-clone, if history does not reach back so far.
    """
    start = window_start(today)
    since = find_commit_of_day(workspace.repo, tip, start)
    eligible = []
    for change in iter_merged_changes(workspace.repo, plan_range(workspace.repo, since, tip)):
        if start < find_merge_day(change) <= today and is_work(workspace, change):
            eligible.append(change)
    return tuple(eligible)


def window_start(today: date) -> date:
    """Return the day before the 90 days up to `today`, or the first day of the calendar."""
    return today - min(WINDOW, today - date.min)


def count_processed(
    workspace: Workspace, tip: str, changes: Collection[MergedChange], names: Collection[str]
) -> int:
    """Count the changes that no record run needs to read any more.

    These are changes that a record run has read, routine changes such as releases, and changes
    that an entry or an episode is about.

    Args:
        workspace: the repository.
        tip: the tip of the branch.
        changes: the changes to count.
        names: the names of changes that entries and episodes are about.
    """
    cursor = find_cursor(workspace.repo, tip, build_memory_test(workspace))
    unread = plan_range(workspace.repo, cursor.source if cursor else None, tip)
    unread_shas = {sha for group in unread.groups for sha in group}

    count = 0
    for change in changes:
        is_read = change.tip.sha not in unread_shas
        has_memory = not list_names(change).isdisjoint(names)
        if is_read or is_routine(find_title(change)) or has_memory:
            count += 1
    return count


def list_names(change: MergedChange) -> frozenset[str]:
    """Return the names that an entry or an episode may use for a change."""
    return list_change_names(change.number, (commit.sha for commit in change.commits))


def find_title(change: MergedChange) -> str:
    """Return the title of a change.

    If its merge has git's default message, as "Merge branch 'x'", the title is the subject of the
    first commit that is no merge.
    """
    if not re.fullmatch(MERGE_LINE, change.title):
        return change.title
    for commit in change.commits:
        if len(commit.parents) < 2:
            return commit.subject
    return ""


def list_work_commits(change: MergedChange) -> list[Commit]:
    """Return the commits that did the work: all but merges, or the merge if there are no others."""
    return [commit for commit in change.commits if len(commit.parents) < 2] or [change.tip]


def clean_message(commit: Commit) -> str:
    """Return a commit message without lines that git, forges and tools add.

    Of a merge it is the body only.
    """
    message = commit.message
    if len(commit.parents) >= 2:
        message = message.partition("\n")[2]
    return _drop_added_lines(message)


def _drop_added_lines(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not _is_added(line.strip()))


def _is_added(line: str) -> bool:
    return any(re.fullmatch(form, line) for form in (TRAILER_LINE, MERGE_LINE, LEARNING_MARK))


def list_prose(commits: Iterable[Commit]) -> list[str]:
    """Return the bodies of commit messages."""
    return [clean_message(commit).partition("\n")[2] for commit in commits]


MARKUP_CHARACTERS = "*-#/<|>`"
"""First characters of a Markdown block that is no prose: a list, a heading, a table, a quotation,
code, HTML, or a path."""


def list_paragraphs(texts: Iterable[str]) -> Iterator[str]:
    """Yield the paragraphs of prose in Markdown texts, each in one line.

    Headings, lists, code, quotations and tables are left out, and lines that git, forges and tools
    add, such as trailers.
    """
    for text in texts:
        prose = extract_prose(_drop_added_lines(text))
        for block in re.split(r"\n\s*\n", prose):
            paragraph = " ".join(block.split())
            if paragraph and paragraph[0] not in MARKUP_CHARACTERS:
                yield paragraph


def is_routine(title: str) -> bool:
    """Return whether a title is that of a release, a dependency update, a typo, or a sponsor.

    >>> is_routine("Bump ruff from 0.1 to 0.2"), is_routine("Release 2.0")
    (True, True)
    >>> is_routine("Release the lock on errors")
    False
    """
    return ROUTINE.match(title) is not None


def is_own_commit(commit: Commit) -> bool:
    """Return whether a run of memory-ci made a commit."""
    return re.search(OWN_TRAILER, commit.message) is not None


def is_own_run(change: MergedChange) -> bool:
    """Return whether runs of memory-ci made all commits of a change."""
    return all(map(is_own_commit, list_work_commits(change)))


def is_work(workspace: Workspace, change: MergedChange) -> bool:
    """Return whether a change is work of people or their agents.

    Changes of bots, of memory-ci and of memory files alone are not.
    """
    commits = list_work_commits(change)
    bots = workspace.config.extraction.bot_authors
    is_by_bots = all(is_author(format_author(commit), bots) for commit in commits)
    if is_by_bots or is_own_run(change):
        return False
    is_memory = build_memory_test(workspace)
    return not all(_touches_only(commit, is_memory) for commit in commits)


def _touches_only(commit: Commit, is_memory: Callable[[str], bool]) -> bool:
    """Return whether a commit touches memory alone; an empty commit may say something in words."""
    return bool(commit.files) and all(is_memory(file.path) for file in commit.files)


def find_merge_day(merged: MergedChange) -> date:
    """Return the day of the merge, in UTC."""
    return merged.tip.committed_at.astimezone(UTC).date()


def list_question_changes(
    workspace: Workspace, changes: Sequence[MergedChange], episodes: Iterable[Episode]
) -> list[MergedChange]:
    """Return the changes whose titles are good questions to test memory with.

    The title of a change is what an agent might have asked memory before it made the change. It is
    put to memory as it was then, and the answers show how useful memory was. Left out are reverts,
    changes that only set memory-ci up, and changes whose episode (the record of merged work) says
    that they changed nothing that matters: its outcome is `neutral`.

    Args:
        workspace: the repository.
        changes: the changes.
        episodes: the episodes, which have the outcomes.
    """
    neutral_names: set[str] = set()
    for episode in episodes:
        if episode.outcome == "neutral":
            neutral_names |= list_episode_names(episode)

    commits: list[Commit] = []
    for change in changes:
        commits += change.commits
    revert_shas = {revert.sha for revert in find_reverts(commits)}

    question_changes = []
    for change in changes:
        if not find_title(change) or not neutral_names.isdisjoint(list_names(change)):
            continue
        shas = [commit.sha for commit in list_work_commits(change)]
        if not is_revert(shas, revert_shas) and not is_setup(workspace, change):
            question_changes.append(change)
    return question_changes


def name_question(change: MergedChange) -> str:
    """Return `#128 The title`, without the title if it must not be served to agents."""
    title = find_title(change)
    return change.label if is_unsafe(title) else f"{change.label} {title[:MAX_TITLE]}"


def is_setup(workspace: Workspace, change: MergedChange) -> bool:
    """Return whether a change touched only memory and the set-up of memory-ci.

    A file that other tools use as well, such as `.gitattributes`, counts as set-up if its text
    mentions memory-ci.
    """
    is_memory = build_memory_test(workspace)
    paths: set[str] = set()
    for commit in list_work_commits(change):
        paths.update(file.path for file in commit.files)
    other_paths = {
        path for path in paths if not is_memory(path) and not SETUP_FILES.fullmatch(path)
    }
    if not paths or not other_paths <= SHARED_SETUP_FILES:
        return False
    if not other_paths:
        return True

    paths_with_name = set()
    for content in Tree(workspace.repo, change.tip.sha).read(other_paths, MAX_BYTES):
        if content.data is not None and OWN_NAME in content.data:
            paths_with_name.add(content.file.path)
    return paths_with_name == other_paths


def list_episode_names(episode: Episode) -> Set[str]:
    """Return the names of the change that an episode is about, as `list_names` has them.

    An episode names its change by its own id (`pr-128`, `commit-1a2b3c4d5e6f`), and, if it has
    them, by the number of the request and the commit. The id `pr-128` becomes the name `pr:128`. In
    the name of a commit the id of the commit is shortened.
    """
    id_kind, _, id_name = episode.id.partition("-")
    if id_kind == "commit":
        id_name = id_name[:MIN_SHA_WIDTH]
    shas = [episode.action.commit] if episode.action.commit else []
    return {f"{id_kind}:{id_name}"} | list_change_names(episode.action.pr, shas)
