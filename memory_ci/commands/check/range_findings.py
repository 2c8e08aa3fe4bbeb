"""Findings on a range of commits: entries whose cited code changed, and who set priorities.

An entry is a note for coding agents in a memory file. Only commits are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from memory_ci.commands.check.check import CheckReport
from memory_ci.errors import UsageError
from memory_ci.evidence.trust import find_bot_or_agent
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.gitrepo.record_commits import STEP
from memory_ci.gitrepo.repo import Repository, find_merge_base
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.upkeep import CiteChange, report_changed_cites
from memory_ci.memory.cite_verdicts import judge_views
from memory_ci.memory.cites import CiteKey, Verdicts, read_texts
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.judged_view import JudgedView
from memory_ci.memory.workspace import Snapshot, Workspace, build_memory_test
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit
from memory_ci.records.report import Finding

SESSION_TRAILER = "Memory-Session"
CO_AUTHOR_TRAILER = "Co-authored-by"
MACHINE_TRAILERS = (STEP, SESSION_TRAILER, CO_AUTHOR_TRAILER)
"""The trailers of commits that no person alone made."""

PRIORITY_HINT = (
    "Take it back, or let a person set it in a commit of their own, which no agent signs."
)


def _read_priority(entry: Entry) -> str:
    return entry.priority or "normal"


def _read_level(entry: Entry) -> str:
    return "fail" if entry.level == "fail" else "normal"


PEOPLES_FIELDS: Mapping[str, Callable[[Entry], str]] = {
    "priority": _read_priority,
    "level": _read_level,
}
"""The fields that only people may set, each with a function that reads its value.

An entry without the field has the value `normal`.
"""


def add_range_findings(workspace: Workspace, report: CheckReport, range_text: str) -> CheckReport:
    """Return a report to which the findings on a range of commits are added.

    These are the entries whose cited code the commits changed, and the values of `priority` and
    `level` that a bot, an agent or a run of memory-ci set, though only people may.

    Args:
        workspace: the repository.
        report: the findings on the memory files.
        range_text: the range, as `A..B`.

    Raises:
        UsageError: bad-range.
        RepositoryError: unknown-revision.
    """
    start, head = read_range(workspace, range_text)
    code_findings = find_entries_with_changed_code(start, head)
    priority_findings = find_machine_priorities(start, head)
    return replace(report, findings=(*report.findings, *code_findings, *priority_findings))


def read_range(workspace: Workspace, range_text: str) -> tuple[Snapshot, Snapshot]:
    """Return the start and the end of a range `A..B`; without B it ends at HEAD.

    As in a pull request, the start is where B left A: later commits of A do not count.

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


def find_entries_with_changed_code(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Find the entries of `head` whose cited code was changed since `start`, or before it.

    The cites of an entry name code. A verdict says where the code of a cite is at a commit, and
    whether it is still the same. The finding on a cite names the commit that last edited the code,
    and how the file differs between `start` and `head`.
    """
    workspace = head.workspace
    located_entries = [
        located for located in head.memory.located if located.entry.status != "retired"
    ]
    entry_by_cite: dict[CiteKey, Located] = {}
    for located in located_entries:  # of two entries with one id the last counts
        for cite in located.entry.cites:
            entry_by_cite[located.entry.id, cite] = located

    old_verdicts, new_verdicts = judge_views(
        located_entries, JudgedView(workspace, start.sha), JudgedView(workspace, head.sha)
    )
    changed_cites = []
    for cite_key, verdict in new_verdicts.items():
        if verdict != old_verdicts[cite_key] or verdict.kind == "changed":
            changed_cites.append(cite_key)
    entries = list(dict.fromkeys(entry_by_cite[cite_key].entry for cite_key in changed_cites))
    new_verdicts = _add_last_edits(head, entries, new_verdicts)

    old_files = {key: start.tree.files.get(old_verdicts[key].path) for key in changed_cites}
    new_files = {key: head.tree.files.get(new_verdicts[key].path) for key in changed_cites}
    texts = _read_texts(workspace.repo, [*old_files.values(), *new_files.values()])
    cite_changes = []
    for cite_key in changed_cites:
        cite_change = CiteChange(
            entry_by_cite[cite_key],
            old_verdicts[cite_key],
            new_verdicts[cite_key],
            texts[old_files[cite_key]],
            texts[new_files[cite_key]],
        )
        cite_changes.append(cite_change)
    return report_changed_cites(cite_changes)


def _read_texts(repo: Repository, files: Iterable[TreeFile | None]) -> dict[TreeFile | None, str]:
    """Return the texts of files, "" for None and for a file that cannot be read."""
    texts = dict.fromkeys(files, "")
    existing_files = [file for file in texts if file is not None]
    for file, text in read_texts(repo, existing_files).items():
        texts[file] = text
    return texts


def _add_last_edits(head: Snapshot, entries: Sequence[Entry], verdicts: Verdicts) -> Verdicts:
    """Return the verdicts on the cites of some entries, each with the commit that last edited it.

    Args:
        head: the commit whose history is searched for the edits.
        entries: the entries.
        verdicts: the verdicts on the cites of these and other entries.
    """
    cite_keys: list[CiteKey] = []
    entries_with_verdicts = []
    for entry in entries:
        entry_keys = [(entry.id, cite) for cite in entry.cites if (entry.id, cite) in verdicts]
        cite_keys += entry_keys
        entries_with_verdicts.append((entry, [verdicts[key] for key in entry_keys]))

    # The result has the verdicts of each entry in the same order.
    verdicts_by_entry = add_last_edits(head.workspace, entries_with_verdicts, head.sha)
    verdicts_with_edit = chain.from_iterable(verdicts_by_entry)
    return dict(zip(cite_keys, verdicts_with_edit, strict=True))


def find_machine_priorities(start: Snapshot, head: Snapshot) -> Iterator[Finding]:
    """Find priorities of entries (and check levels `fail`) that a bot, agent or run set.

    Only values that differ between `start` and `head` count, and only the last commit that set
    each: a person may have confirmed a value that a machine set. An entry may take over the value
    of an entry that it supersedes.
    """
    workspace = start.workspace
    setters = _find_setting_commits(start, head)
    for entry_id, field in sorted(setters):
        commit = setters[entry_id, field]
        machine = _find_machine_author(workspace, commit)
        if not machine:
            continue
        located = head.entries_by_id[entry_id]
        value = PEOPLES_FIELDS[field](located.entry)
        message = f"{field} {value} was set by {machine} in {commit.sha[:12]}: only people set it"
        yield Finding(located.path, located.line, "priority-by-machine", message, PRIORITY_HINT)


def _find_setting_commits(start: Snapshot, head: Snapshot) -> dict[tuple[str, str], Commit]:
    """Find which commit between `start` and `head` set the values of the fields that people own.

    Returns:
        The newest such commit by the id of the entry and the name of the field (`priority`, for
        instance). Values that an entry had at `start` already are left out.
    """
    workspace = start.workspace
    values_to_find: set[tuple[str, str]] = set()  # id and field, without a commit so far
    for entry_id, located in head.entries_by_id.items():
        for field in PEOPLES_FIELDS:
            if _is_newly_set(located.entry, start.entries_by_id, field):
                values_to_find.add((entry_id, field))
    setters: dict[tuple[str, str], Commit] = {}
    if not values_to_find:
        return setters

    is_memory = build_memory_test(workspace)
    span = ("--end-of-options", head.sha, f"^{start.sha}", "--")
    # git log has the newest commit first.
    for commit, _ in read_log(workspace.repo, *FILE_OPTIONS, "--topo-order", "--no-renames", *span):
        if not values_to_find:
            break
        if not any(is_memory(file.path) for file in commit.files):
            continue
        entries = workspace.at(commit.sha).entries_by_id
        parents = [workspace.at(parent).entries_by_id for parent in commit.parents] or [{}]
        for entry_id, field in values_to_find:
            entry = entries[entry_id].entry if entry_id in entries else None
            # A merge sets a value only if none of its parents has it.
            if entry and all(_is_newly_set(entry, parent, field) for parent in parents):
                setters[entry_id, field] = commit
        values_to_find -= setters.keys()
    return setters


def _is_newly_set(entry: Entry, old_entries: Mapping[str, Located], field: str) -> bool:
    """Return whether a field of an entry has a value that it did not have before.

    An entry may take over the value of an entry that it supersedes, and a new entry may have the
    value `normal`. Neither counts as newly set.

    Args:
        entry: the entry.
        old_entries: the entries before, by id.
        field: the name of the field, a key of PEOPLES_FIELDS.
    """
    read_value = PEOPLES_FIELDS[field]
    old_values: set[str] = set()
    if entry.id not in old_entries:
        old_values.add("normal")
    for entry_id in (entry.id, *entry.supersedes):
        if entry_id in old_entries:
            old_values.add(read_value(old_entries[entry_id].entry))
    return read_value(entry) not in old_values


def _find_machine_author(workspace: Workspace, commit: Commit) -> str:
    """Return the name of the bot, agent or run that made a commit, "" for a person.

    The author and the trailers of the message say it.
    """
    values_by_trailer: dict[str, list[str]] = {name: [] for name in MACHINE_TRAILERS}
    for name, value in find_trailers(commit.message, MACHINE_TRAILERS):
        values_by_trailer[name].append(value)
    author = f"{commit.author} <{commit.email}>"
    co_authors = values_by_trailer[CO_AUTHOR_TRAILER]
    sessions = values_by_trailer[SESSION_TRAILER]
    steps = values_by_trailer[STEP]
    bots = workspace.config.extraction.bot_authors
    return find_bot_or_agent(author, co_authors, sessions, steps, bots)
