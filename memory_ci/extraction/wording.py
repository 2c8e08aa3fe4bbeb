"""The words of a learning: title and body of a mark, and sentences that look like learnings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.extraction import norms
from memory_ci.extraction.gate import BODY_WIDTH, MARKED_TITLE_WIDTH, TITLE_WIDTH
from memory_ci.extraction.injection import find_foreign_steering
from memory_ci.extraction.markers import (
    BULLET,
    CONVENTIONAL,
    MARK,
    STOP,
    SUBJECT_WIDTH,
    Mark,
    MessageLine,
    commit_type,
    is_fix,
    searchable_lines,
)
from memory_ci.records.entry import Adoption
from memory_ci.regex import Regex
from memory_ci.text import count_words, spell_negations

SENTENCE = Regex(
    r"(?<=[.!?])\s+(?=[\"'`(]?(?:[A-Z0-9]|[a-z]+[A-Z_(]))|(?<=[\u3002\uff01\uff1f])(?=\S)"
)
"""The boundary between two sentences."""

SENTENCE_OR_LINE = Regex(rf"{SENTENCE.pattern}|\n")
CLAUSE = Regex(
    r",?;?\s(?=(?:so|because|instead of|rather than|which|even though|although)\b)"
    r"|\s*;\s|\s[\u2014\u2013-]\s|,\s(?=(?:but|defaulting|causing|leaving)\b)"
)
MIN_CLAUSE = 40
"""Number of characters that a title must have before it may be cut at a clause."""

TICKET = Regex(r"\s*\((?:[\w-]*#\d+|[a-z]+-[\w.]+)\)")
PLAIN_WORD = Regex(r"[a-z]+(?=[\s,;:]|\.?$)")

REASON = Regex(
    r"(?i)\b(?:because|since|so|instead of|rather than|to avoid|to prevent|otherwise|in order to"
    r"|due to|lest|as (?:it|they)|which (?:means|would|avoids|lets|keeps|makes)"
    r"|would (?:have|be|break|need|require)|therefore|hence)\b"
)
MIN_REJECTION_WORDS = 10
"""Number of words of a rejection that probably says what was wrong, even without `REASON`."""

MIN_SUBJECT_WORDS = 5
"""Number of words of the subject of a fix that makes a better title than the fault."""

PIPE = Regex(r"\s+\|\s+")
"""What separates choice and reason in some trailers: `Rejected: a queue | it loses jobs`."""

BECAUSE = Regex(r",?\s(?:because|since|as it|as they|\u2014|--?)\s")
NOUNS = {"decision": "decision", "rejected": "rejection"}
WORK_TYPES = frozenset("test tests refactor style docs chore build".split())
TEST_SCOPE = Regex(r"(?:.*[-_/ ])?(?:tests?|testing|coverage)", re.IGNORECASE)
NARRATION = Regex(
    r"(?i)^(?:add(?:s|ed)?|write|wrote|covers?|extend|expand|updated?|renamed?|bump(?:ed)?"
    r"|clean up|tidy|removed?|(?:re)?format|refactor(?:ed)?|strengthen|leave|verify)\b"
    r"(?!.*\b(?:because|instead of|rather than|to avoid)\b)"
)
THIS_CHANGE = Regex(
    r"(?i)\b(?:this|that|the)"
    r" (?:change|commit|pr|pull request|branch|patch|mr|merge request|refactor)\b"
    r"|\b(?:previous|last|earlier|preceding|prior) (?:\w+ )?(?:fix|commit|change|pr|patch)\b"
    r"|^(?:keep|leave|preserve|retain)\b.*"
    r"\b(?:unchanged|untouched|alone|as before|as[- ]is|intact)\b"
)
POINTER = Regex(r"(?:these|those|they)\b", re.IGNORECASE)
PRONOUN = Regex(
    r"(?:it|that|this)\b(?! (?:repo|repository|project|codebase|package)\b)", re.IGNORECASE
)
MOMENT = Regex(
    r"(?i)\b(?:currently|for now|right now|at the moment|today|yesterday|tonight"
    r"|this (?:morning|afternoon|week)|last night|temporarily"
    r"|current (?:worktree|branch|checkout|session|task|environment|machine)"
    r"|latest (?:main|master)|already red|wip|todo|out of scope|follow-?up pr)\b|\bnow\W*$"
)
TASK = Regex(
    r"(?i)\b(?:scope|fix|change|patch|diff|edit|pr)s?\b[^.;]{0,25}"
    r"\b(?:scoped|minimal|narrow|tight|small|focused|surgical|limited)\b"
    r"|\b(?:minimal|narrow|surgical|focused|small) (?:scope|fix|change|patch|diff|edit)s?\b"
    r"|\b(?:to|for) (?:issue|ticket|task|pr) #?\d+\b"
    r"|\b(?:owner|user|maintainer|reviewer|requester)s?"
    r" (?:has |have )?(?:requested|asked|wants?)\b"
)
"""How far the work at hand may go, and who requested it."""

UNKNOWN = Regex(
    r"\b(?:not (?:yet )?known|unknown|unclear|not (?:yet )?sure|no idea)\b", re.IGNORECASE
)
PAST = Regex(r"\b(?:was|were|had|wasn't|weren't|hadn't)\b", re.IGNORECASE)
LASTING = Regex(
    r"(?i)\b(?:is|are|isn't|aren't|has|have|does|do|doesn't|don't|must|should|shall|can|cannot"
    r"|can't|may|will|won't|needs?"
    r"|(?<!was )(?<!were )(?<!had )never|always|only (?:if|when|after|before|with)|because|since"
    r"|so|requires?|unless|whenever|otherwise)\b"
)
"""A verb in the present, a modal verb, or a reason: more than a single past event."""

SUBORDINATE = Regex(
    r"(?i)\b(?:when\w*|before|after|if|because|so|that|which|who|until|while|where|unless|once|as"
    r"|instead|to)\b"
)
SYMPTOM = Regex(
    r"(?i)(?<=\s)(?:fails?|failed|crash(?:es|ed)|hangs|breaks|broke|is|are|was|were|has|have|had"
    r"|does|did|do not|don't|doesn't|didn't|isn't|aren't|cannot|can't|returns|shows|throws|raises"
    r"|panics|loses|leaks|ignores|misses)\b"
)
"""A finite verb: a subject with one in its main clause states a fault."""

ORDERS = Regex(
    r"(?i)(?:fix|prevent|avoid|handle|stop|let|make|ensure|allow|keep|do|don't|use|never|always"
    r"|only|check|require|wait|retry|skip|show|report|treat|accept|reject|return|restore|repair)\b"
)
"""The beginning of a subject that is an order, so that it states no fault."""

OPENING = Regex(
    r"^(?:[\s:;,!?)\]\u2013\u2014\u2192\u2022>]|[-*+=](?=\s)|-+>|\.(?=\s)|\.{2,}|\u2026)+"
)
"""Punctuation that no statement begins with; `.gitignore` and `--all` begin with a name."""

FENCE = "```"

EDIT = Regex(
    r"(?i)(?:also |i |we )?"
    r"(?:(?:add|amend|correct|fix|mend|refresh|remov|renam|reword|revis|updat)ed|clarified|rewrote|rewritten)\b"
)
"""The beginning of a sentence that tells an edit."""

CHOICES = ("decision", "constraint", "rejected")


# -- the reasons not to trust a mark


def find_weakness(mark: Mark) -> str | None:
    """Return why a mark is only proposed, or None.

    It cannot be understood alone, or it serves only the change that it came with. The rules were
    set by reading: decisions without a reason restate the diff; learnings in the past tense tell
    only the history of a bug; marks about tests, the change itself or the moment help nobody later.
    """
    min_words = 2 if mark.is_trailer else 4
    if count_words(mark.text) < min_words:
        return "too short to stand alone"
    if POINTER.match(mark.text) or (not mark.scope and PRONOUN.match(mark.text)):
        return "does not say what it speaks of"
    if "[redacted:" in mark.text:
        return "holds something that had to be masked"
    if mark.marker == "root cause" and not mark.fix and not is_fix(mark.subject):
        return "the cause of something that was not fixed here"
    if mark.marker == "root cause" and UNKNOWN.search(mark.text):
        return "the cause is not known"
    if tells_edit(mark.text):
        return "tells an edit, not what holds"
    if is_title_cut(fold_space(mark.text)):
        return "its first sentence is too long for a title"
    if MOMENT.search(mark.text):
        return "holds for the moment only"
    if mark.is_trailer and mark.marker not in CHOICES:
        return None
    return _find_weakness_of_purpose(mark)


def _find_weakness_of_purpose(mark: Mark) -> str | None:
    """Return why a mark was probably not meant to last, or None.

    That may be so of choices, and of marks in lists or in the form of other tools.
    """
    if THIS_CHANGE.search(mark.text):
        return "speaks of the change itself"
    if mark.marker in CHOICES:
        return _find_weakness_of_choice(mark)
    if mark.marker == "root cause":
        return None
    if PAST.search(mark.text) and not LASTING.search(mark.text):
        return "tells what happened, not what holds"
    return None


def _find_weakness_of_choice(mark: Mark) -> str | None:
    """Return why a choice is only proposed, or None.

    A choice is worth keeping for its reason; a decision in a trailer of ours needs none. A choice
    about the tests of a change goes with the change.
    """
    if TASK.search(mark.text):
        return "bounds the task, not the work after it"
    if NARRATION.search(mark.text):
        return "narrates the work"
    if TEST_SCOPE.fullmatch(mark.scope):
        return "about the tests of a change"

    is_decision = mark.marker == "decision"
    has_reason = REASON.search(mark.text) or PIPE.search(mark.text)
    if mark.marker == "constraint" or has_reason or (mark.is_trailer and is_decision):
        if is_decision and commit_type(mark.subject) in WORK_TYPES:
            return "a decision about the work, not the product"
        return None
    if mark.marker == "rejected" and len(mark.text.split()) >= MIN_REJECTION_WORDS:
        return None
    return f"a {NOUNS[mark.marker]} without its reason"


# -- the title and body of a mark


def compose(mark: Mark) -> tuple[str, str]:
    """Return the title and body of a mark; the body is empty if the title holds all of it."""
    statement = _make_statement(mark)
    if mark.marker == "root cause":
        title, body = _compose_cause(mark, statement)
    elif mark.marker in CHOICES:
        title, body = _compose_choice(mark, statement)
    else:
        title = make_title(statement)
        body = make_body(title, statement)
    return title, close_code(cut_at_sentence(body, BODY_WIDTH))


def _make_statement(mark: Mark) -> str:
    """Return the text of a mark, after its scope if the text does not name the scope."""
    statement = clean_opening(fold_space(mark.text))
    if mark.scope and mark.scope.lower() not in statement.lower():
        return f"{mark.scope}: {statement}"
    return _capitalize(statement)


def _compose_cause(mark: Mark, cause: str) -> tuple[str, str]:
    # The subject without its type and its tickets is what the fix does.
    subject = CONVENTIONAL.sub("", mark.subject[:SUBJECT_WIDTH], count=1)
    subject = TICKET.sub("", fold_space(subject))
    subject = _capitalize(fold_space(subject))
    fix = fold_space(mark.fix)

    if len(subject.split()) >= MIN_SUBJECT_WORDS and is_fix(mark.subject):
        title = make_title(_state_remedy(subject, fix))
    else:
        title = make_title(cause)

    fix = fix or subject
    separator = "\n" if fix.startswith(("- ", "* ", "+ ")) else " "
    paragraphs = []
    if not _is_same_statement(title, cause):
        paragraphs.append(f"Cause: {cause}")
    if not _is_same_statement(title, fix):
        paragraphs.append(f"Fix:{separator}{fix}")
    return title, "\n\n".join(paragraphs)


def _is_same_statement(title: str, statement: str) -> bool:
    return title.casefold() == statement.rstrip(" .:;,").casefold()


def _compose_choice(mark: Mark, statement: str) -> tuple[str, str]:
    choice, *reasons = PIPE.split(statement, maxsplit=1)
    if mark.marker == "rejected":
        title = make_title(BECAUSE.split(choice, maxsplit=1)[0])
    else:
        title = make_title(choice)
    reason = _capitalize("".join(reasons))
    paragraphs = [make_body(title, choice), reason]
    return title, "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _state_remedy(subject: str, fix: str) -> str:
    """Return the instruction in the description of a fix.

    Where its subject states the fault, this is the text of the fix, or else what to prevent.
    """
    main_clause = SUBORDINATE.split(subject, maxsplit=1)[0]
    if not SYMPTOM.search(main_clause) or ORDERS.match(subject):
        return subject
    if fix:
        return fix
    if PLAIN_WORD.match(subject.lower()):
        subject = subject[:1].lower() + subject[1:]
    return f"Prevent: {subject}"


def make_title(statement: str) -> str:
    """Return the title of a statement, without a full stop.

    It is the first sentence that says more than that something was edited. Of a sentence that is
    longer than a title it is the first clauses, or the whole sentence if it has only one.
    """
    line = clean_opening(statement.partition("\n")[0])
    sentence = SENTENCE.split(_skip_edits(line), maxsplit=1)[0]
    if len(sentence) > TITLE_WIDTH:
        sentence = _cut_title(sentence)
    return close_code(sentence).rstrip(" .:;,")


def is_title_cut(statement: str) -> bool:
    """Return whether no title holds a whole clause of the first sentence of a statement."""
    line = clean_opening(statement.partition("\n")[0])
    sentence = SENTENCE.split(_skip_edits(line), maxsplit=1)[0]
    return len(sentence) > MARKED_TITLE_WIDTH and len(_cut_title(sentence)) > TITLE_WIDTH


def clean_opening(text: str) -> str:
    """Return a text without the punctuation, arrows or list marks that it begins with."""
    return OPENING.sub("", text)


def tells_edit(text: str) -> bool:
    """Return whether a text tells only that something was edited, and not what holds."""
    return bool(EDIT.match(text)) and not LASTING.search(text) and not REASON.search(text)


def _skip_edits(line: str) -> str:
    """Return a line from its first sentence on that does not tell an edit, else the whole line."""
    remainder = line
    while tells_edit(SENTENCE.split(remainder, maxsplit=1)[0]):
        boundary = SENTENCE.search(remainder)
        if boundary is None:
            return line
        remainder = remainder[boundary.end() :]
    return remainder


def _cut_title(sentence: str) -> str:
    starts = [match.start() for match in CLAUSE.finditer(sentence)]
    clauses = [sentence[:start] for start in starts if MIN_CLAUSE <= start <= TITLE_WIDTH]
    whole_clauses = [clause for clause in clauses if _is_closed(clause)]
    if whole_clauses:
        return whole_clauses[-1]
    return cut(sentence, MARKED_TITLE_WIDTH)


def _is_closed(text: str) -> bool:
    """Return whether all code spans and parentheses that a text opens are closed."""
    return text.count("`") % 2 == 0 and text.count("(") == text.count(")")


def close_code(text: str) -> str:
    """Return a text without half code blocks and half code spans.

    It is cut before a fence that is not closed. Of a span that is not closed, the words stay.
    """
    if text.count(FENCE) % 2:
        text = text[: text.rindex(FENCE)].rstrip()
    paragraphs = re.split(r"(\n\s*\n)", text)
    return "".join(_close_span(paragraph) for paragraph in paragraphs)


def _close_span(paragraph: str) -> str:
    if paragraph.count("`") % 2 == 0:
        return paragraph
    before, _, after = paragraph.rpartition("`")
    return before + after


def make_body(title: str, statement: str) -> str:
    """Return the rest of a statement after its title, "" if the title holds all of it."""
    text = clean_opening(statement)
    first_line, separator, following_lines = text.partition("\n")
    text = _skip_edits(first_line) + separator + following_lines
    if not text.startswith(title):
        return "" if title == close_code(text).rstrip(" .:;,") else statement
    remainder = text[len(title) :]
    if remainder[:1].isalnum():
        return statement
    remainder = remainder.lstrip(" .:;,")
    if not remainder.startswith("\n"):
        remainder = remainder.lstrip(" \u2014\u2013-")
    return _capitalize(remainder.strip())


def tidy(title: str, body: str) -> tuple[str, str]:
    """Return the title and body of a model, without the words that a reviewer would take out.

    That is punctuation before the title, half code, and a body that repeats the title.
    """
    title = close_code(clean_opening(title))
    body = close_code(body)
    return title, "" if _is_same_statement(title, body) else body


def fold_space(text: str) -> str:
    """Fold the white space of each line to single blanks and compose accents (NFC)."""
    lines = unicodedata.normalize("NFC", text).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines).strip()


def cut(text: str, width: int) -> str:
    """Cut a text after a word to at most `width` characters."""
    if len(text) <= width:
        return text
    end = max(text.rfind(" ", 0, width + 1), width // 2)
    return text[:end].rstrip(" ,;:(-")


def cut_at_sentence(text: str, width: int) -> str:
    """Cut a text to at most `width` characters.

    It is cut after a sentence or line that ends in the second half, else after a word.
    """
    if len(text) <= width:
        return text
    starts = [match.start() for match in SENTENCE_OR_LINE.finditer(text)]
    ends = [start for start in starts if width // 2 <= start <= width]
    return text[: max(ends)] if ends else cut(text, width)


def _capitalize(text: str) -> str:
    """Capitalize a plain word; an identifier, a path or a command stays unchanged."""
    return text[:1].upper() + text[1:] if PLAIN_WORD.match(text) else text


# -- suspects: unmarked sentences that look like learnings

# They are proposed in the report, not written: measured by hand, three in ten are worth keeping.
# Sentences by which a person steers an agent show where to look. Of 49 labelled turns drawn at
# random the rules find 10; in 8 of them a person steers, and in 5 (of 7 in all) something is worth
# keeping. So a model judges them.

MAX_PER_MESSAGE = 3
"""Number of suspects of one message."""

MIN_WORDS = 6
"""Number of words of a suspect."""

MIN_REVERT_REASON = 8
"""Number of words that say why something was reverted."""

REVERT = Regex(r"(?:[a-z]+(?:\([^)]*\))?!?:\s*)?revert\b[: ]*(?P<what>.*)", re.IGNORECASE)
NORM = Regex(r"\b(?:never|always|must not|must never|do not|don't|should never)\b", re.IGNORECASE)
CAUSE = Regex(r"\b(?:because|so that)\b", re.IGNORECASE)
REMARK = Regex(r"(?:note|why|caveat|important):\s", re.IGNORECASE)

FRAGMENT = Regex(
    r"(?i)(?:and|but|or|so|also|then|which|because|instead|otherwise|hence|it|this|that|these"
    r"|those|they|he|she|here|there|both|such)\b|.*(?::|,|\.\.\.|\u2026)$"
)
"""A sentence that cannot be understood without the one beside it."""

HISTORY = Regex(
    r"(?i)\b(?:was|were|had|did|wasn't|weren't|hadn't|didn't|never \w+ed|used to|previously"
    r"|formerly|originally|no longer|now|before this|so far|has been|have been)\b"
)
BARE_REVERT = Regex(
    r"(?:this )?reverts? (?:commits?|pull request|pr|merge request|[\w./-]*[#!]\d)", re.IGNORECASE
)
STEP = Regex(
    r"(?i)(?:[\w./-]+: )?(?:allow|call|change|convert|drop|ensure|fix|handle|implement|introduce"
    r"|make|move|propagate|replace|return|rework|set|skip|support|switch)\b"
    r"|.*\b(?-i:I)(?:'\w+)?\b"
)
"""A sentence that lists what was done, or in which somebody speaks of themselves."""

PASSING = (HISTORY, NARRATION, THIS_CHANGE, MOMENT)
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
    """Return whether a rule matches a message, even in a sentence that needs its context."""
    if REVERT.match(message):
        return True
    for paragraph in _join_paragraphs(searchable_lines(message)):
        for sentence in SENTENCE.split(paragraph.text):
            if _find_doubt(sentence.strip(), paragraph.subject):
                return True
    return False


def find_suspects(message: str) -> list[Suspect]:
    """Return at most `MAX_PER_MESSAGE` suspects of a message: reverts first, then in order."""
    reverts: list[Suspect] = []
    suspects: list[Suspect] = []
    for text, subject in _join_paragraphs(searchable_lines(message)):
        if REVERT.match(subject):
            if not BARE_REVERT.match(text) and len(text.split()) >= MIN_REVERT_REASON:
                doubt = "a revert, its lesson not marked"
                reverts.append(Suspect(subject, doubt, adoption="rejected", reason=text))
            continue
        for part in SENTENCE.split(text):
            sentence = part.strip()
            doubt = _find_doubt(sentence, subject)
            if doubt and not is_passing(sentence):
                suspects.append(Suspect(sentence, doubt))
    return (reverts + suspects)[:MAX_PER_MESSAGE]


def is_passing(sentence: str) -> bool:
    """Return whether a sentence needs its context, or is about the change, work or moment."""
    sentence = spell_negations(sentence)
    if FRAGMENT.match(sentence) or STEP.match(sentence) or tells_edit(sentence):
        return True
    return any(pattern.search(sentence) for pattern in PASSING)


def _find_doubt(sentence: str, subject: str) -> str:
    """Return why a sentence that looks like a learning is only proposed, else ""."""
    sentence = spell_negations(sentence)
    if len(sentence.split()) < MIN_WORDS:
        return ""
    if REMARK.match(sentence):
        return "a remark, not marked as a learning"
    if NORM.search(sentence):
        return "sounds like a rule, not marked as one"
    if is_fix(subject) and CAUSE.search(sentence):
        return "a reason given in a fix, not marked as a learning"
    return ""


def _join_paragraphs(lines: Sequence[MessageLine]) -> list[MessageLine]:
    """Join the wrapped lines of each paragraph and list item of a body; marks are left out."""
    paragraphs: list[list[MessageLine]] = [[]]
    for line in lines:
        is_subject = line.text.endswith(line.subject)
        is_prose = bool(line.text) and not is_subject and not MARK.fullmatch(line.text)
        bullet = BULLET.fullmatch(line.text)
        if not is_prose or bullet or STOP.match(line.text):
            paragraphs.append([])
        if is_prose:
            text = bullet["text"] if bullet else line.text.strip()
            paragraphs[-1].append(MessageLine(text, line.subject))

    joined: list[MessageLine] = []
    for paragraph in paragraphs:
        if paragraph:
            text = " ".join(line.text for line in paragraph)
            joined.append(MessageLine(text, paragraph[0].subject))
    return joined


# -- steering: what a person says to an agent that differs from what it does


class SteeringRule(NamedTuple):
    """A form of a sentence that steers, and the answer of a person to it."""

    action: str
    pattern: Regex[str]


def _rule(action: str, pattern: str) -> SteeringRule:
    return SteeringRule(action, Regex(pattern, re.IGNORECASE))


WISH = Regex(
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
    _rule("asks why something is still so", rf"{WISH.pattern}"),
    _rule("names the agent's instructions", r"\b(?:CLAUDE|AGENTS|GEMINI)\.md\b"),
    _rule(
        "says what went wrong",
        r"\b(?:you (?:didn't|forgot|skipped|missed|ignored|broke)"
        r"|not correct|as i (?:said|told))",
    ),
)

MIN_STEERING_WORDS = 4
MAX_LENGTH = 2_000
"""Number of characters of a turn that is searched: a pasted document does not steer."""

MAX_PER_TURN = 2
"""Number of suspects of one turn, beside norms about code."""

MAX_NORMS_PER_TURN = 4
"""Number of norms about code of one turn: a person who states them states several."""


def find_steering(turn: str) -> list[Suspect]:
    """Return the sentences of a turn by which a person steers an agent.

    These are the first `MAX_PER_TURN`, and at most `MAX_NORMS_PER_TURN` norms about code.
    """
    if len(turn) > MAX_LENGTH:
        return []
    suspects: list[Suspect] = []
    stated: list[Suspect] = []
    for sentence in _list_sentences(turn):
        if count_words(sentence) < MIN_STEERING_WORDS:
            continue
        action = _find_steering_action(sentence)
        if norms.is_coding_norm(sentence):
            action = action or "says how code is written"
            stated.append(_suspect_steering(sentence, action))
        elif action:
            suspects.append(_suspect_steering(sentence, action))
    return stated[:MAX_NORMS_PER_TURN] + suspects[:MAX_PER_TURN]


def _suspect_steering(sentence: str, action: str) -> Suspect:
    return Suspect(sentence, f"a person {action}, not marked as a learning")


def _list_sentences(turn: str) -> Iterator[str]:
    for line in turn.splitlines():
        for part in SENTENCE.split(line):
            yield part.strip(" -*\u2022")


def _find_steering_action(sentence: str) -> str | None:
    plain = spell_negations(sentence)
    for rule in STEERING_RULES:
        if rule.pattern.search(plain):
            return rule.action
    return find_foreign_steering(sentence)


# -- decision records

# Runs of blanks are matched possessively (`*+`): with backtracking they would cost quadratic time.
BLANK = r"[^\S\n]"
RECORD_TITLE = Regex(
    rf"^#{BLANK}++(?:ADR(?:-|{BLANK})*+:?{BLANK}*+)?(?:\d++{BLANK}*+[.:)\u2014\u2013-]*+{BLANK}*+)?"
    r"(?P<title>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
DECISION_HEADING = Regex(
    rf"^#{{2,3}}{BLANK}++(?:\d++\.?{BLANK}++)?(?:the{BLANK}++)?"
    rf"(?:decision outcome|decision|outcome){BLANK}*+:?{BLANK}*+$",
    re.MULTILINE | re.IGNORECASE,
)
HEADING = Regex(r"^#{1,3}\s", re.MULTILINE)
STATUS = Regex(
    r"^(?:#+\s*)?(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?:?(?:\*\*)?[\s:]*(?P<status>[A-Za-z]+)",
    re.MULTILINE | re.IGNORECASE,
)
FIRST_PARAGRAPH = Regex(r"\S(?:(?!(?<!:)\n\n).)*", re.DOTALL)
"""The first paragraph, with the next one if it ends in a colon."""

WRAP = Regex(r"\s*\n(?!\s*(?:[-*+]|\d+[.)])\s)\s*")
"""A line break that is not followed by an item of a list."""

MIN_NAME_WORDS = 3
"""Number of words of the name of a record that says by itself what was decided."""

ADOPTED = frozenset({"accepted", "approved", "adopted", "implemented", "done", "final", "active"})

STATUS_SECTION = Regex(
    rf"^(?:#+{BLANK}*+status{BLANK}*+:?{BLANK}*+\n(?P<section>(?:(?!^#).*\n?){{1,8}})"
    r"|(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?\s?:(?P<line>.*(?:\n[^\S\n]+\S.*){0,2}))",
    re.MULTILINE | re.IGNORECASE,
)
"""The section or the line that says what became of a decision."""

WITHDRAWN = Regex(
    r"\b(?P<status>super[sc]eded|deprecated|rejected|withdrawn|obsoleted?|replaced|reverted)\b"
    r"(?:\s+by\s+(?P<successor>[^\n]{1,120}))?",
    re.IGNORECASE,
)
SUPERSEDED_BY = Regex(
    r"^super[sc]eded[-_ ]by:[^\S\n]*(?![\[~]?[\s\]]*$|null|none)(?P<successor>\S.{0,119})$",
    re.MULTILINE | re.IGNORECASE,
)
"""The key of a front matter."""

LINK = Regex(r"\[([^\]\n]*)\]\([^)\n]*\)")


def find_withdrawal(record: str) -> str:
    """Return the status that withdraws a decision record, "" for a record in force.

    >>> find_withdrawal("# 1. Use A\\n\\n## Status\\n\\nSuperceded by [2. Use B](2-b.md)\\n")
    'superseded by 2. Use B'
    """
    for section in STATUS_SECTION.finditer(record):
        text = section["section"] or section["line"] or ""
        match = WITHDRAWN.search(text)
        if match:
            status = match["status"].lower().replace("superceded", "superseded")
            return _describe_withdrawal(status, match["successor"] or "")
    by = SUPERSEDED_BY.search(record)
    return _describe_withdrawal("superseded", by["successor"]) if by else ""


def _describe_withdrawal(status: str, successor: str) -> str:
    name = LINK.sub(r"\1", successor).strip(" \t\"'`*_~.[]")
    return f"{status} by {name}" if name else status


def find_decision(record: str) -> Mark | None:
    """Return the decision of a decision record as a mark.

    Returns:
        the mark; None if the record has no title or no decision, or is not accepted.
    """
    title = RECORD_TITLE.search(record)
    heading = DECISION_HEADING.search(record)
    if title is None or heading is None:
        return None
    status = STATUS.search(record)
    if status and status["status"].lower() not in ADOPTED:
        return None
    if find_withdrawal(record):
        return None
    section = HEADING.split(record[heading.end() :], maxsplit=1)[0].strip()
    prose = section.partition(FENCE)[0].rstrip()
    paragraph = FIRST_PARAGRAPH.match(prose)
    if not paragraph:
        return None

    name = title["title"].rstrip().rstrip("#").rstrip()
    separator = ":" if count_words(name) < MIN_NAME_WORDS else "."
    decision = WRAP.sub(" ", paragraph[0])
    text = f"{name.rstrip('.')}{separator} {decision}"
    return Mark("decision", "", text, paragraph[0], name, is_trailer=True)
