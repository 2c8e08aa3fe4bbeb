"""What maintainers did to proposals: an entry taken out of the memory pull request does not come back.

The decision is kept in `.memory/rejected.txt`, written by memory-ci in that same pull request: a line for each, the
hash of what it said and its title. It is history like any other; who changes their mind takes the line out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from memory_ci.extraction.entries import content_key
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.workspace import Workspace, load_memory, memory_test, read_bytes
from memory_ci.gitrepo.history import STEP
from memory_ci.gitrepo.log import FILES, list_committers, read_log
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.change import Change
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.store.apply import apply_changes
from memory_ci.store.layout import is_fragment
from memory_ci.text import shorten

REJECTED_FILE = ".memory/rejected.txt"
HEADING = "# Learnings that a maintainer took out of the memory pull request: they are not proposed again.\n"
KEEP = "keep"
"""The step of the commit that carries over what maintainers decided."""

TITLE_WIDTH = 90

Kept = Mapping[str, Located]
"""Entries of one tree, by id."""


class Verdicts(NamedTuple):
    """What maintainers decided on the memory branch: entries they took out, and those they wrote or changed.

    `rejected` are lines of REJECTED_FILE. `written` has for each entry what it was before them, None where there was
    none. `obstacle` says why nothing can be made of it, and the branch must stay as it is.
    """

    rejected: tuple[str, ...] = ()
    taken_out: tuple[Entry, ...] = ()
    written: tuple[tuple[Located, Entry | None], ...] = ()
    obstacle: str = ""


def list_rejected(workspace: Workspace, rev: str) -> frozenset[str]:
    """The content keys of what was rejected."""
    return frozenset(line.split()[0] for line in _read_lines(workspace, rev))


def read_verdicts(workspace: Workspace, base: str, branch: str) -> Verdicts:
    """What the commits of `branch` that are neither in `base` nor ours did to its memory, and what we kept of it."""
    commits = list(_foreign_commits(workspace, base, branch))
    gone: dict[str, Entry] = {}
    before: dict[str, Entry | None] = {}
    for commit in commits:
        old, new = _entries(workspace, commit.parents[0]), _entries(workspace, commit.sha)
        gone |= {key: place.entry for key, place in old.items() if key not in new}
        changed = (key for key, place in new.items() if key not in old or old[key].entry != place.entry)
        for key in changed:
            before.setdefault(key, old[key].entry if key in old else None)
    last = _entries(workspace, branch) if commits else {}
    taken_out = tuple(entry for key, entry in gone.items() if key not in last)
    return Verdicts(
        rejected=tuple(dict.fromkeys((*_read_lines(workspace, branch), *map(_line, taken_out)))),
        taken_out=taken_out,
        written=tuple((last[key], old) for key, old in before.items() if key in last),
        obstacle=_obstacle(workspace, branch, commits),
    )


def carry_over(workspace: Workspace, base: str, verdicts: Verdicts) -> dict[str, bytes | None]:
    """The files that make the verdicts true on `base`; what is decided there already is left as it is."""
    changes = tuple(_list_changes(workspace, base, verdicts))
    content = read_bytes(workspace, base, {*(change.path for change in changes), REJECTED_FILE})
    files = apply_changes(content, changes)
    known = list_rejected(workspace, base)
    lines = [f"{line}\n" for line in verdicts.rejected if line.split()[0] not in known]
    if lines:
        files[REJECTED_FILE] = content.get(REJECTED_FILE, HEADING.encode()) + "".join(lines).encode()
    return files


def _obstacle(workspace: Workspace, branch: str, commits: Sequence[Commit]) -> str:
    """Why the work of others on the branch cannot be carried over."""
    is_memory = memory_test(workspace)
    if any(not is_memory(file.path) for commit in commits for file in commit.files):
        return "others changed more than memory there"
    broken = [finding for finding in load_memory(workspace, branch).findings if finding.level == "error"]
    if commits and broken:
        return f"{broken[0].path}:{broken[0].line} cannot be read there: {broken[0].message}"
    return ""


def _list_changes(workspace: Workspace, base: str, verdicts: Verdicts) -> Iterator[Change]:
    """What maintainers wrote, put in; what they took out of what the base has, taken out there as well."""
    kept = _entries(workspace, base)
    past = list_past_ids(workspace, base) if verdicts.written else frozenset()
    for place, old in verdicts.written:
        known = kept.get(place.entry.id)
        if _is_open(known, old, place, past):
            kind: Literal["update", "add"] = "update" if known else "add"
            path = known.path if known else place.path
            yield Change(step="consolidate", kind=kind, path=path, entry=place.entry, why="")
    for entry in verdicts.taken_out:
        known = kept.get(entry.id)
        if known is not None and not is_fragment(known.path) and _line(known.entry) == _line(entry):
            yield Change(step="consolidate", kind="remove", path=known.path, entry=known.entry, why="")


def _is_open(known: Located | None, old: Entry | None, place: Located, past: frozenset[str]) -> bool:
    """Whether the base has not decided otherwise: it has the entry as it was before the edit, or never had it."""
    if known is None:
        return place.entry.id not in past
    return known.entry == old and known.entry != place.entry


def _line(entry: Entry) -> str:
    return f"{content_key(entry.title, entry.body)} {shorten(entry.title, TITLE_WIDTH)}"


def _read_lines(workspace: Workspace, rev: str) -> list[str]:
    text = read_bytes(workspace, rev, [REJECTED_FILE]).get(REJECTED_FILE, b"").decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _entries(workspace: Workspace, rev: str) -> Kept:
    return {place.entry.id: place for place in load_memory(workspace, rev).located}


def _foreign_commits(workspace: Workspace, base: str, branch: str) -> Iterator[Commit]:
    """Commits of the branch by others, oldest first; a merge brings what is judged elsewhere.

    Ours say their step and are committed by us: an amended one is the work of who amended it, and one of step KEEP
    carries what others decided.
    """
    from memory_ci.gitrepo.writer import IN_ACTIONS, MEMORY_CI  # GitPython: 75 ms, only to publish

    ours = {MEMORY_CI.email, IN_ACTIONS.email}
    committers = list_committers(workspace.repo, base, branch)
    asked = ("--reverse", "--topo-order", "--no-merges", *FILES, "--no-renames", "--end-of-options", branch, f"^{base}")
    for commit, _ in read_log(workspace.repo, *asked, "--"):
        steps = {value for _, value in find_trailers(commit.message, (STEP,))}
        is_ours = steps - {KEEP} and committers[commit.sha] in ours
        if commit.parents and not is_ours:
            yield commit
