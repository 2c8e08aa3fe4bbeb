"""The memory and history that health is measured in, read once for all metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import date

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory import eligible
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.screening import screen_file
from memory_ci.memory.workspace import (
    Workspace,
    list_memory_files,
    load_files,
    readable_path,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import MergedChange
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.search import list_entries

MAX_QUESTIONS = 300  # Titles of the newest merged changes that are asked of the index.
MAX_NAMED_PLACES = 3  # Places that cannot be read or served that are named in a basis.
NO_QUESTION = "nothing was merged in the last 90 days that could be asked for"


class HealthView(msgspec.Struct, frozen=True):
    """The tree and the day that health is measured for.

    Attributes:
        commit: the commit whose memory is measured; None for the work tree, "" for the time before
            the first commit.
        tip: the commit whose history of merged changes counts.
        today: the day that counts as today.
        checked_out: the commit that is checked out, for the work tree.
    """

    commit: str | None
    tip: str | None
    today: date
    checked_out: str | None = None


class HealthInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and history that the metrics are counted in.

    Attributes:
        index: an index in memory of all entries that can be served.
        active: the entries of the index that are in force.
        known_ids: ids of all entries, and of those that they replaced.
        unserved_places: places in memory files, as `path:line`, whose entries cannot be read, or
            are withheld as unsafe; the index does not hold them.
        changes: the eligible merged changes of the last 90 days, oldest first.
        history_error: why history cannot be read; "" if it can.
    """

    workspace: Workspace
    view: HealthView
    index: Index
    active: tuple[Located, ...]
    known_ids: frozenset[str]
    unserved_places: tuple[str, ...]
    changes: tuple[MergedChange, ...]
    episodes: tuple[Episode, ...]
    history_error: str

    @property
    def today(self) -> date:
        """The day that counts as today."""
        return self.view.today

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The active entries."""
        return tuple(located.entry for located in self.active)

    def list_questions(self) -> list[MergedChange]:
        """Return the newest merged changes whose titles memory could answer, oldest first."""
        changes = eligible.list_question_changes(self.workspace, self.changes, self.episodes)
        return changes[-MAX_QUESTIONS:]

    def list_unreached_ids(self, reached_ids: Set[str]) -> tuple[str, ...]:
        """Return the ids of the active entries that are not among `reached_ids`, newest first."""
        return tuple(
            entry.id for entry in sort_newest_first(self.entries) if entry.id not in reached_ids
        )

    def describe_unserved_places(self) -> str:
        """Return the places that the index does not hold, in parentheses; "" if it holds all.

        It is the end of a sentence: ` (MEMORY.md:3, MEMORY.md:9, a.md:1 and 4 more)`.
        """
        if not self.unserved_places:
            return ""
        names = ", ".join(self.unserved_places[:MAX_NAMED_PLACES])
        unnamed_count = len(self.unserved_places) - MAX_NAMED_PLACES
        if unnamed_count > 0:
            return f" ({names} and {unnamed_count} more)"
        return f" ({names})"


@contextmanager
def open_inputs(workspace: Workspace, view: HealthView) -> Iterator[HealthInputs]:
    """Read the memory and history that health is measured from.

    The entries are put into a search index in memory, for the index in the clone is of another
    commit. It is open inside the block.

    Args:
        workspace: the repository and its configuration.
        view: the commit or work tree to measure, and the day that counts as today.
    """
    files: tuple[TreeFile, ...] = ()
    episodes: tuple[Episode, ...] = ()
    is_before_first_commit = view.commit == ""
    if not is_before_first_commit:
        files = list_memory_files(workspace, view.commit)
        episodes = apply_amendments(load_episodes(workspace, view.commit).records)
    loaded_files = list(load_files(workspace, files))
    screened_files = [screen_file(file) for file in loaded_files]  # without unsafe entries
    changes, history_error = _list_changes(workspace, view)

    with open_index(None) as index:
        blob_ids = {readable_path(file): file.oid for file in files}
        sync(index, blob_ids, lambda _: screened_files)
        located_entries = list_entries(index)
        yield HealthInputs(
            workspace=workspace,
            view=view,
            index=index,
            active=tuple(
                located for located in located_entries if is_in_force(located.entry, view.today)
            ),
            known_ids=_list_known_ids(workspace, view, located_entries),
            unserved_places=tuple(_list_unserved_places(loaded_files, screened_files)),
            changes=changes,
            episodes=episodes,
            history_error=history_error,
        )


def _list_unserved_places(
    loaded_files: Sequence[LoadedFile], screened_files: Sequence[LoadedFile]
) -> list[str]:
    """Return the places in memory files, as `path:line`, whose entries cannot be served.

    Args:
        loaded_files: the memory files; their findings of level `error` are unreadable places.
        screened_files: the same files without the entries that are withheld as unsafe.
    """
    unreadable = set()
    for file in loaded_files:
        for finding in file.findings:
            if finding.level == "error":
                unreadable.add((finding.path, finding.line))

    withheld = []
    for loaded_file, screened_file in zip(loaded_files, screened_files, strict=True):
        safe_places = {(located.path, located.line) for located in screened_file.entries}
        for located in loaded_file.entries:
            place = (located.path, located.line)
            if place not in safe_places:
                withheld.append(place)
    return [f"{path}:{line}" for path, line in [*sorted(unreadable), *withheld]]


def _list_changes(workspace: Workspace, view: HealthView) -> tuple[tuple[MergedChange, ...], str]:
    """Return the merged changes of the last 90 days that memory could learn from, and an error.

    The error says why history cannot be read; it is "" if it can.
    """
    if view.tip is None:
        return (), "there is no commit yet"
    try:
        return eligible.list_eligible(workspace, view.tip, view.today), ""
    except RepositoryError as error:
        return (), error.message.splitlines()[0]


def _list_known_ids(
    workspace: Workspace, view: HealthView, located_entries: Sequence[Located]
) -> frozenset[str]:
    """Return the ids of the entries, and of replaced entries that an earlier commit has."""
    ids = frozenset(located.entry.id for located in located_entries)
    replaced_ids: set[str] = set()
    for located in located_entries:
        replaced_ids.update(located.entry.supersedes)
    replaced_ids -= ids
    if not replaced_ids:
        return ids

    past_ids: set[str] = set()
    for head in list_history_heads(view):
        past_ids |= list_past_ids(workspace, head)
    return ids | (replaced_ids & past_ids)


def list_history_heads(view: HealthView) -> list[str]:
    """Return the commits whose history counts: the measured one, and the tip of the branch.

    For the work tree the checked-out commit is the measured one. The two commits differ where a
    branch of work is not merged yet.
    """
    measured_commit = view.checked_out if view.commit is None else view.commit
    heads = [head for head in (measured_commit, view.tip) if head]
    return list(dict.fromkeys(heads))


def sort_newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries sorted by the day of their creation, the newest first."""
    return sorted(entries, key=lambda entry: (entry.created_at or date.min, entry.id), reverse=True)
