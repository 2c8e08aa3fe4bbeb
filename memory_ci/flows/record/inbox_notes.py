"""Notes of the inbox: who brought them, and whether what they say of their origin can be found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date
from functools import cache, lru_cache
from itertools import islice

from memory_ci.flows.record.gatherer import RecordRun, fold_blanks, read_said
from memory_ci.flows.sessions.quote import MAX_MARKS, is_captured
from memory_ci.flows.workspace import MAX_FILE_BYTES, Snapshot, Workspace
from memory_ci.gitrepo.history import iter_merged_changes, list_versions, plan_range
from memory_ci.gitrepo.merges import find_landing
from memory_ci.gitrepo.repo import find_commit
from memory_ci.gitrepo.sessionrefs import NOTES, StoredSession, list_stored, read_stored, session_ref
from memory_ci.lifecycle.fold import list_claims, mark_claimed
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.report import Finding, Level
from memory_ci.store.document import parse_memory_file

CLAIMS_HINT = "Of such a note title, body and type count, and that it is for a team or the project; leave out the rest."


def list_strangers(run: RecordRun, paths: Collection[str]) -> frozenset[str]:
    """The notes that an outsider added or changed: by the first-parent commits that did, back to the one that added it.

    Raises EngineError where the forge cannot be asked, RepositoryError (shallow-clone) where history does not hold it.
    """
    brought: list[tuple[str, Commit]] = []
    waiting = set(paths)
    repo = run.workspace.repo
    versions = list_versions(repo, run.base.sha, [f":(top,literal){path}" for path in paths]) if paths else ()
    for version in versions:
        if version.path in waiting:
            brought.append((version.path, version.commit))
            if any(file.path == version.path and file.status in "AD" for file in version.commit.files):
                waiting.remove(version.path)
        if not waiting:
            break
    return frozenset(path for path, tip in brought if _is_strange(run, tip, path))


def _is_strange(run: RecordRun, tip: Commit, path: str) -> bool:
    merged = _change_of(run.workspace, tip.sha)
    request = run.gatherer.find_request(merged)
    makers = [one for one in merged.commits if len(one.parents) < 2 and any(file.path == path for file in one.files)]
    return not all(run.gatherer.may_claim(one, merged, request) for one in makers or [merged.tip])


def _change_of(workspace: Workspace, tip: str) -> MergedChange:
    start = find_commit(workspace.repo, f"{tip}^1")
    (merged,) = iter_merged_changes(workspace.repo, plan_range(workspace.repo, start, tip))
    return merged


def prove(base: Snapshot, entry: Entry) -> Entry:
    """The entry with a mark on each address in its source and evidence that git does not confirm.

    What a session said is looked up in its captured digest. No commit holds what reviews said: that stays a claim.
    """
    workspace = base.workspace

    @cache
    def read(sha: str) -> tuple[Sequence[str], int | None] | None:
        """The texts of a commit that `base` holds, as a run would read it, and the number of its request."""
        commit, tip = find_commit(workspace.repo, sha), find_landing(workspace.repo, sha, base.sha)
        if commit is None or tip is None:
            return None
        merged = _change_of(workspace, tip)
        return [text for known, text in read_said(workspace, merged) if commit.startswith(known)], merged.number

    shas = [token[len("commit:") :] for token in (entry.source or "").split() if token.startswith("commit:")]

    def is_found(address: str, words: str) -> bool:
        kind, _, name = address.partition(":")
        if kind == "session":
            return is_captured(workspace, _list_sessions(base), name, words)
        if kind == "pr" and not words:
            return any(str(known[1]) == name for known in map(read, shas) if known)
        known = read(name) if kind == "commit" else None
        return known is not None and (not words or any(fold_blanks(words) in text for text in known[0]))

    return mark_claimed(entry, is_found)


def read_session_notes(base: Snapshot, keys: Collection[str]) -> Iterator[tuple[str, Entry]]:
    """What agents marked in captured sessions (`<agent>:<id>`), with the key of the session, three of each at most."""
    refs = {session_ref(*key.split(":", 1)): key for key in keys if ":" in key}
    sessions = [stored for stored in _list_sessions(base) if stored.ref in refs] if refs else []
    for stored, data in read_stored(base.workspace.repo, sessions, MAX_FILE_BYTES, NOTES):
        mark = f"session:{refs[stored.ref]}#"
        entries = parse_memory_file(NOTES, data).entries
        marked = (
            entry for entry in entries if entry.evidence and all(line.startswith(mark) for line in entry.evidence)
        )
        yield from ((refs[stored.ref], entry) for entry in islice(marked, MAX_MARKS))


@lru_cache(maxsize=1)
def _list_sessions(base: Snapshot) -> tuple[StoredSession, ...]:
    """The captured sessions that may be read, asked for once, however many notes name one."""
    return list_stored(base.workspace.repo) if base.workspace.config.sessions.read else ()


def find_note_claims(note: Located, day: date, level: Level) -> Iterator[Finding]:
    """A finding on an outsider's note that sets more than an outsider may."""
    if names := list_claims(note, day):
        message = f"who brought this note may not write, and sets {', '.join(names)}"
        yield Finding(note.path, note.line, "note-claims", message, CLAIMS_HINT, level)
