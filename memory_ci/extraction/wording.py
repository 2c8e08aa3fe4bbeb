"""The title and body of a learning, made from the words of a statement."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from memory_ci.extraction.gate import BODY_WIDTH, MARKED_TITLE_WIDTH, TITLE_WIDTH
from memory_ci.extraction.markers import CONVENTIONAL, SUBJECT_WIDTH, MarkedStatement, is_fix
from memory_ci.regex import Regex

SENTENCE_BOUNDARY = Regex(
    r"(?<=[.!?])\s+(?=[\"'`(]?(?:[A-Z0-9]|[a-z]+[A-Z_(]))|(?<=[\u3002\uff01\uff1f])(?=\S)"
)
"""The boundary between two sentences."""

SENTENCE_OR_LINE = Regex(rf"{SENTENCE_BOUNDARY.pattern}|\n")
CLAUSE_BOUNDARY = Regex(
    r",?;?\s(?=(?:so|because|instead of|rather than|which|even though|although)\b)"
    r"|\s*;\s|\s[\u2014\u2013-]\s|,\s(?=(?:but|defaulting|causing|leaving)\b)"
)
"""The boundary between two clauses: `, so`, `;`, a dash. A title may be cut there."""

MIN_CLAUSE_WIDTH = 40
"""Number of characters that a title must have before it may be cut at a clause."""

TICKET_NUMBER = Regex(r"\s*\((?:[\w-]*#\d+|[a-z]+-[\w.]+)\)")
"""The number of a ticket in brackets: `(#128)`, `(proj-7)`."""

PLAIN_WORD = Regex(r"[a-z]+(?=[\s,;:]|\.?$)")
"""A word without capitals and signs, which may be capitalized at the start of a sentence."""

REASON_WORD = Regex(
    r"(?i)\b(?:because|since|so|instead of|rather than|to avoid|to prevent|otherwise|in order to"
    r"|due to|lest|as (?:it|they)|which (?:means|would|avoids|lets|keeps|makes)"
    r"|would (?:have|be|break|need|require)|therefore|hence)\b"
)
"""Words that give a reason, a contrast or a purpose."""

MIN_SUBJECT_WORDS = 5
"""Number of words of the subject of a fix that makes a better title than the fault."""

REASON_SEPARATOR = Regex(r"\s+\|\s+")
"""What separates choice and reason in some trailers: `Rejected: a queue | it loses jobs`."""

REASON_START = Regex(r",?\s(?:because|since|as it|as they|\u2014|--?)\s")
"""The boundary between what was rejected and its reason."""

CHOICE_MARKERS = ("decision", "constraint", "rejected")
"""The markers of choices."""

LASTING_WORD = Regex(
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
"""A word that begins a subordinate clause."""

FAULT_VERB = Regex(
    r"(?i)(?<=\s)(?:fails?|failed|crash(?:es|ed)|hangs|breaks|broke|is|are|was|were|has|have|had"
    r"|does|did|do not|don't|doesn't|didn't|isn't|aren't|cannot|can't|returns|shows|throws|raises"
    r"|panics|loses|leaks|ignores|misses)\b"
)
"""A finite verb: a subject with one in its main clause states a fault."""

ORDER_START = Regex(
    r"(?i)(?:fix|prevent|avoid|handle|stop|let|make|ensure|allow|keep|do|don't|use|never|always"
    r"|only|check|require|wait|retry|skip|show|report|treat|accept|reject|return|restore|repair)\b"
)
"""The beginning of a subject that is an order, so that it states no fault."""

OPENING_PUNCTUATION = Regex(
    r"^(?:[\s:;,!?)\]\u2013\u2014\u2192\u2022>]|[-*+=](?=\s)|-+>|\.(?=\s)|\.{2,}|\u2026)+"
)
"""Punctuation that no statement begins with; `.gitignore` and `--all` begin with a name."""

FENCE = "```"

EDIT_START = Regex(
    r"(?i)(?:also |i |we )?"
    r"(?:(?:add|amend|correct|fix|mend|refresh|remov|renam|reword|revis|updat)ed|clarified|rewrote|rewritten)\b"
)
"""The beginning of a sentence that tells an edit."""

TITLE_END = " .:;,"
"""Punctuation that is taken off the end of a title."""


# -- the title and body of a mark


class Wording(NamedTuple):
    """The title and body of a learning; the body is "" if the title says everything."""

    title: str
    body: str


def compose_wording(marked: MarkedStatement) -> Wording:
    """Return the title and body of a statement that its author marked (`Decision: …`).

    A root cause, and a choice (decision, constraint, rejection), have parts that go to a fixed
    place. Any other statement is split after the part that fits into a title.
    """
    statement = _make_statement(marked)
    if marked.marker == "root cause":
        wording = _word_root_cause(marked, statement)
    elif marked.marker in CHOICE_MARKERS:
        wording = _word_choice(marked, statement)
    else:
        title = make_title(statement)
        wording = Wording(title, make_body(title, statement))
    body = remove_open_code(cut_at_sentence(wording.body, BODY_WIDTH))
    return Wording(wording.title, body)


def _make_statement(marked: MarkedStatement) -> str:
    """Return the text of a marked statement, after its scope unless the text names it."""
    statement = remove_opening_punctuation(fold_space(marked.text))
    if marked.scope and marked.scope.lower() not in statement.lower():
        return f"{marked.scope}: {statement}"
    return _capitalize(statement)


def _word_root_cause(marked: MarkedStatement, cause: str) -> Wording:
    """Return the title and body of the cause of a fault, found in the message of its fix.

    The title is what to do: the subject of the commit, or its paragraph `Fix: …`. If the subject is
    too short or no fix, the title is the cause. The body has cause and fix, each unless the title
    says the same.

    Args:
        marked: the root cause as it is marked, with its fix and the subject of its commit.
        cause: its text.
    """
    # The subject without its type (`fix(api): `) and its tickets (`(#12)`).
    subject = CONVENTIONAL.sub("", marked.subject[:SUBJECT_WIDTH], count=1)
    subject = TICKET_NUMBER.sub("", fold_space(subject))
    subject = _capitalize(fold_space(subject))
    fix = fold_space(marked.fix)

    describes_fix = len(subject.split()) >= MIN_SUBJECT_WORDS and is_fix(marked.subject)
    title = make_title(_state_instruction(subject, fix) if describes_fix else cause)

    fix = fix or subject
    paragraphs: list[str] = []
    if not _is_same_statement(title, cause):
        paragraphs.append(f"Cause: {cause}")
    if not _is_same_statement(title, fix):
        is_list = fix.startswith(("- ", "* ", "+ "))
        paragraphs.append(f"Fix:\n{fix}" if is_list else f"Fix: {fix}")
    return Wording(title, "\n\n".join(paragraphs))


def _is_same_statement(title: str, statement: str) -> bool:
    return title.casefold() == statement.rstrip(TITLE_END).casefold()


def _word_choice(marked: MarkedStatement, statement: str) -> Wording:
    """Return the title and body of a decision, constraint or rejection.

    `Rejected: a queue | it loses jobs` has the choice as its title and the reason as its body. The
    title of a rejection also ends before a reason in the same sentence (`because it loses jobs`).

    Args:
        marked: the choice as it is marked.
        statement: its text.
    """
    choice, *reasons = REASON_SEPARATOR.split(statement, maxsplit=1)
    choice_without_reason = choice
    if marked.marker == "rejected":
        choice_without_reason = REASON_START.split(choice, maxsplit=1)[0]
    title = make_title(choice_without_reason)
    reason = _capitalize("".join(reasons))
    paragraphs = [make_body(title, choice), reason]
    return Wording(title, "\n\n".join(paragraph for paragraph in paragraphs if paragraph))


def _state_instruction(subject: str, fix: str) -> str:
    """Return what to do, from the subject of a commit that fixes a fault and its paragraph `Fix:`.

    The subject says what to do, unless it states the fault. Then it is the text of the fix, or
    without one what to prevent.

    >>> _state_instruction("Cards are charged twice", "")
    'Prevent: cards are charged twice'
    """
    main_clause = SUBORDINATE.split(subject, maxsplit=1)[0]
    states_fault = FAULT_VERB.search(main_clause) and not ORDER_START.match(subject)
    if not states_fault:
        return subject
    if fix:
        return fix
    if PLAIN_WORD.match(subject.lower()):
        subject = subject[:1].lower() + subject[1:]
    return f"Prevent: {subject}"


# -- titles and bodies of any statement


def make_title(statement: str) -> str:
    """Return the title of a statement, without a full stop.

    It is the first sentence that says more than that something was edited. Of a sentence that is
    longer than a title it is the first clauses, or the whole sentence if it has only one.
    """
    sentence = _find_title_sentence(statement)
    if len(sentence) > TITLE_WIDTH:
        sentence = _cut_title(sentence)
    return remove_open_code(sentence).rstrip(TITLE_END)


def is_title_cut(statement: str) -> bool:
    """Return whether no title holds a whole clause of the first sentence of a statement."""
    sentence = _find_title_sentence(statement)
    return len(sentence) > MARKED_TITLE_WIDTH and len(_cut_title(sentence)) > TITLE_WIDTH


def _find_title_sentence(statement: str) -> str:
    """Return the first sentence of a statement that says more than that something was edited."""
    line = remove_opening_punctuation(statement.partition("\n")[0])
    sentence: str = SENTENCE_BOUNDARY.split(_skip_edit_reports(line), maxsplit=1)[0]
    return sentence


def remove_opening_punctuation(text: str) -> str:
    """Return a text without the punctuation, arrows or list marks that it begins with."""
    return OPENING_PUNCTUATION.sub("", text)


def is_edit_report(text: str) -> bool:
    """Return whether a text tells only that something was edited: `Updated the README`."""
    if not EDIT_START.match(text):
        return False
    return not LASTING_WORD.search(text) and not REASON_WORD.search(text)


def _skip_edit_reports(line: str) -> str:
    """Return a line without the sentences at its start that only report an edit.

    If all its sentences do, the whole line is returned.
    """
    remainder = line
    while is_edit_report(SENTENCE_BOUNDARY.split(remainder, maxsplit=1)[0]):
        boundary = SENTENCE_BOUNDARY.search(remainder)
        if boundary is None:
            return line
        remainder = remainder[boundary.end() :]
    return remainder


def _cut_title(sentence: str) -> str:
    """Return the first clauses of a long sentence that fit into a title, else its first words.

    It is not cut within code or brackets.
    """
    clause_ends = [match.start() for match in CLAUSE_BOUNDARY.finditer(sentence)]
    beginnings = [sentence[:end] for end in clause_ends if MIN_CLAUSE_WIDTH <= end <= TITLE_WIDTH]
    whole_beginnings = [beginning for beginning in beginnings if _has_no_open_code(beginning)]
    return whole_beginnings[-1] if whole_beginnings else cut(sentence, MARKED_TITLE_WIDTH)


def _has_no_open_code(text: str) -> bool:
    """Return whether all code spans and parentheses that a text opens are closed."""
    return text.count("`") % 2 == 0 and text.count("(") == text.count(")")


def remove_open_code(text: str) -> str:
    """Return a text in which no code block and no code span is open, as after it was cut.

    The text ends before the fence of a block that is not closed. Of a span that is not closed, only
    the backtick is removed.
    """
    if text.count(FENCE) % 2:
        text = text[: text.rindex(FENCE)].rstrip()
    paragraphs = re.split(r"(\n\s*\n)", text)
    return "".join(_remove_open_span(paragraph) for paragraph in paragraphs)


def _remove_open_span(paragraph: str) -> str:
    """Return a paragraph without its last backtick if that opens a span that is not closed."""
    if paragraph.count("`") % 2 == 0:
        return paragraph
    before, _, after = paragraph.rpartition("`")
    return before + after


def make_body(title: str, statement: str) -> str:
    """Return the rest of a statement after its title, "" if the title holds all of it.

    It is the whole statement if that does not begin with the title, for example because the title
    was cut in a span of code.

    Args:
        title: the title, made from the statement by `make_title`.
        statement: the statement.
    """
    # Without what `make_title` skips, too.
    text = remove_opening_punctuation(statement)
    first_line, separator, following_lines = text.partition("\n")
    text = _skip_edit_reports(first_line) + separator + following_lines
    if not text.startswith(title):
        is_all_in_title = title == remove_open_code(text).rstrip(TITLE_END)
        return "" if is_all_in_title else statement

    remainder = text[len(title) :]
    ends_within_word = remainder[:1].isalnum()
    if ends_within_word:
        return statement
    remainder = remainder.lstrip(TITLE_END)
    if not remainder.startswith("\n"):
        remainder = remainder.lstrip(" \N{EM DASH}\N{EN DASH}-")
    return _capitalize(remainder.strip())


def tidy_wording(title: str, body: str) -> Wording:
    """Return a title and body that a model wrote without what a reviewer would take out.

    That is punctuation before the title, code that is not closed, and a body that only repeats the
    title.
    """
    title = remove_open_code(remove_opening_punctuation(title))
    body = remove_open_code(body)
    if _is_same_statement(title, body):
        body = ""
    return Wording(title, body)


def fold_space(text: str) -> str:
    """Fold the white space of each line to single blanks and compose_wording accents (NFC)."""
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
    boundaries = [match.start() for match in SENTENCE_OR_LINE.finditer(text)]
    ends = [end for end in boundaries if width // 2 <= end <= width]
    return text[: max(ends)] if ends else cut(text, width)


def _capitalize(text: str) -> str:
    """Capitalize a plain word; an identifier, a path or a command stays unchanged."""
    return text[:1].upper() + text[1:] if PLAIN_WORD.match(text) else text
