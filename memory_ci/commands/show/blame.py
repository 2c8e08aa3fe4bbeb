"""Lines of files with the work that wrote them, the entries it was served, and those learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memory_ci.errors import UsageError
from memory_ci.gitrepo.edits import BlamedRange, blame_lines
from memory_ci.gitrepo.forges import find_number
from memory_ci.gitrepo.log import read_log
from memory_ci.gitrepo.repo import Repository
from memory_ci.lifecycle.episodes import combine
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace, list_view, load_memory
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.records.names import SHA_WIDTH, format_work_ref

MAX_FILES = 50  # Files of one piece of work whose lines are blamed.


def blame(workspace: Workspace, place: str, view: str | None) -> tuple[BlamedLines, ...]:
    """Return the lines of `PATH` or `PATH:A-B` with their work.

    Args:
        view: a revision; None is the work tree.

    Raises:
        RepositoryError: unknown-revision.
        UsageError: unknown-cite, if it is not a file or its lines.
    """
    path, lines = _parse_place(place)
    if path not in _list_existing(workspace, view, [path]):
        hint = "Name it from the top of the repository: src/client.py:10-20."
        raise UsageError(f"there is no file {path} here", slug="unknown-cite", hint=hint)
    located = load_memory(workspace, view).located
    episodes = _map_episodes(workspace, view)
    return tuple(
        _blame_file(workspace, path, view, lines=lines, located=located, episodes=episodes)
    )


def _parse_place(place: str) -> tuple[str, tuple[int, int] | None]:
    """Split `PATH:A-B` or `PATH:A` into path and lines; None is the whole file."""
    path, _, line_range = place.rpartition(":")
    first, _, last = line_range.partition("-")
    last = last or first
    if path and first.isdecimal() and last.isdecimal():
        return path, (int(first), int(last))
    return place, None


def _list_existing(workspace: Workspace, view: str | None, paths: Sequence[str]) -> set[str]:
    if not paths:
        return set()
    pathspecs = [f":(literal){path}" for path in paths]
    return {file.path for file in list_view(workspace, view, pathspecs)}


def list_lines_of(workspace: Workspace, prefix: str, view: str | None) -> tuple[BlamedLines, ...]:
    """Return the lines that were written by the work that an entry was learned from.

    Lines that later work has replaced are left out. At most MAX_FILES files are blamed.

    Args:
        workspace: the repository.
        prefix: the first characters of the entry's id.
        view: a revision; None is the work tree.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    memory = load_memory(workspace, view)
    entry = find_entry(memory.located, prefix, memory.findings).entry
    episodes = _map_episodes(workspace, view)
    paths = _list_changed_files(entry, episodes)
    existing_paths = _list_existing(workspace, view, paths)

    lines_of_entry = []
    for path in paths[:MAX_FILES]:
        if path not in existing_paths:
            continue
        all_lines = _blame_file(workspace, path, view, located=memory.located, episodes=episodes)
        for lines in all_lines:
            if entry.id in {learned.id for learned in lines.learned}:
                lines_of_entry.append(lines)
    return tuple(lines_of_entry)


def _list_changed_files(entry: Entry, episodes: Mapping[str, Episode]) -> list[str]:
    """Return the files that the work changed that an entry was learned from, each once.

    Args:
        entry: the entry.
        episodes: the episodes by reference to their work.
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
    *,
    lines: tuple[int, int] | None = None,
    located: Sequence[Located],
    episodes: Mapping[str, Episode],
) -> Iterator[BlamedLines]:
    """Yield the lines of a file with the work that wrote them.

    Args:
        workspace: the repository.
        path: the file.
        view: a revision; None is the work tree.
        lines: the first and last line; None is the whole file.
        located: the entries of memory.
        episodes: the episodes by reference to their work.
    """
    titles = {place.entry.id: place.entry.title for place in located}
    hunks = blame_lines(workspace.repo, path, lines, view)
    numbers = _find_numbers(workspace.repo, hunks)
    for hunk in hunks:
        number = numbers.get(hunk.sha)
        refs: tuple[str, ...] = ()
        if hunk.sha:
            refs = (format_work_ref(number, hunk.sha), f"commit:{hunk.sha[:SHA_WIDTH]}")
        episode = next((episodes[ref] for ref in refs if ref in episodes), None)
        yield BlamedLines(
            path=path,
            first=hunk.first,
            last=hunk.last,
            commit=hunk.sha,
            day=hunk.day,
            subject=hunk.subject,
            number=number,
            given=_list_served(episode, titles),
            learned=_list_learned(located, refs),
        )


def _find_numbers(repo: Repository, hunks: Sequence[BlamedRange]) -> dict[str, int | None]:
    """Return the number of the pull request of each commit, or None, by commit id."""
    shas = sorted({hunk.sha for hunk in hunks if hunk.sha})
    if not shas:
        return {}
    log = read_log(repo, "--no-walk", "--end-of-options", *shas)
    return {commit.sha: find_number(commit.message) for commit, _ in log}


def _list_served(episode: Episode | None, titles: Mapping[str, str]) -> tuple[NamedEntry, ...]:
    """List the entries that the work of an episode was served or used."""
    if episode is None:
        return ()
    ids = dict.fromkeys([*(served.id for served in episode.retrieved), *episode.used])
    return tuple(NamedEntry(id_, titles.get(id_, ""), id_ in episode.used) for id_ in ids)


def _list_learned(located: Sequence[Located], refs: Sequence[str]) -> tuple[NamedEntry, ...]:
    """List the entries that were learned from a piece of work, which has these references."""
    learned = []
    for place in located:
        if not set(refs).isdisjoint(_list_sources(place.entry)):
            learned.append(NamedEntry(place.entry.id, place.entry.title))
    return tuple(learned)


def _map_episodes(workspace: Workspace, view: str | None) -> dict[str, Episode]:
    """Map `pr:128` and `commit:9d0c3f2` to the episode of that work."""
    episodes: dict[str, Episode] = {}
    for episode in combine(load_episodes(workspace, view).tellings):
        action = episode.action
        request = f"pr:{action.pr}" if action.pr else ""
        episodes[request] = episode
        episodes[f"commit:{action.commit[:SHA_WIDTH]}"] = episode
    return episodes
