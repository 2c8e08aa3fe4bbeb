"""Candidates: what merged work says that looks like a learning, for a person to accept or to decline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.flows.forgotten import HEADER, REJECTED_FILE, parse_rejected
from memory_ci.flows.inbox.add import Added, add_entry, split_text
from memory_ci.flows.record.maintainer_decisions import say_rejected
from memory_ci.flows.record.run import RecordOptions, plan_record
from memory_ci.flows.workspace import Workspace, branch_tip, load_memory, memory_test, work_tree, workspace_at
from memory_ci.gitrepo.history import find_addition, find_cursor
from memory_ci.gitrepo.repo import find_commit, find_setting
from memory_ci.records.candidate import Suggestion
from memory_ci.store.files import write_file
from memory_ci.store.manual_notes import demote_headings


class Candidates(msgspec.Struct, frozen=True):
    """The suggestions of a range of merged work, the best first; `since` is where it begins (None: at the root).

    `changes` is the number of merged changes in it.
    """

    ref: str
    base: str
    since: str | None
    found: tuple[Suggestion, ...]
    changes: int = 0


def list_candidates(
    workspace: Workspace, options: RecordOptions, today: date, environ: Mapping[str, str]
) -> Candidates:
    """What the last record run and the work after it propose, or the range that the options name.

    What the work tree has as an entry or a note, and what was declined, is left out. Nothing is kept between calls.
    Raises what `plan_record` raises.
    """
    ref, base = branch_tip(workspace, options.ref, options.base)
    since = options.since if options.since is not None else _find_earlier(workspace, base)
    asked = replace(options, ref=ref, base=base, since=since, engine=options.engine or "rules")
    plan = plan_record(workspace, asked, today, lambda done, count: None, environ)
    entries = [place.entry for place in load_memory(workspace, None).located]
    unwanted = {line.split()[0] for line in parse_rejected(_read_declined(work_tree(workspace)))}
    found = tuple(list_suggestions(plan.judged, unwanted, entries))
    return Candidates(ref, base, plan.since, found, plan.counts.merged_changes)


def accept(
    workspace: Workspace, one: Suggestion, today: date, text: str | None = None, *, dry_run: bool = False
) -> Added:
    """A note in the inbox that says what the candidate says, or `text`, with its quotes and who accepted it.

    Raises UsageError (empty-entry), and what `add_entry` raises.
    """
    name = find_setting(workspace.repo, "user.name") or "a person"
    candidate = replace(one.candidate, accepted=f"by {name}")
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=today, merged_on=today)
    if text is not None:
        title, body = split_text(text)
        entry = replace(entry, title=title, body=demote_headings(body))
    return add_entry(workspace, replace(entry, scope=candidate.scope), dry_run=dry_run)


def decline(workspace: Workspace, found: Sequence[Suggestion], *, dry_run: bool = False) -> str:
    """Add a line for each to the file of what was declined, in the work tree; its path.

    Raises RepositoryError (bare-repository, write-failed).
    """
    root = work_tree(workspace)
    text = _read_declined(root) or HEADER
    lines = [say_rejected(one.candidate.title, one.candidate.body) for one in found]
    fresh = [line for line in dict.fromkeys(lines) if line not in parse_rejected(text)]
    if fresh and not dry_run:
        write_file(root / REJECTED_FILE, "\n".join((text.rstrip("\n"), *fresh, "")).encode(), root)
    return REJECTED_FILE


def _find_earlier(workspace: Workspace, base: str) -> str | None:
    """Where the range of the last record run began: where the run before it ended, or memory-ci came in."""
    is_memory = memory_test(workspace_at(workspace.repo, base))
    last = find_cursor(workspace.repo, base, is_memory)
    start = find_commit(workspace.repo, f"{last.commit}^") if last else None
    before = find_cursor(workspace.repo, start, is_memory) if start else None
    return before.source if before else find_addition(workspace.repo, base, CONFIG_FILE)


def _read_declined(root: Path) -> str:
    path = root / REJECTED_FILE
    return path.read_text("utf-8", "replace") if path.is_file() else ""
