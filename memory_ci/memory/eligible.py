"""Merged changes that could have taught something: how many were judged, and what their titles ask of memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from datetime import UTC, date, timedelta

from memory_ci.config import CONFIG_FILE
from memory_ci.evidence.trust import is_author
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.history import (
    find_commit_of_day,
    find_cursor,
    iter_merged_changes,
    plan_range,
)
from memory_ci.lifecycle.reverts import find_reverts, is_revert
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace, memory_test
from memory_ci.records.episode import Episode
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import LEAST_WIDTH, MARK, MERGE_LINE, OWN, TRAILER, names_of_change
from memory_ci.search.query import told
from memory_ci.sources.commits import author_of

WINDOW = timedelta(days=90)

ROUTINE = re.compile(
    r"""(?xi) \s* (?:
        \[automated\] | \[pre-commit | (?:build|chore|ci) \( deps | bump\s | update\s dependenc
      | (?:chore:?\s)? (?:prepare\s (?:for\s)?)? release (?: \Z | :?\s v?\d ) | (?:version\s)? v?\d+(?:\.\d+)+ \S* \Z
      | (?:docs?:\s)? (?:fix\s)? typos? (?:\s in \s .{0,40})? \Z | (?:docs?:\s)? (?:add|update) .{0,40} \b sponsors?\b
    )"""
)
"""Titles of what comes again and again and teaches nothing: versions, releases, typos, sponsors."""

MAX_TITLE = 200
MAX_BYTES = 1_000_000

OURS = re.compile(rf"{re.escape(CONFIG_FILE)}|\.github/workflows/memory[^/]*\.ya?ml")
"""Files that are there for memory-ci alone."""

SHARED = frozenset(
    {".gitattributes", ".pre-commit-config.yaml"}
)  # Files that are ours as well where they name us.
NAME = b"memory-ci"


def list_eligible(workspace: Workspace, tip: str, today: date) -> tuple[MergedChange, ...]:
    """The changes of the 90 days up to `today`, oldest first: not a bot's, not ours, not of memory alone. Raises
    RepositoryError (shallow-clone) where history does not reach back so far."""
    start = window_start(today)
    since = find_commit_of_day(workspace.repo, tip, start)
    changes = iter_merged_changes(workspace.repo, plan_range(workspace.repo, since, tip))
    return tuple(
        one for one in changes if start < merged_on(one) <= today and is_work(workspace, one)
    )


def window_start(today: date) -> date:
    """The day before the 90 days up to `today`; the first day that there is where it would be earlier."""
    return today - min(WINDOW, today - date.min)


def count_judged(
    workspace: Workspace, tip: str, changes: Collection[MergedChange], names: Collection[str]
) -> int:
    """How many of `changes` a record run has covered, teach nothing, or are among `names`: of an entry or episode."""
    cursor = find_cursor(workspace.repo, tip, memory_test(workspace))
    ahead = plan_range(workspace.repo, cursor.source if cursor else None, tip)
    pending = frozenset(sha for group in ahead.groups for sha in group)
    return sum(
        one.tip.sha not in pending
        or is_routine(title_of(one))
        or not names_of(one).isdisjoint(names)
        for one in changes
    )


def names_of(change: MergedChange) -> frozenset[str]:
    """The names by which an entry or an episode may speak of a change."""
    return names_of_change(change.number, (commit.sha for commit in change.commits))


def title_of(change: MergedChange) -> str:
    """What a change is called; one merged without a name by what its first own commit is called, if it has one."""
    if not re.fullmatch(MERGE_LINE, change.title):
        return change.title
    return next((commit.subject for commit in change.commits if len(commit.parents) < 2), "")


def own_commits(change: MergedChange) -> list[Commit]:
    """The commits that did the work: all but merges, or the merge itself where there is nothing else."""
    return [commit for commit in change.commits if len(commit.parents) < 2] or [change.tip]


def prose_of(commit: Commit) -> str:
    """What a message says, without what git, forges and tools add to it. Of a merge only its body is its own."""
    return _without_added(
        commit.message if len(commit.parents) < 2 else commit.message.partition("\n")[2]
    )


def _without_added(text: str) -> str:
    forms = (TRAILER, MERGE_LINE, MARK)
    return "\n".join(
        line
        for line in text.splitlines()
        if not any(re.fullmatch(form, line.strip()) for form in forms)
    )


def list_prose(commits: Iterable[Commit]) -> list[str]:
    """What messages say below their subjects."""
    return [prose_of(commit).partition("\n")[2] for commit in commits]


def list_paragraphs(texts: Iterable[str]) -> Iterator[str]:
    """The paragraphs of prose in texts of Markdown, each in one line: no headings, lists, code or quotations."""
    for text in texts:
        paragraphs = (
            " ".join(part.split()) for part in re.split(r"\n\s*\n", told(_without_added(text)))
        )
        yield from (one for one in paragraphs if one and one[0] not in "*-#/<|>`")


def is_routine(title: str) -> bool:
    """Whether a title is that of a release, a new version of a dependency, a typo, or a sponsor.

    >>> is_routine("Bump ruff from 0.1 to 0.2"), is_routine("Release 2.0"), is_routine("Release the lock on errors")
    (True, True, False)
    """
    return ROUTINE.match(title) is not None


def is_own_commit(commit: Commit) -> bool:
    """Whether a run of memory-ci made a commit."""
    return re.search(OWN, commit.message) is not None


def is_own_run(change: MergedChange) -> bool:
    """Whether a change is what runs of memory-ci committed, and nothing else."""
    return all(map(is_own_commit, own_commits(change)))


def is_work(workspace: Workspace, change: MergedChange) -> bool:
    """Whether people or their agents did something: not a bot's change, none of ours, and not of memory alone."""
    own, is_memory = own_commits(change), memory_test(workspace)
    bots = workspace.config.extraction.bot_authors
    return (
        not all(is_author(author_of(commit), bots) for commit in own)
        and not is_own_run(change)
        # A commit that touched nothing says something, if only in words.
        and not all(
            commit.files and all(is_memory(file.path) for file in commit.files) for commit in own
        )
    )


def merged_on(merged: MergedChange) -> date:
    """The day of the merge, in UTC."""
    return merged.tip.committed_at.astimezone(UTC).date()


def list_questions(
    workspace: Workspace, changes: Sequence[MergedChange], episodes: Iterable[Episode]
) -> list[MergedChange]:
    """The changes, of those given, whose titles ask for something that memory could know. Not those that only take
    others back, only talked (the outcome `neutral`), or only set memory-ci up."""
    talk = frozenset[str]().union(
        *(names_of_episode(one) for one in episodes if one.outcome == "neutral")
    )
    reverting = {
        revert.sha for revert in find_reverts(commit for one in changes for commit in one.commits)
    }
    return [
        change
        for change in changes
        if title_of(change)
        and talk.isdisjoint(names_of(change))
        and not is_revert([commit.sha for commit in own_commits(change)], reverting)
        and not is_setup(workspace, change)
    ]


def name_question(change: MergedChange) -> str:
    """`#128 The title`, as it may be shown to anybody: what must not be given to an agent is left out."""
    title = title_of(change)
    return change.label if is_unsafe(title) else f"{change.label} {title[:MAX_TITLE]}"


def is_setup(workspace: Workspace, change: MergedChange) -> bool:
    """Whether a change touched nothing but what sets memory-ci up, and memory."""
    is_memory = memory_test(workspace)
    paths = {file.path for commit in own_commits(change) for file in commit.files}
    others = {path for path in paths if not is_memory(path) and not OURS.fullmatch(path)}
    if not paths or not others <= SHARED:
        return False
    contents = Tree(workspace.repo, change.tip.sha).read(others, MAX_BYTES) if others else ()
    return others == {
        one.file.path for one in contents if one.data is not None and NAME in one.data
    }


def names_of_episode(episode: Episode) -> Set[str]:
    """The names of the change that an episode is of; its id alone says it as well."""
    kind, _, name = episode.id.partition("-")
    own = {f"{kind}:{name[:LEAST_WIDTH] if kind == 'commit' else name}"}
    return own | names_of_change(episode.action.pr, filter(None, [episode.action.commit]))
