"""Whether the quotes of a learning prove it, and whether documents say the same already.

The rules only compare words, so a refused learning may still be true: it is proposed to a person.
They were tuned on 47 learnings written by hand: they accept 4 of 24 false learnings (14 before)
and 20 of 23 true ones. They were then tested on 43 other learnings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from memory_ci.extraction.reply import Learning
from memory_ci.extraction.stance import is_opposite
from memory_ci.extraction.wording import SENTENCE_BOUNDARY
from memory_ci.records.event import Evidence
from memory_ci.regex import Regex
from memory_ci.secrets import MASK
from memory_ci.text import (
    STOP_WORDS,
    identifier_parts,
    spell_negations,
    stem,
    strip_own_blocks,
    unfenced_lines,
    words,
)

MIN_QUOTED_SHARE = 0.2
"""Share of the words of a title that the quoted pieces must contain."""

DOCUMENT_PATH = Regex(r".*\.(?:mdx?|mdc|rst|adoc)", re.IGNORECASE)
"""The path of a document."""

SENTENCE_END = Regex(rf"{SENTENCE_BOUNDARY.pattern}|\n\s*\n|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s)")
"""The end of a sentence, paragraph or item of a list; a single line break is a wrapped line."""

BROAD_CLAIM = Regex(r"\b(?:every|always)\b", re.IGNORECASE)
BROAD_WORDS = Regex(
    r"(?i)\b(?:every\w*|always|never|all|any(?:one|body|thing|where)?|each|whenever|must"
    r"|from now on|in general|going forward)\b"
)
NEVER_CLAIM = Regex(r"\bnever\b", re.IGNORECASE)
NEGATION_WORD = Regex(
    r"\b(?:never|no|not|\w+n't|cannot|none|nobody|any\w*|avoid|stop|forbidden)\b",
    re.IGNORECASE,
)
SCOPE_CLAIMS = ((BROAD_CLAIM, BROAD_WORDS), (NEVER_CLAIM, NEGATION_WORD))
"""Words of a title that speak of all cases, and the words of which a quote must have some."""


def find_unsupported(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Return a slug why the quotes do not support a learning, or None if they do.

    Args:
        learning: the learning, whose quotes name existing pieces.
        pieces: the evidence by id.
    """
    quoted_pieces = [pieces[quote.evidence] for quote in learning.quotes]
    quoted_sentences: list[str] = []
    for quote in learning.quotes:
        sentences = expand_to_sentences(quote.text, pieces[quote.evidence].text)
        quoted_sentences.append(spell_negations(sentences))
    if not _shares_words(learning.title, quoted_pieces):
        return "not-in-the-quotes"
    if all(_is_question(sentences) for sentences in quoted_sentences):
        return "quoted-question"
    if learning.adoption != "rejected" and is_opposite(learning.title, quoted_sentences):
        return "opposite-of-the-quotes"
    if _is_broader(learning.title, quoted_sentences):
        return "broader-than-the-quotes"
    if all(_changed_documents_only(piece) for piece in quoted_pieces):
        return "restates-document: what is quoted changed documents alone"
    return None


def _shares_words(title: str, pieces: Sequence[Evidence]) -> bool:
    title_stems = find_stems(title)
    piece_stems: set[str] = set()
    for piece in pieces:
        piece_stems |= find_stems(piece.text)
    return len(title_stems & piece_stems) >= MIN_QUOTED_SHARE * len(title_stems)


def _is_question(sentences: str) -> bool:
    return sentences.rstrip(" \"'`)*_").endswith(("?", "\uff1f"))


def _is_broader(title: str, sentences: Sequence[str]) -> bool:
    """Return whether a title says `always` or `never`, and no quote says anything like it."""
    for claim, evidence in SCOPE_CLAIMS:
        if claim.search(title) and not any(evidence.search(sentence) for sentence in sentences):
            return True
    return False


def _changed_documents_only(piece: Evidence) -> bool:
    if piece.kind != "commit" or not piece.paths:
        return False
    return all(DOCUMENT_PATH.fullmatch(path) for path in piece.paths)


def expand_to_sentences(quote: str, text: str) -> str:
    """Return the whole sentences of a text that contain a quote, as one text; else the quote.

    Words that a quote omits at its ends can reverse its meaning.

    Args:
        quote: words of the text, perhaps with other white space.
        text: the text.
    """
    quote_words = [re.escape(word) for word in quote.split()]
    match = re.search(r"\s+".join(quote_words), text)
    if match is None:
        return quote
    # The last end of a sentence before the quote, and the first one behind it. Each search goes one
    # character into the quote, because an end is recognised by the character next to it.
    start = 0
    for sentence_end in SENTENCE_END.finditer(text, 0, match.start() + 1):
        if sentence_end.end() <= match.start():
            start = sentence_end.end()
    following_end = SENTENCE_END.search(text, max(match.end() - 1, 0))
    end = following_end.start() if following_end else len(text)
    return " ".join(text[start:end].split())


def find_stems(text: str) -> set[str]:
    """Return the stems of the words of a text that carry meaning, and of parts of identifiers."""
    text_words = (*words(text), *identifier_parts(text))
    return {stem(word) for word in text_words if word not in STOP_WORDS and len(word) > 1}


# -- documents: a learning that says what they say adds nothing to memory

MIN_SHARE = 0.7
"""Share of the words of a title that one paragraph must contain, with all its identifiers."""

MIN_SHARE_UNNAMED = 0.8
"""The same share for a title without identifiers."""

MIN_WORDS = 3
"""Number of different words of a title that is compared: every document has "Run the tests"."""

GUIDE_PATH = Regex(r"(?:.*/)?(?:README|AGENTS|CLAUDE|GEMINI|CONTRIBUTING)[^/]*", re.IGNORECASE)
DOCS_FOLDER = Regex(r"(?:.*/)?docs?/.*", re.IGNORECASE)
VENDORED_PATH = Regex(
    r"(?:.*/)?(?:vendor(?:ed)?|third[_-]party|node_modules|skills)/.*", re.IGNORECASE
)
"""Text that others wrote for any project, so that it does not explain this one."""

BLANK_LINE = Regex(r"\n\s*\n")
HEADING = Regex(
    r" {0,3}#{1,6}\s+(?P<text>\S.*)|(?P<underlined>\S.*)\n(?:={3,}|-{3,}|~{3,}|\^{3,})\s*"
)
"""A heading: `## Tests`, or a line that is underlined."""

LIST_ITEM = Regex(r"\s*(?:[-*+\u2022]|\d+[.)])\s")
"""The beginning of an item of a list."""

TABLE_ROW = Regex(r"\s*\|.*\|\s*")
"""A row of a table."""

TABLE_RULER = Regex(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*")
"""The line below the header of a table."""

BOX_CORNER = Regex("[\u250c\u2510\u2554\u2557\u256d\u256e]|\\+-{2,}\\+")
"""The corner of a drawn box."""

HELP_TEXT_LINE = Regex(
    r"(?i)\b(?:help|usage|short|long|about|description|summary)\w*\s*[=:(]"
    r"|flags\(\)|\w*flag\w*\(|add_argument|\.option\("
)
"""A line of code with the help text of a command or option."""

NO_STEMS: frozenset[str] = frozenset()


class Paragraph(NamedTuple):
    """One paragraph, item, heading or table row of a document, or one line of help text.

    Attributes:
        path: the path of the document.
        stems: the stems of its words.
        context: the stems of its heading, of the sentence before its list, and of the header of
            its table.
    """

    path: str
    stems: frozenset[str]
    context: frozenset[str] = NO_STEMS


def is_document(path: str) -> bool:
    """Return whether a file explains to people and agents how work is done in a repository."""
    if not DOCUMENT_PATH.fullmatch(path) or VENDORED_PATH.fullmatch(path):
        return False
    return bool(GUIDE_PATH.fullmatch(path) or DOCS_FOLDER.fullmatch(path))


def list_paragraphs(path: str, text: str) -> Iterator[Paragraph]:
    """Yield the parts of a file that explain how work is done, to be compared with learnings.

    In a document, that is all but the blocks that memory-ci wrote and drawings of boxes. In code,
    it is the lines with help texts of commands and options: these are written for users.
    """
    if DOCUMENT_PATH.fullmatch(path):
        yield from _read_document(path, _remove_drawings(strip_own_blocks(text)))
        return
    for line in text.splitlines():
        if HELP_TEXT_LINE.search(line):
            yield Paragraph(path, frozenset(find_stems(line)))


def _read_document(path: str, text: str) -> Iterator[Paragraph]:
    """Yield each paragraph, heading, list item and table row of a document, with its context.

    The context is the words of the heading above, of the text before its list (`Before a merge:`),
    and of the header of its table.
    """
    heading = NO_STEMS
    list_introduction = NO_STEMS
    table_header = NO_STEMS
    for block in _split_blocks(text):
        stems = frozenset(find_stems(block))
        heading_match = HEADING.fullmatch(block)
        if heading_match:
            heading_text = heading_match["text"] or heading_match["underlined"]
            heading = frozenset(find_stems(heading_text))
            list_introduction = NO_STEMS
            yield Paragraph(path, heading)
        elif LIST_ITEM.match(block):
            yield Paragraph(path, stems, heading | list_introduction)
        elif TABLE_ROW.fullmatch(block):
            if not table_header:  # the first row of the table
                table_header = stems
            yield Paragraph(path, stems, heading | table_header)
            continue
        else:
            # A complete sentence introduces no list.
            is_complete = block.rstrip().endswith((".", "!", "?"))
            list_introduction = NO_STEMS if is_complete else stems
            yield Paragraph(path, stems, heading)
        table_header = NO_STEMS


def _split_blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, headings, items of lists and rows of tables of a document."""
    for section in BLANK_LINE.split(text):
        block: list[str] = []
        for line in section.strip("\n").splitlines():
            if block and (_begins_block(line) or _is_complete(block)):
                yield "\n".join(block)
                block = []
            if not TABLE_RULER.fullmatch(line):
                block.append(line)
        if block:
            yield "\n".join(block)


def _begins_block(line: str) -> bool:
    return bool(LIST_ITEM.match(line) or TABLE_ROW.fullmatch(line) or HEADING.fullmatch(line))


def _is_complete(block: Sequence[str]) -> bool:
    """Return whether lines are a whole part of a document: a row, or a heading of 1 or 2 lines."""
    if TABLE_ROW.fullmatch(block[0]):
        return True
    return len(block) <= 2 and HEADING.fullmatch("\n".join(block)) is not None


def _remove_drawings(text: str) -> str:
    """Return a text without the fenced blocks that draw boxes: their labels say nothing."""
    lines = text.splitlines()
    # `unfenced_lines` returns a fenced line as a blank one.
    is_fenced = [line != plain for line, plain in zip(lines, unfenced_lines(lines), strict=True)]
    prose: list[str] = []
    for is_block_fenced, numbers in groupby(range(len(lines)), key=is_fenced.__getitem__):
        block = [lines[number] for number in numbers]
        is_drawing = is_block_fenced and any(BOX_CORNER.search(line) for line in block)
        if not is_drawing:
            prose += block
    return "\n".join(prose)


def find_restating_document(title: str, paragraphs: Iterable[Paragraph]) -> str | None:
    """Return the path of the first document that says the same as a title, or None.

    One of its paragraphs must contain all identifiers and most words of the title. The paragraph
    itself must have at least half of the required words, the others may be in its context: a
    heading alone only names a subject.
    """
    title_stems = find_stems(title)
    if len(title_stems) < MIN_WORDS:
        return None
    identifiers = [word for word in title.split() if any(identifier_parts(word))]
    identifier_stems = find_stems(" ".join(identifiers))
    min_share = MIN_SHARE if identifier_stems else MIN_SHARE_UNNAMED
    required = min_share * len(title_stems)

    for paragraph in paragraphs:
        all_stems = paragraph.stems | paragraph.context
        has_own_words = 2 * len(title_stems & paragraph.stems) >= required
        has_words = has_own_words and len(title_stems & all_stems) >= required
        if has_words and identifier_stems <= all_stems:
            return paragraph.path
    return None


# -- grounding: the quotes of a learning are exact, and long enough

QUOTABLE_TRUST = frozenset({"T0", "T1"})
"""Levels of trust whose words may be quoted."""

MIN_QUOTE_WORDS = 3
MIN_QUOTE_LENGTH = 15
"""A quote of fewer words and fewer characters proves nothing: "yes", "the pool"."""

MASK_OR_OMISSION = Regex(rf"{MASK.pattern}|\[\N{{HORIZONTAL ELLIPSIS}}[^\]\n]*\]")
"""Masks and marks of a cut: we put them into a piece, so nobody said them."""

WORD_OR_CHARACTER = Regex(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
    r"|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3][\w'/.-]*"
)
"""A word, or one character of a script that is written without blanks."""


def find_ungrounded(
    learning: Learning,
    pieces: Mapping[str, Evidence],
    *,
    is_tool_output_quotable: bool = False,
) -> str | None:
    """Return a slug why the quotes of a learning are no proof, or None.

    A quote must be exact, long enough, and from evidence that may be quoted. Quotes that our own
    rules found may be short, because their author marked them.

    Args:
        learning: the learning.
        pieces: the evidence by id.
        is_tool_output_quotable: whether the output of tools may be quoted.
    """
    if not learning.quotes:
        return "no-quote"
    for quote in learning.quotes:
        piece = pieces.get(quote.evidence)
        if piece is None:
            return "unknown-evidence"
        if not _contains(piece.text, quote.text):
            return "quote-not-found"
        is_tool_output = piece.kind == "tool_result" and is_tool_output_quotable
        if piece.trust not in QUOTABLE_TRUST and not is_tool_output:
            return "untrusted-quote"
    if learning.is_by_rule:
        return None
    if any(_is_short(quote.text) for quote in learning.quotes):
        return "quote-too-short"
    return None


def _contains(text: str, quote: str) -> bool:
    if not quote.strip():
        return False
    return quote in text or _fold(quote) in _fold(text)


def _is_short(quote: str) -> bool:
    """Return whether a quote has too few words and too few characters, without our own masks."""
    text = " ".join(MASK_OR_OMISSION.sub(" ", quote).split())
    return len(text) < MIN_QUOTE_LENGTH and len(WORD_OR_CHARACTER.findall(text)) < MIN_QUOTE_WORDS


def _fold(text: str) -> str:
    """Fold white space to single blanks and compose accents (NFC); all else stays."""
    return " ".join(unicodedata.normalize("NFC", text).split())
