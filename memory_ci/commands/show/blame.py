"""Lines of files with the work that wrote them, the entries it was served, and those learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_ci.errors import UsageError
from memory_ci.gitrepo.edits import BlamedRange, blame_lines
from memory_ci.gitrepo.forges import find_number
from memory_ci.gitrepo.log import read_log
from memory_ci.gitrepo.repo import Repository
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace, list_view, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.records.names import SHA_WIDTH, format_work_ref

MAX_FILES = 50  # Files of one piece of work whose lines are blamed.


def blame(workspace: Workspace, place: str, view: str | None) -> tuple[BlamedLines, ...]:
    """Return the lines of a file, each block with the work that wrote it.

    Args:
        workspace: the repository and its configuration.
        place: the file, or some of its lines: `PATH` or `PATH:A-B`.
        view: a revision; None is the work tree.

    Raises:
        RepositoryError: unknown-revision.
        UsageError: unknown-cite, if it is not a file or its lines.
    """
    path, line_range = _parse_place(place)
    if path not in _list_existing(workspace, view, [path]):
        hint = "Name it from the top of the repository: src/client.py:10-20."
        raise UsageError(f"there is no file {path} here", slug="unknown-cite", hint=hint)
    memory = _load_blamed_memory(workspace, view)
    return tuple(_blame_file(workspace, path, view, memory, line_range))


class BlamedMemory(NamedTuple):
    """The memory of a view that lines are joined with.

    Attributes:
        located: the entries.
        episodes: the episodes, the records of work, by references to the work.
    """

    located: Sequence[Located]
    episodes: Mapping[str, Episode]


def _load_blamed_memory(workspace: Workspace, view: str | None) -> BlamedMemory:
    return BlamedMemory(load_memory(workspace, view).located, _map_episodes(workspace, view))


def _parse_place(place: str) -> tuple[str, tuple[int, int] | None]:
    """Split `PATH:A-B` or `PATH:A` into the path, and the first and last line or None."""
    path, _, line_range = place.rpartition(":")
    first_line, _, last_line = line_range.partition("-")
    last_line = last_line or first_line
    if path and first_line.isdecimal() and last_line.isdecimal():
        return path, (int(first_line), int(last_line))
    return place, None


def _list_existing(workspace: Workspace, view: str | None, paths: Sequence[str]) -> set[str]:
    if not paths:
        return set()
    pathspecs = [f":(literal){path}" for path in paths]
    return {file.path for file in list_view(workspace, view, pathspecs)}


def list_lines_of_entry(
    workspace: Workspace, prefix: str, view: str | None
) -> tuple[BlamedLines, ...]:
    """Return the lines of code whose last change is the work that an entry was learned from.

    At most MAX_FILES files are blamed.

    Args:
        workspace: the repository.
        prefix: the first characters of the entry's id.
        view: a revision; None is the work tree.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    all_entries = load_memory(workspace, view)
    entry = find_entry(all_entries.located, prefix, all_entries.findings).entry
    memory = BlamedMemory(all_entries.located, _map_episodes(workspace, view))
    paths = _list_changed_files(entry, memory.episodes)
    existing_paths = _list_existing(workspace, view, paths)

    blocks_of_entry = []
    for path in paths[:MAX_FILES]:
        if path not in existing_paths:
            continue
        for block in _blame_file(workspace, path, view, memory):
            if entry.id in {learned_entry.id for learned_entry in block.learned_entries}:
                blocks_of_entry.append(block)
    return tuple(blocks_of_entry)


def _list_changed_files(entry: Entry, episodes: Mapping[str, Episode]) -> list[str]:
    """Return the files that were changed by the work that an entry was learned from, each once.

    Args:
        entry: the entry.
        episodes: the episodes, the records of work, by references to the work.
    """
    paths: dict[str, None] = {}
    for ref in set(_list_sources(entry)):
        if ref in episodes:
            paths |= dict.fromkeys(episodes[ref].action.files)
    return list(paths)


def _list_sources(entry: Entry) -> list[str]:
    """Return references to the work that an entry was learned from, such as `pr:128`."""
    return (entry.source or "").split()


def _blame_file(
    workspace: Workspace,
    path: str,
    view: str | None,
    memory: BlamedMemory,
    line_range: tuple[int, int] | None = None,
) -> Iterator[BlamedLines]:
    """Yield the lines of a file in blocks, each with the work that wrote it.

    Of the work a block has the commit, the entries that it was served, and those learned from it.

    Args:
        workspace: the repository.
        path: the file.
        view: a revision; None is the work tree.
        memory: the entries and episodes of the view.
        line_range: the first and last line; None is the whole file.
    """
    titles = {located.entry.id: located.entry.title for located in memory.located}
    hunks = blame_lines(workspace.repo, path, line_range, view)
    numbers = _find_numbers(workspace.repo, hunks)
    for hunk in hunks:
        number = numbers.get(hunk.sha)
        refs: tuple[str, ...] = ()
        if hunk.sha:  # Lines that are not committed have none.
            refs = (format_work_ref(number, hunk.sha), f"commit:{hunk.sha[:SHA_WIDTH]}")
        episode = _find_episode(memory.episodes, refs)
        yield BlamedLines(
            path=path,
            first=hunk.first,
            last=hunk.last,
            commit=hunk.sha,
            day=hunk.day,
            subject=hunk.subject,
            number=number,
            served_entries=_list_served(episode, titles),
            learned_entries=_list_learned(memory.located, refs),
        )


def _find_episode(episodes: Mapping[str, Episode], refs: Iterable[str]) -> Episode | None:
    for ref in refs:
        if ref in episodes:
            return episodes[ref]
    return None


def _find_numbers(repo: Repository, hunks: Sequence[BlamedRange]) -> dict[str, int | None]:
    """Return the number of the pull request of each commit, or None, by commit id."""
    shas = sorted({hunk.sha for hunk in hunks if hunk.sha})
    if not shas:
        return {}
    log = read_log(repo, "--no-walk", "--end-of-options", *shas)
    return {commit.sha: find_number(commit.message) for commit, _ in log}


def _list_served(episode: Episode | None, titles: Mapping[str, str]) -> tuple[NamedEntry, ...]:
    """List the entries that were served in the work of an episode, or that the work used."""
    if episode is None:
        return ()
    served_ids = [served.id for served in episode.retrieved]
    unique_ids = dict.fromkeys([*served_ids, *episode.used])
    return tuple(
        NamedEntry(entry_id, titles.get(entry_id, ""), is_used=entry_id in episode.used)
        for entry_id in unique_ids
    )


def _list_learned(
    located_entries: Sequence[Located], refs: Sequence[str]
) -> tuple[NamedEntry, ...]:
    """Return the entries whose source is a piece of work, which is named by any of `refs`."""
    learned_entries = []
    for located in located_entries:
        if not set(refs).isdisjoint(_list_sources(located.entry)):
            learned_entries.append(NamedEntry(located.entry.id, located.entry.title))
    return tuple(learned_entries)


def _map_episodes(workspace: Workspace, view: str | None) -> dict[str, Episode]:
    """Return the episodes of work by references to it, such as `pr:128` and `commit:9d0c3f2`."""
    episodes: dict[str, Episode] = {}
    for episode in apply_amendments(load_episodes(workspace, view).records):
        action = episode.action
        if action.pr:
            episodes[f"pr:{action.pr}"] = episode
        if action.commit:
            episodes[f"commit:{action.commit[:SHA_WIDTH]}"] = episode
    return episodes
