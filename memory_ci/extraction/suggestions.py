"""Suggestions: candidates that were not written and that a person is asked about, best first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from memory_ci.extraction.entries import compute_candidate_key
from memory_ci.extraction.injection import find_foreign_steering
from memory_ci.extraction.norms import (
    BARE_ORDER_WEIGHT,
    LASTING_RULE_WEIGHT,
    PROCESS_RULE_WEIGHT,
    REASONED_RULE_WEIGHT,
    states_naming_rule,
    strip_wish_prefix,
    weigh_rule,
)
from memory_ci.extraction.restatement import (
    CandidateWords,
    find_restated,
    is_same_learning,
    split_words,
)
from memory_ci.extraction.suspects import (
    MIN_WORDS,
    REASON_CONJUNCTION,
    RULE_WORD,
    WISH_QUESTION,
    is_of_no_later_use,
)
from memory_ci.extraction.wording import REASON_WORD
from memory_ci.records.candidate import Candidate, Judged, Suggestion
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.text import spell_negations

MAX_WORDS = 60
"""Number of words above which a sentence is not suggested."""

ABOUT_TASK = Regex(
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

ABOUT_EFFECTS = Regex(
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

SO_CLAUSE = Regex(r"\bso\b(?!.*\b(?:must|should)\b).*", re.IGNORECASE)
"""The effect of a change: that something then "always works" is no rule, unless it "must"."""

STATEMENT = Regex(
    r"(?i)(?:the|an?|any|all|each|every|no|if|when|where|unless|never|always|do not|don't|avoid"
    r"|prefer|only|in|on)\b"
    r"|(?:\S+\s+){1,4}?(?:is|are|isn't|aren't|must|can|can't|cannot|does|doesn't|do|don't|has|have"
    r"|should|shall|may|will|won't|would|needs?|never|always|only)\b"
)
"""The beginning of a sentence that states something; a list of work begins with a bare verb."""

# Groups of suggestions, in the order in which a person sees them.
REPETITION_GROUP, CHECK_GROUP, OTHER_GROUP = range(3)

CODE = Regex(r"`|\w\(\)|\w[._/]\w|[a-z][A-Z]")

MODEL_WEIGHT = 3
"""Weight of a candidate that a model found: more than any that our rules found."""

WISH_WEIGHT = 0.2
"""Weight of a question that was asked in two changes."""

FOREIGN_WEIGHT = 0.3
"""Weight of a sentence in another language, of which only the words of steering are known."""

REASON_BONUS = 0.5
CODE_BONUS = 0.25
"""What a reason and the name of code add to the weight of a sentence. Both were chosen by hand."""

MIN_CHANGES_OF_BARE_ORDER = 3
"""Number of changes that must give an order without a reason before a person is asked about it."""

CAUSE_OF_FIX = "root cause"
"""The marker of a cause: that of a repaired bug is of no use to later work."""

MAX_COMPARED = 500
"""Number of suggestions that are compared with one another; what is repeated comes in addition."""


def list_suggestions(
    judged: Iterable[Judged],
    declined_keys: Collection[str] = (),
    existing: Sequence[Entry] = (),
) -> list[Suggestion]:
    """Return the candidates that a person is asked about or accepted in this run, best first.

    `_make_sort_key` gives the order. Among equals the newest comes first. Candidates that say the
    same become one suggestion of several changes. A proposal of a check, which is for one entry, is
    always a suggestion of its own.

    Args:
        judged: the candidates of a run with the verdict on each; the oldest change comes first.
        declined_keys: content keys of candidates that a person declined.
        existing: entries; a candidate that says the same as one of them is left out.
    """
    suggestions: list[Suggestion] = []
    words_of_suggestions: list[CandidateWords] = []  # at the same index as the suggestion
    checks: list[Suggestion] = []
    for item in judged:
        suggestion = _make_suggestion(item)
        if not _is_to_be_shown(item, suggestion, declined_keys):
            continue

        if item.candidate.proposal is not None:
            checks.append(suggestion)
            continue
        candidate_words = split_words(item.candidate)
        same_index = _find_same(candidate_words, words_of_suggestions)
        if same_index is not None:
            suggestions[same_index] = _add_change(suggestions[same_index], item.change)
            continue

        has_room = len(suggestions) < MAX_COMPARED or item.candidate.repetition is not None
        if has_room and (suggestion.is_accepted or not find_restated(item.candidate, existing)):
            suggestions.append(suggestion)
            words_of_suggestions.append(candidate_words)

    shown = [item for item in suggestions if len(item.changes) >= _count_needed_changes(item)]
    newest_first = reversed(shown)
    return sorted([*newest_first, *checks], key=_make_sort_key)


def _count_needed_changes(suggestion: Suggestion) -> int:
    """Return how many changes must say a suggestion before a person is asked about it."""
    if suggestion.is_accepted:
        return 1
    if suggestion.weight == BARE_ORDER_WEIGHT:
        return MIN_CHANGES_OF_BARE_ORDER
    return 2 if _is_wish(suggestion) else 1


def _is_wish(suggestion: Suggestion) -> bool:
    """Return whether a person only asked why something is still so."""
    candidate = suggestion.candidate
    is_of_person = candidate.session is not None and candidate.engine == "rules"
    return is_of_person and bool(WISH_QUESTION.match(spell_negations(_get_source_text(candidate))))


def _make_sort_key(suggestion: Suggestion) -> tuple[int, float, int, float]:
    """Return a key that sorts the best suggestion first.

    Repetitions (requests and failures that several sessions repeat) come first, the greatest score
    first. Then come proposals of checks, then all others. Within these groups, a suggestion that
    more changes say comes first, then one of greater weight.
    """
    candidate = suggestion.candidate
    score = candidate.repetition.score if candidate.repetition is not None else 0.0
    if candidate.proposal is not None:
        group = CHECK_GROUP
    elif candidate.repetition is not None:
        group = REPETITION_GROUP
    else:
        group = OTHER_GROUP
    return group, -score, -len(suggestion.changes), -suggestion.weight


def _make_suggestion(item: Judged) -> Suggestion:
    """Return a judged candidate as a suggestion of one change."""
    return Suggestion(
        key=compute_candidate_key(item.candidate),
        candidate=item.candidate,
        reason=item.reason,
        changes=(item.change,),
        weight=_weigh_candidate(item),
    )


def _is_to_be_shown(item: Judged, suggestion: Suggestion, declined_keys: Collection[str]) -> bool:
    """Return whether a suggestion is shown to a person.

    It is if a person accepted it in this run. Else it must wait for a decision, be worth asking
    about (its weight is not 0), and not have been declined.

    Args:
        item: the candidate and its verdict.
        suggestion: the suggestion of it.
        declined_keys: content keys of candidates that a person declined.
    """
    if suggestion.is_accepted:
        return True
    is_waiting = item.verdict in ("suspected", "over_limit")
    return is_waiting and suggestion.weight > 0 and suggestion.key not in declined_keys


def _find_same(
    candidate_words: CandidateWords, words_of_suggestions: Sequence[CandidateWords]
) -> int | None:
    """Return the index of the first suggestion that says the same as a candidate, or None."""
    for index, suggestion_words in enumerate(words_of_suggestions):
        if is_same_learning(candidate_words, suggestion_words):
            return index
    return None


def _add_change(suggestion: Suggestion, change: str) -> Suggestion:
    return replace(suggestion, changes=tuple(dict.fromkeys((*suggestion.changes, change))))


def _weigh_candidate(item: Judged) -> float:
    """Return how much it is worth to ask a person about a candidate; 0 if it is not.

    A model's candidate weighs most. The cause of a fixed bug, and a long text, weigh nothing. The
    first quote of any other candidate is weighed as a sentence.
    """
    candidate = item.candidate
    if candidate.engine != "rules":
        return MODEL_WEIGHT
    if candidate.marker == CAUSE_OF_FIX:
        return 0
    text = _get_source_text(candidate)
    if len(text.split()) > MAX_WORDS:
        return 0
    is_spoken = candidate.session is not None
    return _weigh_sentence(text, is_spoken=is_spoken, is_marked=bool(candidate.marker))


def _weigh_sentence(text: str, *, is_spoken: bool, is_marked: bool) -> float:
    """Return how much the words of a sentence show that it is a rule for later work.

    A reason or the name of code in it adds to the weight.

    Args:
        text: the sentence.
        is_spoken: whether a person said it to an agent; else it is from a message.
        is_marked: whether its author marked it (`Learning: …`).
    """
    weight = PROCESS_RULE_WEIGHT if is_marked else _weigh_unmarked(text, is_spoken=is_spoken)
    if not weight:
        return 0
    if is_spoken:
        text = strip_wish_prefix(spell_negations(text))
        if states_naming_rule(text):
            return PROCESS_RULE_WEIGHT
    if weight in (WISH_WEIGHT, LASTING_RULE_WEIGHT):
        return weight
    # An order in a message is mostly what the commit does, so only statements count there. In a
    # session a person gives the order to the agent.
    counts_by_form = is_spoken or STATEMENT.match(text) is not None
    plain = spell_negations(text)
    if not counts_by_form or not _may_outlast_change(plain):
        return 0
    if weight < REASONED_RULE_WEIGHT:
        return weight
    return weight + _weigh_details(plain)


def _weigh_details(plain: str) -> float:
    """Return the additional weight of a sentence that has a reason or the name of code.

    Args:
        plain: the sentence, with negations spelled in one way.
    """
    weight = 0.0
    if REASON_WORD.search(plain):
        weight += REASON_BONUS
    if CODE.search(plain):
        weight += CODE_BONUS
    return weight


def _get_source_text(candidate: Candidate) -> str:
    """Return the words that a candidate is made of: its first quote, or its title without one."""
    return candidate.quotes[0].text if candidate.quotes else candidate.title


def _weigh_unmarked(text: str, *, is_spoken: bool) -> float:
    """Return the weight of a sentence that nobody marked, 0 if it is not about how work is done.

    A wish (`why is this still …`) weighs little, and so does a sentence in a language other than
    English, of which only a few words are known.

    Args:
        text: the sentence.
        is_spoken: whether a person said it to an agent; else it is from a message.
    """
    if is_spoken and WISH_QUESTION.match(spell_negations(text)):
        return WISH_WEIGHT if len(text.split()) >= MIN_WORDS else 0
    weight = weigh_rule(text, is_spoken=is_spoken)
    if is_spoken and not weight and find_foreign_steering(text):
        return FOREIGN_WEIGHT
    return weight


def _may_outlast_change(text: str) -> bool:
    """Return whether a sentence may be a rule for later work, and not about the change at hand.

    A question, a fragment and a report of what was done are none. Neither is a sentence in which
    `never` or `always` only tell the effect of a change: `…, so that it never hangs`.
    """
    if not MIN_WORDS <= len(text.split()) <= MAX_WORDS:
        return False
    is_about_change = ABOUT_TASK.search(text) or ABOUT_EFFECTS.search(text)
    if is_about_change or is_of_no_later_use(text):
        return False
    if REASON_CONJUNCTION.search(text) or not RULE_WORD.search(text):
        return True
    without_effect = SO_CLAUSE.sub("", text)
    return RULE_WORD.search(without_effect) is not None
