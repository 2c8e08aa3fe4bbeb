"""Standing requests: what people ask of agents in one session after another.

Requests are compared by keys: two terms of a clause, a negated term, or the name of a document or
tool. A key that recurs in several sessions is a candidate. What separates requests about how to
work from orders of the work in hand was measured on two teams by reading their sessions
(benchmarks/results/never-twice.md): the former are orders or complaints, say little beside the key,
and their terms come once in a session, not all the time as its subject does.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.checks.name_rules import NameRule, find_name_conflict, find_name_rules
from memory_ci.records.repetition import PersonTurn, Quotation, StandingRequest
from memory_ci.regex import Regex
from memory_ci.repetition.clauses import MAX_TERMS, TypedClause, list_clauses
from memory_ci.repetition.vocabulary import VAGUE

NOT = "!"
"""The first part of the key of a negated term."""

LEAST_SESSIONS = 3
"""Sessions of a standing request; two suffice if the words of both say that it lasts."""

LEAST_FORM = 0.25
"""The least share of its sessions in which a key is an order or a complaint."""

HALF_LIFE = 30
"""Sessions after which a request counts half for what is asked next."""

FORM_WEIGHT = 3.0
REST_WEIGHT = 0.6
BURST_WEIGHT = 1.5
SPECIFIC_WEIGHT = 3.0
NAME_WEIGHT = 0.5
"""Weights of the signs that a request is about how to work: rounded coefficients of a logistic
regression over 826 keys of two teams.
"""

LEAST_SCORE = 0.5
"""Score of a request that is listed. Of those below it, most are orders of the work in hand."""

COPIED_CHARS = 40  # Characters of a turn that nobody types twice by chance.
SAME_SHARE = 0.6  # The share of the shorter wording's terms that the longer one must have.
MAX_TEXT = 110  # Characters of the wording that is preferred.
BREVITY = 0.2  # The share of other sessions from which a term makes a wording clearer.
SHARED_TERMS = 2  # Terms that a clause shares with the wording of a request that covers it.

NAMED_MOMENTS = (
    ("before:pull-request", Regex(r"\b(?:PRs?|pull[ -]requests?|merge requests?)\b", re.I)),
    ("before:push", Regex(r"\bpush", re.I)),
    ("before:commit", Regex(r"\bcommit|\bchangelog\b", re.I)),
)
"""Moments, and the words by which a request names them."""

Key = tuple[str, ...]


class Occurrence(NamedTuple):
    """A clause of a turn."""

    clause: TypedClause
    turn: PersonTurn


class RecurringKey(NamedTuple):
    """A key that recurs, with its clearest occurrence in each session.

    Attributes:
        key: the key.
        likelihood: how much speaks for a request about how to work; no upper bound.
        occurrences: its occurrences that no stronger candidate covers, by session.
        weights: how much each session counts, from 0 to 1, the newest most.
    """

    key: Key
    likelihood: float
    occurrences: Mapping[str, Occurrence]
    weights: Mapping[str, float]

    @property
    def score(self) -> float:
        """Expected number of requests in the next session x likelihood."""
        return self.likelihood * sum(self.weights[session] for session in self.occurrences)


class TermCounts(NamedTuple):
    """How often terms occur.

    Attributes:
        total: occurrences of each term.
        sessions: the number of sessions with each term.
    """

    total: Counter[str]
    sessions: Counter[str]

    def burst(self, terms: Iterable[str]) -> float:
        """Return how often the terms occur in a session that has them, at least 1."""
        bursts = [self.total[term] / self.sessions[term] for term in terms]
        return sum(bursts) / len(bursts)


def find_standing_requests(turns: Iterable[PersonTurn], limit: int) -> list[StandingRequest]:
    """Return the requests that are most likely made again, the likeliest first.

    Args:
        turns: what people typed, in any order.
        limit: the greatest number of requests.
    """
    ordered = _join_copies(sorted(turns, key=lambda turn: turn.at))
    age = _rank_sessions(ordered)
    by_key, counts = _collect(ordered)
    candidates: list[RecurringKey] = []
    for key, occurrences in by_key.items():
        candidate = _weigh(key, occurrences, counts, age)
        if candidate is not None:
            candidates.append(candidate)
    return [_describe(candidate) for candidate in _choose(candidates, limit)]


def is_same_request(request: Sequence[str], text: str) -> bool:
    """Return whether a clause of a text makes a request.

    Args:
        request: the terms of the request.
        text: what somebody wrote.
    """
    terms = frozenset(request)
    return any(_is_alike(terms, clause.terms) for clause in _read_clauses(text))


def _is_alike(terms: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether most of the shorter set of terms is in the longer one."""
    shared = terms & others
    shorter = min(len(terms), len(others))
    return len(shared) >= min(SHARED_TERMS, shorter) and len(shared) >= SAME_SHARE * shorter > 0


def _join_copies(turns: Sequence[PersonTurn]) -> list[PersonTurn]:
    """Return the turns, copies of a session under another name counted as that session.

    Such copies come from resumed sessions, and from tools that export a session again.
    """
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        if len(turn.text) >= COPIED_CHARS:
            texts[turn.session].add(turn.text)

    first_session: dict[str, str] = {}
    original: dict[str, str] = {}
    for session, session_texts in texts.items():
        earlier = Counter(first_session[text] for text in session_texts if text in first_session)
        for name, count in earlier.most_common(1):
            if 2 * count >= len(session_texts):
                original[session] = original.get(name, name)
        for text in session_texts:
            first_session.setdefault(text, session)
    return [replace(turn, session=original.get(turn.session, turn.session)) for turn in turns]


def _rank_sessions(turns: Sequence[PersonTurn]) -> dict[str, int]:
    """Return how many sessions began after each session."""
    sessions = list(dict.fromkeys(turn.session for turn in turns))
    return {session: len(sessions) - number for number, session in enumerate(sessions)}


def _collect(turns: Sequence[PersonTurn]) -> tuple[dict[Key, list[Occurrence]], TermCounts]:
    """Return the occurrences of each key, and the counts of all terms."""
    by_key: defaultdict[Key, list[Occurrence]] = defaultdict(list)
    total: Counter[str] = Counter()
    sessions: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        for clause in _read_clauses(turn.text):
            total.update(clause.terms)
            for term in clause.terms:
                sessions[term].add(turn.session)
            for key in _list_keys(clause):
                by_key[key].append(Occurrence(clause, turn))
    session_counts = Counter({term: len(names) for term, names in sessions.items()})
    return by_key, TermCounts(total, session_counts)


@lru_cache(maxsize=1 << 14)
def _read_clauses(text: str) -> tuple[TypedClause, ...]:
    return tuple(list_clauses(text))


def _list_keys(clause: TypedClause) -> Iterator[Key]:
    """Yield the keys of a clause, unless it is too long to be compared."""
    if len(clause.terms) > MAX_TERMS:
        return
    terms = sorted(clause.terms - VAGUE)
    yield from combinations(terms, 2)
    for term in terms:
        if term.startswith("@"):
            yield (term,)
        if clause.is_negated:
            yield NOT, term


def _weigh(
    key: Key, occurrences: Sequence[Occurrence], counts: TermCounts, age: Mapping[str, int]
) -> RecurringKey | None:
    """Return the candidate of a key, None if too few sessions or no request have it."""
    if len({occurrence.turn.session for occurrence in occurrences}) < LEAST_SESSIONS - 1:
        return None
    clearest = _choose_clearest(occurrences)
    clauses = [occurrence.clause for occurrence in clearest.values()]
    form = sum(clause.is_request for clause in clauses) / len(clauses)
    is_said_to_last = all(clause.is_lasting and clause.is_request for clause in clauses)
    if len(clearest) < LEAST_SESSIONS and not is_said_to_last:
        return None
    if form < LEAST_FORM:
        return None

    terms = [term for term in key if term != NOT]
    rest = sum(len(clause.terms) - len(terms) for clause in clauses) / len(clauses)
    specifics = sum(min(clause.specifics, 2) for clause in clauses) / len(clauses)
    evidence = (
        FORM_WEIGHT * form
        - REST_WEIGHT * rest
        - BURST_WEIGHT * math.log(counts.burst(terms))
        - SPECIFIC_WEIGHT * specifics
        + NAME_WEIGHT * any(term.startswith("@") for term in terms)
    )
    weights = {session: 0.5 ** (age[session] / HALF_LIFE) for session in clearest}
    return RecurringKey(key, math.exp(evidence), clearest, weights)


def _choose_clearest(occurrences: Iterable[Occurrence]) -> dict[str, Occurrence]:
    """Return the clearest occurrence of each session: a request with few other words."""

    def rank(occurrence: Occurrence) -> tuple[bool, int]:
        clause = occurrence.clause
        return not clause.is_request, len(clause.terms) + clause.specifics

    clearest: dict[str, Occurrence] = {}
    for occurrence in occurrences:
        session = occurrence.turn.session
        if session not in clearest or rank(occurrence) < rank(clearest[session]):
            clearest[session] = occurrence
    return clearest


def _choose(candidates: Sequence[RecurringKey], limit: int) -> list[RecurringKey]:
    """Return the strongest candidates, each counted without the clauses of stronger ones."""
    heap = [(-candidate.score, index) for index, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    current = list(candidates)
    checked = [0] * len(candidates)  # How many chosen wordings were subtracted from each.
    wordings: list[frozenset[str]] = []
    chosen: list[RecurringKey] = []
    while heap and len(chosen) < limit:
        negative_score, index = heapq.heappop(heap)
        if -negative_score < LEAST_SCORE:
            break
        if checked[index] == len(wordings):
            chosen.append(current[index])
            wordings.append(_find_wording(current[index]).clause.terms)
            continue
        rest = _without_covered(current[index], wordings[checked[index] :])
        checked[index] = len(wordings)
        if len(rest.occurrences) >= LEAST_SESSIONS - 1 and _has_request(rest):
            current[index] = rest
            heapq.heappush(heap, (-rest.score, index))
    return chosen


def _without_covered(candidate: RecurringKey, wordings: Sequence[frozenset[str]]) -> RecurringKey:
    """Return a candidate without the occurrences that the wordings cover."""
    needed = min(SHARED_TERMS, len(candidate.key))
    uncovered = {
        session: occurrence
        for session, occurrence in candidate.occurrences.items()
        if not any(len(occurrence.clause.terms & wording) >= needed for wording in wordings)
    }
    return candidate._replace(occurrences=uncovered)


def _has_request(candidate: RecurringKey) -> bool:
    return any(occurrence.clause.is_request for occurrence in candidate.occurrences.values())


def _find_wording(candidate: RecurringKey) -> Occurrence:
    """Return the clearest wording: common to most sessions, short, and an order if any is.

    A wording that a later occurrence changes, as by another prefix of names, is left out.
    """
    occurrences = [item for item in candidate.occurrences.values() if item.clause.is_request]
    occurrences = _without_changed(occurrences)
    short = [item for item in occurrences if len(item.clause.text) <= MAX_TEXT]
    short = [item for item in short if not item.clause.is_complaint] or short
    shares = Counter(term for item in candidate.occurrences.values() for term in item.clause.terms)
    sessions = len(candidate.occurrences)

    def rate(occurrence: Occurrence) -> float:
        terms = occurrence.clause.terms
        common = sum(shares[term] / sessions - BREVITY for term in terms)
        return common - BREVITY * occurrence.clause.specifics

    return max(short or occurrences, key=rate)


def _without_changed(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Return the occurrences that say nothing else of names than later ones."""
    later: list[NameRule] = []
    changed: list[Occurrence] = []
    for item in sorted(occurrences, key=lambda item: item.turn.at, reverse=True):
        rules = find_name_rules(item.clause.text)
        if find_name_conflict(rules, later):
            changed.append(item)
        else:
            later += rules
    return [item for item in occurrences if item not in changed]


def _describe(candidate: RecurringKey) -> StandingRequest:
    wording = _find_wording(candidate)
    occurrences = sorted(candidate.occurrences.values(), key=lambda item: item.turn.at)
    return StandingRequest(
        text=wording.clause.text,
        terms=tuple(sorted(wording.clause.terms)),
        sessions=len(occurrences),
        people=len({item.turn.person for item in occurrences}),
        occurrences=tuple(
            Quotation(item.clause.text, item.turn.session, item.turn.at.date())
            for item in occurrences
        ),
        when=_find_moment(wording.clause.text, [item.turn.then for item in occurrences]),
        score=candidate.score,
    )


def _find_moment(text: str, followed_by: Sequence[str]) -> str:
    """Return when agents are to be told a request.

    That is the moment before which most sessions made it and that its words name, else the start.
    """
    named = [moment for moment, pattern in NAMED_MOMENTS if pattern.search(text)]
    common = Counter(moment for moment in followed_by if moment in named).most_common(1)
    if common and 2 * common[0][1] >= len(followed_by):
        return common[0][0]
    is_unknown = not any(followed_by)  # the transcripts show no commands
    return named[0] if named and is_unknown else "start"
