"""Suspects: sentences that look like learnings but that nobody marked. They are proposed in the report, never written.

Measured by hand: about three in ten of such sentences alone are worth keeping.

Sentences by which a person steers an agent show where to look. Of 49 labelled turns drawn at random the rules find 10,
in 8 of them a person steers and in 5 (of 7 in all) something is worth keeping. So a model judges them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from memory_ci.extraction.injection import name_steering
from memory_ci.extraction.markers import BULLET, MARK, STOP, Mark, MessageLine, is_fix, searchable_lines
from memory_ci.extraction.wording import MOMENT, NARRATION, SENTENCE, THIS_CHANGE
from memory_ci.records.entry import Adoption
from memory_ci.text import count_words

MAX_PER_MESSAGE = 3
MIN_WORDS, MIN_REASON = 6, 8  # Words of a sentence, and of why something was taken back.
REVERT = re.compile(r"(?:[a-z]+(?:\([^)]*\))?!?:\s*)?revert\b[: ]*(?P<what>.*)", re.IGNORECASE)
NORM = re.compile(r"\b(?:never|always|must not|must never|do not|don't|should never)\b", re.IGNORECASE)
CAUSE = re.compile(r"\b(?:because|so that)\b", re.IGNORECASE)
REMARK = re.compile(r"(?:note|why|caveat|important):\s", re.IGNORECASE)


# How a sentence begins or ends that says nothing without the one beside it.
FRAGMENT = re.compile(
    r"(?i)(?:and|but|or|so|also|then|which|because|instead|otherwise|hence|it|this|that|these|those|they|he|she|here|there"
    r"|both|such)\b|.*(?::|,|\.\.\.|\u2026)$"
)
HISTORY = re.compile(
    r"(?i)\b(?:was|were|had|did|wasn't|weren't|hadn't|didn't|never \w+ed|used to|previously|formerly|originally"
    r"|no longer|now|before this|so far|has been|have been)\b"
)
BARE_REVERT = re.compile(r"(?:this )?reverts? (?:commits?|pull request|pr|merge request|[\w./-]*[#!]\d)", re.IGNORECASE)
# How a sentence begins that lists what was done; or who says so speaks of what happened to them.
STEP = re.compile(
    r"(?i)(?:[\w./-]+: )?(?:allow|call|change|convert|drop|ensure|fix|handle|implement|introduce|make|move|propagate"
    r"|replace|return|rework|set|skip|support|switch)\b|.*\b(?-i:I)(?:'\w+)?\b"
)
# What a sentence has that tells of the change, of the work or of the moment.
PASSING = (HISTORY, NARRATION, THIS_CHANGE, MOMENT)


class Suspect(NamedTuple):
    """A sentence, why it looks like a learning, whether it tells of something declined, and the reason beside it."""

    text: str
    doubt: str
    adoption: Adoption | None = None
    reason: str = ""


def is_suspicious(message: str) -> bool:
    """Whether a rule would look at `message`, also where the sentence tells of the past or leans on others."""
    paragraphs = _paragraphs(searchable_lines(message))
    sentences = [(sentence, one.subject) for one in paragraphs for sentence in SENTENCE.split(one.text)]
    return bool(REVERT.match(message)) or any(_doubt(text.strip(), subject) for text, subject in sentences)


def find_suspects(message: str) -> list[Suspect]:
    """At most three suspects of `message`: what it reverts for a reason first, then sentences in order."""
    found: list[Suspect] = []
    for text, subject in _paragraphs(searchable_lines(message)):
        if REVERT.match(subject):  # what is taken back, where the paragraph says why
            if not BARE_REVERT.match(text) and len(text.split()) >= MIN_REASON:
                found.append(Suspect(subject, "a revert, its lesson not marked", "rejected", text))
            continue
        for sentence in map(str.strip, SENTENCE.split(text)):
            doubt = _doubt(sentence, subject)
            if doubt and not is_passing(sentence):
                found.append(Suspect(sentence, doubt))
    return sorted(found, key=lambda one: one.adoption is None)[:MAX_PER_MESSAGE]


def is_passing(text: str) -> bool:
    """Whether a sentence leans on others, or tells of the change, of the work or of the moment."""
    return bool(FRAGMENT.match(text) or STEP.match(text)) or any(form.search(text) for form in PASSING)


def _doubt(text: str, subject: str) -> str:
    """Why a sentence looks like a learning; "" if it does not."""
    if len(text.split()) < MIN_WORDS:
        return ""
    if REMARK.match(text):
        return "a remark, not marked as a learning"
    if NORM.search(text):
        return "sounds like a rule, not marked as one"
    is_reason = is_fix(subject) and CAUSE.search(text)
    return "a reason given in a fix, not marked as a learning" if is_reason else ""


def _paragraphs(lines: list[MessageLine]) -> list[MessageLine]:
    """The paragraphs and list items of the body, each in one line: messages are wrapped where a line is full."""
    found: list[list[MessageLine]] = [[]]
    for line in lines:
        is_own = bool(line.text) and not line.text.endswith(line.subject) and not MARK.fullmatch(line.text)
        item = BULLET.fullmatch(line.text)
        if not is_own or item or STOP.match(line.text):
            found.append([])
        if is_own:
            found[-1].append(MessageLine(item["text"] if item else line.text.strip(), line.subject))
    return [MessageLine(" ".join(line.text for line in own), own[0].subject) for own in found if own]


RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("says no", r"^(?:no|nope|nah|wrong|stop)\b[,.! ]"),
        ("says what not to do", r"\b(?:don't|do not|dont|avoid|must not|shouldn't|should not)\b"),
        ("says what always holds", r"\b(?:always|never|must|every time)\b"),
        ("asks to remember", r"\b(?:remember|keep in mind|don't forget|note that|as a rule)\b"),
        ("speaks of next time", r"\b(?:from now on|next time|in (?:the )?future|going forward|in general)\b"),
        ("prefers one thing to another", r"\b(?:use|prefer|rather)\b.{1,80}\b(?:not|instead of|rather than|over)\b"),
        ("tells how we do it", r"\bwe (?:don't|do not|always|never|only|prefer|usually|want|keep|already)\b"),
        ("names the agent's instructions", r"\b(?:CLAUDE|AGENTS|GEMINI)\.md\b"),
        (
            "says what went wrong",
            r"\b(?:you (?:didn't|forgot|skipped|missed|ignored|broke)|not correct|as i (?:said|told))",
        ),
    )
)

MIN_STEERING_WORDS = 4
MAX_LENGTH = 2_000  # Characters of a turn that are looked at: a pasted document is not steering.
MAX_PER_TURN = 2


def find_steering(turn: str) -> list[Suspect]:
    """At most two sentences of `turn` that steer, each with what gives it away."""
    if len(turn) > MAX_LENGTH:
        return []
    found: list[Suspect] = []
    for sentence in (part.strip(" -*•") for line in turn.splitlines() for part in SENTENCE.split(line)):
        if count_words(sentence) < MIN_STEERING_WORDS:
            continue
        if name := next((name for name, rule in RULES if rule.search(sentence)), None) or name_steering(sentence):
            found.append(Suspect(sentence, f"a person {name}, not marked as a learning"))
    return found[:MAX_PER_TURN]


# Blanks of one line. Runs of them are taken whole (`*+`): tried in all their parts, they cost their square.
BLANK = r"[^\S\n]"
TITLE = re.compile(
    rf"^#{BLANK}++(?:ADR(?:-|{BLANK})*+)?(?:\d++{BLANK}*+[.:)\u2014\u2013-]*+{BLANK}*+)?(?P<title>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
DECISION = re.compile(
    rf"^#{{2,3}}{BLANK}++(?:\d++\.?{BLANK}++)?(?:the{BLANK}++)?"
    rf"(?:decision outcome|decision|outcome){BLANK}*+:?{BLANK}*+$",
    re.MULTILINE | re.IGNORECASE,
)
HEADING = re.compile(r"^#{1,3}\s", re.MULTILINE)
STATUS = re.compile(
    r"^(?:#+\s*)?(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?:?(?:\*\*)?[\s:]*(?P<status>[A-Za-z]+)",
    re.MULTILINE | re.IGNORECASE,
)
# The first paragraph; one that ends in a colon takes along what it announces.
PARAGRAPHS = re.compile(r"\S(?:(?!(?<!:)\n\n).)*", re.DOTALL)
LINE = re.compile(r"\s*\n(?!\s*(?:[-*+]|\d+[.)])\s)\s*")  # A wrapped line, not the next item of a list.
MIN_NAME = 3  # Words from which on the name of a record says what was decided.
ADOPTED = frozenset({"accepted", "approved", "adopted", "implemented", "done", "final", "active"})


def find_decision(record: str) -> Mark | None:
    """The decision of a record as a mark, or None when it has no title, no decision, or is not (yet) accepted."""
    title, heading, status = TITLE.search(record), DECISION.search(record), STATUS.search(record)
    if title is None or heading is None or (status and status["status"].lower() not in ADOPTED):
        return None
    section = HEADING.split(record[heading.end() :], maxsplit=1)[0].strip()
    paragraph = PARAGRAPHS.match(section)
    if not paragraph:
        return None
    name = title["title"].rstrip().rstrip("#").rstrip()
    joint = ":" if count_words(name) < MIN_NAME else "."
    text = f"{name.rstrip('.')}{joint} {LINE.sub(' ', paragraph[0])}"
    return Mark("decision", "", text, paragraph[0], name, is_trailer=True)
