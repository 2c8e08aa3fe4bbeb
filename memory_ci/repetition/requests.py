"""Standing requests: what people ask agents to do in one session after another.

Requests are compared by keys: two terms of a clause, a negated term, or the name of a document or
tool. A key that recurs in several sessions is a candidate. A candidate may be a lasting request
about how to work, or an order of the current task. The difference was measured by reading the
sessions of two teams (benchmarks/results/never-twice.md): requests about how to work are orders or
complaints, have few words other than the key, and occur once in a session, while the subject of
the current task occurs all the time.
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

LEAST_REQUEST_SHARE = 0.25
"""The least share of its sessions in which a key is an order or a complaint."""

HALF_LIFE = 30
"""Sessions after which a request counts half for what is asked next."""

REQUEST_WEIGHT = 3.0
OTHER_TERMS_WEIGHT = 0.6
BURST_WEIGHT = 1.5
SPECIFICS_WEIGHT = 3.0
NAME_WEIGHT = 0.5
"""Weights of the signs that a request is about how to work: rounded coefficients of a logistic
regression over 826 keys of two teams.
"""

LEAST_SCORE = 0.5
"""Score of a request that is listed. Of those below it, most are orders of the current task."""

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
"""Terms that clauses share: two terms, NOT and a term, or the name of a document or tool."""


class Occurrence(NamedTuple):
    """A clause of a turn."""

    clause: TypedClause
    turn: PersonTurn


class RecurringKey(NamedTuple):
    """A key that recurs, with its clearest occurrence in each session.

    Attributes:
        key: the key.
        odds: the odds that it is a request about how to work; no upper bound.
        occurrences: its occurrences that no stronger candidate covers, by session.
        weights: how much each session counts, from 0 to 1, the newest most.
    """

    key: Key
    odds: float
    occurrences: Mapping[str, Occurrence]
    weights: Mapping[str, float]

    @property
    def score(self) -> float:
        """The odds, multiplied by the expected number of requests in the next session."""
        return self.odds * sum(self.weights[session] for session in self.occurrences)


class TermCounts(NamedTuple):
    """How often terms occur.

    Attributes:
        total: occurrences of each term.
        sessions: the number of sessions with each term.
    """

    total: Counter[str]
    sessions: Counter[str]

    def compute_burst(self, terms: Iterable[str]) -> float:
        """Return how often the terms occur in a session that has them, on average; at least 1."""
        bursts = [self.total[term] / self.sessions[term] for term in terms]
        return sum(bursts) / len(bursts)


def find_standing_requests(turns: Iterable[PersonTurn], limit: int) -> list[StandingRequest]:
    """Return the requests that people will most likely make again, the likeliest first.

    Args:
        turns: what people typed to agents, in any order.
        limit: the greatest number of requests.
    """
    ordered_turns = _join_copies(sorted(turns, key=lambda turn: turn.at))
    session_ages = _rank_sessions(ordered_turns)
    occurrences_by_key, term_counts = _collect_keys(ordered_turns)
    candidates: list[RecurringKey] = []
    for key, occurrences in occurrences_by_key.items():
        candidate = _weigh(key, occurrences, term_counts, session_ages)
        if candidate is not None:
            candidates.append(candidate)
    return [_describe(candidate) for candidate in _choose(candidates, limit)]


def is_same_request(request: Sequence[str], text: str) -> bool:
    """Return whether a text has a clause that makes a known request.

    Args:
        request: the terms of the request.
        text: what somebody wrote.
    """
    terms = frozenset(request)
    return any(_is_alike(terms, clause.terms) for clause in _read_clauses(text))


def _is_alike(first_terms: frozenset[str], second_terms: frozenset[str]) -> bool:
    """Return whether most of the shorter set of terms is in the longer one."""
    shared = len(first_terms & second_terms)
    shorter = min(len(first_terms), len(second_terms))
    if shorter == 0:
        return False
    return shared >= min(SHARED_TERMS, shorter) and shared >= SAME_SHARE * shorter


def _join_copies(turns: Sequence[PersonTurn]) -> list[PersonTurn]:
    """Return the turns with one session name for a session and its copies.

    Copies come from resumed sessions, and from tools that export a session again. A session is a
    copy of an earlier session that has at least half of its long texts.

    Args:
        turns: what people typed, oldest first.
    """
    texts_by_session: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        if len(turn.text) >= COPIED_CHARS:
            texts_by_session[turn.session].add(turn.text)

    first_session: dict[str, str] = {}  # the first session with each text
    original: dict[str, str] = {}  # the session that each copy is a copy of
    for session, texts in texts_by_session.items():
        shared = Counter(first_session[text] for text in texts if text in first_session)
        for earlier, shared_count in shared.most_common(1):
            if 2 * shared_count >= len(texts):
                original[session] = original.get(earlier, earlier)
        for text in texts:
            first_session.setdefault(text, session)
    return [replace(turn, session=original.get(turn.session, turn.session)) for turn in turns]


def _rank_sessions(turns: Sequence[PersonTurn]) -> dict[str, int]:
    """Return the age of each session: 1 for the last that began, 2 for the second to last."""
    sessions = list(dict.fromkeys(turn.session for turn in turns))
    return {session: len(sessions) - index for index, session in enumerate(sessions)}


def _collect_keys(turns: Sequence[PersonTurn]) -> tuple[dict[Key, list[Occurrence]], TermCounts]:
    """Return the occurrences of each key, and the counts of all terms."""
    occurrences_by_key: defaultdict[Key, list[Occurrence]] = defaultdict(list)
    total: Counter[str] = Counter()
    sessions_by_term: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        for clause in _read_clauses(turn.text):
            total.update(clause.terms)
            for term in clause.terms:
                sessions_by_term[term].add(turn.session)
            for key in _list_keys(clause):
                occurrences_by_key[key].append(Occurrence(clause, turn))

    session_counts = Counter({term: len(names) for term, names in sessions_by_term.items()})
    return occurrences_by_key, TermCounts(total, session_counts)


@lru_cache(maxsize=1 << 14)
def _read_clauses(text: str) -> tuple[TypedClause, ...]:
    return tuple(list_clauses(text))


def _list_keys(clause: TypedClause) -> Iterator[Key]:
    """Yield the keys by which a clause is compared with others; none if it is too long.

    These are each pair of its terms, each name of a document or tool (`@` and the name), and each
    term of a negated clause, marked by NOT.
    """
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
    key: Key,
    occurrences: Sequence[Occurrence],
    term_counts: TermCounts,
    session_ages: Mapping[str, int],
) -> RecurringKey | None:
    """Return a key as a candidate for a standing request, with how much speaks for it.

    Args:
        key: terms that several clauses share.
        occurrences: the clauses that have these terms.
        term_counts: how often all terms occur.
        session_ages: how old each session is; 1 for the newest.

    Returns:
        None if the key is in too few sessions, or in too few of them in a request.
    """
    sessions = {occurrence.turn.session for occurrence in occurrences}
    if len(sessions) < LEAST_SESSIONS - 1:
        return None

    clearest = _choose_clearest(occurrences)
    clauses = [occurrence.clause for occurrence in clearest.values()]
    if _find_request_share(clauses) < LEAST_REQUEST_SHARE:
        return None
    is_lasting = all(clause.is_lasting and clause.is_request for clause in clauses)
    if len(sessions) < LEAST_SESSIONS and not is_lasting:
        return None

    weights = {session: 0.5 ** (session_ages[session] / HALF_LIFE) for session in clearest}
    return RecurringKey(key, _estimate_odds(key, clauses, term_counts), clearest, weights)


def _find_request_share(clauses: Sequence[TypedClause]) -> float:
    """Return the share of clauses that are orders or complaints."""
    return sum(clause.is_request for clause in clauses) / len(clauses)


def _estimate_odds(key: Key, clauses: Sequence[TypedClause], term_counts: TermCounts) -> float:
    """Return the odds that a request is about how to work, not about the current task.

    The odds come from a logistic regression. Requests about how to work are orders or complaints,
    have few words other than the key, and terms that occur once in a session. They name no numbers,
    identifiers or files of code, but may name a document or a tool.

    Args:
        key: terms that the clauses share.
        clauses: one clause of each session.
        term_counts: how often all terms occur.
    """
    terms = [term for term in key if term != NOT]
    other_terms = sum(len(clause.terms) - len(terms) for clause in clauses) / len(clauses)
    specifics = sum(min(clause.specifics, 2) for clause in clauses) / len(clauses)
    has_name = any(term.startswith("@") for term in terms)
    log_odds = (
        REQUEST_WEIGHT * _find_request_share(clauses)
        - OTHER_TERMS_WEIGHT * other_terms
        - BURST_WEIGHT * math.log(term_counts.compute_burst(terms))
        - SPECIFICS_WEIGHT * specifics
    )
    if has_name:
        log_odds += NAME_WEIGHT
    return math.exp(log_odds)


def _choose_clearest(occurrences: Iterable[Occurrence]) -> dict[str, Occurrence]:
    """Return the clearest occurrence in each session: a request, with the fewest other words."""

    def rank(occurrence: Occurrence) -> tuple[bool, int]:
        clause = occurrence.clause
        is_other = not clause.is_request  # requests come first, as False sorts before True
        return is_other, len(clause.terms) + clause.specifics

    clearest: dict[str, Occurrence] = {}
    for occurrence in occurrences:
        session = occurrence.turn.session
        if session not in clearest or rank(occurrence) < rank(clearest[session]):
            clearest[session] = occurrence
    return clearest


def _choose(candidates: Sequence[RecurringKey], limit: int) -> list[RecurringKey]:
    """Return the candidates with the highest scores, at most `limit`.

    Clauses that a chosen candidate covers do not count for the others, whose scores only fall. So
    a candidate's score is computed again only when it is the highest of those that remain.
    """
    current = list(candidates)
    # heapq pops the smallest item first, so that scores are negative.
    heap = [(-candidate.score, index) for index, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    chosen: list[RecurringKey] = []
    chosen_terms: list[frozenset[str]] = []  # the terms of the wording of each chosen candidate
    subtracted = [0] * len(candidates)  # how many of these each candidate was reduced by
    while heap and len(chosen) < limit:
        negative_score, index = heapq.heappop(heap)
        if -negative_score < LEAST_SCORE:
            break
        if subtracted[index] == len(chosen_terms):
            chosen.append(current[index])
            chosen_terms.append(_find_wording(current[index]).clause.terms)
            continue

        reduced = _drop_covered(current[index], chosen_terms[subtracted[index] :])
        subtracted[index] = len(chosen_terms)
        if len(reduced.occurrences) >= LEAST_SESSIONS - 1 and _has_request(reduced):
            current[index] = reduced
            heapq.heappush(heap, (-reduced.score, index))
    return chosen


def _drop_covered(candidate: RecurringKey, chosen_terms: Sequence[frozenset[str]]) -> RecurringKey:
    """Return a candidate without the clauses that make a request which was chosen already.

    Args:
        candidate: the candidate.
        chosen_terms: the terms of the wording of each chosen request.
    """
    needed = min(SHARED_TERMS, len(candidate.key))
    uncovered = {}
    for session, occurrence in candidate.occurrences.items():
        terms = occurrence.clause.terms
        if not any(len(terms & wording) >= needed for wording in chosen_terms):
            uncovered[session] = occurrence
    return candidate._replace(occurrences=uncovered)


def _has_request(candidate: RecurringKey) -> bool:
    return any(occurrence.clause.is_request for occurrence in candidate.occurrences.values())


def _find_wording(candidate: RecurringKey) -> Occurrence:
    """Return the clearest wording of a request: short, an order if any is, in common terms.

    A wording that a later one contradicts, as by another prefix of branch names, is left out.
    """
    session_count = len(candidate.occurrences)
    requests = []
    term_sessions: Counter[str] = Counter()  # in how many sessions each term occurs
    for occurrence in candidate.occurrences.values():
        term_sessions.update(occurrence.clause.terms)
        if occurrence.clause.is_request:
            requests.append(occurrence)
    requests = _drop_contradicted(requests)
    short = [request for request in requests if len(request.clause.text) <= MAX_TEXT]
    short_orders = [request for request in short if not request.clause.is_complaint]

    def rate(request: Occurrence) -> float:
        shares = [term_sessions[term] / session_count for term in request.clause.terms]
        return sum(share - BREVITY for share in shares) - BREVITY * request.clause.specifics

    return max(short_orders or short or requests, key=rate)


def _drop_contradicted(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Return the occurrences whose rules for names, if any, agree with those of later ones."""
    later_rules: list[NameRule] = []
    contradicted: list[Occurrence] = []
    for occurrence in sorted(occurrences, key=lambda item: item.turn.at, reverse=True):
        rules = find_name_rules(occurrence.clause.text)
        if find_name_conflict(rules, later_rules):
            contradicted.append(occurrence)
        else:
            later_rules += rules
    return [occurrence for occurrence in occurrences if occurrence not in contradicted]


def _describe(candidate: RecurringKey) -> StandingRequest:
    """Return a chosen candidate as a standing request, with its wording and all quotations."""
    wording = _find_wording(candidate).clause
    occurrences = sorted(candidate.occurrences.values(), key=lambda item: item.turn.at)
    quotations = []
    for clause, turn in occurrences:
        quotations.append(Quotation(clause.text, turn.session, turn.at.date()))
    return StandingRequest(
        text=wording.text,
        terms=tuple(sorted(wording.terms)),
        sessions=len(occurrences),
        people=len({occurrence.turn.person for occurrence in occurrences}),
        occurrences=tuple(quotations),
        when=_find_moment(wording.text, [occurrence.turn.then for occurrence in occurrences]),
        score=candidate.score,
    )


def _find_moment(text: str, next_moments: Sequence[str]) -> str:
    """Return when agents are to be told a request, as `before:commit`, or `start` of a session.

    That is a moment which the words of the request name and before which most sessions made it.

    Args:
        text: the wording of the request.
        next_moments: the moment that followed the request in each session, "" for none.
    """
    named = [moment for moment, pattern in NAMED_MOMENTS if pattern.search(text)]
    counts = Counter(moment for moment in next_moments if moment in named)
    for moment, count in counts.most_common(1):
        if 2 * count >= len(next_moments):
            return moment
    has_commands = any(next_moments)  # else the transcripts show none, and the words decide
    if named and not has_commands:
        return named[0]
    return "start"
