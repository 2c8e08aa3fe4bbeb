"""Wording: a marked statement as the title and body of an entry, and the reasons not to trust a mark."""

from __future__ import annotations

import re
import unicodedata

from memory_ci.extraction.gate import BODY_WIDTH, TITLE_WIDTH
from memory_ci.extraction.markers import CONVENTIONAL, SUBJECT_WIDTH, Mark, commit_type, is_fix
from memory_ci.text import STOP_WORDS, count_words

MIN_CLAUSE = 40
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'`(]?(?:[A-Z0-9]|[a-z]+[A-Z_(]))|(?<=[\u3002\uff01\uff1f])(?=\S)")
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
PRONOUN = re.compile(r"(?:it|that|this)\b(?! (?:repo|repository|project|codebase|package)\b)", re.IGNORECASE)
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
UNKNOWN = re.compile(r"\b(?:not (?:yet )?known|unknown|unclear|not (?:yet )?sure|no idea)\b", re.IGNORECASE)
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
    history, and marks about tests, about the change itself or about the moment are of no use to whoever comes next.
    """
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
    is_history = mark.marker != "root cause" and PAST.search(mark.text) and not LASTING.search(mark.text)
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
    has_reason = REASON.search(mark.text) or PIPE.search(mark.text) or (mark.is_trailer and mark.marker == "decision")
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
        lead = "\n" if fix.startswith(("- ", "* ", "+ ")) else " "  # a list begins on a line of its own
        body = f"Cause: {statement}\n\nFix:{lead}{fix}"
    else:
        parts = PIPE.split(statement, maxsplit=1) if mark.marker in CHOICES else [statement]
        choice, reason = parts[0], "".join(parts[1:])
        title = make_title(BECAUSE.split(choice, maxsplit=1)[0] if mark.marker == "rejected" else choice)
        body = "\n\n".join(filter(None, (make_body(title, choice), _capitalise(reason))))
    return title, cut_at_sentence(body, BODY_WIDTH)


def _tell(repaired: str, fix: str) -> str:
    """What a fix says to do; of a subject that states the fault, the first words of the fix, or what to prevent."""
    main = SUBORDINATE.split(repaired, maxsplit=1)[0]
    if not SYMPTOM.search(main) or ORDERS.match(repaired):
        return repaired
    return fix or f"Prevent: {repaired[:1].lower() + repaired[1:] if PLAIN_WORD.match(repaired.lower()) else repaired}"


def make_title(statement: str) -> str:
    """The first sentence, else its first clauses, else as many words as fit; without the full stop."""
    first = SENTENCE.split(statement.partition("\n")[0], maxsplit=1)[0]
    if len(first) > TITLE_WIDTH:
        ends = [match.start() for match in CLAUSE.finditer(first) if MIN_CLAUSE <= match.start() <= TITLE_WIDTH]
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
