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

from memory_ci.lifecycle.prominence import lower_importance
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
        reverted_names: names of the reverted work, as in the `source` of an entry: 12 digits of a
            commit, or `pr:128`.
        restored_names: names of the work that applies again, because its revert was reverted.
    """

    sha: str
    label: str
    reverted_names: frozenset[str]
    restored_names: frozenset[str] = frozenset()


class RevertClaim(NamedTuple):
    """The statement of a commit message that one piece of work is reverted.

    Attributes:
        work_name: the name of the work: 12 digits of a commit, or else its request (`pr:128`).
        all_names: this name and all other names of the work: its commits and its request.
    """

    work_name: str
    all_names: frozenset[str]


def find_reverts(
    commits: Iterable[Commit],
    accept_names: Callable[[Commit, RevertClaim], frozenset[str]] | None = None,
) -> tuple[Revert, ...]:
    """Return the reverts among commits, in the order of the commits.

    A message identifies the reverted work by its commit id, or else by its pull request, or else by
    its title. A commit that reverts a revert restores the work that the latter reverted, and
    reverts again the work that it restored.

    Args:
        commits: commits, parents before children.
        accept_names: returns which names of a claim count: of work that a commit message says is
            reverted. None if all names count.
    """
    history = _History()
    revert_by_sha: dict[str, Revert] = {}
    for commit in commits:
        claimed_names: set[str] = set()
        for claim in history.list_claims(commit):
            if accept_names is None:
                claimed_names |= claim.all_names
            else:
                claimed_names |= accept_names(commit, claim)
        history.add(commit)
        if not claimed_names:
            continue

        reverted_names = set(claimed_names)
        restored_names: set[str] = set()
        for name in claimed_names:
            reverted_revert = revert_by_sha.get(name)
            if reverted_revert is not None:
                reverted_names |= reverted_revert.restored_names
                restored_names |= reverted_revert.reverted_names
        sha = commit.sha[:SHA_WIDTH]
        revert_by_sha[sha] = Revert(
            sha,
            format_change_label(commit),
            frozenset(reverted_names),
            frozenset(restored_names - claimed_names),
        )
    return tuple(revert_by_sha.values())


def format_change_label(commit: Commit) -> str:
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

        Quoted titles count only if the message names no commit and no request. The exception is the
        number of a pull request in the title that the subject quotes, as in
        `Revert "Add a queue (#128)"`: the forge wrote it, so it always counts.
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
        """Return claims on the commits whose titles a message quotes (`Revert "Add a queue"`).

        `Reapply "Add a queue"` reverts the commit `Revert "Add a queue"`. A squash message lists
        the titles of its commits, each after a star. A quoted title that is in this list belongs to
        a commit of the same squash, so it is left out.
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
        """Return the claim that a pull request is reverted.

        If the commit that merged the request was read, its names are names of the work as well.
        """
        request_name = f"pr:{number}"
        all_names = frozenset({request_name})
        sha = self._shas_by_number.get(number)
        if sha:
            all_names |= self._claim_commit(sha).all_names
        return RevertClaim(request_name, all_names)

    def _claim_commit(self, sha: str, mainline: str | None = None) -> RevertClaim:
        """Return the claim that a commit is reverted.

        Names of the work are the commit, its pull request and, if it is a merge, the commits that
        it brought in.

        Args:
            sha: the first 12 digits of the commit.
            mainline: the parent of a reverted merge to whose state the revert goes back (`git
                revert --mainline`); None for the first parent.
        """
        commit = self._commits.get(sha)
        if commit is None:
            return RevertClaim(sha, frozenset({sha}))
        all_names = {sha}
        number = _find_number(commit.message)
        if number:
            all_names.add(f"pr:{number}")
        is_merge = len(commit.parents) > 1
        if is_merge:
            remaining_shas = self._list_ancestors([mainline or commit.parents[0]])
            all_names |= self._list_ancestors(commit.parents) - remaining_shas
        return RevertClaim(sha, frozenset(all_names))

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


def label_reverted_work(reverts: Sequence[Revert]) -> Mapping[str, str]:
    """Return for each piece of work that is still reverted the label of its revert.

    Args:
        reverts: the reverts, in the order of history.

    Returns:
        The label of the revert, such as `#130`, by the name of the work: 12 digits of a commit, or
        `pr:128`.
    """
    revert_labels: dict[str, str] = {}
    for revert in reverts:
        for name in revert.reverted_names:
            revert_labels[name] = revert.label
        for name in revert.restored_names:
            revert_labels.pop(name, None)
    return revert_labels


def judge_outcome(
    shas: Sequence[str], number: int | None, fixed_up_in: str, revert_labels: Mapping[str, str]
) -> tuple[Outcome, str]:
    """Return the outcome of a change and the reason in words.

    A change failed if its tip, its request or all its commits were reverted; it succeeded in part
    if it was fixed up.

    Args:
        shas: the commits of the change, the tip last.
        number: the number of its request.
        fixed_up_in: the label of the change that fixed it up, or "".
        revert_labels: the labels of reverts by the names of the reverted work, which
            `label_reverted_work` returns.
    """
    short_shas = [sha[:SHA_WIDTH] for sha in shas]
    tip = short_shas[-1]
    label = revert_labels.get(tip) or revert_labels.get(f"pr:{number}") or ""
    if not label and all(sha in revert_labels for sha in short_shas):
        label = revert_labels[short_shas[0]]
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


SOURCE = Regex(
    r"(?:pr:(?P<number>\d+)\s+)?commit:(?P<sha>[0-9a-f]{12})[0-9a-f]*"
    r"|pr:(?P<number_without_sha>\d+)"
)
"""A change in the `source` of an entry: `pr:128 commit:1a2b…`, or one of the two."""

SUSPICION = Regex(
    r"revert:(?P<sha>[0-9a-f]{12}) reverted in (?P<label>\S+)"
    r", importance was (?P<importance>[\d.e-]+)"
)
"""The line of evidence of a suspect entry, as `mark_as_suspect` writes it."""


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


def plan_revert_effects(
    located: Iterable[Located], reverts: Sequence[Revert]
) -> tuple[Change, ...]:
    """Plan an update of each entry that becomes suspect by reverts, or is not suspect any more.

    An entry becomes suspect when all changes that it was learned from are reverted. It loses
    importance once, and then says that its approach was rejected. It is restored when one of these
    changes is made again.

    Args:
        located: the entries.
        reverts: the reverts of the new range of history, in their order. Earlier reverts must not
            be among them: a person may have edited the entries since.
    """
    revert_indices_by_name: defaultdict[str, list[int]] = defaultdict(list)
    for index, revert in enumerate(reverts):
        for name in revert.reverted_names | revert.restored_names:
            revert_indices_by_name[name].append(index)

    changes: list[Change] = []
    for located_entry in sorted(
        located, key=lambda located_entry: (located_entry.path, located_entry.entry.id)
    ):
        if located_entry.entry.status == "retired":
            continue
        # Names of work (commits and requests) whose revert matters for the entry.
        work_names = set[str]().union(*_list_origins(located_entry.entry))
        suspicion = find_suspicion(located_entry.entry)
        if suspicion:
            work_names.add(suspicion.sha)
        revert_indices: set[int] = set()
        for name in work_names:
            revert_indices.update(revert_indices_by_name.get(name, ()))

        relevant_reverts = [reverts[index] for index in sorted(revert_indices)]
        entry, why = _apply_reverts(located_entry.entry, relevant_reverts)
        if entry != located_entry.entry:
            changes.append(
                Change(
                    step="consolidate", kind="update", path=located_entry.path, entry=entry, why=why
                )
            )
    return tuple(changes)


def find_suspicion(entry: Entry) -> Suspicion | None:
    """Return the first suspicion in the evidence of an entry; None if it is not suspect."""
    for line in entry.evidence:
        match = SUSPICION.fullmatch(line)
        if match:
            return Suspicion(match["sha"], match["label"], float(match["importance"]))
    return None


def mark_as_suspect(entry: Entry, revert: Revert) -> Entry:
    """Return an entry that a revert makes suspect: demoted, and marked as tried and rejected.

    An entry about an approach that was rejected before keeps its own reason. A line of evidence
    holds what `remove_suspicion` needs.
    """
    line = f"revert:{revert.sha} reverted in {revert.label}, importance was {entry.importance!r}"
    demoted = replace(
        entry, importance=lower_importance(entry.importance), evidence=(*entry.evidence, line)
    )
    if entry.adoption or entry.instead:
        return demoted
    return replace(demoted, adoption="rejected", instead=f"reverted in {revert.label}")


def remove_suspicion(entry: Entry, suspicion: Suspicion) -> Entry:
    """Return an entry without a suspicion, the inverse of `mark_as_suspect`.

    An importance that a person changed since then stays, and so does another reason for rejection.
    """
    importance = entry.importance
    # An entry that supersedes this one may have demoted it, too.
    for original in (suspicion.importance, lower_importance(suspicion.importance)):
        if importance == lower_importance(original):
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

    An entry that is not suspect becomes so when all its sources are reverted. A suspect entry is
    restored when one of its sources applies again, or when the revert that made it suspect is
    reverted.

    Args:
        entry: the entry.
        reverts: the reverts in their order.
    """
    origins = _list_origins(entry)
    why = ""
    reverted_names: frozenset[str] = frozenset()  # by this revert and those before it
    for revert in reverts:
        reverted_names = (reverted_names | revert.reverted_names) - revert.restored_names
        suspicion = find_suspicion(entry)
        if suspicion is None:
            are_all_reverted = all(origin & reverted_names for origin in origins)
            if origins and are_all_reverted:
                entry = mark_as_suspect(entry, revert)
                why = f"its source was reverted in {revert.label}"
        else:
            is_source_restored = any(origin & revert.restored_names for origin in origins)
            if is_source_restored or suspicion.sha in revert.reverted_names:
                entry = remove_suspicion(entry, suspicion)
                why = f"{revert.label} took back the revert of its source"
    return entry, why


def _list_origins(entry: Entry) -> list[frozenset[str]]:
    """Return the names of each change that an entry was learned from.

    A change has one or two names: the first 12 digits of its commit, and its request (`pr:128`).
    There are several changes if other entries were merged into the entry.
    """
    origins: list[frozenset[str]] = []
    for match in SOURCE.finditer(entry.source or ""):
        names: set[str] = set()
        if match["sha"]:
            names.add(match["sha"])
        number = match["number"] or match["number_without_sha"]
        if number:
            names.add(f"pr:{number}")
        origins.append(frozenset(names))
    return origins
