"""Claims of people without write access, such as "this reverts ...": they count if git proves them.

A commit message makes claims about other work, and a note of the inbox about its origin. Claims of
people who may write to the repository always count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.log import list_committers, read_log
from memory_ci.gitrepo.merges import find_first_parent_commit
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor
from memory_ci.gitrepo.sessionrefs import (
    NOTES,
    StoredSession,
    list_stored,
    read_stored,
    session_ref,
)
from memory_ci.gitrepo.squash_trailers import is_revert_of
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.lifecycle.fold import list_restricted_fields, mark_unproved_addresses
from memory_ci.lifecycle.reverts import Revert, RevertClaim, format_change_label
from memory_ci.memory.commit_texts import fold_blanks, read_change_texts
from memory_ci.memory.quotes import MAX_QUOTES_PER_SESSION, is_quote_captured
from memory_ci.memory.workspace import MAX_FILE_BYTES, Snapshot, Workspace
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import HOLDOUT_TRAILER, SERVED_TRAILER, SHA_WIDTH, USED_TRAILER
from memory_ci.records.report import Finding, Level
from memory_ci.store.document import parse_memory_file

MAX_IDS = 100
"""Entries that one change may say it was served; a job is served a fraction of this number."""

HINT = "Someone who may write here can say it in a commit of their own."

OutsidersCommits = Mapping[str, tuple[str, str]]
"""Commits of people without write access (outsiders), by shortened id.

The values are the tips of the branch before and after the merge that brought the commit.
"""

IsTyped = Callable[[str, str], bool]
"""Takes the key of a session and some words; returns whether a person typed them there."""


def list_ids(texts: Iterable[str], key: str) -> tuple[str, ...]:
    """Return the ids of entries in the trailers of messages, in order and without duplicates.

    Args:
        texts: commit messages.
        key: the name of the trailer, as `Memory-Used`.
    """
    ids: dict[str, None] = {}
    for text in texts:
        for name, value in find_trailers(text, (SERVED_TRAILER, USED_TRAILER, HOLDOUT_TRAILER)):
            if name == key:
                ids |= dict.fromkeys(split_ids(value))
    return tuple(ids)[:MAX_IDS]


_CopyKey = tuple[str, str, str]  # The author, author date and subject of a commit.


class OriginalCommits:
    """The commits with trailers of served or used entries, without their copies.

    A cherry-pick or a rebase copies a commit with its trailers, and the copy must not count again.
    The commits of a range are added one by one, oldest first. Those before the range are originals.
    """

    def __init__(self, repo: Repository, since: str | None) -> None:
        """Prepare to add the commits of a range.

        Args:
            repo: the repository.
            since: the commit before the range; None if it begins with the first commit.
        """
        self._repo = repo
        self._since = since

    def add(self, commit: Commit) -> bool:
        """Add a commit with trailers, unless it is a copy of an older commit.

        Returns:
            False if the commit is a copy, whose trailers do not count. A commit without trailers
            is not added.
        """
        message = commit.message.lower()
        trailers = (f"{SERVED_TRAILER.lower()}:", f"{USED_TRAILER.lower()}:")
        if not any(trailer in message for trailer in trailers):
            return True
        original_sha = self._original_shas.setdefault(_copy_key(commit), commit.sha)
        return original_sha == commit.sha

    @cached_property
    def _original_shas(self) -> dict[_CopyKey, str]:
        """The oldest commit with trailers of each author, author date and subject.

        At first those before the range. The log is read by one git process, and only if the range
        has trailers.
        """
        start = find_commit(self._repo, self._since) if self._since else None
        if start is None:
            return {}
        commits_with_trailers = (
            "--fixed-strings",
            "--regexp-ignore-case",
            f"--grep={SERVED_TRAILER}:",
            f"--grep={USED_TRAILER}:",
        )
        log = read_log(self._repo, *commits_with_trailers, "--end-of-options", start, "--")
        # The log is newest first, so the oldest commit remains.
        return {_copy_key(commit): commit.sha for commit, _ in log}


def _copy_key(commit: Commit) -> _CopyKey:
    """Return the author, author date and subject, which a commit and its copies share."""
    return commit.email, commit.authored_at.isoformat(), commit.subject


class Claims:
    """A check of the reverts that commit messages claim, with a list of the refused ones.

    The number of a request comes from episodes only, because an outsider can write any number into
    the messages of their own commits.
    """

    def __init__(
        self,
        repo: Repository,
        outsiders_commits: OutsidersCommits,
        episodes: Iterable[Episode],
    ) -> None:
        """Prepare the check.

        Args:
            repo: the repository.
            outsiders_commits: the commits of people without write access. Claims of all others
                count in full.
            episodes: the records of merged work, which say by which commit a request was merged.
        """
        self._repo = repo
        self._outsiders_commits = outsiders_commits
        self._episodes = episodes
        # By the commit with the claim, and the name of the work that it says is reverted.
        self._refused: dict[tuple[str, str], Revert] = {}

    @cached_property
    def _commits_by_request(self) -> dict[str, set[str]]:
        """The merged commits of each request, read when the first claim is checked."""
        commits_by_request: dict[str, set[str]] = {}
        for episode in self._episodes:
            action = episode.action
            if action.commit and action.pr is not None:
                commits = commits_by_request.setdefault(f"pr:{action.pr}", set())
                commits.add(action.commit)
        return commits_by_request

    @property
    def refused(self) -> tuple[Revert, ...]:
        """The claimed reverts that do not count."""
        return tuple(self._refused.values())

    def accept_names(self, commit: Commit, claim: RevertClaim) -> frozenset[str]:
        """Return the names of the work (commits, `pr:128`) that counts as reverted by a commit.

        A claim of somebody with write access counts in full. Of an outsider's claim only those
        names count that git proves; the others are added to `refused`.

        Args:
            commit: the commit whose message makes the claim.
            claim: the work that it says is reverted: one name of it, and all names that it has.
        """
        tips = self._outsiders_commits.get(commit.sha[:SHA_WIDTH])
        if tips is None:
            return claim.all_names

        tip_before, tip_after = tips
        proved_names = self._list_proved_names(claim, tip_before, tip_after)
        if not proved_names:
            refused_names = claim.all_names
        elif _is_request(claim.work_name):
            refused_names = frozenset()
        else:
            # The revert of the claimed commit is proved. If the commit is a merge, the claim names
            # merged commits as well. Those that it did not bring in are refused.
            commit_names = [name for name in claim.all_names if not _is_request(name)]
            refused_names = frozenset(commit_names) - proved_names
        if refused_names:
            revert = Revert(commit.sha[:SHA_WIDTH], format_change_label(commit), refused_names)
            self._refused[commit.sha, claim.work_name] = revert
        return proved_names

    def _list_proved_names(
        self, claim: RevertClaim, tip_before: str, tip_after: str
    ) -> frozenset[str]:
        """Return the names of the work whose revert git proves; none if it proves nothing.

        The revert is made by the merge that brought the commit with the claim to the branch. It is
        proved if the claimed work was on the branch before and the merge changed back what the work
        had changed, or if the merge brought the work itself.

        If the work is a merge commit, the commits that it merged are reverted with it. Outsiders
        choose the parents of their own merge commits, so only commits that came with the work
        count.

        Args:
            claim: the claimed revert.
            tip_before: the tip of the branch before the merge that brought the claim.
            tip_after: the tip after that merge.
        """
        work_sha = self._find_work(claim)
        if work_sha is None or not is_ancestor(self._repo, work_sha, tip_after):
            return frozenset()
        came_with_claim = not is_ancestor(self._repo, work_sha, tip_before)
        if not came_with_claim and not is_revert_of(self._repo, work_sha, tip_before, tip_after):
            return frozenset()

        proved_names = {work_sha[:SHA_WIDTH]}
        for request_name, commits in self._commits_by_request.items():
            if commits == {work_sha}:
                proved_names.add(request_name)
        if not _is_request(claim.work_name):
            start = tip_before if came_with_claim else f"{work_sha}^1"
            merged_shas = [sha[:SHA_WIDTH] for sha in list_committers(self._repo, start, work_sha)]
            proved_names |= claim.all_names.intersection(merged_shas)
        return frozenset(proved_names)

    def _find_work(self, claim: RevertClaim) -> str | None:
        """Return the commit of the claimed work, None if a request has several or it is unknown."""
        shas = {claim.work_name}
        if _is_request(claim.work_name):
            shas = self._commits_by_request.get(claim.work_name, set())
        if len(shas) != 1:
            return None
        (sha,) = shas
        return find_commit(self._repo, sha)


def _is_request(name: str) -> bool:
    """Return whether the name of some work is a request, as `pr:128`, and not a commit id."""
    return ":" in name


def list_refused(refused: Iterable[Revert], level: Level) -> Iterator[Finding]:
    """Yield a finding for each revert that an outsider claims and git does not prove.

    It names the reverted work by its request, or else by its commit.
    """
    for revert in refused:
        request_names = [name for name in revert.reverted_names if _is_request(name)]
        # The first in alphabetical order, so that the message does not depend on the set's order.
        work_name = min(request_names or revert.reverted_names)
        message = (
            f"the commit {revert.sha} says that it reverts {work_name.replace('pr:', '#')}, "
            "and git does not prove it; its author has no write access, so the claim is ignored"
        )
        yield report_unproved_claim(message, level)


def find_claimed_uses(commit: Commit, level: Level) -> Iterator[Finding]:
    """Yield a finding if an outsider's commit has trailers that say which entries it used.

    Anyone may open a request, and such trailers would make entries seem more or less useful.
    """
    trailers = find_trailers(commit.message, (SERVED_TRAILER, USED_TRAILER))
    keys = dict.fromkeys(key for key, _ in trailers)
    if keys:
        message = (
            f"the commit {commit.sha[:SHA_WIDTH]} has {' and '.join(keys)}; "
            "its author has no write access, so the trailers are ignored"
        )
        yield report_unproved_claim(message, level)


def report_unproved_claim(message: str, level: Level) -> Finding:
    """Return a finding on an unproved claim."""
    return Finding(".", 1, "unproved-claim", message, HINT, level)


NOTE_HINT = (
    "Only title, body, type and a scope of a team or the project count in such a note; "
    "leave out the rest."
)


def read_change_of_tip(workspace: Workspace, tip: str) -> MergedChange:
    """Return the merged change whose last commit on the branch is `tip`."""
    start = find_commit(workspace.repo, f"{tip}^1")
    # A range of one first-parent commit is one change.
    (merged,) = iter_merged_changes(workspace.repo, plan_range(workspace.repo, start, tip))
    return merged


def mark_unproved(base: Snapshot, entry: Entry, is_typed: IsTyped | None = None) -> Entry:
    """Mark each origin in the source and the evidence of an entry that git does not confirm.

    An origin is an address such as `commit:1a2b3c4`, in the evidence with words that are quoted
    from there. Origins in commits are confirmed by the history of `base`, quotes of sessions by the
    captured sessions. The words of reviews are in no commit, so they are always marked.

    Args:
        base: the commit whose history is searched.
        entry: the entry.
        is_typed: a further way to confirm quotes of sessions: it takes the address of a turn
            (`<agent>:<id>#<line>`) and the words, and returns whether a person typed them there.
    """
    return mark_unproved_addresses(entry, _Prover(base, entry, is_typed).is_confirmed)


class _CommitTexts(NamedTuple):
    """The texts that a run reads in a commit, and the number of its request."""

    texts: Sequence[str]
    number: int | None


class _Prover:
    """A check of the origins of one entry against the history of a snapshot."""

    def __init__(self, base: Snapshot, entry: Entry, is_typed: IsTyped | None) -> None:
        self._base = base
        self._entry = entry
        self._is_typed = is_typed
        self._texts_by_commit: dict[str, _CommitTexts | None] = {}

    def is_confirmed(self, address: str, words: str) -> bool:
        """Return whether a commit, session or request exists, and holds the quoted words.

        Args:
            address: the origin, as `commit:1a2b3c4`, `session:<key>#<turn>` or `pr:128`.
            words: the words that the entry quotes from it; "" for none.
        """
        kind, _, name = address.partition(":")
        if kind == "session":
            return self._is_in_session(name, words)
        if kind == "pr" and not words:
            return name in self._list_request_numbers()
        if kind != "commit":
            return False

        commit_texts = self._read_commit(name)
        if commit_texts is None:
            return False
        return not words or any(fold_blanks(words) in text for text in commit_texts.texts)

    def _is_in_session(self, address: str, words: str) -> bool:
        """Return whether a person typed the quoted words in a session.

        Either `is_typed` says so, or a captured session has the words. Words of a captured session
        do not count if the title of the entry says the opposite of them, unless the entry is about
        an approach that was rejected.

        Args:
            address: the session and the line, `<agent>:<id>#<line>`.
            words: the words.
        """
        if self._is_typed is not None and self._is_typed(address, words):
            return True
        title = "" if self._entry.adoption == "rejected" else self._entry.title
        sessions = _list_sessions(self._base)
        return is_quote_captured(self._base.workspace, sessions, address, words, title)

    def _list_request_numbers(self) -> list[str]:
        """Return the request numbers of the commits in the source of the entry."""
        numbers = []
        for address in (self._entry.source or "").split():
            kind, _, sha = address.partition(":")
            commit_texts = self._read_commit(sha) if kind == "commit" else None
            if commit_texts is not None:
                numbers.append(str(commit_texts.number))
        return numbers

    def _read_commit(self, sha: str) -> _CommitTexts | None:
        """Read a commit of the history as a run would, once; None if it is not in the history."""
        if sha not in self._texts_by_commit:
            self._texts_by_commit[sha] = _read_commit_texts(self._base, sha)
        return self._texts_by_commit[sha]


def _read_commit_texts(base: Snapshot, sha: str) -> _CommitTexts | None:
    """Read the texts of a commit, and the number of the request that merged it.

    The texts are those that a record run extracts entries from, such as the message and the
    documents that the commit adds.

    Returns:
        None if the commit is not in the history of `base`.
    """
    workspace = base.workspace
    full_sha = find_commit(workspace.repo, sha)
    merge_sha = find_first_parent_commit(workspace.repo, sha, base.sha)
    if full_sha is None or merge_sha is None:
        return None
    merged_change = read_change_of_tip(workspace, merge_sha)
    texts = []
    for short_sha, text in read_change_texts(workspace, merged_change):
        if full_sha.startswith(short_sha):
            texts.append(text)
    return _CommitTexts(texts, merged_change.number)


def read_session_notes(base: Snapshot, keys: Collection[str]) -> Iterator[tuple[str, Entry]]:
    """Yield the entries that agents noted in captured sessions.

    A session is stored with a memory file of its notes (NOTES). Of each session at most
    MAX_QUOTES_PER_SESSION entries are returned, and only those that quote that session.

    Args:
        base: the snapshot whose configuration says whether sessions are read.
        keys: keys of sessions (`<agent>:<id>`).

    Yields:
        The key of the session, and the entry.
    """
    key_by_ref = {}
    for key in keys:
        agent, colon, session_id = key.partition(":")
        if colon:
            key_by_ref[session_ref(agent, session_id)] = key
    if not key_by_ref:
        return
    sessions = [session for session in _list_sessions(base) if session.ref in key_by_ref]
    for session, data in read_stored(base.workspace.repo, sessions, MAX_FILE_BYTES, NOTES):
        key = key_by_ref[session.ref]
        entries = parse_memory_file(NOTES, data).entries
        session_entries = [entry for entry in entries if _is_from_session(entry, key)]
        for entry in session_entries[:MAX_QUOTES_PER_SESSION]:
            yield key, entry


def _is_from_session(entry: Entry, key: str) -> bool:
    """Return whether an entry has evidence, and all of it is from one session."""
    if not entry.evidence:
        return False
    return all(quote.startswith(f"session:{key}#") for quote in entry.evidence)


@lru_cache(maxsize=1)
def _list_sessions(base: Snapshot) -> tuple[StoredSession, ...]:
    """Return the captured sessions that may be read, listed once for all notes."""
    return list_stored(base.workspace.repo) if base.workspace.config.sessions.read else ()


def find_note_claims(note: Located, day: date, level: Level) -> Iterator[Finding]:
    """Yield a finding if an outsider's note sets fields that an outsider may not set."""
    names = list_restricted_fields(note, day)
    if names:
        message = f"the author of this note has no write access, and sets {', '.join(names)}"
        yield Finding(note.path, note.line, "note-claims", message, NOTE_HINT, level)
