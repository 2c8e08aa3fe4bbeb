"""Blame: for each line of a file the work that brought it, what that was given and used, and what was learned of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory_ci.errors import UsageError
from memory_ci.flows.episodes import load_episodes
from memory_ci.flows.lookup import find_entry
from memory_ci.flows.workspace import Workspace, list_view, load_memory
from memory_ci.gitrepo.blame import blame_lines
from memory_ci.gitrepo.forges import find_number
from memory_ci.gitrepo.log import read_log
from memory_ci.lifecycle.episodes import combine
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.records.names import SHA_WIDTH, work_ref

MAX_FILES = 50
"""Files of one piece of work whose lines are looked up."""


def blame(workspace: Workspace, place: str, view: str | None) -> tuple[BlamedLines, ...]:
    """The lines of PATH or PATH:A-B, as the work tree (None) or a revision has them, with their work.

    Raises UsageError (unknown-cite) for what is no file or no lines, RepositoryError (unknown-revision).
    """
    path, lines = _read_place(workspace, place, view)
    located = load_memory(workspace, view).located
    return _blame_file(workspace, path, lines, view, located, _episodes_by_ref(workspace, view))


def _blame_file(
    workspace: Workspace,
    path: str,
    lines: tuple[int, int] | None,
    view: str | None,
    located: Sequence[Located],
    episodes: Mapping[str, Episode],
) -> tuple[BlamedLines, ...]:
    entries = {one.entry.id: one.entry for one in located}
    brought = blame_lines(workspace.repo, path, lines, view)
    shas = sorted({one.sha for one in brought if one.sha})
    log = read_log(workspace.repo, "--no-walk", "--end-of-options", *shas) if shas else ()
    numbers = {commit.sha: find_number(commit.message) for commit, _ in log}
    found = []
    for one in brought:
        number = numbers.get(one.sha)
        ref, short = work_ref(number, one.sha), one.sha[:SHA_WIDTH]
        episode = episodes.get(ref) or episodes.get(f"commit:{short}")
        found.append(
            BlamedLines(
                path=path,
                first=one.first,
                last=one.last,
                commit=one.sha,
                day=one.day,
                subject=one.subject,
                number=number,
                given=_list_given(episode, entries) if episode and one.sha else (),
                learned=_list_learned({ref, f"commit:{short}"}, located) if one.sha else (),
            )
        )
    return tuple(found)


def list_lines_of(workspace: Workspace, prefix: str, view: str | None) -> tuple[BlamedLines, ...]:
    """The lines that the work which taught an entry brought, and that stand today, of at most MAX_FILES files.

    Raises UsageError (unknown-entry).
    """
    memory = load_memory(workspace, view)
    located = memory.located
    entry, episodes = find_entry(located, prefix, memory.findings).entry, _episodes_by_ref(workspace, view)
    taught = set((entry.source or "").split())
    files = dict.fromkeys(path for ref in taught if ref in episodes for path in episodes[ref].action.files)
    pathspecs = [f":(literal){path}" for path in files]
    here = {file.path for file in list_view(workspace, view, pathspecs)} if files else set()
    found = [
        one
        for path in list(files)[:MAX_FILES]
        if path in here
        for one in _blame_file(workspace, path, None, view, located, episodes)
    ]
    return tuple(one for one in found if any(named.id == entry.id for named in one.learned))


def _read_place(workspace: Workspace, place: str, view: str | None) -> tuple[str, tuple[int, int] | None]:
    path, _, range_ = place.rpartition(":")
    first, _, last = range_.partition("-")
    lines = (int(first), int(last or first)) if path and first.isdecimal() and (last or first).isdecimal() else None
    path = path if lines else place
    if path not in {file.path for file in list_view(workspace, view, [f":(literal){path}"])}:
        hint = "Name it from the top of the repository: src/client.py:10-20."
        raise UsageError(f"there is no file {path} here", slug="unknown-cite", hint=hint)
    return path, lines


def _episodes_by_ref(workspace: Workspace, view: str | None) -> dict[str, Episode]:
    found: dict[str, Episode] = {}
    for one in combine(load_episodes(workspace, view).tellings):
        for ref in (f"pr:{one.action.pr}" if one.action.pr else "", f"commit:{one.action.commit[:SHA_WIDTH]}"):
            found[ref] = one
    return found


def _list_given(episode: Episode, entries: Mapping[str, Entry]) -> tuple[NamedEntry, ...]:
    used = set(episode.used)
    ids = dict.fromkeys([*(given.id for given in episode.retrieved), *episode.used])
    titles = {key: entries[key].title if key in entries else "" for key in ids}
    return tuple(NamedEntry(key, title, key in used) for key, title in titles.items())


def _list_learned(refs: set[str], located: Iterable[Located]) -> tuple[NamedEntry, ...]:
    taught = (one.entry for one in located if refs.intersection((one.entry.source or "").split()))
    return tuple(NamedEntry(entry.id, entry.title) for entry in taught)
