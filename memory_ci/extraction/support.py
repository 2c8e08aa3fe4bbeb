"""Support: whether the words that a model quotes say what it claims. What they do not carry is proposed, not written.

The rules were set on 47 learnings written by hand (false accepts 14 of 24 before, 4 after; 20 of 23 good ones kept) and
tried on 43 others. They compare words, so what they refuse may still be true: a person decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from memory_ci.extraction.reply import Learning
from memory_ci.extraction.stance import is_opposite
from memory_ci.extraction.wording import SENTENCE
from memory_ci.records.event import Evidence
from memory_ci.secrets import MASK
from memory_ci.text import (
    STOP_WORDS,
    identifier_parts,
    stem,
    strip_own_blocks,
    unfenced_lines,
    words,
)

LEAST_QUOTED = 0.2  # The share of a title's words that must stand in the pieces quoted.
DOCUMENT = re.compile(r".*\.(?:mdx?|mdc|rst|adoc)", re.IGNORECASE)
# Where a sentence, a paragraph or an item of a list ends; a single line break is a wrapped line.
END = re.compile(rf"{SENTENCE.pattern}|\n\s*\n|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s)")
BROAD = re.compile(r"\b(?:every|always)\b", re.IGNORECASE)
NEVER = re.compile(r"\bnever\b", re.IGNORECASE)
BROAD_WORDS = re.compile(
    r"(?i)\b(?:every\w*|always|never|all|any(?:one|body|thing|where)?|each|whenever|must"
    r"|from now on|in general|going forward)\b"
)
DENIAL = re.compile(
    r"\b(?:never|no|not|\w+n't|dont|cannot|none|nobody|any\w*|avoid|stop|forbidden)\b",
    re.IGNORECASE,
)


def find_unsupported(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why the pieces and the sentences quoted do not carry the learning: a slug, or None."""
    quoted = [pieces[quote.evidence] for quote in learning.quotes]
    said = [find_sentences(quote.text, pieces[quote.evidence].text) for quote in learning.quotes]
    claimed = stems(learning.title)
    if len(claimed & set().union(*(stems(piece.text) for piece in quoted))) < LEAST_QUOTED * len(
        claimed
    ):
        return "not-in-the-quotes"
    if all(map(_is_question, said)):
        return "quoted-question"
    if learning.adoption != "rejected" and is_opposite(learning.title, said):
        return "opposite-of-the-quotes"
    if any(
        claim.search(learning.title) and not any(map(needed.search, said))
        for claim, needed in (
            (BROAD, BROAD_WORDS),
            (NEVER, DENIAL),
        )  # the title speaks of all cases, and no quote does
    ):
        return "broader-than-the-quotes"
    is_of_documents = all(
        piece.kind == "commit" and piece.paths and all(map(DOCUMENT.fullmatch, piece.paths))
        for piece in quoted
    )
    return "restates-document: what is quoted changed documents alone" if is_of_documents else None


def find_sentences(quoted: str, text: str) -> str:
    """Return the whole sentences of a text that quoted words stand in, else the words.

    What a quote leaves out at its ends can turn it around.
    """
    found = re.search(r"\s+".join(map(re.escape, quoted.split())), text)
    if found is None:
        return quoted
    start = max(
        (
            end.end()
            for end in END.finditer(text, 0, found.start() + 1)
            if end.end() <= found.start()
        ),
        default=0,
    )
    last = END.search(text, max(found.end() - 1, 0))
    return " ".join(text[start : last.start() if last else len(text)].split())


def stems(text: str) -> set[str]:
    """The words of `text` that carry meaning, and the parts of its identifiers, without their endings."""
    said = (*words(text), *identifier_parts(text))
    return {stem(word) for word in said if word not in STOP_WORDS and len(word) > 1}


def _is_question(sentences: str) -> bool:
    return sentences.rstrip(" \"'`)*_").endswith(("?", "\uff1f"))


# -- What a repository tells its readers already: a learning that says it again adds nothing to memory.

# The share of a title's words that must stand in one paragraph, beside all identifiers; more of one without.
LEAST_TOLD, LEAST_UNNAMED = 0.7, 0.8
MIN_WORDS = 3  # Different words of a title below which nothing is compared: "Run the tests" stands everywhere.
READ_FIRST = re.compile(r"(?:.*/)?(?:README|AGENTS|CLAUDE|GEMINI|CONTRIBUTING)[^/]*", re.IGNORECASE)
FOLDER = re.compile(r"(?:.*/)?docs?/.*", re.IGNORECASE)
# What others wrote for any project that takes it in, and nobody reads to learn how this one works.
VENDORED = re.compile(
    r"(?:.*/)?(?:vendor(?:ed)?|third[_-]party|node_modules|skills)/.*", re.IGNORECASE
)
BLANK_LINE = re.compile(r"\n\s*\n")
HEADING = re.compile(
    r" {0,3}#{1,6}\s+(?P<text>\S.*)|(?P<underlined>\S.*)\n(?:={3,}|-{3,}|~{3,}|\^{3,})\s*"
)
ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d+[.)])\s")
ROW = re.compile(r"\s*\|.*\|\s*")
RULER = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*")  # The line below the header of a table.
DRAWN = re.compile(
    "[\u250c\u2510\u2554\u2557\u256d\u256e]|\\+-{2,}\\+"
)  # The upper corners of boxes.
# Where a line of code holds what a program says of its own commands and options.
HELP = re.compile(
    r"(?i)\b(?:help|usage|short|long|about|description|summary)\w*\s*[=:(]|flags\(\)|\w*flag\w*\(|add_argument|\.option\("
)


class Paragraph(NamedTuple):
    """One paragraph, item, heading or row of a document, or one line of help text.

    `context` has the stems of what it stands under: its heading, the words that open its list, the header of its
    table.
    """

    path: str
    stems: frozenset[str]
    context: frozenset[str] = frozenset()


def is_document(path: str) -> bool:
    """Whether people and agents read a file to learn how work is done here."""
    is_read = READ_FIRST.fullmatch(path) or FOLDER.fullmatch(path)
    return bool(DOCUMENT.fullmatch(path) and is_read and not VENDORED.fullmatch(path))


def list_paragraphs(path: str, text: str) -> Iterator[Paragraph]:
    """The paragraphs of a document without what we put there ourselves; of code its help text."""
    if DOCUMENT.fullmatch(path):
        yield from _list_units(path, _drop_drawings(strip_own_blocks(text)))
    else:
        yield from (
            Paragraph(path, frozenset(stems(line)))
            for line in text.splitlines()
            if HELP.search(line)
        )


def _list_units(path: str, text: str) -> Iterator[Paragraph]:
    """Yield each unit of a document with the words that it stands under."""
    heading = lead = header = frozenset[str]()
    for part in _list_parts(text):
        own = frozenset(stems(part))
        if found := HEADING.fullmatch(part):
            heading, lead = frozenset(stems(found["text"] or found["underlined"])), frozenset[str]()
            yield Paragraph(path, heading)
        elif ITEM.match(part):
            yield Paragraph(path, own, heading | lead)
        elif ROW.fullmatch(part):
            header = header or own
            yield Paragraph(path, own, heading | header)
            continue
        else:
            is_opening = not part.rstrip().endswith(
                (".", "!", "?")
            )  # what is a sentence of its own opens no list
            lead = own if is_opening else frozenset[str]()
            yield Paragraph(path, own, heading)
        header = frozenset()


def _list_parts(text: str) -> Iterator[str]:
    """Yield paragraphs, headings, items of lists and rows of tables as they are written."""
    for block in BLANK_LINE.split(text):
        part: list[str] = []
        for line in block.strip("\n").splitlines():
            is_new = ITEM.match(line) or ROW.fullmatch(line) or HEADING.fullmatch(line)
            is_complete = len(part) <= 2 and HEADING.fullmatch("\n".join(part))
            if part and (is_new or is_complete or ROW.fullmatch(part[0])):
                yield "\n".join(part)
                part = []
            if not RULER.fullmatch(line):
                part.append(line)
        if part:
            yield "\n".join(part)


def _drop_drawings(text: str) -> str:
    """Return a text without the fenced blocks that draw boxes: their labels say nothing."""
    lines = text.splitlines()
    kept: list[str] = []
    blocks = groupby(
        zip(lines, unfenced_lines(lines), strict=True), lambda pair: pair[0] != pair[1]
    )
    for is_fenced, pairs in blocks:
        block = [line for line, _ in pairs]
        if not (is_fenced and any(map(DRAWN.search, block))):
            kept += block
    return "\n".join(kept)


def find_told(title: str, paragraphs: Iterable[Paragraph]) -> str | None:
    """Return the path of the first paragraph that holds all identifiers of a title and most of its words.

    Words that it only stands under count for half of those at most: a heading alone tells no more than a subject.
    """
    claimed = stems(title)
    named = stems(
        " ".join(word for word in title.split() if any(True for _ in identifier_parts(word)))
    )
    if len(claimed) < MIN_WORDS:
        return None
    needed = (LEAST_TOLD if named else LEAST_UNNAMED) * len(claimed)
    for paragraph in paragraphs:
        whole = paragraph.stems | paragraph.context
        is_own = 2 * len(claimed & paragraph.stems) >= needed
        if named <= whole and is_own and len(claimed & whole) >= needed:
            return paragraph.path
    return None


# -- A learning cites words that somebody said, exactly, and enough of them.

QUOTABLE = frozenset({"T0", "T1"})
MIN_QUOTED = 3
MIN_LENGTH = (
    15  # A quote of fewer words and fewer characters than these proves nothing: "yes", "the pool".
)
# What stands in a piece because we put it there, a mask or the mark of a cut: nobody said it.
OURS = re.compile(rf"{MASK.pattern}|\[\N{{HORIZONTAL ELLIPSIS}}[^\]\n]*\]")
# A word, or one character of a script that is written without blanks.
WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3][\w'/.-]*"
)


def find_ungrounded(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why the quotes of `learning` do not prove it: none, of unknown evidence, not exact, of untrusted words, or short.
    What our own rules quote may be short, for it stands behind a mark."""
    if not learning.quotes:
        return "no-quote"
    for quote in learning.quotes:
        piece = pieces.get(quote.evidence)
        if piece is None:
            return "unknown-evidence"
        if not quote.text.strip() or not (
            quote.text in piece.text or _folded(quote.text) in _folded(piece.text)
        ):
            return "quote-not-found"
        if piece.trust not in QUOTABLE:
            return "untrusted-quote"
    said = [OURS.sub(" ", quote.text) for quote in learning.quotes if not learning.is_by_rule]
    is_short = any(
        len(" ".join(one.split())) < MIN_LENGTH and len(WORD.findall(one)) < MIN_QUOTED
        for one in said
    )
    return "quote-too-short" if is_short else None


def _folded(text: str) -> str:
    """A run of white space is one blank, and accents are composed (NFC); all else counts character for character."""
    return " ".join(unicodedata.normalize("NFC", text).split())
