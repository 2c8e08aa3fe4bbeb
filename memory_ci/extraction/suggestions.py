"""Suggestions: what a run proposed and did not write, the best first, each with all the changes that say it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from memory_ci.extraction.entries import content_key
from memory_ci.extraction.restatement import find_restated, is_same_learning, split_words
from memory_ci.extraction.wording import CAUSE, MIN_WORDS, NORM, REASON, is_passing
from memory_ci.records.candidate import Judged, Suggestion
from memory_ci.records.entry import Entry

MAX_WORDS = 60
# Parts of a doubt that say that the words are about more than the work at hand. What not to do is mostly an order: of
# 24 candidates of one team, read severely, 1 of 11 such was one to keep, and of those that give the reason of a fix 4
# of 4. Elsewhere 2 of 18 of the latter were: bodies of commits that list what was done have such sentences as well.
LASTING_SIGNS = (
    "remember",
    "next time",
    "how we do it",
    "always holds",
    "prefers",
    "like a rule",
    "a remark",
    "a reason given",
)
# What a question, an answer, a request for the work at hand, a finding about it, or words that lean on others have.
TASK = re.compile(
    r"(?i)\?|\b(?:can|could|would|will|should) (?:you|we|this|i)\b|\blet'?s\b|^(?:please|consider|either|alternatively"
    r"|why|if (?:we|you) (?:do|don't|did|didn't)\b|never mind|you are|yes|yeah|ok|no|nah|nope|[>|#+-])"
    r"|\bline \d|:=|https?://|\b[0-9a-f]{10,}\b|\bthe (?:first|second|last|other) (?:part|one)\b"
    r"|^(?:\w+ ){1,2}(?:they|them|it|this|these|those)\b|\b(?:we|you) don'?t need\b|\b(?:first|next|this) release\b"
    r"|\b(?:scenario|option|case|step|point|item|phase) (?-i:[A-Z]|\d)\b|\b(?:unused|obsolete|still references?"
    r"|intended to)\b|\b(?:we|you) (?:are|were|already)\b|\bhere\b|\bwhile (?:this|that|it)\b"
)
# What a sentence has that tells what a fault did or what a change does, or that asks to change the thing at hand; and
# how a label with its gloss begins.
STORY = re.compile(
    r"(?i)\b\w{3,}(?<!e)ed (?:every|the|an?|all|our|its|their)\b"
    r"|\b(?:caused|led|leading|resulted|resulting|hung|broke|meant)\b"
    r"|\bfails? (?:because|to)\b|\bwill (?:always )?fail\b"
    r"|\bbut\b[^.;]*\bnever\b|\bthe (?:fix|previous)\b|\bfrom day one\b|^(?:always|never) \w+s\b|^simplify\b"
    r"|\b(?:is|are|remains?|stays?) (?:unchanged|added|also added)\b|\bmoves? to\b|\bany ?(?:more|longer)\b"
    r"|\b(?:these|those) (?:should|must)\b|^first\b|^(?!(?:note|why|caveat|important):)[^\s:]+:\s"
    r"|^(?:the|this|that) (?:function|method|test|file|code|change|class|script|check|comment|error|output|command)s?"
    r" (?:should|must|needs?)\b"
)
# What follows from a change: that something "always works" then is no rule, unless it "must".
EFFECT = re.compile(r"\bso\b(?!.*\b(?:must|should)\b).*", re.IGNORECASE)
# How a sentence of a message begins that states something. One that lists what was done begins with a bare verb.
STATED = re.compile(
    r"(?i)(?:the|an?|any|all|each|every|no|if|when|where|unless|never|always|do not|don't|avoid|prefer|only|in|on)\b"
    r"|(?:\S+\s+){1,4}?(?:is|are|isn't|aren't|must|can|can't|cannot|does|doesn't|do|don't|has|have|should|shall|may|will"
    r"|won't|would|needs?|never|always|only)\b"
)
CODE = re.compile(r"`|\w\(\)|\w[._/]\w|[a-z][A-Z]")
MAX_COMPARED = 500  # Suggestions that are compared with one another; a run that proposes more is read in parts.


def list_suggestions(
    judged: Iterable[Judged], unwanted: Collection[str] = (), existing: Sequence[Entry] = ()
) -> list[Suggestion]:
    """What is proposed, or was accepted in this run; not what was declined (`unwanted` content keys) or an entry says.
    Said in more changes first; then what a model found, what sounds lasting, gives a reason, or names code; of equals
    the newest, which a run comes to last. What nothing speaks for is left out."""
    found: list[Suggestion] = []
    for one in judged:
        candidate = one.candidate
        key, weight = content_key(candidate.title, candidate.body), _weight(one)
        is_open = one.verdict == "suspected" and weight and key not in unwanted
        if not (is_open or candidate.accepted):
            continue
        said = split_words(candidate)
        at = next(
            (
                at
                for at, known in enumerate(found)
                if is_same_learning(said, split_words(known.candidate))
            ),
            None,
        )
        if at is not None:
            found[at] = replace(
                found[at], changes=tuple(dict.fromkeys((*found[at].changes, one.change)))
            )
        elif len(found) < MAX_COMPARED and (
            candidate.accepted or not find_restated(candidate, existing)
        ):
            found.append(Suggestion(key, candidate, one.reason, (one.change,), weight))
    found.reverse()
    return sorted(found, key=lambda one: (-len(one.changes), -one.weight))


def _weight(one: Judged) -> float:
    """What speaks for a candidate; nothing does for a question, a fragment, or what tells of the work at hand."""
    candidate = one.candidate
    if candidate.engine != "rules":
        return 3
    text = candidate.quotes[0].text if candidate.quotes else candidate.title
    words = len(text.split())
    if (
        not MIN_WORDS <= words <= MAX_WORDS
        or TASK.search(text)
        or STORY.search(text)
        or is_passing(text)
    ):
        return 0
    if NORM.search(text) and not (NORM.search(EFFECT.sub("", text)) or CAUSE.search(text)):
        return 0
    if candidate.session is None and not STATED.match(text):
        return 0
    is_lasting = any(sign in one.reason for sign in LASTING_SIGNS)
    return is_lasting + 0.5 * bool(REASON.search(text)) + 0.5 * bool(CODE.search(text)) + 0.25
