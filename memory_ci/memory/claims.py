"""Claims: what a message says of other work, and a note of the inbox of its origin, counts if people who may write
brought it, or if git proves it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, cached_property, lru_cache
from itertools import islice

from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.log import list_committers, read_log
from memory_ci.gitrepo.merges import find_landing
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor
from memory_ci.gitrepo.sessionrefs import (
    NOTES,
    StoredSession,
    list_stored,
    read_stored,
    session_ref,
)
from memory_ci.gitrepo.squash_trailers import is_inverse
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.lifecycle.fold import list_claims, mark_claimed
from memory_ci.lifecycle.reverts import Revert, RevertClaim, label_of
from memory_ci.memory.commit_texts import fold_blanks, read_said
from memory_ci.memory.quotes import MAX_MARKS, is_captured
from memory_ci.memory.workspace import MAX_FILE_BYTES, Snapshot, Workspace
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import HOLDOUT, SERVED, SHA_WIDTH, USED
from memory_ci.records.report import Finding, Level
from memory_ci.store.document import parse_memory_file

MAX_IDS = (
    100  # Entries that one change is told to have been given; a job is given a fraction of it.
)
HINT = "Someone who may write here can say it in a commit of their own."

Strangers = Mapping[str, tuple[str, str]]
"""By shortened id each commit of somebody who may not write: the tips before and after the change that brought it."""


def list_ids(texts: Iterable[str], key: str) -> tuple[str, ...]:
    """The ids that the trailers `key` of messages name, as they are written, in order."""
    pairs = (pair for text in texts for pair in find_trailers(text, (SERVED, USED, HOLDOUT)))
    return tuple(
        dict.fromkeys(one for name, value in pairs if name == key for one in split_ids(value))
    )[:MAX_IDS]


class Copies:
    """The commits that say what they were given or used: what a cherry-pick or a rebase brings again counts once.
    Commits of a range are claimed oldest first; those before it are known."""

    def __init__(self, repo: Repository, since: str | None) -> None:
        self._repo, self._since = repo, since

    def claim(self, commit: Commit) -> bool:
        """Take note of a commit; False where an older one is this one: of the same author, time and subject."""
        words = commit.message.lower()
        if not any(f"{key.lower()}:" in words for key in (SERVED, USED)):
            return True
        return self._known.setdefault(_authorship(commit), commit.sha) == commit.sha

    @cached_property
    def _known(self) -> dict[tuple[str, str, str], str]:
        """The first commit of each authorship; one git process, and only where the range has trailers."""
        start = self._since and find_commit(self._repo, self._since)
        grep = ("--fixed-strings", "--regexp-ignore-case", f"--grep={SERVED}:", f"--grep={USED}:")
        log = read_log(self._repo, *grep, "--end-of-options", start, "--") if start else ()
        return {
            _authorship(commit): commit.sha for commit, _ in log
        }  # from the newest on: the oldest stays


def _authorship(commit: Commit) -> tuple[str, str, str]:
    """What a copy keeps: the author, when it was written, and what it is called."""
    return commit.email, commit.authored_at.isoformat(), commit.subject


class Claims:
    """Counts the reverts that messages claim, and keeps those that it refused. The number of a request is what episodes
    say that it is: a stranger may write any into his own messages."""

    def __init__(self, repo: Repository, strangers: Strangers, episodes: Iterable[Episode]) -> None:
        self._repo, self._strangers = repo, strangers
        self._numbered: dict[str, set[str]] = {}
        for episode in episodes:
            if episode.action.commit and episode.action.pr is not None:
                self._numbered.setdefault(f"pr:{episode.action.pr}", set()).add(
                    episode.action.commit
                )
        self._refused: dict[tuple[str, str], Revert] = {}

    @property
    def refused(self) -> tuple[Revert, ...]:
        return tuple(self._refused.values())

    def count(self, commit: Commit, claim: RevertClaim) -> frozenset[str]:
        """The names that count as reverted."""
        span = self._strangers.get(commit.sha[:SHA_WIDTH])
        if span is None:
            return claim.names
        proved = self._prove(claim, *span)
        shas = frozenset(name for name in claim.names if ":" not in f"{claim.work} {name}")
        if refused := shas - proved if proved else claim.names:
            self._refused[commit.sha, claim.work] = Revert(
                commit.sha[:SHA_WIDTH], label_of(commit), refused
            )
        return proved

    def _prove(self, claim: RevertClaim, start: str, tip: str) -> frozenset[str]:
        """The names whose revert git proves: work of the change itself, or work that the change inverts. A stranger
        chooses the parents of his merge and the mainline that he names. So the work must be an ancestor of the change,
        and no commit from before that work counts."""
        shas = self._numbered.get(claim.work, set()) if ":" in claim.work else {claim.work}
        work = find_commit(self._repo, next(iter(shas))) if len(shas) == 1 else None
        if work is None or not is_ancestor(self._repo, work, tip):
            return frozenset()
        is_own = not is_ancestor(self._repo, work, start)
        if not is_own and not is_inverse(self._repo, work, start, tip):
            return frozenset()
        numbers = {name for name, commits in self._numbered.items() if commits == {work}}
        before = start if is_own else f"{work}^1"
        brought = list_committers(self._repo, before, work) if ":" not in claim.work else ()
        named = claim.names.intersection(sha[:SHA_WIDTH] for sha in brought)
        return frozenset({work[:SHA_WIDTH]} | named | numbers)


def list_refused(refused: Iterable[Revert], level: Level) -> Iterator[Finding]:
    """A finding for each revert that an outsider claims and git does not bear out."""
    for revert in refused:
        what = min(revert.undoes, key=lambda name: (":" not in name, name)).replace("pr:", "#")
        message = f"the commit {revert.sha} says that it takes back {what}, and does not: who brought it may not write"
        yield unproved(f"{message}, and it counts for nothing", level)


def find_claimed_uses(commit: Commit, level: Level) -> Iterator[Finding]:
    """A finding for trailers of an outsider: they would move the utility of entries."""
    if keys := dict.fromkeys(key for key, _ in find_trailers(commit.message, (SERVED, USED))):
        message = f"the commit {commit.sha[:SHA_WIDTH]} says {' and '.join(keys)}: who brought it may not write"
        yield unproved(f"{message}, and it counts for nothing", level)


def unproved(message: str, level: Level) -> Finding:
    return Finding(".", 1, "unproved-claim", message, HINT, level)


# -- notes of the inbox

NOTE_HINT = "Of such a note title, body and type count, and that it is for a team or the project; leave out the rest."


def change_of_tip(workspace: Workspace, tip: str) -> MergedChange:
    start = find_commit(workspace.repo, f"{tip}^1")
    (merged,) = iter_merged_changes(workspace.repo, plan_range(workspace.repo, start, tip))
    return merged


def prove(base: Snapshot, entry: Entry) -> Entry:
    """The entry with a mark on each address in its source and evidence that git does not confirm. What a session said
    is looked up in its captured digest. No commit holds what reviews said: that stays a claim."""
    workspace = base.workspace

    @cache
    def read(sha: str) -> tuple[Sequence[str], int | None] | None:
        """The texts of a commit that `base` holds, as a run would read it, and the number of its request."""
        commit, tip = find_commit(workspace.repo, sha), find_landing(workspace.repo, sha, base.sha)
        if commit is None or tip is None:
            return None
        merged = change_of_tip(workspace, tip)
        return [
            text for known, text in read_said(workspace, merged) if commit.startswith(known)
        ], merged.number

    shas = [
        token[len("commit:") :]
        for token in (entry.source or "").split()
        if token.startswith("commit:")
    ]

    def is_found(address: str, words: str) -> bool:
        kind, _, name = address.partition(":")
        if kind == "session":
            title = "" if entry.adoption == "rejected" else entry.title
            return is_captured(workspace, _list_sessions(base), name, words, title)
        if kind == "pr" and not words:
            return any(str(known[1]) == name for known in map(read, shas) if known)
        known = read(name) if kind == "commit" else None
        return known is not None and (
            not words or any(fold_blanks(words) in text for text in known[0])
        )

    return mark_claimed(entry, is_found)


def read_session_notes(base: Snapshot, keys: Collection[str]) -> Iterator[tuple[str, Entry]]:
    """What agents marked in captured sessions (`<agent>:<id>`), with the key of the session, three of each at most."""
    refs = {session_ref(*key.split(":", 1)): key for key in keys if ":" in key}
    sessions = [stored for stored in _list_sessions(base) if stored.ref in refs] if refs else []
    for stored, data in read_stored(base.workspace.repo, sessions, MAX_FILE_BYTES, NOTES):
        mark = f"session:{refs[stored.ref]}#"
        entries = parse_memory_file(NOTES, data).entries
        marked = (
            entry
            for entry in entries
            if entry.evidence and all(line.startswith(mark) for line in entry.evidence)
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
        yield Finding(note.path, note.line, "note-claims", message, NOTE_HINT, level)
