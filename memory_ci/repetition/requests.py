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
from memory_ci.repetition.vocabulary import COMMON_STEMS

NOT = "!"
"""The first part of the key of a negated term."""

LEAST_SESSIONS = 3
"""Sessions of a standing request; two suffice if the words of both say that it lasts."""

LEAST_LASTING_SESSIONS = LEAST_SESSIONS - 1
"""Sessions of a standing request whose words say that it lasts."""

LEAST_REQUEST_SHARE = 0.25
"""The least share of its sessions in which a key is an order or a complaint."""

HALF_LIFE = 30
"""Sessions after which a request counts half for what is asked next."""

REQUEST_WEIGHT = 3.0
OTHER_TERMS_WEIGHT = 0.6
BURST_WEIGHT = 1.5  # Of terms that occur several times in a session.
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
TERM_COST = 0.2
"""What a term costs in the rating of a wording, chosen by hand: a term that fewer sessions have
makes the wording worse, a term that more sessions have makes it better."""

SHARED_TERMS = 2  # Terms that a clause shares with the wording of a request that covers it.

NAMED_MOMENTS = (
    ("before:pull-request", Regex(r"\b(?:PRs?|pull[ -]requests?|merge requests?)\b", re.I)),
    ("before:push", Regex(r"\bpush", re.I)),
    ("before:commit", Regex(r"\bcommit|\bchangelog\b", re.I)),
)
"""Moments, and the words by which a request names them."""

Key = tuple[str, ...]
"""Terms by which clauses of different sessions are found to be alike: two stems of content words,
NOT and a stem, or the name of a document or tool."""


class Occurrence(NamedTuple):
    """A clause that has the terms of a key, and the turn in which a person typed it."""

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
        occurrence_counts: the occurrences of each term.
        session_counts: the number of sessions with each term.
    """

    occurrence_counts: Counter[str]
    session_counts: Counter[str]

    def compute_burst(self, terms: Iterable[str]) -> float:
        """Return how often the terms occur in a session that has them, on average; at least 1."""
        bursts = [self.occurrence_counts[term] / self.session_counts[term] for term in terms]
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
        candidate = _make_candidate(key, occurrences, term_counts, session_ages)
        if candidate is not None:
            candidates.append(candidate)
    chosen = _choose_candidates(candidates, limit)
    return [_build_standing_request(candidate) for candidate in chosen]


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
    """Return which clauses share a key, and how often all terms occur.

    The terms of a clause are the stems of its content words. A key is a pair of them, or another
    small part that makes a request (`_list_keys`).

    Returns:
        The clauses that have each key, and the counts of terms.
    """
    occurrences_by_key: defaultdict[Key, list[Occurrence]] = defaultdict(list)
    occurrence_counts: Counter[str] = Counter()
    sessions_by_term: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        for clause in _read_clauses(turn.text):
            occurrence_counts.update(clause.terms)
            for term in clause.terms:
                sessions_by_term[term].add(turn.session)
            for key in _list_keys(clause):
                occurrences_by_key[key].append(Occurrence(clause, turn))

    session_counts = Counter({term: len(names) for term, names in sessions_by_term.items()})
    return occurrences_by_key, TermCounts(occurrence_counts, session_counts)


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
    terms = sorted(clause.terms - COMMON_STEMS)
    yield from combinations(terms, 2)
    for term in terms:
        if term.startswith("@"):
            yield (term,)
        if clause.is_negated:
            yield NOT, term


def _make_candidate(
    key: Key,
    occurrences: Sequence[Occurrence],
    term_counts: TermCounts,
    session_ages: Mapping[str, int],
) -> RecurringKey | None:
    """Return the candidate for a standing request that a key makes, None if it makes none.

    A key must be in LEAST_SESSIONS sessions, and in enough of them in a request: an order or a
    complaint. One session less suffices if all clauses are requests whose words say that they hold
    from now on, such as "always".

    Args:
        key: terms that several clauses share.
        occurrences: the clauses that have these terms.
        term_counts: how often all terms occur.
        session_ages: how old each session is; 1 for the newest.
    """
    session_count = len({occurrence.turn.session for occurrence in occurrences})
    if session_count < LEAST_LASTING_SESSIONS:
        return None  # so are most keys

    occurrence_by_session = _choose_clearest_by_session(occurrences)
    clauses = [occurrence.clause for occurrence in occurrence_by_session.values()]
    if _find_request_share(clauses) < LEAST_REQUEST_SHARE:
        return None
    are_all_lasting = all(clause.is_lasting and clause.is_request for clause in clauses)
    if session_count < LEAST_SESSIONS and not are_all_lasting:
        return None

    odds = _estimate_odds(key, clauses, term_counts)
    weights = {}
    for session in occurrence_by_session:
        weights[session] = 0.5 ** (session_ages[session] / HALF_LIFE)
    return RecurringKey(key, odds, occurrence_by_session, weights)


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


def _choose_clearest_by_session(occurrences: Iterable[Occurrence]) -> dict[str, Occurrence]:
    """Return of each session the clause that states a request most clearly.

    Clauses that are requests come first, then those with the fewest words and names. All of them
    have the terms of the key, so fewer words means fewer words on anything else.
    """

    def clarity_rank(occurrence: Occurrence) -> tuple[bool, int]:
        clause = occurrence.clause
        is_no_request = not clause.is_request  # requests come first, as False sorts before True
        return is_no_request, len(clause.terms) + clause.specifics

    clearest: dict[str, Occurrence] = {}
    for occurrence in occurrences:
        session = occurrence.turn.session
        if session not in clearest or clarity_rank(occurrence) < clarity_rank(clearest[session]):
            clearest[session] = occurrence
    return clearest


def _choose_candidates(candidates: Sequence[RecurringKey], limit: int) -> list[RecurringKey]:
    """Return the candidates with the highest scores, at most `limit`.

    A clause may have the keys of several candidates. Once one of them is chosen, the clause does
    not count for the others, so their scores fall. To compute all scores again after each choice
    would take long. So the candidates are in a heap by their old scores. The first one is chosen if
    its score takes all choices so far into account. Otherwise its score is computed again, and it
    goes back into the heap.
    """
    current_candidates = list(candidates)
    # heapq pops the smallest item first, so that scores are negative.
    heap = [(-candidate.score, index) for index, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    chosen: list[RecurringKey] = []
    chosen_terms: list[frozenset[str]] = []  # the terms of the wording of each chosen candidate
    # For each candidate, how many of the chosen ones its score takes into account.
    considered_counts = [0] * len(candidates)
    while heap and len(chosen) < limit:
        negative_score, index = heapq.heappop(heap)
        if -negative_score < LEAST_SCORE:
            break
        candidate = current_candidates[index]
        new_terms = chosen_terms[considered_counts[index] :]
        if not new_terms:
            chosen.append(candidate)
            chosen_terms.append(_choose_wording(candidate).clause.terms)
            continue

        candidate = _drop_covered_occurrences(candidate, new_terms)
        considered_counts[index] = len(chosen_terms)
        if len(candidate.occurrences) >= LEAST_LASTING_SESSIONS and _has_request(candidate):
            current_candidates[index] = candidate
            heapq.heappush(heap, (-candidate.score, index))
    return chosen


def _drop_covered_occurrences(
    candidate: RecurringKey, chosen_terms: Sequence[frozenset[str]]
) -> RecurringKey:
    """Return a candidate without the clauses that state a request which was chosen already.

    A clause states a chosen request if it shares SHARED_TERMS terms with the wording of the
    request, or as many as the key of the candidate has, if these are fewer.

    Args:
        candidate: the candidate, with a clause of each session.
        chosen_terms: the terms of the wording of each chosen request.
    """
    required_count = min(SHARED_TERMS, len(candidate.key))
    remaining_occurrences = {}
    for session, occurrence in candidate.occurrences.items():
        terms = occurrence.clause.terms
        is_covered = any(len(terms & chosen) >= required_count for chosen in chosen_terms)
        if not is_covered:
            remaining_occurrences[session] = occurrence
    return candidate._replace(occurrences=remaining_occurrences)


def _has_request(candidate: RecurringKey) -> bool:
    return any(occurrence.clause.is_request for occurrence in candidate.occurrences.values())


def _choose_wording(candidate: RecurringKey) -> Occurrence:
    """Return the clause that words a request best.

    Short clauses are preferred, and among these orders to complaints. Of the preferred ones the
    best is that with the most terms which other sessions use as well. Each term and each name of a
    thing costs TERM_COST, so that the wording does not get long. A clause that a later one
    contradicts, as by another prefix of branch names, is left out.
    """
    session_count = len(candidate.occurrences)
    requests = []
    sessions_with_term: Counter[str] = Counter()
    for occurrence in candidate.occurrences.values():
        sessions_with_term.update(occurrence.clause.terms)
        if occurrence.clause.is_request:
            requests.append(occurrence)
    requests = _drop_contradicted(requests)
    short_requests = [request for request in requests if len(request.clause.text) <= MAX_TEXT]
    short_orders = [request for request in short_requests if not request.clause.is_complaint]

    def rate_wording(request: Occurrence) -> float:
        shares = [sessions_with_term[term] / session_count for term in request.clause.terms]
        term_rating = sum(share - TERM_COST for share in shares)
        return term_rating - TERM_COST * request.clause.specifics

    return max(short_orders or short_requests or requests, key=rate_wording)


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


def _build_standing_request(candidate: RecurringKey) -> StandingRequest:
    """Return a chosen candidate as a standing request, with its wording and all quotations."""
    wording = _choose_wording(candidate).clause
    occurrences = sorted(candidate.occurrences.values(), key=lambda item: item.turn.at)
    quotations = []
    next_moments = []  # what the agent did next in each session, such as `before:commit`
    for clause, turn in occurrences:
        quotations.append(Quotation(clause.text, turn.session, turn.at.date()))
        next_moments.append(turn.then)
    return StandingRequest(
        text=wording.text,
        terms=tuple(sorted(wording.terms)),
        sessions=len(occurrences),
        people=len({occurrence.turn.person for occurrence in occurrences}),
        occurrences=tuple(quotations),
        when=_find_moment(wording.text, next_moments),
        score=candidate.score,
    )


def _find_moment(text: str, next_moments: Sequence[str]) -> str:
    """Return when agents are to be told a request, as `before:commit`, or `start` of a session.

    A moment is found only if the words of the request name it. In at least half of the sessions it
    must also be what the agent did next after the request. If no session shows any command, the
    words alone decide.

    Args:
        text: the wording of the request.
        next_moments: the moment that followed the request in each session, "" for none.
    """
    named_moments = [moment for moment, pattern in NAMED_MOMENTS if pattern.search(text)]
    counts = Counter(moment for moment in next_moments if moment in named_moments)
    if counts:
        most_common_moment, count = counts.most_common(1)[0]
        if 2 * count >= len(next_moments):
            return most_common_moment
    has_commands = any(next_moments)
    if named_moments and not has_commands:
        return named_moments[0]
    return "start"
