"""Findings on a range of commits: entries whose cited code changed, and who set priorities.

An entry is a note for coding agents in a memory file. Only commits are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from memory_ci.commands.check.check import CheckReport
from memory_ci.errors import UsageError
from memory_ci.evidence.trust import find_machine
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

SESSION = "Memory-Session"
CO_AUTHOR = "Co-authored-by"
TRAILERS = (STEP, SESSION, CO_AUTHOR)
"""The trailers of commits that no person alone made."""

PRIORITY_HINT = (
    "Take it back, or let a person set it in a commit of their own, which no agent signs."
)


def _read_priority(entry: Entry) -> str:
    return entry.priority or "normal"


def _read_level(entry: Entry) -> str:
    return "fail" if entry.level == "fail" else "normal"


OWNED_FIELDS: Mapping[str, Callable[[Entry], str]] = {
    "priority": _read_priority,
    "level": _read_level,
}
"""The fields that only people may set, each with a function that reads its value.

An entry without the field has the value `normal`.
"""


def add_range_findings(workspace: Workspace, report: CheckReport, range_text: str) -> CheckReport:
    """Return a report to which the findings on a range of commits are added.

    These are the entries whose cited code the commits changed, and the priorities that no person
    set.

    Args:
        workspace: the repository.
        report: the findings on the memory files.
        range_text: the range, as `A..B`.

    Raises:
        UsageError: bad-range.
        RepositoryError: unknown-revision.
    """
    start, head = read_range(workspace, range_text)
    touched = find_touched_entries(start, head)
    priorities = find_machine_priorities(start, head)
    return replace(report, findings=(*report.findings, *touched, *priorities))


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


def find_touched_entries(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Find the entries of `head` whose cited code was changed since `start`, or before it.

    A verdict says where the code of a cite is at a commit, and whether it is still the same.
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
    touched_keys = []
    for key, verdict in new_verdicts.items():
        if verdict != old_verdicts[key] or verdict.kind == "changed":
            touched_keys.append(key)
    touched_entries = list(dict.fromkeys(entry_by_cite[key].entry for key in touched_keys))
    new_verdicts = _add_last_edits(head, touched_entries, new_verdicts)

    old_files = [start.tree.files.get(old_verdicts[key].path) for key in touched_keys]
    new_files = [head.tree.files.get(new_verdicts[key].path) for key in touched_keys]
    texts = _read_texts(workspace.repo, [*old_files, *new_files])
    cite_changes = []
    for key, old_file, new_file in zip(touched_keys, old_files, new_files, strict=True):
        cite_change = CiteChange(
            entry_by_cite[key],
            old_verdicts[key],
            new_verdicts[key],
            texts[old_file],
            texts[new_file],
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
    keys_by_entry = []
    judged_entries = []
    for entry in entries:
        keys = [(entry.id, cite) for cite in entry.cites if (entry.id, cite) in verdicts]
        keys_by_entry.append(keys)
        judged_entries.append((entry, [verdicts[key] for key in keys]))

    edited: Verdicts = {}
    verdicts_by_entry = add_last_edits(head.workspace, judged_entries, head.sha)
    for keys, entry_verdicts in zip(keys_by_entry, verdicts_by_entry, strict=True):
        for key, verdict in zip(keys, entry_verdicts, strict=True):
            edited[key] = verdict
    return edited


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
        value = OWNED_FIELDS[field](located.entry)
        message = f"{field} {value} was set by {machine} in {commit.sha[:12]}: only people set it"
        yield Finding(located.path, located.line, "priority-by-machine", message, PRIORITY_HINT)


def _find_setting_commits(start: Snapshot, head: Snapshot) -> dict[tuple[str, str], Commit]:
    """Return the newest commit that set each value of an owned field that `start` does not have.

    The keys are the id of the entry and the name of the field (see OWNED_FIELDS).
    """
    workspace = start.workspace
    missing_setters: set[tuple[str, str]] = set()
    for entry_id, located in head.entries_by_id.items():
        for field in OWNED_FIELDS:
            if _is_newly_set(located.entry, start.entries_by_id, field):
                missing_setters.add((entry_id, field))
    setters: dict[tuple[str, str], Commit] = {}
    if not missing_setters:
        return setters

    is_memory = build_memory_test(workspace)
    span = ("--end-of-options", head.sha, f"^{start.sha}", "--")
    # git log has the newest commit first.
    for commit, _ in read_log(workspace.repo, *FILE_OPTIONS, "--topo-order", "--no-renames", *span):
        if not missing_setters:
            break
        if not any(is_memory(file.path) for file in commit.files):
            continue
        entries = workspace.at(commit.sha).entries_by_id
        parents = [workspace.at(parent).entries_by_id for parent in commit.parents] or [{}]
        for entry_id, field in missing_setters:
            entry = entries[entry_id].entry if entry_id in entries else None
            # A merge sets a value only if none of its parents has it.
            if entry and all(_is_newly_set(entry, parent, field) for parent in parents):
                setters[entry_id, field] = commit
        missing_setters -= setters.keys()
    return setters


def _is_newly_set(entry: Entry, old_entries: Mapping[str, Located], field: str) -> bool:
    """Return whether neither an entry nor an entry that it supersedes had its value before.

    A new entry may have the value `normal`.
    """
    read_value = OWNED_FIELDS[field]
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
    values_by_trailer: dict[str, list[str]] = {name: [] for name in TRAILERS}
    for name, value in find_trailers(commit.message, TRAILERS):
        values_by_trailer[name].append(value)
    author = f"{commit.author} <{commit.email}>"
    co_authors = values_by_trailer[CO_AUTHOR]
    sessions = values_by_trailer[SESSION]
    steps = values_by_trailer[STEP]
    bots = workspace.config.extraction.bot_authors
    return find_machine(author, co_authors, sessions, steps, bots)
