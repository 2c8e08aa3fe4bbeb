"""Checks of a change to memory before it is merged, and of any range of commits.

Only commits are read, nothing is written, and no secret is needed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.check.change_checks import JudgedChecks, judge_request
from memory_ci.commands.check.check import CheckReport, check_memory
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.evidence.trust import find_machine
from memory_ci.gitrepo.log import FILE_OPTIONS, read_commit_time, read_log
from memory_ci.gitrepo.past import EPOCH, resolve_merge_base
from memory_ci.gitrepo.record_commits import COUNTED, SOURCE, STEP
from memory_ci.gitrepo.repo import find_merge_base, read_tips, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import combine
from memory_ci.lifecycle.reverts import find_reverts
from memory_ci.lifecycle.upkeep import Touch, list_touch_findings
from memory_ci.memory.cites import Verdicts, judge_views, read_texts
from memory_ci.memory.claims import Claims, find_claimed_uses, find_note_claims, list_refused
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.index import build_index, verify_index
from memory_ci.memory.judged_view import JudgedView
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    build_memory_test,
    readable_path,
    workspace_at,
)
from memory_ci.records.config import Config
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.layout import is_fragment

BACK_HINT = "Take it out again; what holds after all gets a new id (`memory-ci add`)."
REVIVED_HINT = "Right if the code it is about is back; else set `status: retired` again."
LOST_HINT = (
    "Take the file from the base and merge again: `memory-ci resolve` merges memory entry by entry."
)
REMOVED_HINT = "Right if it is meant. `status: retired` does the same, and leaves a trace."
OWN_HINT = (
    "Reword the commit without the trailer: record runs alone write it, and read by it how far "
    "they came."
)
CLOCK_SLACK = timedelta(days=2)
"""An entry is dated by a clock that may be in another time zone than the committer's, or wrong."""

SESSION = "Memory-Session"
CO_AUTHOR = "Co-authored-by"
TRAILERS = (STEP, SESSION, CO_AUTHOR)
"""The trailers of commits that no person alone made."""

MENTIONS_REVERT = Regex(r"\bre(?:vert|apply)", re.IGNORECASE)
"""Every message that `find_reverts` recognises matches; otherwise no older commit is read."""


def _read_priority(entry: Entry) -> str:
    return entry.priority or "normal"


def _read_level(entry: Entry) -> str:
    return "fail" if entry.level == "fail" else "normal"


OWNED_FIELDS: Mapping[str, Callable[[Entry], str]] = {
    "priority": _read_priority,
    "level": _read_level,
}
"""The values that people alone set; `normal` is that of an entry without any."""

FORK_HINT = (
    "Put learnings into the inbox (`memory-ci add`): they are folded after review. "
    "Leave the rest as it was."
)
PRIORITY_HINT = (
    "Take it back, or let a person set it in a commit of their own, which no agent signs."
)


class Sides(NamedTuple):
    """The commit where a change left the base, and its head, read by the base's configuration."""

    before: Snapshot
    after: Snapshot

    @property
    def workspace(self) -> Workspace:
        """The repository with the base's configuration."""
        return self.before.workspace

    @property
    def span(self) -> tuple[str, str]:
        """The commits of the change, as arguments of `git log`."""
        return self.after.sha, f"^{self.before.sha}"


def verify_change(
    workspace: Workspace, base: str | None, head: str, *, is_fork: bool = False, title: str = ""
) -> CheckReport:
    """Check the changes that the commits of `head` make to a base, and to its memory above all.

    The files of `head` are read by its own configuration, changes of entries by that of the base,
    so that a change cannot hide its effect. The checks of entries are those of the base's tip.

    Args:
        workspace: the repository.
        base: the revision to compare with, None for the default branch.
        head: the revision to check.
        is_fork: the author of the change may not write to the repository.
        title: the title of the request, "" if unknown.

    Raises:
        RepositoryError: unknown-revision, unrelated-histories, shallow-clone.
        UsageError: bad-config.
    """
    repo = workspace.repo
    tip = resolve_commit(repo, head)
    if base is None:
        base = read_tips(repo).default
        if not base:
            message = "there is no main or master here, and no remote that names a default branch"
            hint = "Name what to compare with: --base REV."
            raise RepositoryError(message, slug="unknown-revision", hint=hint)
    start = resolve_merge_base(repo, tip, base)
    proposed = workspace_at(repo, tip)
    trusted = workspace_at(repo, start)
    sides = Sides(trusted.at(start), trusted.at(tip))

    progress.report("Checking memory files")
    report = check_memory(proposed, tip)
    findings = [*report.findings, *_find_resurrected(sides), *_find_lost(sides)]
    if is_fork:
        findings += _find_foreign(sides)
        findings += _find_claims(sides)
    findings += find_touched(sides.before, sides.after)
    findings += find_machine_priorities(sides.before, sides.after)
    if trusted.config.extends and not proposed.config.extends:
        policy = trusted.config.extends.partition(" ")[0]
        message = f"the policy {policy} is no longer extended"
        hint = "Let whoever owns the policy agree."
        findings.append(Finding(CONFIG_FILE, 1, "policy-removed", message, hint))
    findings += _verify_new_index(trusted, tip)
    progress.report("Judging the change by checks")
    judged = _judge_by_base(sides, base, is_fork=is_fork, title=title)
    return replace(report, findings=(*findings, *judged.findings), checks=judged.outcomes)


def _judge_by_base(sides: Sides, base: str, *, is_fork: bool, title: str) -> JudgedChecks:
    """Judge a change by the checks of its base.

    They are read at the tip of the base: a branch that left it long ago is judged by all of them.
    """
    repo = sides.workspace.repo
    base_tip = resolve_commit(repo, base)
    newest = sides.before
    if base_tip != newest.sha:
        newest = workspace_at(repo, base_tip).at(base_tip)
    return judge_request(newest, sides.before.sha, sides.after.sha, is_fork=is_fork, title=title)


def _verify_new_index(workspace: Workspace, commit: str) -> Sequence[Finding]:
    """Build the index of a commit, and compare it with the memory files."""
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        path = Path(scratch, "index.db")
        build_index(workspace, commit, path)
        return tuple(verify_index(workspace, commit, path))


def _find_first_day(places: Iterable[Located]) -> date | None:
    """Return the first day on which one of some entries can have been committed.

    None if it is not known, because an entry does not say when it was created.
    """
    first_day = date.max
    for place in places:
        if place.entry.created_at is None:
            return None
        first_day = min(first_day, place.entry.created_at)
    if first_day <= EPOCH + CLOCK_SLACK:
        return None
    return first_day - CLOCK_SLACK


def _find_resurrected(sides: Sides) -> Iterator[Finding]:
    """Find entries that were removed or retired, and that a stale branch adds again."""
    before_places = sides.before.entries_by_id
    after_places = sides.after.entries_by_id
    new_places = {key: place for key, place in after_places.items() if key not in before_places}

    past_ids = frozenset[str]()
    if new_places:
        since = _find_first_day(new_places.values())
        past_ids = list_past_ids(sides.workspace, sides.before.sha, since)
    successors: dict[str, Located] = {}
    for place in before_places.values():
        successors |= dict.fromkeys(place.entry.supersedes, place)

    for key, place in new_places.items():
        if key in successors:
            successor = successors[key].entry.id
            message = f"{key[:8]} was united with {successor[:8]}, and comes back"
        elif key in past_ids:
            message = f"{key[:8]} was removed, and comes back"
        else:
            continue
        yield Finding(place.path, place.line, "resurrected-entry", message, BACK_HINT)

    for key in after_places.keys() & before_places.keys():
        status = before_places[key].entry.status
        place = after_places[key]
        if status != "active" and place.entry.status == "active":
            message = f"{key[:8]} was {status}, and is active again"
            yield Finding(
                place.path, place.line, "resurrected-entry", message, REVIVED_HINT, "warning"
            )


def _find_lost(sides: Sides) -> Iterator[Finding]:
    """Find entries that are missing after a change.

    It is an error if only a merge can have dropped an entry, and a warning if a person removed it.
    Entries that a run removed or united with others are not lost, nor are entries that were
    retired when a commit removed them.
    """
    before_places = sides.before.entries_by_id
    after_places = sides.after.entries_by_id
    superseded: set[str] = set()
    for place in after_places.values():
        superseded.update(place.entry.supersedes)
    missing = before_places.keys() - after_places.keys() - superseded
    if not missing:
        return

    removed, rightly_removed = _list_removed(sides)
    for key in sorted(missing - rightly_removed):
        place = before_places[key]
        name = f"{key[:8]} ({place.entry.title!r})"
        if key in removed:
            message = f"{name} is taken out"
            yield Finding(place.path, 1, "removed-entry", message, REMOVED_HINT, "warning")
        else:
            message = f"{name} was dropped by a merge: no commit takes it out"
            yield Finding(place.path, 1, "lost-entry", message, LOST_HINT)


def _list_removed(sides: Sides) -> tuple[set[str], set[str]]:
    """Return the ids of entries that commits of a change removed.

    Returns:
        All ids, and those that a run removed or that were retired.
    """
    workspace = sides.workspace
    is_memory = build_memory_test(workspace)
    removed: set[str] = set()
    rightly_removed: set[str] = set()
    arguments = (
        *FILE_OPTIONS,
        "--no-merges",
        "--no-renames",
        "--end-of-options",
        *sides.span,
        "--",
    )
    for commit, _ in read_log(workspace.repo, *arguments):
        are_memory = [is_memory(file.path) for file in commit.files]
        if not any(are_memory):
            continue
        places: Mapping[str, Located] = {}
        if commit.parents:
            places = workspace.at(commit.parents[0]).entries_by_id
        ids = places.keys() - workspace.at(commit.sha).entries_by_id.keys()
        removed |= ids
        # The commit of a run has our trailer, and changes nothing but memory.
        is_run = bool(find_trailers(commit.message, (STEP,))) and all(are_memory)
        rightly_removed |= {key for key in ids if is_run or places[key].entry.status == "retired"}
    return removed, rightly_removed


def _find_foreign(sides: Sides) -> Iterator[Finding]:
    """Find changes of a fork that agents would read, other than new inbox fragments."""
    repo = sides.workspace.repo
    is_memory = build_memory_test(Workspace(repo, _fold_scopes(sides.workspace.config)))
    before_files = set(sides.before.tree.files.values())
    after_files = set(sides.after.tree.files.values())
    changed_paths = {readable_path(file) for file in before_files ^ after_files}

    for path in sorted(changed_paths):
        folded_path = path.casefold()
        is_forbidden_memory = is_memory(folded_path) and not is_fragment(path)
        if folded_path == CONFIG_FILE or is_forbidden_memory:
            yield Finding(path, 1, "fork-memory", "a fork may not change this file", FORK_HINT)

    day = read_commit_time(repo, sides.after.sha).date()
    for place in sides.after.memory.located:
        if place.path in changed_paths and is_fragment(place.path):
            yield from find_note_claims(place, day, "error")


def _fold_scopes(config: Config) -> Config:
    """Return a configuration with the patterns of scopes in lower case.

    On many disks `memory.md` is the file `MEMORY.md`.
    """
    folded: dict[str, tuple[str, ...]] = {}
    for name, patterns in structs.asdict(config.scopes).items():
        folded[name] = tuple(pattern.casefold() for pattern in patterns)
    return replace(config, scopes=replace(config.scopes, **folded))


def _find_claims(sides: Sides) -> Iterator[Finding]:
    """Find the claims of a fork's commits: to be of a record run, to revert or to use other work.

    A run would not believe these claims.
    """
    repo = sides.workspace.repo
    commits = [commit for commit, _ in read_log(repo, "--end-of-options", *sides.span, "--")]
    for commit in commits:
        trailers = find_trailers(commit.message, (STEP, SOURCE, COUNTED))
        keys = dict.fromkeys(key for key, _ in trailers)
        if keys:
            names = " and ".join(keys)
            message = f"the commit {commit.sha[:12]} says {names}, which record runs alone may say"
            yield Finding(".", 1, "own-trailer-from-fork", message, OWN_HINT)
    for commit in commits:
        yield from find_claimed_uses(commit, "warning")
    if any(MENTIONS_REVERT.search(commit.message) for commit in commits):
        yield from _find_refused_reverts(sides, commits)


def _find_refused_reverts(sides: Sides, commits: Iterable[Commit]) -> Iterator[Finding]:
    """Find reverts that commits of a fork claim and that are not proved."""
    workspace = sides.workspace
    span = (sides.before.sha, sides.after.sha)
    strangers = {commit.sha[:SHA_WIDTH]: span for commit in commits}
    episodes = combine(load_episodes(workspace, sides.before.sha).tellings)
    claims = Claims(workspace.repo, strangers, episodes)

    arguments = ("--topo-order", "--reverse", "--end-of-options", sides.after.sha, "--")
    history = read_log(workspace.repo, *arguments)
    find_reverts((commit for commit, _ in history), claims.count)
    yield from list_refused(claims.refused, "warning")


def add_range_findings(workspace: Workspace, report: CheckReport, range_text: str) -> CheckReport:
    """Return a report with more findings: those on the commits of a range.

    They are the entries whose code the commits touched, and the priorities that no person set.

    Args:
        workspace: the repository.
        report: the findings on the memory files.
        range_text: the range, as `A..B`.

    Raises:
        UsageError: bad-range.
        RepositoryError: unknown-revision.
    """
    start, head = read_range(workspace, range_text)
    touched = find_touched(start, head)
    priorities = find_machine_priorities(start, head)
    return replace(report, findings=(*report.findings, *touched, *priorities))


def read_range(workspace: Workspace, range_text: str) -> tuple[Snapshot, Snapshot]:
    """Return the first and last state of a range `A..B`.

    As in a pull request, the first is where B left A: later commits of A do not count. B is HEAD if
    it is left out.

    Raises:
        UsageError: bad-range.
        RepositoryError: unknown-revision.
    """
    since, dots, until = range_text.partition("..")
    if not since or not dots or until.startswith("."):
        hint = "Write A..B, such as origin/main..HEAD."
        raise UsageError(f"{range_text!r} is not a range", slug="bad-range", hint=hint)
    start = workspace.at(since)
    head = workspace.at(until or "HEAD")
    base = find_merge_base(workspace.repo, start.sha, head.sha)
    if base is None:
        return start, head
    return workspace.at(base), head


def find_touched(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Find the entries of `head` whose cited code was touched since `start`, or has changed."""
    workspace = head.workspace
    located = [place for place in head.memory.located if place.entry.status != "retired"]
    places: dict[tuple[str, str], Located] = {}
    for place in located:  # of two entries with one id the last counts
        places |= {(place.entry.id, cite): place for cite in place.entry.cites}

    before, after = judge_views(
        located, JudgedView(workspace, start.sha), JudgedView(workspace, head.sha)
    )
    touched = []
    for key, verdict in after.items():
        if verdict != before[key] or verdict.kind == "changed":
            touched.append(key)
    entries = list(dict.fromkeys(places[key].entry for key in touched))
    after = _add_last_edits(head, entries, after)

    old_files = [start.tree.files.get(before[key].path) for key in touched]
    new_files = [head.tree.files.get(after[key].path) for key in touched]
    files = [file for file in (*old_files, *new_files) if file is not None]
    texts = read_texts(workspace.repo, files)
    touches = []
    for key, old_file, new_file in zip(touched, old_files, new_files, strict=True):
        old_text = texts.get(old_file, "") if old_file else ""
        new_text = texts.get(new_file, "") if new_file else ""
        touches.append(Touch(places[key], before[key], after[key], old_text, new_text))
    return list_touch_findings(touches)


def _add_last_edits(head: Snapshot, entries: Sequence[Entry], verdicts: Verdicts) -> Verdicts:
    """Return the verdicts on the cites of some entries, with the edits that changed the code."""
    keys_by_entry = []
    judged = []
    for entry in entries:
        keys = [(entry.id, cite) for cite in entry.cites if (entry.id, cite) in verdicts]
        keys_by_entry.append(keys)
        judged.append((entry, [verdicts[key] for key in keys]))

    named: Verdicts = {}
    edited = add_last_edits(head.workspace, judged, head.sha)
    for keys, edited_verdicts in zip(keys_by_entry, edited, strict=True):
        named |= zip(keys, edited_verdicts, strict=True)
    return named


# -- priorities


def find_machine_priorities(start: Snapshot, head: Snapshot) -> Iterator[Finding]:
    """Find the priorities, and levels `fail`, that `start` has not and that no person set last.

    A value that was set back does not count, nor one of a machine that a person has set again. An
    entry may have the value of an entry that was united into it.
    """
    workspace = start.workspace
    setters = _find_setters(start, head)
    for (key, field), commit in sorted(setters.items(), key=lambda item: item[0]):
        machine = _find_machine_author(workspace, commit)
        if not machine:
            continue
        place = head.entries_by_id[key]
        value = OWNED_FIELDS[field](place.entry)
        message = f"{field} {value} was set by {machine} in {commit.sha[:12]}: only people set it"
        yield Finding(place.path, place.line, "priority-by-machine", message, PRIORITY_HINT)


def _find_setters(start: Snapshot, head: Snapshot) -> dict[tuple[str, str], Commit]:
    """Return the last commit that set each owned field of `head` that `start` does not have.

    The keys are the id of the entry and the name of the field.
    """
    workspace = start.workspace
    unexplained = {
        (key, field)
        for key, place in head.entries_by_id.items()
        for field in OWNED_FIELDS
        if _is_set(place.entry, start.entries_by_id, field)
    }
    setters: dict[tuple[str, str], Commit] = {}
    if not unexplained:
        return setters

    is_memory = build_memory_test(workspace)
    span = ("--end-of-options", head.sha, f"^{start.sha}", "--")
    for commit, _ in read_log(workspace.repo, *FILE_OPTIONS, "--topo-order", "--no-renames", *span):
        if not unexplained:
            break
        if not any(is_memory(file.path) for file in commit.files):
            continue
        places = workspace.at(commit.sha).entries_by_id
        parents = [workspace.at(parent).entries_by_id for parent in commit.parents] or [{}]
        for key, field in unexplained:
            # A merge sets a value that none of its parents has.
            entry = places[key].entry if key in places else None
            if entry and all(_is_set(entry, parent, field) for parent in parents):
                setters[key, field] = commit
        unexplained -= setters.keys()
    return setters


def _is_set(entry: Entry, before: Mapping[str, Located], field: str) -> bool:
    """Return whether neither an entry nor an entry that it replaces had its value before."""
    get_value = OWNED_FIELDS[field]
    previous_values: set[str] = set()
    if entry.id not in before:
        previous_values.add("normal")
    for key in (entry.id, *entry.supersedes):
        if key in before:
            previous_values.add(get_value(before[key].entry))
    return get_value(entry) not in previous_values


def _find_machine_author(workspace: Workspace, commit: Commit) -> str:
    """Return the bot, agent or run that made a commit, "" for a person."""
    values: dict[str, list[str]] = {name: [] for name in TRAILERS}
    for name, value in find_trailers(commit.message, TRAILERS):
        values[name].append(value)
    author = f"{commit.author} <{commit.email}>"
    bots = workspace.config.extraction.bot_authors
    return find_machine(author, values[CO_AUTHOR], values[SESSION], values[STEP], bots)
