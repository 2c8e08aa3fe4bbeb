"""The title and body of a learning, made from the words of a statement."""

from __future__ import annotations

import re
import unicodedata

from memory_ci.extraction.gate import BODY_WIDTH, MARKED_TITLE_WIDTH, TITLE_WIDTH
from memory_ci.extraction.markers import CONVENTIONAL, SUBJECT_WIDTH, Mark, is_fix
from memory_ci.regex import Regex

SENTENCE = Regex(
    r"(?<=[.!?])\s+(?=[\"'`(]?(?:[A-Z0-9]|[a-z]+[A-Z_(]))|(?<=[\u3002\uff01\uff1f])(?=\S)"
)
"""The boundary between two sentences."""

SENTENCE_OR_LINE = Regex(rf"{SENTENCE.pattern}|\n")
CLAUSE = Regex(
    r",?;?\s(?=(?:so|because|instead of|rather than|which|even though|although)\b)"
    r"|\s*;\s|\s[\u2014\u2013-]\s|,\s(?=(?:but|defaulting|causing|leaving)\b)"
)
"""The boundary between two clauses: `, so`, `;`, a dash. A title may be cut there."""

MIN_CLAUSE = 40
"""Number of characters that a title must have before it may be cut at a clause."""

TICKET = Regex(r"\s*\((?:[\w-]*#\d+|[a-z]+-[\w.]+)\)")
"""The number of a ticket in brackets: `(#128)`, `(proj-7)`."""

PLAIN_WORD = Regex(r"[a-z]+(?=[\s,;:]|\.?$)")
"""A word without capitals and signs, which may be capitalized at the start of a sentence."""

REASON = Regex(
    r"(?i)\b(?:because|since|so|instead of|rather than|to avoid|to prevent|otherwise|in order to"
    r"|due to|lest|as (?:it|they)|which (?:means|would|avoids|lets|keeps|makes)"
    r"|would (?:have|be|break|need|require)|therefore|hence)\b"
)
"""Words that give a reason, a contrast or a purpose."""

MIN_SUBJECT_WORDS = 5
"""Number of words of the subject of a fix that makes a better title than the fault."""

PIPE = Regex(r"\s+\|\s+")
"""What separates choice and reason in some trailers: `Rejected: a queue | it loses jobs`."""

BECAUSE = Regex(r",?\s(?:because|since|as it|as they|\u2014|--?)\s")
"""The boundary between what was rejected and its reason."""

CHOICES = ("decision", "constraint", "rejected")
"""The markers of choices."""

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
"""A word that begins a subordinate clause."""

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

TITLE_END = " .:;,"
"""Punctuation that is taken off the end of a title."""


# -- the title and body of a mark


def compose(mark: Mark) -> tuple[str, str]:
    """Return the title and body of a marked statement.

    The body is empty if the title holds all of it.
    """
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
    """Return the title and body of the cause of a fault.

    The title describes the fix if the subject of its commit does; else it is the cause. The body
    has the cause and the fix, except if the title says the same already.
    """
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
    is_list = fix.startswith(("- ", "* ", "+ "))
    separator = "\n" if is_list else " "
    paragraphs: list[str] = []
    if not _is_same_statement(title, cause):
        paragraphs.append(f"Cause: {cause}")
    if not _is_same_statement(title, fix):
        paragraphs.append(f"Fix:{separator}{fix}")
    return title, "\n\n".join(paragraphs)


def _is_same_statement(title: str, statement: str) -> bool:
    return title.casefold() == statement.rstrip(TITLE_END).casefold()


def _compose_choice(mark: Mark, statement: str) -> tuple[str, str]:
    """Return the choice as title, and the reason behind ` | ` as body.

    The title of a rejection ends before its reason.
    """
    choice, *reasons = PIPE.split(statement, maxsplit=1)
    titled = BECAUSE.split(choice, maxsplit=1)[0] if mark.marker == "rejected" else choice
    title = make_title(titled)
    reason = _capitalize("".join(reasons))
    paragraphs = [make_body(title, choice), reason]
    return title, "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _state_remedy(subject: str, fix: str) -> str:
    """Return the instruction in the description of a fix.

    Where its subject states the fault, this is the text of the fix, or else what to prevent.

    >>> _state_remedy("Cards are charged twice", "")
    'Prevent: cards are charged twice'
    """
    main_clause = SUBORDINATE.split(subject, maxsplit=1)[0]
    states_fault = SYMPTOM.search(main_clause) and not ORDERS.match(subject)
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
    return close_code(sentence).rstrip(TITLE_END)


def is_title_cut(statement: str) -> bool:
    """Return whether no title holds a whole clause of the first sentence of a statement."""
    sentence = _find_title_sentence(statement)
    return len(sentence) > MARKED_TITLE_WIDTH and len(_cut_title(sentence)) > TITLE_WIDTH


def _find_title_sentence(statement: str) -> str:
    """Return the first sentence of a statement that does not tell an edit."""
    line = clean_opening(statement.partition("\n")[0])
    sentence: str = SENTENCE.split(_skip_edits(line), maxsplit=1)[0]
    return sentence


def clean_opening(text: str) -> str:
    """Return a text without the punctuation, arrows or list marks that it begins with."""
    return OPENING.sub("", text)


def tells_edit(text: str) -> bool:
    """Return whether a text tells only that something was edited: `Updated the README`."""
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
    """Return the first clauses of a long sentence that fit into a title, else its first words.

    It is not cut within code or brackets.
    """
    clause_ends = [match.start() for match in CLAUSE.finditer(sentence)]
    beginnings = [sentence[:end] for end in clause_ends if MIN_CLAUSE <= end <= TITLE_WIDTH]
    closed = [beginning for beginning in beginnings if _is_closed(beginning)]
    return closed[-1] if closed else cut(sentence, MARKED_TITLE_WIDTH)


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
    """Return a paragraph without its last backtick if that opens a span that is not closed."""
    if paragraph.count("`") % 2 == 0:
        return paragraph
    before, _, after = paragraph.rpartition("`")
    return before + after


def make_body(title: str, statement: str) -> str:
    """Return the rest of a statement after its title, "" if the title holds all of it.

    It is the whole statement if that does not begin with the title.
    """
    text = clean_opening(statement)
    first_line, separator, following_lines = text.partition("\n")
    text = _skip_edits(first_line) + separator + following_lines
    if not text.startswith(title):
        is_title_all = title == close_code(text).rstrip(TITLE_END)
        return "" if is_title_all else statement
    remainder = text[len(title) :]
    if remainder[:1].isalnum():
        return statement
    remainder = remainder.lstrip(TITLE_END)
    if not remainder.startswith("\n"):
        remainder = remainder.lstrip(" \N{EM DASH}\N{EN DASH}-")
    return _capitalize(remainder.strip())


def tidy(title: str, body: str) -> tuple[str, str]:
    """Return the title and body by a model, without the words that a reviewer would take out.

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
    boundaries = [match.start() for match in SENTENCE_OR_LINE.finditer(text)]
    ends = [end for end in boundaries if width // 2 <= end <= width]
    return text[: max(ends)] if ends else cut(text, width)


def _capitalize(text: str) -> str:
    """Capitalize a plain word; an identifier, a path or a command stays unchanged."""
    return text[:1].upper() + text[1:] if PLAIN_WORD.match(text) else text
