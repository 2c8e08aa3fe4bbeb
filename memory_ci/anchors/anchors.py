"""Parse, format and make anchors: places of code at a commit, with a hash of their words.

See docs/serving.md#anchors.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.symbols import (
    Definition,
    find_definition,
    find_enclosing,
    find_mentioned_definition,
    strip_owners,
)
from memory_ci.anchors.words import DEDENT, INDENT, PARAGRAPH, Tokens, read_code
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex

HASH_WIDTH = 12  # Hexadecimal digits of the hash that a new anchor has.

# A path as git lists it; for a path that leads out of the tree git ends with an error.
PATH = r"(?!\.{0,2}/)[^\n\r\0\ud800-\udfff]+"
LINE_NUMBER = r"[1-9]\d{0,8}"
CITE = Regex(
    rf"(?P<path>{PATH}?)(?::(?:-|(?P<first>{LINE_NUMBER})(?:-(?P<last>{LINE_NUMBER}))?))?"
    r"@(?P<commit>[0-9a-f]{7,64})(?: +symbol:(?P<symbol>[^\s@]+))?"
    r"(?: +(?P<by>words|text):(?P<digest>[0-9a-f]{8,64}))?"
)
"""`path[:first[-last]]@commit [symbol:NAME] [words:HASH]`; old anchors have `text:HASH`.

No `@` comes after the one before the commit. So a path may contain some.
"""

# The end of a path that looks like cited lines: `:3`, `:3-9`, `:-`.
LINES_AT_END = Regex(rf":(?:-|{LINE_NUMBER}(?:-{LINE_NUMBER})?)$")
# Characters that formatters add and drop when they wrap and join lines.
LAYOUT_CHARACTERS = ",;()\\"
# Drops these characters, and makes all quotes double quotes.
FOLD_LAYOUT = str.maketrans("'`", '""', LAYOUT_CHARACTERS)

Lines = tuple[int, int]
"""The first and the last line of a place, 1-based, both included."""

MIN_DISTINCTIVE_WORDS = 8
"""Fewer words occur in many places: they are searched for in their own place only."""


class Subject(NamedTuple):
    """The part of a text that an anchor cites.

    Attributes:
        definition: the cited definition or, if `is_line_range`, that around the cited lines; None
            for a whole file and for lines outside of definitions.
        is_line_range: whether lines are cited that are not a whole definition.
        lines: the cited lines; None for a whole file.
        tokens: the cited words.
        path: the path by which the text was read; "" if it was read as prose.
    """

    definition: Definition | None
    is_line_range: bool
    lines: Lines | None
    tokens: Tokens
    path: str

    @property
    def is_distinctive(self) -> bool:
        """Whether the cited words are enough to be recognised elsewhere."""
        return len(self.tokens.words) >= MIN_DISTINCTIVE_WORDS


def parse_anchor(cite: str) -> Anchor | None:
    """Parse a cite such as `src/a.py:3-9@1a2b3c4 symbol:f words:0123456789ab`; None for other text.

    A cite names a file (`src/a.py`), lines of it (`:3-9`), the commit at which it was written, the
    definition (`symbol:f`) and a hash of the words there. The path must be as git lists it: from
    the root of the repository, without a leading `/` or `./`.
    """
    match = CITE.fullmatch(cite)
    if match is None:
        return None
    first = int(match["first"]) if match["first"] else None
    last = int(match["last"]) if match["last"] else first
    if first is not None and last is not None and last < first:
        return None
    return Anchor(
        path=match["path"],
        commit=match["commit"],
        first=first,
        last=last,
        symbol=match["symbol"],
        digest=match["digest"],
        is_word_digest=match["by"] == "words",
    )


def is_citable(path: str) -> bool:
    """Return whether an anchor can name this file."""
    return re.fullmatch(PATH, path) is not None


def may_hide(anchor: Anchor, entry: Entry) -> bool:
    """Return whether an entry of memory is hidden once the code that it cites is gone.

    It is hidden if its text names the cited definition or the file, with or without its extension;
    else the anchor is a guess. An entry about a rejected approach is not hidden, because it may say
    that the code is gone.
    """
    if entry.adoption == "rejected":
        return False
    file_name = anchor.path.rpartition("/")[2]
    stem = file_name.partition(".")[0]
    symbol = strip_owners(anchor.symbol or "")
    for name in (file_name, stem, symbol):
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", entry.text):
            return True
    return False


def format_anchor(anchor: Anchor) -> str:
    """Format an anchor as a cite, `path:first-last@commit …`; the inverse of parse_anchor.

    A single line is written once, as people cite it. An anchor without lines whose path itself ends
    like lines (`a:3`) gets `:-` for them, so that the path is read as a whole.
    """
    lines = ""
    if anchor.first is not None:
        lines = f":{anchor.first}"
        if anchor.last != anchor.first:
            lines += f"-{anchor.last}"
    elif LINES_AT_END.search(anchor.path):
        lines = ":-"  # For "no lines".

    cite = f"{anchor.path}{lines}@{anchor.commit}"
    if anchor.symbol:
        cite += f" symbol:{anchor.symbol}"
    if anchor.digest:
        kind = "words" if anchor.is_word_digest else "text"
        cite += f" {kind}:{anchor.digest}"
    return cite


def strip_layout(text: str) -> str:
    """Return a text without white space and LAYOUT_CHARACTERS, with one kind of quotes.

    Stripped lines joined are the stripped text, wherever its lines are broken.
    """
    return "".join(text.split()).translate(FOLD_LAYOUT)


def cut_lines(text: str, lines: Lines | None) -> str:
    """Return these lines of a text, or all of it. A line ends where git ends it: at a line feed."""
    if lines is None:
        return text
    first, last = lines
    return "\n".join(text.split("\n")[first - 1 : last])


def has_hash(anchor: Anchor, tokens: Tokens, text: str) -> bool:
    """Return whether an anchor has the hash of a place of code.

    Args:
        anchor: the anchor.
        tokens: the words of the place.
        text: its text, whose hash anchors of older versions have.
    """
    if anchor.digest is None:
        return False
    digest = _hash_words(tokens) if anchor.is_word_digest else _hash_text(strip_layout(text))
    return digest.startswith(anchor.digest)


def _hash_words(tokens: Tokens) -> str:
    return _hash_text("\0".join(tokens.words))


def _hash_text(text: str) -> str:
    """Return the SHA-256 of a text as UTF-8, in hexadecimal digits."""
    import hashlib  # Not at the top: it takes 4 ms, and fresh anchors need no hash.

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_anchor(
    path: str,
    text: str,
    commit: str,
    lines: Lines | None = None,
    symbol: str | None = None,
) -> Anchor:
    """Make an anchor of a place of code, with the hash of its words.

    An anchor of a whole definition has its name, and its lines unless other `lines` are passed. An
    anchor of a whole file has neither. An anchor of other lines keeps the `symbol` that is passed.
    Text without words has no hash: its anchor has only the values that are passed.

    Args:
        path: the path of the cited file.
        text: its text at `commit`.
        commit: the commit at which it is cited.
        lines: the cited lines; without them a definition or the whole file is cited.
        symbol: the name of the cited definition.
    """
    first, last = lines or (None, None)
    without_hash = Anchor(path=path, commit=commit, first=first, last=last, symbol=symbol)
    subject = find_subject(without_hash, text)
    if subject is None or not subject.tokens.words:
        return without_hash

    with_hash = replace(
        without_hash, digest=_hash_words(subject.tokens)[:HASH_WIDTH], is_word_digest=True
    )
    definition = None if subject.is_line_range else subject.definition
    if definition is None:  # Lines outside of definitions, or inside of one, or the whole file.
        return with_hash if lines else replace(with_hash, symbol=None)
    if lines is None:
        with_hash = replace(with_hash, first=definition.first, last=definition.last)
    return replace(with_hash, symbol=definition.name)


def enrich_anchor(anchor: Anchor, text: str, prose: str) -> Anchor:
    """Add the hash of its words to an anchor that has none.

    If it cites a whole file and `prose` names a definition in it, that definition is cited instead.

    Args:
        anchor: an anchor, with or without a hash.
        text: the text of its file at its commit.
        prose: the text of its entry.
    """
    if anchor.digest is not None:
        return anchor
    lines = get_lines(anchor)
    symbol = anchor.symbol
    if lines is None and symbol is None:
        mentioned = find_mentioned_definition(anchor.path, text, prose)
        symbol = mentioned.name if mentioned else None
    return make_anchor(anchor.path, text, anchor.commit, lines, symbol)


def find_subject(anchor: Anchor, text: str) -> Subject | None:
    """Return the part of a file that an anchor cites; None if that part has no words.

    The part is the first of these that exists:

    1. the definition whose lines are all cited, if the anchor has its name or no name;
    2. the definition with the name that the anchor has;
    3. the whole file, if the anchor has no lines;
    4. the definition whose lines are all cited, whatever its name;
    5. the cited lines.

    Args:
        anchor: the anchor.
        text: the text of the file.
    """
    path = anchor.path
    lines = get_lines(anchor)
    enclosing = find_enclosing(path, text, lines) if lines else None
    cited_whole = enclosing.definition if enclosing and enclosing.is_whole else None
    if cited_whole and lines and anchor.symbol in (None, cited_whole.name):
        return _cite_definition(path, text, cited_whole, lines)
    named_definition = find_definition(path, text, anchor.symbol) if anchor.symbol else None
    if named_definition is not None:
        return _cite_definition(
            path, text, named_definition, (named_definition.first, named_definition.last)
        )
    if lines is None:
        tokens = read_code(path, text).normalize_all()
        return Subject(definition=None, is_line_range=False, lines=None, tokens=tokens, path=path)
    if cited_whole:
        return _cite_definition(path, text, cited_whole, lines)
    return _find_cited_lines(path, text, lines, enclosing.definition if enclosing else None)


def _cite_definition(path: str, text: str, definition: Definition, lines: Lines) -> Subject:
    """Return a whole definition of a file as a subject, cited by its lines."""
    tokens = normalize_definition(path, text, definition)
    return Subject(
        definition=definition, is_line_range=False, lines=lines, tokens=tokens, path=path
    )


def _find_cited_lines(
    path: str, text: str, lines: Lines, enclosing: Definition | None
) -> Subject | None:
    """Return lines that are not a whole definition as a subject; None if they have no words.

    Lines without words of the language, such as a comment, are read as prose: then the subject has
    no path, whose extension would make it code.

    Args:
        path: the path of the file.
        text: its text.
        lines: the lines.
        enclosing: the innermost definition around them.
    """
    tokens = read_code(path, text).normalize_all()
    if enclosing:
        tokens = normalize_definition(path, text, enclosing)
    cited_tokens = cut_tokens(tokens, lines)
    if cited_tokens.words:
        return Subject(
            definition=enclosing, is_line_range=True, lines=lines, tokens=cited_tokens, path=path
        )
    prose_tokens = cut_tokens(read_code("", text).normalize_all(), lines)
    if prose_tokens.words:
        return Subject(
            definition=None, is_line_range=True, lines=lines, tokens=prose_tokens, path=""
        )
    return None


def get_lines(anchor_or_verdict: Anchor | Verdict) -> Lines | None:
    """Return the first and the last line of a place; None for a whole file."""
    if anchor_or_verdict.first is None or anchor_or_verdict.last is None:
        return None
    return anchor_or_verdict.first, anchor_or_verdict.last


def normalize_definition(path: str, text: str, definition: Definition) -> Tokens:
    """Return the tokens of a definition, normalized so that two versions can be compared.

    A definition may have several spans of words (such as overloads); their tokens are joined.
    """
    code = read_code(path, text)
    return join_tokens([code.normalize(start, stop) for start, stop in definition.spans])


def join_tokens(parts: list[Tokens]) -> Tokens:
    """Join several sequences of tokens to one."""
    if len(parts) == 1:
        return parts[0]
    words: list[str] = []
    rows: list[int] = []
    for part in parts:
        words += part.words
        rows += part.rows
    return Tokens(tuple(words), tuple(rows))


def cut_tokens(tokens: Tokens, lines: Lines) -> Tokens:
    """Return the tokens in some lines, as if the text consisted of these lines alone.

    The tokens for the end of a block and for a new paragraph have no line of their own. They are
    included if their block or paragraph is in the lines. Commas at the end are left out.
    """
    first, last = lines
    words = tokens.words
    indices = [index for index, row in enumerate(tokens.rows) if first <= row <= last]
    if not indices:
        return Tokens((), ())

    start = indices[0]
    stop = indices[-1] + 1
    cited_words = words[start:stop]
    open_block_count = cited_words.count(INDENT) - cited_words.count(DEDENT)
    while open_block_count > 0 and stop < len(words) and words[stop] == DEDENT:
        stop += 1
        open_block_count -= 1
    if start > 0 and words[start - 1] == PARAGRAPH:
        start -= 1
    if stop < len(words) and words[stop] == PARAGRAPH:
        stop += 1
    while stop > start + 1 and words[stop - 1] == ",":
        stop -= 1
    return Tokens(words[start:stop], tokens.rows[start:stop])
