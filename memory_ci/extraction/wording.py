"""Wording: a marked statement as the title and body of an entry, and the reasons not to trust a mark."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from memory_ci.extraction.gate import BODY_WIDTH, TITLE_WIDTH
from memory_ci.extraction.injection import name_steering
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
from memory_ci.text import STOP_WORDS, count_words

MIN_CLAUSE = 40
SENTENCE = re.compile(
    r"(?<=[.!?])\s+(?=[\"'`(]?(?:[A-Z0-9]|[a-z]+[A-Z_(]))|(?<=[\u3002\uff01\uff1f])(?=\S)"
)
CLAUSE = re.compile(
    r",?;?\s(?=(?:so|because|instead of|rather than|which|even though|although)\b)"
    r"|\s*;\s|\s[\u2014\u2013-]\s|,\s(?=(?:but|defaulting|causing|leaving)\b)"
)
BREAK = re.compile(rf"{SENTENCE.pattern}|\n")
TICKET = re.compile(r"\s*\((?:[\w-]*#\d+|[a-z]+-[\w.]+)\)")
PLAIN_WORD = re.compile(r"[a-z]+(?=[\s,;:]|\.?$)")

REASON = re.compile(
    r"(?i)\b(?:because|since|so|instead of|rather than|to avoid|to prevent|otherwise|in order to|due to|lest"
    r"|as (?:it|they)|which (?:means|would|avoids|lets|keeps|makes)|would (?:have|be|break|need|require)|therefore"
    r"|hence)\b"
)
TELLING = 10  # Words from which on a rejection is taken to say what was wrong, even without one of the words of REASON.
# Words from which on the subject of a fix says what to do, and so makes a better title than what went wrong.
TELLING_SUBJECT = 5
# What stands between a choice and its reason in the trailers of others: `Rejected: a queue | it loses jobs`.
PIPE = re.compile(r"\s+\|\s+")
BECAUSE = re.compile(r",?\s(?:because|since|as it|as they|\u2014|--?)\s")
NOUNS = {"decision": "decision", "rejected": "rejection"}
WORK_TYPES = frozenset("test tests refactor style docs chore build".split())
TEST_SCOPE = re.compile(r"(?:.*[-_/ ])?(?:tests?|testing|coverage)", re.IGNORECASE)
NARRATION = re.compile(
    r"(?i)^(?:add(?:s|ed)?|write|wrote|covers?|extend|expand|updated?|renamed?|bump(?:ed)?|clean up|tidy|removed?"
    r"|(?:re)?format|refactor(?:ed)?|strengthen|leave|verify)\b(?!.*\b(?:because|instead of|rather than|to avoid)\b)"
)
THIS_CHANGE = re.compile(
    r"(?i)\b(?:this|that|the) (?:change|commit|pr|pull request|branch|patch|mr|merge request|refactor)\b"
    r"|\b(?:previous|last|earlier|preceding|prior) (?:\w+ )?(?:fix|commit|change|pr|patch)\b"
    r"|^(?:keep|leave|preserve|retain)\b.*\b(?:unchanged|untouched|alone|as before|as[- ]is|intact)\b"
)
POINTER = re.compile(r"(?:these|those|they)\b", re.IGNORECASE)
PRONOUN = re.compile(
    r"(?:it|that|this)\b(?! (?:repo|repository|project|codebase|package)\b)", re.IGNORECASE
)
MOMENT = re.compile(
    r"(?i)\b(?:currently|for now|right now|at the moment|today|yesterday|tonight|this (?:morning|afternoon|week)"
    r"|last night|temporarily|current (?:worktree|branch|checkout|session|task|environment|machine)"
    r"|latest (?:main|master)|already red|wip|todo|out of scope|follow-?up pr)\b|\bnow\W*$"
)
# How far the work at hand may go, and who asked for it.
TASK = re.compile(
    r"(?i)\b(?:scope|fix|change|patch|diff|edit|pr)s?\b[^.;]{0,25}"
    r"\b(?:scoped|minimal|narrow|tight|small|focused|surgical|limited)\b"
    r"|\b(?:minimal|narrow|surgical|focused|small) (?:scope|fix|change|patch|diff|edit)s?\b"
    r"|\b(?:to|for) (?:issue|ticket|task|pr) #?\d+\b"
    r"|\b(?:owner|user|maintainer|reviewer|requester)s? (?:has |have )?(?:requested|asked|wants?)\b"
)
UNKNOWN = re.compile(
    r"\b(?:not (?:yet )?known|unknown|unclear|not (?:yet )?sure|no idea)\b", re.IGNORECASE
)
PAST = re.compile(r"\b(?:was|were|had|wasn't|weren't|hadn't)\b", re.IGNORECASE)
# What a learning of more than a single past event has: a present or modal verb, or its reason.
LASTING = re.compile(
    r"(?i)\b(?:is|are|isn't|aren't|has|have|does|do|doesn't|don't|must|should|shall|can|cannot|can't|may|will|won't|needs?"
    r"|(?<!was )(?<!were )(?<!had )never|always|only (?:if|when|after|before|with)|because|since|so|requires?|unless"
    r"|whenever|otherwise)\b"
)
SUBORDINATE = re.compile(
    r"(?i)\b(?:when\w*|before|after|if|because|so|that|which|who|until|while|where|unless|once|as|instead|to)\b"
)
SYMPTOM = re.compile(
    r"(?i)(?<=\s)(?:fails?|failed|crash(?:es|ed)|hangs|breaks|broke|is|are|was|were|has|have|had|does|did|do not|don't"
    r"|doesn't|didn't|isn't|aren't|cannot|can't|returns|shows|throws|raises|panics|loses|leaks|ignores|misses)\b"
)
# A subject with a finite verb in its main clause states a fault, unless it begins with an order.
ORDERS = re.compile(
    r"(?i)(?:fix|prevent|avoid|handle|stop|let|make|ensure|allow|keep|do|don't|use|never|always|only|check|require|wait|retry"
    r"|skip|show|report|treat|accept|reject|return|restore|repair)\b"
)
CHOICES = ("decision", "constraint", "rejected")


def weakness(mark: Mark) -> str | None:
    """Why a mark is only a suspicion: it cannot stand alone, or serves the change it came with, not the next one.
    Measured by reading: decisions without a reason restate the diff, learnings in the past tense alone tell a bug's
    history, and marks about tests, about the change itself or about the moment are of no use to whoever comes next."""
    if count_words(mark.text) < (2 if mark.is_trailer else 4):
        return "too short to stand alone"
    if POINTER.match(mark.text) or (not mark.scope and PRONOUN.match(mark.text)):
        return "does not say what it speaks of"
    if "[redacted:" in mark.text:
        return "holds something that had to be masked"
    if mark.marker == "root cause" and not mark.fix and not is_fix(mark.subject):
        return "the cause of something that was not fixed here"
    if mark.marker == "root cause" and UNKNOWN.search(mark.text):
        return "the cause is not known"
    if MOMENT.search(mark.text):
        return "holds for the moment only"
    if mark.is_trailer and mark.marker not in CHOICES:
        return None
    # A choice, or a mark in a form of others or within a list, may not have been meant to last.
    if THIS_CHANGE.search(mark.text):
        return "speaks of the change itself"
    if mark.marker in CHOICES:
        return _weak_choice(mark)
    is_history = (
        mark.marker != "root cause" and PAST.search(mark.text) and not LASTING.search(mark.text)
    )
    return "tells what happened, not what holds" if is_history else None


def _weak_choice(mark: Mark) -> str | None:
    """A choice is worth keeping for its reason; one about the tests of a change goes with the change. A decision in a
    trailer of ours need not give its reason."""
    if TASK.search(mark.text):
        return "bounds the task, not the work after it"
    if NARRATION.search(mark.text):
        return "narrates the work"
    if TEST_SCOPE.fullmatch(mark.scope):
        return "about the tests of a change"
    has_reason = (
        REASON.search(mark.text)
        or PIPE.search(mark.text)
        or (mark.is_trailer and mark.marker == "decision")
    )
    if mark.marker == "constraint" or has_reason:
        is_work = mark.marker == "decision" and commit_type(mark.subject) in WORK_TYPES
        return "a decision about the work, not the product" if is_work else None
    is_telling = mark.marker == "rejected" and len(mark.text.split()) >= TELLING
    return None if is_telling else f"a {NOUNS[mark.marker]} without its reason"


def compose(mark: Mark) -> tuple[str, str]:
    """Title and body of a mark. The body is empty when the title says it all."""
    statement = fold(mark.text)
    # The scope in front, as its author wrote it, unless the text speaks of it already.
    is_scoped = mark.scope and mark.scope.lower() not in statement.lower()
    statement = f"{mark.scope}: {statement}" if is_scoped else _capitalise(statement)
    if mark.marker == "root cause":
        # A subject without its type and its ticket numbers: what a fix says it does.
        bare = CONVENTIONAL.sub("", mark.subject[:SUBJECT_WIDTH], count=1)
        repaired = _capitalise(fold(TICKET.sub("", fold(bare))))
        is_telling = len(repaired.split()) >= TELLING_SUBJECT and is_fix(mark.subject)
        title = make_title(_tell(repaired, fold(mark.fix)) if is_telling else statement)
        fix = fold(mark.fix) or repaired
        lead = (
            "\n" if fix.startswith(("- ", "* ", "+ ")) else " "
        )  # a list begins on a line of its own
        body = f"Cause: {statement}\n\nFix:{lead}{fix}"
    else:
        parts = PIPE.split(statement, maxsplit=1) if mark.marker in CHOICES else [statement]
        choice, reason = parts[0], "".join(parts[1:])
        title = make_title(
            BECAUSE.split(choice, maxsplit=1)[0] if mark.marker == "rejected" else choice
        )
        body = "\n\n".join(filter(None, (make_body(title, choice), _capitalise(reason))))
    return title, cut_at_sentence(body, BODY_WIDTH)


def _tell(repaired: str, fix: str) -> str:
    """What a fix says to do; of a subject that states the fault, the first words of the fix, or what to prevent."""
    main = SUBORDINATE.split(repaired, maxsplit=1)[0]
    if not SYMPTOM.search(main) or ORDERS.match(repaired):
        return repaired
    return (
        fix
        or f"Prevent: {repaired[:1].lower() + repaired[1:] if PLAIN_WORD.match(repaired.lower()) else repaired}"
    )


def make_title(statement: str) -> str:
    """The first sentence, else its first clauses, else as many words as fit; without the full stop."""
    first = SENTENCE.split(statement.partition("\n")[0], maxsplit=1)[0]
    if len(first) > TITLE_WIDTH:
        ends = [
            match.start()
            for match in CLAUSE.finditer(first)
            if MIN_CLAUSE <= match.start() <= TITLE_WIDTH
        ]
        if ends:
            first = first[: max(ends)]
        else:  # as many words as fit, not ended by a word that asks for more, and three dots that say so
            kept = cut(first, TITLE_WIDTH - 3).split(" ")
            while len(kept) > 1 and kept[-1].lower() in STOP_WORDS:
                kept.pop()
            first = " ".join(kept).rstrip(" ,;:(-") + "..."
    return first if first.endswith("...") else first.rstrip(" .:;,")


def make_body(title: str, statement: str) -> str:
    """The whole statement, unless the title holds all of it."""
    return "" if title == statement.rstrip(" .:;,") else statement


def fold(text: str) -> str:
    """White space folded line by line, letters and their accents composed (NFC)."""
    lines = unicodedata.normalize("NFC", text).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines).strip()


def cut(text: str, width: int) -> str:
    """At most `width` characters, ended at a word."""
    if len(text) <= width:
        return text
    return text[: max(text.rfind(" ", 0, width + 1), width // 2)].rstrip(" ,;:(-")


def cut_at_sentence(text: str, width: int) -> str:
    """At most `width` characters, ended at a sentence or a line where one ends in the second half, else at a word."""
    if len(text) <= width:
        return text
    ends = [match.start() for match in BREAK.finditer(text) if width // 2 <= match.start() <= width]
    return text[: max(ends)] if ends else cut(text, width)


def _capitalise(text: str) -> str:
    """Upper case for a plain word; an identifier, a path or a command stays what it is."""
    return text[:1].upper() + text[1:] if PLAIN_WORD.match(text) else text


# -- Suspects: sentences that look like learnings but that nobody marked. They are proposed in the report, not written.
# Measured by hand, three in ten of such sentences are worth keeping. Sentences by which a person steers an agent show
# where to look: of 49 labelled turns drawn at random the rules find 10, in 8 of them a person steers and in 5 (of 7 in
# all) something is worth keeping. So a model judges them.

MAX_PER_MESSAGE = 3
MIN_WORDS, MIN_REASON = 6, 8  # Words of a sentence, and of why something was taken back.
REVERT = re.compile(r"(?:[a-z]+(?:\([^)]*\))?!?:\s*)?revert\b[: ]*(?P<what>.*)", re.IGNORECASE)
NORM = re.compile(
    r"\b(?:never|always|must not|must never|do not|don't|should never)\b", re.IGNORECASE
)
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
BARE_REVERT = re.compile(
    r"(?:this )?reverts? (?:commits?|pull request|pr|merge request|[\w./-]*[#!]\d)", re.IGNORECASE
)
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
    sentences = [
        (sentence, one.subject) for one in paragraphs for sentence in SENTENCE.split(one.text)
    ]
    return bool(REVERT.match(message)) or any(
        _doubt(text.strip(), subject) for text, subject in sentences
    )


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
    return bool(FRAGMENT.match(text) or STEP.match(text)) or any(
        form.search(text) for form in PASSING
    )


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
        is_own = (
            bool(line.text)
            and not line.text.endswith(line.subject)
            and not MARK.fullmatch(line.text)
        )
        item = BULLET.fullmatch(line.text)
        if not is_own or item or STOP.match(line.text):
            found.append([])
        if is_own:
            found[-1].append(MessageLine(item["text"] if item else line.text.strip(), line.subject))
    return [
        MessageLine(" ".join(line.text for line in own), own[0].subject) for own in found if own
    ]


RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("says no", r"^(?:no|nope|nah|wrong|stop)\b[,.! ]"),
        ("says what not to do", r"\b(?:don't|do not|dont|avoid|must not|shouldn't|should not)\b"),
        ("says what always holds", r"\b(?:always|never|must|every time)\b"),
        ("asks to remember", r"\b(?:remember|keep in mind|don't forget|note that|as a rule)\b"),
        (
            "speaks of next time",
            r"\b(?:from now on|next time|in (?:the )?future|going forward|in general)\b",
        ),
        (
            "prefers one thing to another",
            r"\b(?:use|prefer|rather)\b.{1,80}\b(?:not|instead of|rather than|over)\b",
        ),
        (
            "tells how we do it",
            r"\bwe (?:don't|do not|always|never|only|prefer|usually|want|keep|already)\b",
        ),
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
    for sentence in (
        part.strip(" -*•") for line in turn.splitlines() for part in SENTENCE.split(line)
    ):
        if count_words(sentence) < MIN_STEERING_WORDS:
            continue
        if name := next(
            (name for name, rule in RULES if rule.search(sentence)), None
        ) or name_steering(sentence):
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
LINE = re.compile(
    r"\s*\n(?!\s*(?:[-*+]|\d+[.)])\s)\s*"
)  # A wrapped line, not the next item of a list.
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
