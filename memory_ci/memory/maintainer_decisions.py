"""What maintainers did to proposals: what they take out of the memory pull request does not come back, and edits stay.

What they took out is kept in `.memory/rejected.txt`, written by memory-ci in that same pull request: a line for each,
the hash of what it said and its title, or the path of an episode. It is history like any other; who changes their mind
takes the line out. How their decisions come onto the branch that is made anew: `flows.publish.carry_over`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_ci.extraction.entries import content_key
from memory_ci.gitrepo.history import RANGE, STEP
from memory_ci.gitrepo.log import FILES, list_committers, read_log
from memory_ci.gitrepo.repo import find_merge_base
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.forgotten import REJECTED_FILE, read_rejected
from memory_ci.memory.workspace import Snapshot, Workspace, holds_entries, memory_test, workspace_at
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.store.document import parse_memory_file
from memory_ci.store.episodes import find_month, is_episode_path, month_path, parse_episode_file
from memory_ci.text import shorten

KEEP = "keep"  # The step of the commit that carries over what maintainers decided.
TITLE_WIDTH = 90


class Edit(NamedTuple):
    """An edit of one entry by maintainers: its place now, the entry before their first edit, and what they changed.
    `fields` has for each field the values from which it may change, and the value it gets. `moved_from` is the file in
    which they found the entry, if that is another."""

    place: Located
    first: Entry
    fields: Mapping[str, tuple[tuple[object, ...], object]]
    moved_from: str = ""


class Touched(NamedTuple):
    """A file that maintainers changed: what they found and what they left, None where there is none."""

    path: str
    old: bytes | None
    new: bytes | None


class MaintainerDecisions(NamedTuple):
    """What maintainers decided on the memory branch: entries they took out, edited or added, and files they touched.
    `rejected` are lines of REJECTED_FILE, `released` those that they took out again. `obstacle` says why nothing can be
    made of it, and the branch must stay as it is."""

    rejected: tuple[str, ...] = ()
    taken_out: tuple[Entry, ...] = ()
    edits: tuple[Edit, ...] = ()
    touched: tuple[Touched, ...] = ()
    released: frozenset[str] = frozenset()
    obstacle: str = ""


def list_rejected(snapshot: Snapshot) -> frozenset[str]:
    """The content keys of what was rejected."""
    return frozenset(line.split()[0] for line in read_rejected(snapshot))


def list_rejected_paths(snapshot: Snapshot) -> frozenset[str]:
    """The episode files that were rejected."""
    return frozenset(line for line in read_rejected(snapshot) if is_episode_path(line))


def read_decisions(
    workspace: Workspace,
    base: str,
    branch: str,
    boxes: Boxes | None = None,
    *,
    with_ours: bool = False,
    with_ranges: bool = True,
) -> MaintainerDecisions:
    """What the commits of `branch` that are neither in `base` nor ours did to its memory, and what we kept of it.

    An entry whose box was unticked counts as taken out, a line whose box was ticked as taken out of REJECTED_FILE.
    `with_ours`: what our own commits added or edited there is to stay as well. `with_ranges`: what those of a range
    that was asked for did is to stay, for a run that begins at the cursor does not read that.
    """
    boxes = boxes or Boxes()
    fork = find_merge_base(workspace.repo, base, branch) or base
    every = list(_list_commits(workspace, fork, base, branch))
    commits = [commit for commit, is_ours in every if not is_ours]
    ranges = {
        one.sha
        for one, is_ours in every
        if is_ours and with_ranges and find_trailers(one.message, (RANGE,))
    }
    stay = [commit for commit, is_ours in every if with_ours or not is_ours or commit.sha in ranges]
    tip = workspace.at(branch)
    lines = read_rejected(tip)
    if not commits and not boxes.unticked and not boxes.taken_back and not stay:
        return MaintainerDecisions(rejected=tuple(dict.fromkeys(lines)))
    back = frozenset(line for line in lines if line.split()[0] in boxes.taken_back)
    lines = [line for line in lines if line not in back]
    begun = workspace.at(fork).places
    gone, edits = _read_edits(workspace, commits, begun)
    if len(stay) > len(commits):
        edits = _read_edits(workspace, stay, begun)[1]
    unticked = {key: place.entry for key, place in tip.places.items() if key in boxes.unticked}
    for key, entry in unticked.items():
        gone[key] = tuple(dict.fromkeys((edits[key].first if key in edits else entry, entry)))
    last = tip.places.keys() - unticked.keys()
    released = set(
        back
    )  # with the lines that a commit took out: whoever did that changed their mind
    for commit in commits:
        if any(file.path == REJECTED_FILE for file in commit.files):
            before, after = workspace.at(commit.parents[0]), workspace.at(commit.sha)
            released |= set(read_rejected(before)).difference(read_rejected(after), lines)
    left_out = (entry for key, versions in gone.items() if key not in last for entry in versions)
    taken_out = tuple(entry for entry in left_out if line_of(entry) not in released)
    touched = tuple(
        file
        for file in _read_touched(workspace, commits if with_ours else stay)
        if file.new is not None or file.path not in released
    )
    deleted = (file.path for file in touched if file.new is None and is_episode_path(file.path))
    lines += [path for path in deleted if path.isprintable()]
    return MaintainerDecisions(
        rejected=tuple(dict.fromkeys((*lines, *map(line_of, taken_out)))),
        released=frozenset(released),
        taken_out=taken_out,
        edits=tuple(edit for key, edit in edits.items() if key in last),
        touched=touched,
        obstacle=_obstacle(tip, base, commits, touched) if commits else "",
    )


def line_of(entry: Entry) -> str:
    """The line of REJECTED_FILE for an entry."""
    return f"{content_key(entry.title, entry.body)} {shorten(entry.title, TITLE_WIDTH)}"


def prose_of(data: bytes | None) -> list[str]:
    """The words of a memory file that stand beside its entries."""
    segments = parse_memory_file("", data or b"").segments
    return [word for segment in segments if segment.entry is None for word in segment.raw.split()]


def changes_prose(file: Touched) -> bool:
    """Whether maintainers changed words of a memory file that stand beside its entries."""
    return prose_of(file.old) != prose_of(file.new)


def _read_edits(
    workspace: Workspace, commits: Sequence[Commit], fork: Mapping[str, Located]
) -> tuple[dict[str, tuple[Entry, ...]], dict[str, Edit]]:
    """(what was taken out, as it was found and as it was last; what was edited or added), by id."""
    gone: dict[str, tuple[Entry, ...]] = {}
    edits: dict[str, Edit] = {}
    for commit in commits:
        old, new = workspace.at(commit.parents[0]).places, workspace.at(commit.sha).places
        for key in old.keys() - new.keys():
            found = edits[key].first if key in edits else old[key].entry
            gone[key] = tuple(dict.fromkeys((found, old[key].entry)))
        for key, place in new.items():
            before = old.get(key)
            if before is None or (before.entry, before.path) != (place.entry, place.path):
                edits[key] = _edited(edits.get(key), before, place, fork.get(key))
    return gone, edits


def _edited(
    known: Edit | None, before: Located | None, place: Located, fork: Located | None
) -> Edit:
    """One more commit of an entry: a field may stand as it was before the first of them, or where the branch began."""
    was = before or (known.place if known else None)
    if was is None:
        return Edit(place, place.entry, {})
    fields = dict(known.fields) if known else {}
    for name in place.entry.__struct_fields__:
        then, now = getattr(was.entry, name), getattr(place.entry, name)
        if then != now:
            begun = (getattr(fork.entry, name),) if fork else ()
            fields[name] = (fields[name][0] if name in fields else (then, *begun), now)
    origin = known.moved_from or known.place.path if known else was.path
    return Edit(
        place, known.first if known else was.entry, fields, origin if origin != place.path else ""
    )


def _read_touched(workspace: Workspace, commits: Sequence[Commit]) -> Iterator[Touched]:
    """The memory files that the commits changed, but REJECTED_FILE: their lines are read."""
    is_memory = memory_test(workspace)
    first: dict[str, bytes | None] = {}
    last: dict[str, bytes | None] = {}
    for commit in commits:
        paths = [
            file.path
            for file in commit.files
            if is_memory(file.path) and file.path != REJECTED_FILE
        ]
        old, new = workspace.at(commit.parents[0]).read(paths), workspace.at(commit.sha).read(paths)
        for path in paths:
            first.setdefault(path, old.get(path))
            last[path] = new.get(path)
    return (Touched(path, first[path], new) for path, new in last.items() if new != first[path])


def _obstacle(
    tip: Snapshot, base: str, commits: Sequence[Commit], touched: Sequence[Touched]
) -> str:
    """Why the work of others on the branch cannot be carried over."""
    workspace = tip.workspace
    is_memory = memory_test(workspace)
    if any(not is_memory(file.path) for commit in commits for file in commit.files):
        return "others changed more than memory there"
    broken = [finding for finding in tip.memory.findings if finding.level == "error"]
    for file in touched:
        if file.new is not None and is_episode_path(file.path):
            broken += parse_episode_file(file.path, file.new).findings
    if broken:
        return f"{broken[0].path}:{broken[0].line} cannot be read there: {broken[0].message}"
    known = workspace.at(base).read(file.path for file in touched)
    for file in touched:
        # The base allows what they did beside entries where it has what they found, or what they left. A file that it
        # does not have is new, except for a month of episodes: its episodes would be there twice.
        there = known.get(file.path)
        if holds_entries(workspace, file.path):
            is_same = not changes_prose(file) or prose_of(there) in (
                prose_of(file.old),
                prose_of(file.new),
            )
        else:
            is_month = file.path == month_path(find_month(file.path) or "")
            is_same = there in (file.old, file.new) or (there is None and not is_month)
        if not is_same:
            return f"{file.path} was changed there, and is not the same in the base"
    return ""


def _list_commits(
    workspace: Workspace, fork: str, base: str, branch: str
) -> Iterator[tuple[Commit, bool]]:
    """Commits of the branch, oldest first, and whether they are ours; no merges: what those bring is judged elsewhere.
    Ours name their step and are committed by us. If somebody amends one it is theirs, and one of step KEEP carries
    decisions of maintainers."""
    from memory_ci.gitrepo.writer import (
        IN_ACTIONS,
        MEMORY_CI,
        choose_identity,
    )  # GitPython: 75 ms, only to publish

    # Who commits may have been set since the branch began.
    configs = (workspace_at(workspace.repo, rev).config.publish for rev in {base, fork})
    named = {choose_identity(config, in_actions=False).email for config in configs}
    ours = {MEMORY_CI.email, IN_ACTIONS.email, *named}
    committers = list_committers(workspace.repo, base, branch)
    asked = (
        "--reverse",
        "--topo-order",
        "--no-merges",
        *FILES,
        "--no-renames",
        "--end-of-options",
        branch,
        f"^{base}",
    )
    for commit, _ in read_log(workspace.repo, *asked, "--"):
        steps = {value for _, value in find_trailers(commit.message, (STEP,))}
        if commit.parents:
            yield commit, bool(steps - {KEEP}) and committers[commit.sha] in ours


class Boxes(NamedTuple):
    """What people say with boxes: keys of candidates that they accept, ids of entries that nobody is to learn, keys of
    what they declined before and want after all."""

    accepted: frozenset[str] = frozenset()
    unticked: frozenset[str] = frozenset()
    taken_back: frozenset[str] = frozenset()
