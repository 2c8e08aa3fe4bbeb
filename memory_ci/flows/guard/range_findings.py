"""Findings on a range of commits: whose cited code it changes, and which priorities a bot or an agent set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.evidence.trust import find_machine
from memory_ci.flows.anchors import Verdicts, compare_anchors, read_texts
from memory_ci.flows.edits import name_edits
from memory_ci.flows.guard.check import CheckReport
from memory_ci.flows.workspace import Snapshot, Workspace, memory_test
from memory_ci.gitrepo.history import STEP
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.repo import find_merge_base
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.upkeep import Touch, list_touch_findings
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.report import Finding

HINT = "Take it back, or let a person set it in a commit of their own, which no agent signs."
TRAILERS = (STEP, "Memory-Session", "Co-authored-by")

PlacesById = Mapping[str, Located]
"""Entries by id."""


def add_range_findings(workspace: Workspace, report: CheckReport, written: str) -> CheckReport:
    """A report with the findings on the commits of a range `A..B`. Raises UsageError (bad-range), RepositoryError."""
    ends = read_range(workspace, written)
    return replace(report, findings=(*report.findings, *find_touched(*ends), *find_machine_priorities(*ends)))


def read_range(workspace: Workspace, written: str) -> tuple[Snapshot, Snapshot]:
    """The two ends of `A..B`, for A where B left it; B is HEAD when it is left out.

    As in a pull request, what was changed on the side of A meanwhile does not count.
    Raises UsageError (bad-range), RepositoryError (unknown-revision).
    """
    since, dots, until = written.partition("..")
    if not since or not dots or until.startswith("."):
        raise UsageError(f"{written!r} is not a range", slug="bad-range", hint="Write A..B, such as origin/main..HEAD.")
    start, head = workspace.at(since), workspace.at(until or "HEAD")
    base = find_merge_base(workspace.repo, start.sha, head.sha)
    return workspace.at(base) if base else start, head


def find_touched(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Notices and warnings for the entries of `head` whose code its commits since `start` touched, where it changed."""
    workspace = head.workspace
    located = [place for place in head.memory.located if place.entry.status != "retired"]
    before, after = compare_anchors(workspace, located, start.sha, head.sha)
    places = {place.entry.id: place for place in located}
    touched = [key for key, verdict in after.items() if verdict != before[key] or verdict.kind == "changed"]
    after = _name_edits(head, [places[id_].entry for id_ in dict.fromkeys(id_ for id_, _ in touched)], after)
    pairs = [(places[key[0]], before[key], after[key]) for key in touched]
    files = [(start.tree.files.get(old.path), head.tree.files.get(new.path)) for _, old, new in pairs]
    texts = read_texts(workspace.repo, filter(None, (file for both in files for file in both)))
    sides = ((texts.get(one, "") if one else "" for one in both) for both in files)
    return list_touch_findings(Touch(*pair, *both) for pair, both in zip(pairs, sides, strict=True))


def _name_edits(head: Snapshot, entries: Sequence[Entry], verdicts: Verdicts) -> Verdicts:
    """The verdicts on these entries, with what edited the code that they cite."""
    own = [[(entry.id, cite) for cite in entry.cites if (entry.id, cite) in verdicts] for entry in entries]
    judged = [(entry, [verdicts[key] for key in keys]) for entry, keys in zip(entries, own, strict=True)]
    named = name_edits(head.workspace, judged, head.sha)
    return {key: one for keys, found in zip(own, named, strict=True) for key, one in zip(keys, found, strict=True)}


def find_machine_priorities(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """An error for each entry of `head` whose priority is another than at `start`, last set by no person.

    What is taken back does not count, nor does a machine's word that a person has set again. An entry may keep the
    priority of one that was united into it.
    """
    before, after = start.places, head.places
    changed = {id_ for id_, place in after.items() if _is_set(place.entry, [before])}
    if not changed:
        return ()
    setters = dict(_find_setters(start, head, changed))
    found = ((after[id_], _find_machine(start.workspace, commit), commit) for id_, commit in sorted(setters.items()))
    return tuple(_finding(place, machine, commit) for place, machine, commit in found if machine)


def _is_set(entry: Entry, befores: Iterable[PlacesById]) -> bool:
    """Whether its priority is another than in each of the states before."""
    return all(_priority(entry) not in _list_known(entry, before) for before in befores)


def _list_known(entry: Entry, before: PlacesById) -> set[str]:
    """The priorities it may have without anyone setting one: its own of before, and those of what it replaces."""
    older = {_priority(before[id_].entry) for id_ in entry.supersedes if id_ in before}
    return older | {_priority(before[entry.id].entry) if entry.id in before else "normal"}


def _priority(entry: Entry) -> str:
    return entry.priority or "normal"


def _find_setters(start: Snapshot, head: Snapshot, ids: set[str]) -> Iterator[tuple[str, Commit]]:
    """The last commit that set the priority of each of `ids`; a merge sets what none of its parents has."""
    workspace, waiting = start.workspace, set(ids)
    is_memory = memory_test(workspace)
    asked = (*FILES, "--topo-order", "--no-renames", "--end-of-options", head.sha, f"^{start.sha}", "--")
    for commit, _ in read_log(workspace.repo, *asked):
        if not waiting:
            return
        if not any(is_memory(file.path) for file in commit.files):
            continue
        after = workspace.at(commit.sha).places
        befores = [workspace.at(parent).places for parent in commit.parents]
        for id_ in sorted(waiting & after.keys()):
            if _is_set(after[id_].entry, befores or [{}]):
                waiting.remove(id_)
                yield id_, commit


def _find_machine(workspace: Workspace, commit: Commit) -> str:
    trailers = find_trailers(commit.message, TRAILERS)
    steps, sessions, co_authors = ([value for key, value in trailers if key == wanted] for wanted in TRAILERS)
    author = f"{commit.author} <{commit.email}>"
    return find_machine(author, co_authors, sessions, steps, workspace.config.extraction.bot_authors)


def _finding(place: Located, machine: str, commit: Commit) -> Finding:
    what = f"priority {_priority(place.entry)} was set by {machine} in {commit.sha[:12]}: only people set it"
    return Finding(place.path, place.line, "priority-by-machine", what, HINT)
