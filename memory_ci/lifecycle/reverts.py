"""Reverts in commit messages, the outcome of a change, and the entries that a revert makes suspect.

Entries that were learned from a reverted change are suspect. A suspect entry has a line of evidence
from which the suspicion can be undone exactly.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.prominence import demote
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import Change
from memory_ci.records.retrieval import Outcome
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

MIN_SHA = 7
"""Length of the shortest abbreviation of a commit id that is read."""

SHA = rf"[0-9a-f]{{{MIN_SHA},64}}"
SHAS = rf"{SHA}(?:(?:,| and|, and)\s+{SHA})*"
NUMBER = r"[1-9][0-9]*"
OPENING = r"^[ \t*•-]*|[.!:]\s+"

IN_PART = r"(?!\W*\s(?:partially|in part|partly|except|but)\b)"
"""Excludes a revert of a part, because the other part of the work stays."""

REVERTS_COMMIT = Regex(
    rf"(?:{OPENING})(?:This reverts|Reverts) commits? (?P<shas>{SHAS})\b{IN_PART}"
    rf"(?:, reversing\s+changes made to (?P<mainline>{SHA}))?",
    re.MULTILINE,
)
"""`This reverts commit 1a2b3c4`, and commits of a reverted merge."""

REVERTS_REQUEST = Regex(
    rf"(?:{OPENING})(?:Reverts (?:PR |pull request )?(?P<slug>[\w.-]+/[\w.-]+)?#"
    rf"|This reverts merge request (?P<path>[^\s!]+)?!)(?P<number>{NUMBER})\b{IN_PART}",
    re.MULTILINE,
)
"""`Reverts #128`, `This reverts merge request shop!128`."""

REVERT_BRANCH = Regex(rf"\AMerge pull request #{NUMBER} from \S+/revert-(?P<number>{NUMBER})-")
"""The merge of the branch that GitHub makes for a revert: `revert-128-…`."""

REVERT_TITLE = Regex(
    r'^(?:\* |[ \t]*)(?P<verb>Revert|Reapply) "(?P<title>.+)"(?:\s*\(#\d+\))?\s*$', re.MULTILINE
)
"""The subject that git and GitHub give to a revert; in a squash message it follows a star."""

NUMBERS = (
    Regex(rf"\AMerge pull request #({NUMBER}) "),
    Regex(rf"\A[^\n]+\(#({NUMBER})\)[ \t]*(?:\n|\Z)"),
    Regex(rf"^See merge request \S*!({NUMBER})[ \t]*$", re.MULTILINE),
)
"""How GitHub and GitLab write the number of a request into a merge commit or a squash subject."""

NUMBER_AT_END = Regex(r"\(#[0-9]+\)\s*\Z")


class Revert(NamedTuple):
    """A commit that reverts work.

    Attributes:
        sha: the first 12 digits of the commit.
        label: the name of the commit for people.
        undoes: names of the reverted work, as in the `source` of an entry: 12 digits of a commit,
            or `pr:128`.
        restores: names of the work that applies again, because its revert was reverted.
    """

    sha: str
    label: str
    undoes: frozenset[str]
    restores: frozenset[str] = frozenset()


class RevertClaim(NamedTuple):
    """A piece of work that a commit message says is reverted.

    Attributes:
        work: its commit, or else its request (`pr:128`).
        names: all its names.
    """

    work: str
    names: frozenset[str]


def find_reverts(
    commits: Iterable[Commit],
    accept_names: Callable[[Commit, RevertClaim], frozenset[str]] | None = None,
) -> tuple[Revert, ...]:
    """Return the reverts among commits, in the order of the commits.

    Reverted work is identified by its commit id, or else by its pull request, or else by the title
    that the message quotes. A revert of a revert says also which work applies again, so any part
    of the result can be passed to `plan_undone`.

    Args:
        commits: commits, parents before children.
        accept_names: returns the names of a claim that count; None if all names count.
    """
    history = _History()
    reverts: dict[str, Revert] = {}
    for commit in commits:
        reverted_names: set[str] = set()
        for claim in history.list_claims(commit):
            accepted = claim.names if accept_names is None else accept_names(commit, claim)
            reverted_names |= accepted
        history.add(commit)
        if not reverted_names:
            continue

        undoes = set(reverted_names)
        restores: set[str] = set()
        for name in reverted_names:
            reverted_revert = reverts.get(name)
            if reverted_revert is not None:
                undoes |= reverted_revert.restores
                restores |= reverted_revert.undoes
        sha = commit.sha[:SHA_WIDTH]
        restored = frozenset(restores - reverted_names)
        reverts[sha] = Revert(sha, label_of(commit), frozenset(undoes), restored)
    return tuple(reverts.values())


def label_of(commit: Commit) -> str:
    """Return the number of the request in the message of a commit, or else the short commit id."""
    number = _find_number(commit.message)
    return f"#{number}" if number else commit.sha[:7]


class _History:
    """Commits that were read so far, found by id, abbreviated id, title and request."""

    def __init__(self) -> None:
        self._commits: dict[str, Commit] = {}
        self._shas_by_prefix: dict[str, list[str]] = {}
        self._shas_by_title: dict[str, str] = {}
        self._shas_by_number: dict[str, str] = {}

    def add(self, commit: Commit) -> None:
        """Let later commits name a commit by its id, its title and its request."""
        sha = commit.sha[:SHA_WIDTH]
        self._commits[sha] = commit
        self._shas_by_prefix.setdefault(sha[:MIN_SHA], []).append(sha)
        for title in _list_titles(commit):
            self._shas_by_title[title] = sha
        number = _find_number(commit.message)
        if number:
            self._shas_by_number[number] = sha

    def list_claims(self, commit: Commit) -> list[RevertClaim]:
        """Return the work that the message of a commit says is reverted.

        Quoted titles count only if the message names no commit and no request.
        """
        message = "\n".join(unfenced_lines(commit.message.splitlines()))
        claims = self._list_claimed_commits(message)
        claims += self._list_claimed_requests(commit, message)
        if not claims:
            claims = self._list_claimed_titles(message)

        subject = REVERT_TITLE.match(message)
        if subject and subject["verb"] == "Revert":
            number = _find_number(subject["title"])
            if number:
                claims.append(self._claim_request(number))
        return claims

    def _list_claimed_commits(self, message: str) -> list[RevertClaim]:
        claims: list[RevertClaim] = []
        for match in REVERTS_COMMIT.finditer(message):
            for sha in re.findall(SHA, match["shas"]):
                claims.append(self._claim_commit(self._resolve(sha), match["mainline"]))
        return claims

    def _list_claimed_requests(self, commit: Commit, message: str) -> list[RevertClaim]:
        """Return the pull requests that a message says are reverted (`Reverts #128`).

        A request that is named with its repository may be one of another repository. It counts only
        if a forge would call the commit a revert.
        """
        is_revert_commit = any(REVERT_TITLE.match(title) for title in _list_titles(commit))
        numbers: list[str] = []
        for match in REVERTS_REQUEST.finditer(message):
            has_repository = match["slug"] or match["path"]
            if is_revert_commit or not has_repository:
                numbers.append(match["number"])
        numbers += [match["number"] for match in REVERT_BRANCH.finditer(message)]
        return [self._claim_request(number) for number in numbers]

    def _list_claimed_titles(self, message: str) -> list[RevertClaim]:
        """Return the commits with the titles that a message quotes (`Revert "Add a queue"`).

        A title in the list of a squash message names a commit of the same squash, and is left out.
        """
        lines = frozenset(message.split("\n"))
        claims: list[RevertClaim] = []
        for match in REVERT_TITLE.finditer(message):
            title = match["title"]
            if f"* {title}" in lines:
                continue
            if match["verb"] == "Reapply":
                title = f'Revert "{title}"'
            sha = self._shas_by_title.get(_strip_number(title))
            if sha:
                claims.append(self._claim_commit(sha))
        return claims

    def _resolve(self, sha: str) -> str:
        """Return the first 12 digits of an id; a shorter id is completed if one commit has it."""
        if len(sha) >= SHA_WIDTH:
            return sha[:SHA_WIDTH]
        candidates = self._shas_by_prefix.get(sha[:MIN_SHA], [])
        matching_shas = [candidate for candidate in candidates if candidate.startswith(sha)]
        return matching_shas[0] if len(matching_shas) == 1 else sha

    def _claim_request(self, number: str) -> RevertClaim:
        """Return the claim of a pull request, with the names of its commit if that was read."""
        name = f"pr:{number}"
        names = frozenset({name})
        sha = self._shas_by_number.get(number)
        if sha:
            names |= self._claim_commit(sha).names
        return RevertClaim(name, names)

    def _claim_commit(self, sha: str, mainline: str | None = None) -> RevertClaim:
        """Return the claim of a commit, its pull request, and the merged commits if it is a merge.

        Args:
            sha: the first 12 digits of the commit.
            mainline: the parent of a merge whose commits stay; None for the first parent.
        """
        commit = self._commits.get(sha)
        if commit is None:
            return RevertClaim(sha, frozenset({sha}))
        names = {sha}
        number = _find_number(commit.message)
        if number:
            names.add(f"pr:{number}")
        if len(commit.parents) > 1:
            staying = self._list_ancestors([mainline or commit.parents[0]])
            names |= self._list_ancestors(commit.parents) - staying
        return RevertClaim(sha, frozenset(names))

    def _list_ancestors(self, tips: Sequence[str]) -> set[str]:
        """Return the commits that are reachable from tips, the tips included."""
        ancestors: set[str] = set()
        pending = [tip[:SHA_WIDTH] for tip in tips]
        while pending:
            sha = pending.pop()
            if sha in self._commits and sha not in ancestors:
                ancestors.add(sha)
                pending += [parent[:SHA_WIDTH] for parent in self._commits[sha].parents]
        return ancestors


def _find_number(message: str) -> str | None:
    """Return the number of the pull request that a commit message names as its own."""
    for pattern in NUMBERS:
        match = pattern.search(message)
        if match:
            return match[1]
    return None


def _list_titles(commit: Commit) -> Iterator[str]:
    """Yield the subject of a commit, and of a merge also the title of its request."""
    yield _strip_number(commit.subject)
    if len(commit.parents) > 1:
        body = commit.message.partition("\n")[2].strip()
        yield _strip_number(body.partition("\n")[0])


def _strip_number(title: str) -> str:
    return NUMBER_AT_END.sub("", title).strip()


FIXUP_WINDOW = timedelta(days=14)
"""How long after a change a fix counts as its fixup. Later fixes are new work."""

FIXUP = Regex(
    r"\b(?:fix(?:es|ed|ing)?[ -]?ups?|follow(?:s|ed)?[ -]?ups?|amend(?:s|ed)?|regress(?:ion|ed)"
    r"|br(?:oken|oke)|missed)"
    r"\s+(?:(?:to|on|for|of|from|in|by|introduced|caused|since|with)\s+){0,2}"
    r"(?:(?:PR|MR|pull request|merge request)\s*)?[#!](?P<number>\d{1,9})\b",
    re.IGNORECASE,
)
"""`fixes up #128`, `follow-up to #128`, `regression from PR #128`.

`fixes #128` does not match, because #128 may be an issue.
"""


def find_fixups(changes: Iterable[MergedChange]) -> Iterator[tuple[int, MergedChange]]:
    """Yield each change that fixes up an earlier one, with the number of the earlier one's request.

    They come in the order of `changes`.
    """
    for change in changes:
        numbers: set[int] = set()
        for commit in change.commits:
            numbers |= {int(match["number"]) for match in FIXUP.finditer(commit.message)}
        for number in sorted(numbers - {change.number}):
            yield number, change


def list_undone(reverts: Sequence[Revert]) -> Mapping[str, str]:
    """Return the names of the work that is still reverted after all reverts.

    Returns:
        The label of the revert, by 12 digits of the reverted commit, or by `pr:128`.
    """
    labels: dict[str, str] = {}
    for revert in reverts:
        for name in revert.undoes:
            labels[name] = revert.label
        for name in revert.restores:
            labels.pop(name, None)
    return labels


def judge_outcome(
    shas: Sequence[str], number: int | None, fixed_up_in: str, undone: Mapping[str, str]
) -> tuple[Outcome, str]:
    """Return the outcome of a change and the reason in words.

    A change failed if its tip, its request or all its commits were reverted; it succeeded in part
    if it was fixed up.

    Args:
        shas: the commits of the change, the tip last.
        number: the number of its request.
        fixed_up_in: the label of the change that fixed it up, or "".
        undone: the reverted work, as `list_undone` returns it.
    """
    names = [sha[:SHA_WIDTH] for sha in shas]
    tip = names[-1]
    label = undone.get(tip) or undone.get(f"pr:{number}") or ""
    if not label and all(name in undone for name in names):
        label = undone[names[0]]
    if label:
        return "failure", f"reverted in {label}"
    if fixed_up_in:
        return "partial", f"fixed up in {fixed_up_in}"
    return "success", ""


def is_revert(shas: Collection[str], revert_shas: Collection[str]) -> bool:
    """Return whether all commits of a change are reverts; a merge commit itself does not count.

    Args:
        shas: the commits of the change, without merge commits.
        revert_shas: the first 12 digits of all commits that are reverts.
    """
    return bool(shas) and all(sha[:SHA_WIDTH] in revert_shas for sha in shas)


SOURCE = Regex(r"(?:pr:(?P<number>\d+)\s+)?commit:(?P<sha>[0-9a-f]{12})[0-9a-f]*|pr:(?P<lone>\d+)")
"""A change in the `source` of an entry: `pr:128 commit:1a2b…`, or one of the two."""

SUSPICION = Regex(
    r"revert:(?P<sha>[0-9a-f]{12}) reverted in (?P<label>\S+)"
    r", importance was (?P<importance>[\d.e-]+)"
)
"""The line of evidence of a suspect entry, as `suspect` writes it."""


class Suspicion(NamedTuple):
    """The revert that made an entry suspect.

    Attributes:
        sha: the first 12 digits of the revert.
        label: the name of the revert for people.
        importance: the importance of the entry before the revert.
    """

    sha: str
    label: str
    importance: float


def plan_undone(located: Iterable[Located], reverts: Sequence[Revert]) -> tuple[Change, ...]:
    """Plan an update of each entry that reverts make suspect or clear of suspicion.

    An entry is suspect when all changes that it was learned from are reverted. It loses importance
    once and becomes knowledge of an approach that was rejected.

    Args:
        located: the entries.
        reverts: the reverts of the new range only, in their order. Decisions of people about older
            reverts then stay.
    """
    indices_by_name: defaultdict[str, list[int]] = defaultdict(list)
    for index, revert in enumerate(reverts):
        for name in revert.undoes | revert.restores:
            indices_by_name[name].append(index)

    changes: list[Change] = []
    for place in sorted(located, key=lambda place: (place.path, place.entry.id)):
        if place.entry.status == "retired":
            continue
        names = set[str]().union(*_list_origins(place.entry))
        suspicion = find_suspicion(place.entry)
        if suspicion:
            names.add(suspicion.sha)
        indices: set[int] = set()
        for name in names:
            indices.update(indices_by_name.get(name, ()))

        relevant = [reverts[index] for index in sorted(indices)]
        entry, why = _apply_reverts(place.entry, relevant)
        if entry != place.entry:
            changes.append(
                Change(step="consolidate", kind="update", path=place.path, entry=entry, why=why)
            )
    return tuple(changes)


def find_suspicion(entry: Entry) -> Suspicion | None:
    """Return the first suspicion in the evidence of an entry; None if it is not suspect."""
    for line in entry.evidence:
        match = SUSPICION.fullmatch(line)
        if match:
            return Suspicion(match["sha"], match["label"], float(match["importance"]))
    return None


def suspect(entry: Entry, revert: Revert) -> Entry:
    """Return an entry that a revert makes suspect: demoted, and marked as tried and rejected.

    An entry about an approach that was rejected before keeps its own reason. A line of evidence
    holds what `restore` needs.
    """
    line = f"revert:{revert.sha} reverted in {revert.label}, importance was {entry.importance!r}"
    demoted = replace(entry, importance=demote(entry.importance), evidence=(*entry.evidence, line))
    if entry.adoption or entry.instead:
        return demoted
    return replace(demoted, adoption="rejected", instead=f"reverted in {revert.label}")


def restore(entry: Entry, suspicion: Suspicion) -> Entry:
    """Return an entry without a suspicion, the inverse of `suspect`.

    An importance that a person changed since then stays, and so does another reason for rejection.
    """
    importance = entry.importance
    # An entry that supersedes this one may have demoted it, too.
    for original in (suspicion.importance, demote(suspicion.importance)):
        if importance == demote(original):
            importance = original
            break

    prefix = f"revert:{suspicion.sha} "
    evidence = tuple(line for line in entry.evidence if not line.startswith(prefix))
    restored = replace(entry, importance=importance, evidence=evidence)
    if entry.instead != f"reverted in {suspicion.label}":
        return restored
    return replace(restored, adoption=None, instead=None)


def _apply_reverts(entry: Entry, reverts: Sequence[Revert]) -> tuple[Entry, str]:
    """Return an entry after reverts, and the reason of the last change to it.

    It becomes suspect when all its sources are reverted, and is restored when one applies again.

    Args:
        entry: the entry.
        reverts: the reverts in their order.
    """
    origins = _list_origins(entry)
    why = ""
    undone: frozenset[str] = frozenset()
    for revert in reverts:
        undone = (undone | revert.undoes) - revert.restores
        suspicion = find_suspicion(entry)
        if suspicion is None:
            if origins and all(origin & undone for origin in origins):
                entry = suspect(entry, revert)
                why = f"its source was reverted in {revert.label}"
            continue
        is_source_back = any(origin & revert.restores for origin in origins)
        if is_source_back or suspicion.sha in revert.undoes:
            entry = restore(entry, suspicion)
            why = f"{revert.label} took back the revert of its source"
    return entry, why


def _list_origins(entry: Entry) -> list[frozenset[str]]:
    """Return the names of each change that an entry was learned from: 12 digits and `pr:128`.

    An entry that others were merged into has several sources.
    """
    origins: list[frozenset[str]] = []
    for match in SOURCE.finditer(entry.source or ""):
        names: set[str] = set()
        if match["sha"]:
            names.add(match["sha"])
        number = match["number"] or match["lone"]
        if number:
            names.add(f"pr:{number}")
        origins.append(frozenset(names))
    return origins
