"""Verify: may this change of memory be merged? It reads commits alone, writes nothing, and needs no secret.

And findings on any range of commits: whose cited code it changes, and which priorities a bot or an agent set.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from msgspec.structs import replace

from memory_ci.commands.check.check import CheckReport, check_memory
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.evidence.trust import find_machine
from memory_ci.gitrepo.history import COUNTED, SOURCE, STEP, commit_time, resolve_merge_base
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.repo import find_merge_base, read_tips, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import combine
from memory_ci.lifecycle.reverts import find_reverts
from memory_ci.lifecycle.upkeep import Touch, list_touch_findings
from memory_ci.memory.cites import JudgedView, Verdicts, judge_views, read_texts
from memory_ci.memory.claims import Claims, find_claimed_uses, find_note_claims, list_refused
from memory_ci.memory.edits import name_edits
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.index import build_index, verify_index
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.workspace import Snapshot, Workspace, memory_test, readable_path, workspace_at
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding
from memory_ci.store.layout import is_fragment

BACK_HINT = "Take it out again; what holds after all gets a new id (`memory-ci add`)."
REVIVED_HINT = "Right if the code it is about is back; else set `status: retired` again."
LOST_HINT = (
    "Take the file from the base and merge again: `memory-ci resolve` merges memory entry by entry."
)
REMOVED_HINT = "Right if it is meant. `status: retired` does the same, and leaves a trace."
OWN_HINT = "Reword the commit without the trailer: record runs alone write it, and read by it how far they came."
TRAILERS = (STEP, "Memory-Session", "Co-authored-by")
SAYS_BACK = re.compile(r"\bre(?:vert|apply)", re.IGNORECASE)
"""All that `find_reverts` knows says this; without it nothing older need be read."""

FORK_HINT = "Put learnings into the inbox (`memory-ci add`): they are folded after review. Leave the rest as it was."


class Sides(NamedTuple):
    """What a change began with (where it left the base) and what it comes to, read by the base's own configuration."""

    before: Snapshot
    after: Snapshot

    @property
    def workspace(self) -> Workspace:
        return self.before.workspace

    @property
    def span(self) -> tuple[str, str]:
        """The commits of the change, as git takes them."""
        return self.after.sha, f"^{self.before.sha}"


def verify_change(
    workspace: Workspace, base: str | None, head: str, *, is_fork: bool = False
) -> CheckReport:
    """Findings of every kind in what `head` changes against `base` (None: the default branch).

    The files of `head` are read by its own configuration, what happened to entries by that of the base: a change
    cannot hide what it did. `is_fork`: someone who may not write here asks for it.
    Raises RepositoryError: unknown-revision, unrelated-histories, shallow-clone; UsageError (bad-config).
    """
    repo = workspace.repo
    tip = resolve_commit(repo, head)
    if base is None and not (base := read_tips(repo).default):
        message = "there is no main or master here, and no remote that names a default branch"
        raise RepositoryError(
            message, slug="unknown-revision", hint="Name what to compare with: --base REV."
        )
    start = resolve_merge_base(repo, tip, base)
    proposed, trusted = workspace_at(repo, tip), workspace_at(repo, start)
    report = check_memory(proposed, tip)
    sides = Sides(trusted.at(start), trusted.at(tip))
    found = [
        *report.findings,
        *_find_resurrected(sides),
        *_find_lost(sides),
        *((*_find_foreign(sides), *_find_claims(sides)) if is_fork else ()),
        *find_touched(*sides),
        *find_machine_priorities(*sides),
    ]
    if trusted.config.extends and not proposed.config.extends:
        message = f"the policy {trusted.config.extends.partition(' ')[0]} is no longer extended"
        found.append(
            Finding(CONFIG_FILE, 1, "policy-removed", message, "Let whoever owns the policy agree.")
        )
    # Build the index of what would be merged, and compare it with the files.
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        db = Path(scratch, "index.db")
        build_index(trusted, tip, db)
        found += verify_index(trusted, tip, db)
    return replace(report, findings=tuple(found))


def _find_resurrected(sides: Sides) -> Iterator[Finding]:
    """Entries that were taken out or retired, and are served again: a stale branch brings them back unnoticed."""
    befores, afters = sides.before.places, sides.after.places
    new = {key: place for key, place in afters.items() if key not in befores}
    past = list_past_ids(sides.workspace, sides.before.sha) if new else frozenset()
    absorbed = {old: place for place in befores.values() for old in place.entry.supersedes}
    for key, place in new.items():
        if key in absorbed:
            message = f"{key[:8]} was united with {absorbed[key].entry.id[:8]}, and comes back"
            yield Finding(place.path, place.line, "resurrected-entry", message, BACK_HINT)
        elif key in past:
            message = f"{key[:8]} was removed, and comes back"
            yield Finding(place.path, place.line, "resurrected-entry", message, BACK_HINT)
    for key in afters.keys() & befores.keys():
        before, place = befores[key].entry, afters[key]
        if before.status != "active" and place.entry.status == "active":
            message = f"{key[:8]} was {before.status}, and is active again"
            yield Finding(
                place.path, place.line, "resurrected-entry", message, REVIVED_HINT, "warning"
            )


def _find_lost(sides: Sides) -> Iterator[Finding]:
    """Entries that are gone: an error if only a merge can have dropped them, a warning if a person took them out. What
    a run took out (its commits carry our trailer) or united with another entry is not lost, nor is one that was retired
    when a commit took it out."""
    befores, afters = sides.before.places, sides.after.places
    lost = (
        befores.keys()
        - afters.keys()
        - {old for place in afters.values() for old in place.entry.supersedes}
    )
    is_memory, workspace = memory_test(sides.workspace), sides.workspace
    removed, is_right = set[str](), set[str]()
    asked = (*FILES, "--no-merges", "--no-renames", "--end-of-options", *sides.span, "--")
    for commit, _ in read_log(workspace.repo, *asked) if lost else ():
        paths = [file.path for file in commit.files]
        if any(map(is_memory, paths)):
            before = workspace.at(commit.parents[0]).places if commit.parents else {}
            ids = before.keys() - workspace.at(commit.sha).places.keys()
            removed |= ids
            # A run says its step, and changes nothing but memory.
            is_run = find_trailers(commit.message, (STEP,)) and all(map(is_memory, paths))
            is_right |= {key for key in ids if is_run or before[key].entry.status == "retired"}
    for key in sorted(lost - is_right):
        place = befores[key]
        if key in removed:
            message = f"{key[:8]} ({place.entry.title!r}) is taken out"
            yield Finding(place.path, 1, "removed-entry", message, REMOVED_HINT, "warning")
        else:
            message = (
                f"{key[:8]} ({place.entry.title!r}) was dropped by a merge: no commit takes it out"
            )
            yield Finding(place.path, 1, "lost-entry", message, LOST_HINT)


def _find_foreign(sides: Sides) -> Iterator[Finding]:
    """What a fork changes that agents will read: of memory it may bring inbox fragments, and no settings."""
    # With the patterns of scopes in lower case: on many disks `memory.md` is `MEMORY.md`.
    config = sides.workspace.config
    folded = {
        name: tuple(map(str.casefold, ones)) for name, ones in structs.asdict(config.scopes).items()
    }
    config = replace(config, scopes=replace(config.scopes, **folded))
    is_memory = memory_test(Workspace(sides.workspace.repo, config))
    changed = set(
        map(readable_path, {*sides.before.tree.files.values()} ^ {*sides.after.tree.files.values()})
    )
    day = commit_time(sides.workspace.repo, sides.after.sha).date()
    for path in sorted(changed):
        lower = path.casefold()
        if lower == CONFIG_FILE or (is_memory(lower) and not is_fragment(path)):
            yield Finding(path, 1, "fork-memory", "a fork may not change this file", FORK_HINT)
    for place in sides.after.memory.located:
        if place.path in changed and is_fragment(place.path):
            yield from find_note_claims(place, day, "error")


def _find_claims(sides: Sides) -> Iterator[Finding]:
    """What commits of a fork say as record runs do, though no run of ours made them; and what they say of other work
    and a run would not believe: reverts, and what was used."""
    repo = sides.workspace.repo
    commits = [commit for commit, _ in read_log(repo, "--end-of-options", *sides.span, "--")]
    for commit in commits:
        if keys := dict.fromkeys(
            key for key, _ in find_trailers(commit.message, (STEP, SOURCE, COUNTED))
        ):
            message = f"the commit {commit.sha[:12]} says {' and '.join(keys)}, which record runs alone may say"
            yield Finding(".", 1, "own-trailer-from-fork", message, OWN_HINT)
    for commit in commits:
        yield from find_claimed_uses(commit, "warning")
    if any(SAYS_BACK.search(commit.message) for commit in commits):
        strangers = {
            commit.sha[:SHA_WIDTH]: (sides.before.sha, sides.after.sha) for commit in commits
        }
        claims = Claims(
            repo, strangers, combine(load_episodes(sides.workspace, sides.before.sha).tellings)
        )
        history = read_log(
            repo, "--topo-order", "--reverse", "--end-of-options", sides.after.sha, "--"
        )
        find_reverts((commit for commit, _ in history), claims.count)
        yield from list_refused(claims.refused, "warning")


def add_range_findings(workspace: Workspace, report: CheckReport, written: str) -> CheckReport:
    """A report with the findings on the commits of a range `A..B`. Raises UsageError (bad-range), RepositoryError."""
    ends = read_range(workspace, written)
    return replace(
        report, findings=(*report.findings, *find_touched(*ends), *find_machine_priorities(*ends))
    )


def read_range(workspace: Workspace, written: str) -> tuple[Snapshot, Snapshot]:
    """The two ends of `A..B`, for A where B left it; B is HEAD when it is left out.

    As in a pull request, what was changed on the side of A meanwhile does not count.
    Raises UsageError (bad-range), RepositoryError (unknown-revision).
    """
    since, dots, until = written.partition("..")
    if not since or not dots or until.startswith("."):
        raise UsageError(
            f"{written!r} is not a range",
            slug="bad-range",
            hint="Write A..B, such as origin/main..HEAD.",
        )
    start, head = workspace.at(since), workspace.at(until or "HEAD")
    base = find_merge_base(workspace.repo, start.sha, head.sha)
    return workspace.at(base) if base else start, head


def find_touched(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Notices and warnings for the entries of `head` whose code its commits since `start` touched, where it changed."""
    workspace = head.workspace
    located = [place for place in head.memory.located if place.entry.status != "retired"]
    before, after = judge_views(
        located, JudgedView(workspace, start.sha), JudgedView(workspace, head.sha)
    )
    places = {
        (place.entry.id, cite): place for place in located for cite in place.entry.cites
    }  # ids may stand twice
    touched = [
        key for key, verdict in after.items() if verdict != before[key] or verdict.kind == "changed"
    ]
    after = _name_edits(head, list(dict.fromkeys(places[key].entry for key in touched)), after)
    pairs = [(places[key], before[key], after[key]) for key in touched]
    files = [
        (start.tree.files.get(old.path), head.tree.files.get(new.path)) for _, old, new in pairs
    ]
    texts = read_texts(workspace.repo, filter(None, (file for both in files for file in both)))
    sides = ((texts.get(one, "") if one else "" for one in both) for both in files)
    return list_touch_findings(Touch(*pair, *both) for pair, both in zip(pairs, sides, strict=True))


def _name_edits(head: Snapshot, entries: Sequence[Entry], verdicts: Verdicts) -> Verdicts:
    """The verdicts on these entries, with what edited the code that they cite."""
    own = [
        [(entry.id, cite) for cite in entry.cites if (entry.id, cite) in verdicts]
        for entry in entries
    ]
    judged = [
        (entry, [verdicts[key] for key in keys]) for entry, keys in zip(entries, own, strict=True)
    ]
    named = name_edits(head.workspace, judged, head.sha)
    return {
        key: one
        for keys, found in zip(own, named, strict=True)
        for key, one in zip(keys, found, strict=True)
    }


def find_machine_priorities(start: Snapshot, head: Snapshot) -> Iterator[Finding]:
    """An error for each entry of `head` whose priority is another than at `start`, last set by no person.

    What is taken back does not count, nor does a machine's word that a person has set again. An entry may keep the
    priority of one that was united into it.
    """
    workspace, before, after = start.workspace, start.places, head.places

    def is_set(entry: Entry, before: Mapping[str, Located]) -> bool:
        """Whether its priority is neither its own of before nor one of what it replaces."""
        known = {
            before[id_].entry.priority or "normal" for id_ in entry.supersedes if id_ in before
        }
        known.add((before[entry.id].entry.priority if entry.id in before else None) or "normal")
        return (entry.priority or "normal") not in known

    waiting = {id_ for id_, place in after.items() if is_set(place.entry, before)}
    is_memory, setters = memory_test(workspace), dict[str, Commit]()
    asked = (
        *FILES,
        "--topo-order",
        "--no-renames",
        "--end-of-options",
        head.sha,
        f"^{start.sha}",
        "--",
    )
    for commit, _ in read_log(workspace.repo, *asked) if waiting else ():
        if not waiting:
            break
        if any(is_memory(file.path) for file in commit.files):
            places = workspace.at(commit.sha).places
            parents = [workspace.at(parent).places for parent in commit.parents] or [{}]
            # A merge sets what none of its parents has.
            found = {
                id_
                for id_ in waiting & places.keys()
                if all(is_set(places[id_].entry, one) for one in parents)
            }
            waiting -= found
            setters |= dict.fromkeys(found, commit)
    for id_, commit in sorted(setters.items()):
        place, trailers = after[id_], find_trailers(commit.message, TRAILERS)
        steps, sessions, co_authors = (
            [value for key, value in trailers if key == wanted] for wanted in TRAILERS
        )
        author, bots = f"{commit.author} <{commit.email}>", workspace.config.extraction.bot_authors
        if machine := find_machine(author, co_authors, sessions, steps, bots):
            what = f"priority {place.entry.priority or 'normal'} was set by {machine} in {commit.sha[:12]}"
            hint = "Take it back, or let a person set it in a commit of their own, which no agent signs."
            yield Finding(
                place.path, place.line, "priority-by-machine", f"{what}: only people set it", hint
            )
