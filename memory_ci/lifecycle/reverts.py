"""Reverts: which commits take others back, what became of a change, and which entries are suspect by it.

What was learned from a reverted change is suspect, and so is what was advised by it. A suspect entry has one line of
evidence, which holds all that is needed to take the suspicion back exactly.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.lifecycle.prominence import demote
from memory_ci.records.entry import Entry, Located
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import Change
from memory_ci.records.retrieval import Outcome
from memory_ci.text import unfenced_lines

MIN_SHA = 7
SHA = rf"[0-9a-f]{{{MIN_SHA},64}}"
SHAS = rf"{SHA}(?:(?:,| and|, and)\s+{SHA})*"
NUMBER = r"[1-9][0-9]*"
OPENING = r"^[ \t*•-]*|[.!:]\s+"
IN_PART = (
    r"(?!\W*\s(?:partially|in part|partly|except|but)\b)"  # Who takes back a part keeps the rest.
)
REVERTS_COMMIT = re.compile(
    rf"(?:{OPENING})(?:This reverts|Reverts) commits? (?P<shas>{SHAS})\b{IN_PART}"
    rf"(?:, reversing\s+changes made to (?P<mainline>{SHA}))?",
    re.MULTILINE,
)
REVERTS_REQUEST = re.compile(
    rf"(?:{OPENING})(?:Reverts (?:PR |pull request )?(?P<slug>[\w.-]+/[\w.-]+)?#"
    rf"|This reverts merge request (?P<path>[^\s!]+)?!)(?P<number>{NUMBER})\b{IN_PART}",
    re.MULTILINE,
)
REVERT_BRANCH = re.compile(rf"\AMerge pull request #{NUMBER} from \S+/revert-(?P<number>{NUMBER})-")
# git's and GitHub's subject; in a squash it stands behind a star.
REVERT_TITLE = re.compile(
    r'^(?:\* |[ \t]*)(?P<verb>Revert|Reapply) "(?P<title>.+)"(?:\s*\(#\d+\))?\s*$', re.MULTILINE
)
NUMBERS = (
    re.compile(rf"\AMerge pull request #({NUMBER}) "),
    re.compile(rf"\A[^\n]+\(#({NUMBER})\)[ \t]*(?:\n|\Z)"),
    re.compile(rf"^See merge request \S*!({NUMBER})[ \t]*$", re.MULTILINE),
)
NUMBER_AT_END = re.compile(r"\(#[0-9]+\)\s*\Z")


class Revert(NamedTuple):
    """What one commit took back, and what it brought back by reverting a revert. Both as names that occur in an entry's
    `source`: 12 digits of a commit, and `pr:128`."""

    sha: str
    label: str
    undoes: frozenset[str]
    restores: frozenset[str] = frozenset()


class RevertClaim(NamedTuple):
    """One work that a message says is taken back: its commit, else its request (`pr:128`), and all names of it."""

    work: str
    names: frozenset[str]


def find_reverts(
    commits: Iterable[Commit],
    count: Callable[[Commit, RevertClaim], frozenset[str]] = lambda _, claim: claim.names,
) -> tuple[Revert, ...]:
    """The reverts among `commits` (parents before children), in their order. A chain of reverts is followed, so that
    each stands on its own: any part of the result can be given to plan_undone. What a commit takes back is known by
    sha, else by pull request, else by the title that it quotes; `count` says which of these names count."""
    history = _History()
    found: dict[str, Revert] = {}
    for commit in commits:
        names = frozenset[str]().union(
            *(count(commit, claim) for claim in history.list_claims(commit))
        )
        history.add(commit)
        if names:
            taken_back = [found[name] for name in sorted(names) if name in found]
            undoes = names.union(*(revert.restores for revert in taken_back))
            restores = frozenset[str]().union(*(revert.undoes for revert in taken_back)) - names
            found[commit.sha[:SHA_WIDTH]] = Revert(
                commit.sha[:SHA_WIDTH], label_of(commit), undoes, restores
            )
    return tuple(found.values())


def label_of(commit: Commit) -> str:
    """How a commit is named: by the request that its message is of, else by its sha."""
    number = _number(commit.message)
    return f"#{number}" if number else commit.sha[:7]


class _History:
    """The commits so far, to be found by the ways in which a revert speaks of them."""

    def __init__(self) -> None:
        self._commits: dict[str, Commit] = {}
        self._by_prefix: dict[str, list[str]] = {}
        self._titles: dict[str, str] = {}
        self._requests: dict[str, str] = {}

    def add(self, commit: Commit) -> None:
        sha = commit.sha[:SHA_WIDTH]
        self._commits[sha] = commit
        self._by_prefix.setdefault(sha[:MIN_SHA], []).append(sha)
        self._titles.update((title, sha) for title in _titles(commit))
        if number := _number(commit.message):
            self._requests[number] = sha

    def list_claims(self, commit: Commit) -> list[RevertClaim]:
        """What `commit` says that it takes back."""
        message = "\n".join(unfenced_lines(commit.message.splitlines()))
        lines = frozenset(message.split("\n"))
        quoted = [
            match for match in REVERT_TITLE.finditer(message) if f"* {match['title']}" not in lines
        ]
        claims = [
            self._claim(self._whole(sha), match["mainline"])
            for match in REVERTS_COMMIT.finditer(message)
            for sha in re.findall(SHA, match["shas"])
        ]
        # A request named with its repository may be another's: it counts where a forge would call the commit a revert.
        is_revert = any(REVERT_TITLE.match(title) for title in _titles(commit))
        requests = [
            one
            for one in REVERTS_REQUEST.finditer(message)
            if is_revert or not (one["slug"] or one["path"])
        ]
        requests += REVERT_BRANCH.finditer(message)
        claims += [self._claim_request(match["number"]) for match in requests]
        if not claims:
            titles = (
                one["title"] if one["verb"] == "Revert" else f'Revert "{one["title"]}"'
                for one in quoted
            )
            claims += [
                self._claim(sha, None)
                for title in titles
                if (sha := self._titles.get(_bare(title)))
            ]
        subject = REVERT_TITLE.match(message)
        if subject and subject["verb"] == "Revert" and (number := _number(subject["title"])):
            claims.append(self._claim_request(number))
        return claims

    def _whole(self, sha: str) -> str:
        """Twelve digits of a sha; of a shorter one, if a single commit has it."""
        near = self._by_prefix.get(sha[:MIN_SHA], []) if len(sha) < SHA_WIDTH else []
        fits = [known for known in near if known.startswith(sha)]
        return fits[0] if len(fits) == 1 else sha[:SHA_WIDTH]

    def _claim_request(self, number: str) -> RevertClaim:
        name, sha = f"pr:{number}", self._requests.get(number)
        return RevertClaim(
            name, frozenset({name}) | (self._claim(sha, None).names if sha else frozenset())
        )

    def _claim(self, sha: str, mainline: str | None) -> RevertClaim:
        """The commit, its pull request, and for a merge the commits that it brought."""
        commit = self._commits.get(sha)
        if commit is None:
            return RevertClaim(sha, frozenset({sha}))
        number = _number(commit.message)
        names = {sha, *([f"pr:{number}"] if number else [])}
        if len(commit.parents) > 1:
            names |= self._ancestors(commit.parents) - self._ancestors(
                [mainline or commit.parents[0]]
            )
        return RevertClaim(sha, frozenset(names))

    def _ancestors(self, tips: Sequence[str]) -> set[str]:
        found: set[str] = set()
        waiting = [tip[:SHA_WIDTH] for tip in tips]
        while waiting:
            sha = waiting.pop()
            if sha in self._commits and sha not in found:
                found.add(sha)
                waiting += [parent[:SHA_WIDTH] for parent in self._commits[sha].parents]
        return found


def _number(message: str) -> str | None:
    return next((match[1] for pattern in NUMBERS if (match := pattern.search(message))), None)


def _titles(commit: Commit) -> Iterator[str]:
    """What a commit is called: by its subject, and a merge by the title of its request."""
    yield _bare(commit.subject)
    if len(commit.parents) > 1:
        body = commit.message.partition("\n")[2].strip()
        yield _bare(body.partition("\n")[0])


def _bare(title: str) -> str:
    return NUMBER_AT_END.sub("", title).strip()


SOON = timedelta(
    days=14
)  # A change that is mended later than this worked for a while: what came then is new work.
MENDS = re.compile(
    r"\b(?:fix(?:es|ed|ing)?[ -]?ups?|follow(?:s|ed)?[ -]?ups?|amend(?:s|ed)?|regress(?:ion|ed)|br(?:oken|oke)|missed)"
    r"\s+(?:(?:to|on|for|of|from|in|by|introduced|caused|since|with)\s+){0,2}"
    r"(?:(?:PR|MR|pull request|merge request)\s*)?[#!](?P<number>\d{1,9})\b",
    re.IGNORECASE,
)  # `fixes up #128`, `follow-up to #128`, `regression from PR #128`: not `fixes #128`, which may be an issue.


def find_mends(changes: Iterable[MergedChange]) -> Iterator[tuple[int, MergedChange]]:
    """(number of the change that is mended, what mends it), oldest first."""
    for change in changes:
        found = (match for commit in change.commits for match in MENDS.finditer(commit.message))
        numbers = {int(match["number"]) for match in found} - {change.number}
        yield from ((number, change) for number in sorted(numbers))


def list_undone(reverts: Sequence[Revert]) -> Mapping[str, str]:
    """What is taken back after all of `reverts`, as the names of lifecycle.reverts: by the label of what took it."""
    undone: dict[str, str] = {}
    for revert in reverts:
        undone.update(dict.fromkeys(revert.undoes, revert.label))
        for name in revert.restores:
            undone.pop(name, None)
    return undone


def judge_outcome(
    shas: Sequence[str], number: int | None, mended_in: str, undone: Mapping[str, str]
) -> tuple[Outcome, str]:
    """(outcome, why) of a change with these commits, its tip last. Undone: the tip, the request, or all of them."""
    names = (shas[-1][:SHA_WIDTH], f"pr:{number}")
    by = next((undone[name] for name in names if name in undone), "")
    if not by and all(sha[:SHA_WIDTH] in undone for sha in shas):
        by = undone[shas[0][:SHA_WIDTH]]
    if by:
        return "failure", f"reverted in {by}"
    return ("partial", f"fixed up in {mended_in}") if mended_in else ("success", "")


def is_revert(shas: Collection[str], reverting: Collection[str]) -> bool:
    """Whether all that a change did was to take something back; a merge commit itself does nothing."""
    return bool(shas) and all(sha[:SHA_WIDTH] in reverting for sha in shas)


SOURCE = re.compile(
    r"(?:pr:(?P<number>\d+)\s+)?commit:(?P<sha>[0-9a-f]{12})[0-9a-f]*|pr:(?P<lone>\d+)"
)
SUSPICION = re.compile(r"revert:([0-9a-f]{12}) reverted in (\S+), importance was ([\d.e-]+)")


class Suspicion(NamedTuple):
    """The revert that made an entry suspect, and the importance that it had before."""

    sha: str
    label: str
    importance: float


def plan_undone(located: Iterable[Located], reverts: Sequence[Revert]) -> tuple[Change, ...]:
    """An update of each entry that the reverts, in their order, make suspect or clear of suspicion. Suspect is what has
    all its sources reverted: it loses importance once and becomes negative knowledge. Give the reverts of the new range
    only, and what a person has decided about an older one stays decided."""
    touching: defaultdict[str, list[int]] = defaultdict(list)
    for turn, revert in enumerate(reverts):
        for name in revert.undoes | revert.restores:
            touching[name].append(turn)
    changes: list[Change] = []
    for place in sorted(located, key=lambda place: (place.path, place.entry.id)):
        if place.entry.status == "retired":
            continue
        suspicion = find_suspicion(place.entry)
        names = {suspicion.sha if suspicion else "", *chain(*_origins(place.entry))}
        turns = sorted({turn for name in names for turn in touching.get(name, ())})
        entry, why = _follow(place.entry, [reverts[turn] for turn in turns])
        if entry != place.entry:
            changes.append(
                Change(step="consolidate", kind="update", path=place.path, entry=entry, why=why)
            )
    return tuple(changes)


def find_suspicion(entry: Entry) -> Suspicion | None:
    match = next(filter(None, map(SUSPICION.fullmatch, entry.evidence)), None)
    return Suspicion(match[1], match[2], float(match[3])) if match else None


def suspect(entry: Entry, revert: Revert) -> Entry:
    """The entry as knowledge of what was tried and taken back. What was rejected before keeps its own reason."""
    line = f"revert:{revert.sha} reverted in {revert.label}, importance was {entry.importance!r}"
    lowered = replace(entry, importance=demote(entry.importance), evidence=(*entry.evidence, line))
    if entry.adoption or entry.instead:
        return lowered
    return replace(lowered, adoption="rejected", instead=f"reverted in {revert.label}")


def restore(entry: Entry, suspicion: Suspicion) -> Entry:
    """The inverse of suspect; what a person has written since stays."""
    importance = entry.importance
    for before in (
        suspicion.importance,
        demote(suspicion.importance),
    ):  # a successor may have lowered it as well
        if importance == demote(before):
            importance = before
            break
    evidence = tuple(
        line for line in entry.evidence if not line.startswith(f"revert:{suspicion.sha} ")
    )
    restored = replace(entry, importance=importance, evidence=evidence)
    if entry.instead != f"reverted in {suspicion.label}":
        return restored
    return replace(restored, adoption=None, instead=None)


def _follow(entry: Entry, reverts: Sequence[Revert]) -> tuple[Entry, str]:
    origins, why = _origins(entry), ""
    undone: frozenset[str] = frozenset()
    for revert in reverts:
        undone = (undone | revert.undoes) - revert.restores
        suspicion = find_suspicion(entry)
        if suspicion is None:
            if origins and all(origin & undone for origin in origins):
                entry, why = suspect(entry, revert), f"its source was reverted in {revert.label}"
        elif suspicion.sha in revert.undoes or any(origin & revert.restores for origin in origins):
            entry, why = (
                restore(entry, suspicion),
                f"{revert.label} took back the revert of its source",
            )
    return entry, why


def _origins(entry: Entry) -> tuple[frozenset[str], ...]:
    """The sources of an entry, each by all its names; it may have several after a merge."""
    found = (match.groups() for match in SOURCE.finditer(entry.source or ""))
    names = (
        (sha, f"pr:{number or lone}" if number or lone else None) for number, sha, lone in found
    )
    return tuple(frozenset(filter(None, own)) for own in names)
