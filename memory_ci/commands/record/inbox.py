"""The inbox of notes that people and agents added: who committed each, and where it moves to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.run_results import RunResults
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.gitrepo.history import FileVersion, list_versions
from memory_ci.lifecycle.fold import keep_note_text, plan_fold
from memory_ci.memory.claims import find_note_claims, mark_unproved, read_change_of_tip
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, read_tombstones_at
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding
from memory_ci.sessions.repetitions import REPETITION_ENGINE


def fold_inbox(run: RecordRun, results: RunResults, problems: list[str]) -> tuple[Change, ...]:
    """Plan how the notes of the inbox move into the memory files of their scopes.

    The inbox is a directory of new notes that nobody has filed yet. Notes that must not be shown to
    agents stay there, with a finding. If it cannot be found out who committed the notes, all of
    them stay, and that is a problem of the run.

    Args:
        run: the run, whose draft of memory gets the moved notes.
        results: gets the findings.
        problems: gets a line if the notes stay.
    """
    draft = run.draft
    unsafe_findings = _find_unsafe_notes(draft)
    unsafe_paths = {finding.path for finding in unsafe_findings}
    safe_notes = [note for note in draft.inbox if note.path not in unsafe_paths]
    try:
        outsiders_paths = _list_notes_of_outsiders(run, {note.path for note in safe_notes})
    except (EngineError, RepositoryError) as error:
        results.findings += unsafe_findings
        reason = f"{error.message} [{error.slug}]"
        problems.append(f"who committed the notes of the inbox, which stay there: {reason}")
        return ()
    checked_notes: list[Located] = []
    claim_findings: list[Finding] = []
    for note in safe_notes:
        if note.path in outsiders_paths:
            # Anyone can write a note. Of an outsider's note only title, body and type are kept. Its
            # importance, its origin and the like are mere claims, which are reported.
            claim_findings += find_note_claims(note, run.today, "notice")
            checked_notes.append(keep_note_text(note, run.today))
        else:
            checked_notes.append(replace(note, entry=_prove_note(run, note.entry)))
    target_paths = {note.path: draft.path_of(note.scope) for note in checked_notes}
    changes, fold_findings = plan_fold(checked_notes, draft.located, target_paths, outsiders_paths)
    results.findings += (*fold_findings, *claim_findings, *unsafe_findings)
    return draft.apply(_add_cites_to_moves(draft.base, changes))


def _find_unsafe_notes(draft: Draft) -> list[Finding]:
    """Return findings on notes of the inbox that must not be shown to agents.

    Such a note holds credentials, instructions to a model, or text that was removed from memory for
    good.
    """
    forgotten = read_tombstones_at(draft.base)
    findings: list[Finding] = []
    for note in draft.inbox:
        findings += find_unsafe_entry(note)
        findings += find_forgotten(forgotten, note)
    return findings


def _add_cites_to_moves(base: Snapshot, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of the inbox, in which each moved note cites the code that it names.

    Other changes (of notes that repeat an entry) stay as they are.
    """
    cited_entries = cite_named(base.workspace, [change.entry for change in changes], base.sha)
    cited_changes: list[Change] = []
    for change, cited_entry in zip(changes, cited_entries, strict=True):
        is_move = change.kind == "move"
        cited_changes.append(replace(change, entry=cited_entry) if is_move else change)
    return cited_changes


def _prove_note(run: RecordRun, entry: Entry) -> Entry:
    """Return the entry of a note, with a mark on each source that does not hold its quotes.

    A request that a person repeated in several sessions is looked up in all sessions.
    """
    is_typed = run.gatherer.is_typed if entry.engine == REPETITION_ENGINE else None
    return mark_unproved(run.draft.base, entry, is_typed)


def _list_notes_of_outsiders(run: RecordRun, paths: Collection[str]) -> frozenset[str]:
    """Return the paths of notes that somebody without write access added or changed.

    Each note is followed along first parents back to the commit that added it.

    Args:
        run: the run.
        paths: the notes.

    Raises:
        EngineError: `forge-…` if the forge cannot be queried.
        RepositoryError: shallow-clone if history does not hold the addition.
    """
    outsiders_paths: set[str] = set()
    for version in _list_commits_of_notes(run, paths):
        merged = read_change_of_tip(run.workspace, version.commit.sha)
        request = run.gatherer.find_request(merged)
        for commit in _list_commits_of_file(merged, version.path):
            if not run.gatherer.is_by_member(commit, merged, request):
                outsiders_paths.add(version.path)
    return frozenset(outsiders_paths)


def _list_commits_of_file(merged: MergedChange, path: str) -> Sequence[Commit]:
    """Return the commits of a merged change that changed a file, without merges; else its tip."""
    commits: list[Commit] = []
    for commit in merged.commits:
        is_merge = len(commit.parents) > 1
        if not is_merge and any(file.path == path for file in commit.files):
            commits.append(commit)
    return commits or [merged.tip]


def _list_commits_of_notes(run: RecordRun, paths: Collection[str]) -> list[FileVersion]:
    """Return the first-parent commits that changed one of the notes.

    History is read from the newest commit on. Of each note the commits back to its addition are
    returned; older ones are of another note with the same path.
    """
    if not paths:
        return []
    versions: list[FileVersion] = []
    unfinished_paths = set(paths)
    pathspecs = [f":(top,literal){path}" for path in paths]
    for version in list_versions(run.workspace.repo, run.base.sha, pathspecs):
        if version.path in unfinished_paths:
            versions.append(version)
            if _adds_or_deletes(version.commit, version.path):
                unfinished_paths.remove(version.path)
        if not unfinished_paths:
            break
    return versions


def _adds_or_deletes(commit: Commit, path: str) -> bool:
    return any(file.path == path and file.status in "AD" for file in commit.files)
