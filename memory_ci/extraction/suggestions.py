"""Suggestions: candidates that were not written and that a person is asked about, best first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from memory_ci.extraction.entries import candidate_key
from memory_ci.extraction.injection import find_foreign_steering
from memory_ci.extraction.norms import (
    ORDER_AGAIN,
    PLAIN,
    REASONED,
    STRONG,
    states_names,
    strip_lead,
    weigh_norm,
)
from memory_ci.extraction.restatement import (
    CandidateWords,
    find_restated,
    is_same_learning,
    split_words,
)
from memory_ci.extraction.suspects import CAUSE, MIN_WORDS, NORM, WISH, is_passing
from memory_ci.extraction.wording import REASON
from memory_ci.records.candidate import Candidate, Judged, Suggestion
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.text import spell_negations

MAX_WORDS = 60
"""Number of words above which a sentence is not suggested."""

TASK = Regex(
    r"(?i)\?|\b(?:can|could|would|will|should) (?:you|we|this|i)\b|\blet'?s\b"
    r"|^(?:please|consider|either|alternatively|why|if (?:we|you) (?:do|don't|did|didn't)\b"
    r"|never mind|you are|yes|yeah|ok|no|nah|nope|[>|#+-])"
    r"|\bline \d|:=|https?://|\b[0-9a-f]{10,}\b|\bthe (?:first|second|last|other) (?:part|one)\b"
    r"|^(?:\w+ ){1,2}(?:they|them|it|this|these|those)\b"
    r"|\b(?:we|you) don'?t need\b|\b(?:first|next|this) release\b"
    r"|\b(?:scenario|option|case|step|point|item|phase) (?-i:[A-Z]|\d)\b"
    r"|\b(?:unused|obsolete|still references?|intended to)\b"
    r"|\b(?:we|you) (?:are|were|already)\b|\bhere\b|\bwhile (?:this|that|it)\b"
)
"""A question, an answer, a request or finding about the work at hand, or a reference to context."""

STORY = Regex(
    r"(?i)\b\w{3,}(?<!e)ed (?:every|the|an?|all|our|its|their)\b"
    r"|\b(?:caused|led|leading|resulted|resulting|hung|broke|meant)\b"
    r"|\bfails? (?:because|to)\b|\bwill (?:always )?fail\b"
    r"|\bbut\b[^.;]*\bnever\b|\bthe (?:fix|previous)\b|\bfrom day one\b|^(?:always|never) \w+s\b"
    r"|^simplify\b"
    r"|\b(?:is|are|remains?|stays?) (?:unchanged|added|also added)\b|\bmoves? to\b"
    r"|\bany ?(?:more|longer)\b"
    r"|\b(?:these|those) (?:should|must)\b|^first\b|^(?!(?:note|why|caveat|important):)[^\s:]+:\s"
    r"|^(?:the|this|that)"
    r" (?:function|method|test|file|code|change|class|script|check|comment|error|output|command)s?"
    r" (?:should|must|needs?)\b"
)
"""The effect of a fault or of a change, a request to change the thing at hand, or a label."""

EFFECT = Regex(r"\bso\b(?!.*\b(?:must|should)\b).*", re.IGNORECASE)
"""The effect of a change: that something then "always works" is no rule, unless it "must"."""

STATEMENT = Regex(
    r"(?i)(?:the|an?|any|all|each|every|no|if|when|where|unless|never|always|do not|don't|avoid"
    r"|prefer|only|in|on)\b"
    r"|(?:\S+\s+){1,4}?(?:is|are|isn't|aren't|must|can|can't|cannot|does|doesn't|do|don't|has|have"
    r"|should|shall|may|will|won't|would|needs?|never|always|only)\b"
)
"""The beginning of a sentence that states something; a list of work begins with a bare verb."""

CODE = Regex(r"`|\w\(\)|\w[._/]\w|[a-z][A-Z]")

MODEL_WEIGHT = 3
"""Weight of a candidate that a model found: more than any that our rules found."""

WISH_WEIGHT = 0.2
"""Weight of a question that was asked in two changes."""

FOREIGN_WEIGHT = 0.3
"""Weight of a sentence in another language, of which only the words of steering are known."""

ORDER_CHANGES = 3
"""Number of changes of an order without a reason."""

CAUSE_OF_FIX = "root cause"
"""The marker of a cause: that of a repaired bug is of no use to later work."""

MAX_COMPARED = 500
"""Number of suggestions that are compared with one another; what is repeated comes in addition."""


def list_suggestions(
    judged: Iterable[Judged], unwanted: Collection[str] = (), existing: Sequence[Entry] = ()
) -> list[Suggestion]:
    """Return the candidates that a person is asked about or accepted in this run, best first.

    Repeated requests and failures come first, then checks, then suggestions of more changes.
    Then come those of a model, and those that say that they last, give a reason or name code. Among
    equals the newest comes first, which a run reads last. Candidates without any weight are left
    out.

    Args:
        judged: the judged candidates of a run, in its order.
        unwanted: content keys of candidates that were declined.
        existing: entries; a candidate that says the same as one of them is left out.
    """
    suggestions: list[Suggestion] = []
    checks: list[Suggestion] = []
    suggestion_words: list[CandidateWords] = []
    for item in judged:
        suggestion = _make_suggestion(item)
        if not _is_open(item, suggestion, unwanted):
            continue

        if item.candidate.proposal is not None:
            checks.append(suggestion)
            continue
        candidate_words = split_words(item.candidate)
        same_index = _find_same(candidate_words, suggestion_words)
        if same_index is not None:
            suggestions[same_index] = _with_change(suggestions[same_index], item.change)
            continue

        has_room = len(suggestions) < MAX_COMPARED or item.candidate.repetition is not None
        if has_room and (suggestion.is_accepted or not find_restated(item.candidate, existing)):
            suggestions.append(suggestion)
            suggestion_words.append(candidate_words)

    repeated = [item for item in suggestions if len(item.changes) >= _count_needed(item)]
    return sorted([*reversed(repeated), *checks], key=_rank)


def _count_needed(suggestion: Suggestion) -> int:
    """Return how many changes must say a suggestion before a person is asked about it."""
    if suggestion.is_accepted:
        return 1
    if suggestion.weight == ORDER_AGAIN:
        return ORDER_CHANGES
    return 2 if _is_wish(suggestion) else 1


def _is_wish(suggestion: Suggestion) -> bool:
    """Return whether a person only asked why something is still so."""
    candidate = suggestion.candidate
    is_of_person = candidate.session is not None and candidate.engine == "rules"
    return is_of_person and bool(WISH.match(spell_negations(_first_words(candidate))))


def _rank(suggestion: Suggestion) -> tuple[int, float, int, float]:
    """Return the sort key of a suggestion, the smallest first: repetitions, checks, others."""
    candidate = suggestion.candidate
    score = 0.0
    group = 2
    if candidate.proposal is not None:
        group = 1
    elif candidate.repetition is not None:
        group = 0
    if candidate.repetition is not None:
        score = candidate.repetition.score
    return group, -score, -len(suggestion.changes), -suggestion.weight


def _make_suggestion(item: Judged) -> Suggestion:
    """Return a judged candidate as a suggestion of one change."""
    return Suggestion(
        key=candidate_key(item.candidate),
        candidate=item.candidate,
        reason=item.reason,
        changes=(item.change,),
        weight=_weigh(item),
    )


def _is_open(item: Judged, suggestion: Suggestion, unwanted: Collection[str]) -> bool:
    """Return whether a person is to be asked about a suggestion, or accepted it in this run.

    Args:
        item: the candidate and its verdict.
        suggestion: the suggestion of it.
        unwanted: content keys of candidates that were declined.
    """
    if suggestion.is_accepted:
        return True
    is_waiting = item.verdict in ("suspected", "over_limit")
    return is_waiting and suggestion.weight > 0 and suggestion.key not in unwanted


def _find_same(
    candidate_words: CandidateWords, suggestion_words: Sequence[CandidateWords]
) -> int | None:
    """Return the index of the first suggestion that says the same as a candidate, or None."""
    for index, words in enumerate(suggestion_words):
        if is_same_learning(candidate_words, words):
            return index
    return None


def _with_change(suggestion: Suggestion, change: str) -> Suggestion:
    return replace(suggestion, changes=tuple(dict.fromkeys((*suggestion.changes, change))))


def _weigh(item: Judged) -> float:
    """Return how much a candidate is worth a question to a person; 0 for nothing.

    A sentence that a rule found has the weight of its words, and more if it gives a reason or names
    code.
    """
    candidate = item.candidate
    if candidate.engine != "rules":
        return MODEL_WEIGHT
    if candidate.marker == CAUSE_OF_FIX:
        return 0
    text = _first_words(candidate)
    if len(text.split()) > MAX_WORDS:
        return 0
    is_spoken = candidate.session is not None
    weight = PLAIN if candidate.marker else _weigh_unmarked(text, is_spoken)
    if not weight:
        return 0
    if is_spoken:
        text = strip_lead(spell_negations(text))
        if states_names(text):
            return PLAIN
    if weight in (WISH_WEIGHT, STRONG):
        return weight
    # In a message only a statement counts; the words of a session may be an order.
    is_statement = is_spoken or STATEMENT.match(text) is not None
    plain = spell_negations(text)
    if not is_statement or not _is_about_rule(plain):
        return 0
    return weight if weight < REASONED else weight + _weigh_details(plain)


def _weigh_details(plain: str) -> float:
    """Return the additional weight of a sentence that has a reason or the name of code."""
    weight = 0.0
    if REASON.search(plain):
        weight += 0.5
    if CODE.search(plain):
        weight += 0.25
    return weight


def _first_words(candidate: Candidate) -> str:
    """Return the words that a candidate is made of: its first quote, or its title without one."""
    return candidate.quotes[0].text if candidate.quotes else candidate.title


def _weigh_unmarked(text: str, is_spoken: bool) -> float:
    """Return the weight of a sentence by itself, 0 if it is not about how work is done.

    Args:
        text: the sentence.
        is_spoken: whether a person said it to an agent; else it is from a message.
    """
    if is_spoken and WISH.match(spell_negations(text)):
        return WISH_WEIGHT if len(text.split()) >= MIN_WORDS else 0
    weight = weigh_norm(text, is_spoken=is_spoken)
    if is_spoken and not weight and find_foreign_steering(text):
        return FOREIGN_WEIGHT
    return weight


def _is_about_rule(text: str) -> bool:
    """Return whether a sentence may hold beyond the work at hand.

    A question, a fragment, a report of the work and the mere effect of a change do not.
    """
    if not MIN_WORDS <= len(text.split()) <= MAX_WORDS:
        return False
    if TASK.search(text) or STORY.search(text) or is_passing(text):
        return False
    if CAUSE.search(text) or not NORM.search(text):
        return True
    without_effect = EFFECT.sub("", text)
    return NORM.search(without_effect) is not None
