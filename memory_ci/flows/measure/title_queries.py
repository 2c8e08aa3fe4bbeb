"""Questions: the titles of merged changes that memory is asked with, and how those that find nothing are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set

from memory_ci.config import CONFIG_FILE
from memory_ci.flows.eligible import names_of, own_commits, title_of
from memory_ci.flows.screening import is_unsafe
from memory_ci.flows.workspace import Workspace, memory_test
from memory_ci.gitrepo.blobs import Tree
from memory_ci.lifecycle.health import SHORT, names_of_change
from memory_ci.lifecycle.reverts import find_reverts, is_revert
from memory_ci.records.episode import Episode
from memory_ci.records.history import MergedChange

MAX_TITLE = 200
MAX_BYTES = 1_000_000

OURS = re.compile(rf"{re.escape(CONFIG_FILE)}|\.github/workflows/memory[^/]*\.ya?ml")
"""Files that are there for memory-ci alone."""

SHARED = frozenset({".gitattributes", ".pre-commit-config.yaml"})
"""Files that are ours as well where they name us."""

NAME = b"memory-ci"


def list_questions(
    workspace: Workspace, changes: Sequence[MergedChange], episodes: Iterable[Episode]
) -> list[MergedChange]:
    """The changes, of those given, whose titles ask for something that memory could know.

    Not those that only take others back, only talked (the outcome `neutral`), or only set memory-ci up.
    """
    talk = frozenset[str]().union(*(names_of_episode(one) for one in episodes if one.outcome == "neutral"))
    reverting = {revert.sha for revert in find_reverts(commit for one in changes for commit in one.commits)}
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
    return others == {one.file.path for one in contents if one.data is not None and NAME in one.data}


def names_of_episode(episode: Episode) -> Set[str]:
    """The names of the change that an episode is of; its id alone says it as well."""
    kind, _, name = episode.id.partition("-")
    own = {f"{kind}:{name[:SHORT] if kind == 'commit' else name}"}
    return own | names_of_change(episode.action.pr, filter(None, [episode.action.commit]))
