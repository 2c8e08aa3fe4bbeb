"""Lines of files with the work that wrote them, the entries it was served, and those learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memory_ci.errors import UsageError
from memory_ci.gitrepo.edits import Brought, blame_lines
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
    return tuple(_blame_file(workspace, path, lines, view, located, episodes))


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
    """Return the lines that the work which taught an entry wrote and that still exist.

    At most MAX_FILES files are blamed.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    memory = load_memory(workspace, view)
    episodes = _map_episodes(workspace, view)
    entry = find_entry(memory.located, prefix, memory.findings).entry
    files: dict[str, None] = {}
    for ref in set((entry.source or "").split()):
        if ref in episodes:
            files.update(dict.fromkeys(episodes[ref].action.files))
    existing = _list_existing(workspace, view, list(files))

    taught = []
    for path in list(files)[:MAX_FILES]:
        if path not in existing:
            continue
        all_lines = _blame_file(workspace, path, None, view, memory.located, episodes)
        taught += [lines for lines in all_lines if _is_learned(entry, lines)]
    return tuple(taught)


def _is_learned(entry: Entry, lines: BlamedLines) -> bool:
    return any(named.id == entry.id for named in lines.learned)


def _blame_file(
    workspace: Workspace,
    path: str,
    lines: tuple[int, int] | None,
    view: str | None,
    located: Sequence[Located],
    episodes: Mapping[str, Episode],
) -> Iterator[BlamedLines]:
    """Yield the lines of a file; with the entries of memory and the episodes by reference."""
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
            learned=tuple(
                NamedEntry(entry.id, entry.title) for entry in _list_learned(located, refs)
            ),
        )


def _find_numbers(repo: Repository, hunks: Sequence[Brought]) -> dict[str, int | None]:
    """Return the number of the request of each commit."""
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


def _list_learned(located: Sequence[Located], refs: Sequence[str]) -> list[Entry]:
    entries = [place.entry for place in located]
    return [entry for entry in entries if set(refs) & set((entry.source or "").split())]


def _map_episodes(workspace: Workspace, view: str | None) -> dict[str, Episode]:
    """Map `pr:128` and `commit:9d0c3f2` to the episode of that work."""
    episodes: dict[str, Episode] = {}
    for episode in combine(load_episodes(workspace, view).tellings):
        action = episode.action
        request = f"pr:{action.pr}" if action.pr else ""
        episodes[request] = episode
        episodes[f"commit:{action.commit[:SHA_WIDTH]}"] = episode
    return episodes
