"""Suspects: unmarked sentences of messages and of people's turns that look like learnings.

They are proposed in the report, not written: measured by hand, three in ten are worth keeping.
Sentences by which a person steers an agent show where to look. Of 49 labelled turns drawn at random
the rules find 10; in 8 of them a person steers, and in 5 (of 7 in all) something is worth keeping.
So a model judges them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.extraction import norms
from memory_ci.extraction.injection import find_foreign_steering
from memory_ci.extraction.markers import (
    LIST_ITEM,
    MARKED_LINE,
    STATEMENT_END,
    MessageLine,
    is_fix,
    list_message_lines,
)
from memory_ci.extraction.weakness import ABOUT_THIS_CHANGE, MOMENTARY_WORDS, WORK_REPORT
from memory_ci.extraction.wording import SENTENCE_BOUNDARY, is_edit_report
from memory_ci.records.entry import Adoption
from memory_ci.regex import Regex
from memory_ci.text import count_words, spell_negations

MAX_PER_MESSAGE = 3
"""Number of suspects of one message."""

MIN_WORDS = 6
"""Number of words of a suspect."""

MIN_REVERT_REASON_WORDS = 8
"""Number of words that say why something was reverted."""

REVERT_SUBJECT = Regex(r"(?:[a-z]+(?:\([^)]*\))?!?:\s*)?revert\b[: ]*(?P<what>.*)", re.IGNORECASE)
"""The subject of a revert: `fix(api)!: revert the retry`."""

RULE_WORD = Regex(
    r"\b(?:never|always|must not|must never|do not|don't|should never)\b", re.IGNORECASE
)
REASON_CONJUNCTION = Regex(r"\b(?:because|so that)\b", re.IGNORECASE)
REMARK_LABEL = Regex(r"(?:note|why|caveat|important):\s", re.IGNORECASE)
"""Words of a rule and of a reason, and the label of a remark."""

DEPENDENT_SENTENCE = Regex(
    r"(?i)(?:and|but|or|so|also|then|which|because|instead|otherwise|hence|it|this|that|these"
    r"|those|they|he|she|here|there|both|such)\b|.*(?::|,|\.\.\.|\u2026)$"
)
"""A sentence that cannot be understood without the one beside it."""

HISTORY_WORD = Regex(
    r"(?i)\b(?:was|were|had|did|wasn't|weren't|hadn't|didn't|never \w+ed|used to|previously"
    r"|formerly|originally|no longer|now|before this|so far|has been|have been)\b"
)
"""Words about what was, and no longer is."""

BARE_REVERT = Regex(
    r"(?:this )?reverts? (?:commits?|pull request|pr|merge request|[\w./-]*[#!]\d)", re.IGNORECASE
)
"""`This reverts commit …`: a paragraph that names the reverted work and gives no reason."""

WORK_STEP = Regex(
    r"(?i)(?:[\w./-]+: )?(?:allow|call|change|convert|drop|ensure|fix|handle|implement|introduce"
    r"|make|move|propagate|replace|return|rework|set|skip|support|switch)\b"
    r"|.*\b(?-i:I)(?:'\w+)?\b"
)
"""A sentence that lists what was done, or in which somebody speaks of themselves."""

PASSING_SIGNS = (HISTORY_WORD, WORK_REPORT, ABOUT_THIS_CHANGE, MOMENTARY_WORDS)
"""Signs that a sentence is about the change, the work or the moment."""


class Suspect(NamedTuple):
    """An unmarked sentence that looks like a learning.

    Attributes:
        text: the sentence.
        doubt: why it is only proposed.
        adoption: "rejected" for something that was reverted.
        reason: the reason for a revert.
    """

    text: str
    doubt: str
    adoption: Adoption | None = None
    reason: str = ""


def is_suspicious(message: str) -> bool:
    """Return whether a model should look for learnings in a message.

    It should if any sentence looks like a learning to the rules. In contrast to `find_suspects`, a
    sentence that seems to be of no use later counts, too: the model decides.
    """
    if REVERT_SUBJECT.match(message):
        return True
    for paragraph in _join_paragraphs(list_message_lines(message)):
        for sentence in SENTENCE_BOUNDARY.split(paragraph.text):
            if _find_reason_to_ask(sentence.strip(), paragraph.subject):
                return True
    return False


def find_suspects(message: str) -> list[Suspect]:
    """Return the unmarked sentences of a commit message that look like learnings.

    Of the message of a revert, that is each paragraph with a reason: the reverted work was tried
    and given up, so its adoption is "rejected". At most `MAX_PER_MESSAGE` are returned: reverts
    first, then the others in order.
    """
    reverts: list[Suspect] = []
    others: list[Suspect] = []
    for text, subject in _join_paragraphs(list_message_lines(message)):
        if REVERT_SUBJECT.match(subject):
            has_reason = len(text.split()) >= MIN_REVERT_REASON_WORDS
            if has_reason and not BARE_REVERT.match(text):
                doubt = "a revert, its lesson not marked"
                reverts.append(Suspect(subject, doubt, adoption="rejected", reason=text))
            continue
        for part in SENTENCE_BOUNDARY.split(text):
            sentence = part.strip()
            doubt = _find_reason_to_ask(sentence, subject)
            if doubt and not is_of_no_later_use(sentence):
                others.append(Suspect(sentence, doubt))
    return (reverts + others)[:MAX_PER_MESSAGE]


def is_of_no_later_use(sentence: str) -> bool:
    """Return whether a sentence needs its context, or tells only of the work or the moment."""
    plain = spell_negations(sentence)
    if DEPENDENT_SENTENCE.match(plain) or WORK_STEP.match(plain) or is_edit_report(plain):
        return True
    return any(pattern.search(plain) for pattern in PASSING_SIGNS)


def _find_reason_to_ask(sentence: str, subject: str) -> str:
    """Return why a sentence looks like a learning that a person must confirm; "" if it does not.

    Args:
        sentence: a sentence of a commit message.
        subject: the subject of the message.
    """
    plain = spell_negations(sentence)
    if len(plain.split()) < MIN_WORDS:
        return ""
    if REMARK_LABEL.match(plain):
        return "a remark, not marked as a learning"
    if RULE_WORD.search(plain):
        return "sounds like a rule, not marked as one"
    if is_fix(subject) and REASON_CONJUNCTION.search(plain):
        return "a reason given in a fix, not marked as a learning"
    return ""


def _join_paragraphs(lines: Sequence[MessageLine]) -> list[MessageLine]:
    """Return one line per paragraph and list item of a message.

    Subjects and the lines of marked statements (`Learning: …`) are left out.
    """
    paragraphs: list[list[MessageLine]] = [[]]
    for line in lines:
        # `endswith`, because a squash message has a star before each subject.
        is_subject = line.text.endswith(line.subject)
        is_prose = bool(line.text) and not is_subject and not MARKED_LINE.fullmatch(line.text)
        bullet = LIST_ITEM.fullmatch(line.text)
        if not is_prose or bullet or STATEMENT_END.match(line.text):
            paragraphs.append([])
        if is_prose:
            text = bullet["text"] if bullet else line.text.strip()
            paragraphs[-1].append(MessageLine(text, line.subject))

    joined_lines: list[MessageLine] = []
    for paragraph in paragraphs:
        if paragraph:
            text = " ".join(line.text for line in paragraph)
            joined_lines.append(MessageLine(text, paragraph[0].subject))
    return joined_lines


# -- steering: what a person says to an agent that differs from what it does


class SteeringRule(NamedTuple):
    """A form of a sentence by which a person steers an agent.

    Attributes:
        action: how the person steers, in words such as `says no`.
        pattern: the form of the sentence.
    """

    action: str
    pattern: Regex[str]


def _rule(action: str, pattern: str) -> SteeringRule:
    return SteeringRule(action, Regex(pattern, re.IGNORECASE))


WISH_QUESTION = Regex(
    r"^(?:but |and |so |ok,? )?(?:why|how come)\b.{0,30}"
    r"\b(?:still|always|again|keep|every time|n't|not)\b",
    re.IGNORECASE,
)
"""A question that asks for nothing but wishes that it were otherwise: a person makes it again."""

STEERING_RULES: tuple[SteeringRule, ...] = (
    _rule("says no", r"^(?:no|nope|nah|wrong|stop)\b[,.! ]"),
    _rule(
        "says what not to do",
        r"\b(?:don't|do not|avoid|must not|mustn't|shouldn't|should not|can't|cannot)\b",
    ),
    _rule("says what always holds", r"\b(?:always|never|must|every time)\b"),
    _rule(
        "asks to remember",
        r"\b(?:remember|keep in mind|don't forget|note that|as a rule)\b",
    ),
    _rule(
        "speaks of next time",
        r"\b(?:from now on|next time|in (?:the )?future|going forward|in general)\b",
    ),
    _rule(
        "prefers one thing to another",
        r"\b(?:use|prefer|rather)\b.{1,80}\b(?:not|instead of|rather than|over)\b",
    ),
    _rule(
        "tells how we do it",
        r"\bwe (?:don't|do not|always|never|only|prefer|usually|want|keep|already)\b",
    ),
    _rule("asks why something is still so", WISH_QUESTION.pattern),
    _rule("names the agent's instructions", r"\b(?:CLAUDE|AGENTS|GEMINI)\.md\b"),
    _rule(
        "says what went wrong",
        r"\b(?:you (?:didn't|forgot|skipped|missed|ignored|broke)"
        r"|not correct|as i (?:said|told))",
    ),
)
"""The forms in the order in which they are tried."""

MIN_STEERING_WORDS = 4
MAX_LENGTH = 2_000
"""Number of characters of a turn that is searched: a pasted document does not steer."""

MAX_PER_TURN = 2
"""Number of suspects of one turn, beside rules about code."""

MAX_RULES_PER_TURN = 4
"""Number of rules about code of one turn: a person who states them states several."""


def find_steering(turn: str) -> list[Suspect]:
    """Return the sentences by which a person steers an agent: corrections, wishes, rules.

    These are at most `MAX_RULES_PER_TURN` rules about code, then the first `MAX_PER_TURN` others.
    """
    if len(turn) > MAX_LENGTH:
        return []
    coding_rules: list[Suspect] = []
    others: list[Suspect] = []
    for sentence in _list_sentences(turn):
        if count_words(sentence) < MIN_STEERING_WORDS:
            continue
        action = _find_steering_action(sentence)
        if norms.is_coding_rule(sentence):
            coding_rules.append(_suspect_steering(sentence, action or "says how code is written"))
        elif action:
            others.append(_suspect_steering(sentence, action))
    return coding_rules[:MAX_RULES_PER_TURN] + others[:MAX_PER_TURN]


def _suspect_steering(sentence: str, action: str) -> Suspect:
    return Suspect(sentence, f"a person {action}, not marked as a learning")


def _list_sentences(turn: str) -> Iterator[str]:
    for line in turn.splitlines():
        for part in SENTENCE_BOUNDARY.split(line):
            yield part.strip(" -*\u2022")


def _find_steering_action(sentence: str) -> str | None:
    """Return how a sentence steers an agent (`says no`); None if it does not steer."""
    plain = spell_negations(sentence)
    for rule in STEERING_RULES:
        if rule.pattern.search(plain):
            return rule.action
    return find_foreign_steering(sentence)
