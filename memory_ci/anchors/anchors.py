"""Anchors: written, read, and made from the text they speak about (docs/anchors.md)."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.symbols import Definition, find_around, find_definition, find_named, tail_of
from memory_ci.anchors.words import BACK, BLANK, DEEPER, Said, read_code
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry

HASH_WIDTH = 12
PATH = r"(?!\.{0,2}/)[^\n\r\0\ud800-\udfff]+"  # As git lists it; one that leads out of the tree makes git end at once.
WRITTEN = re.compile(
    rf"(?P<path>{PATH}?)(?::(?:-|(?P<first>[1-9]\d{{0,8}})(?:-(?P<last>[1-9]\d{{0,8}}))?))?"
    r"@(?P<commit>[0-9a-f]{7,64})(?: +symbol:(?P<symbol>[^\s@]+))?"
    r"(?: +(?P<by>words|text):(?P<text>[0-9a-f]{8,64}))?"
)
"""`path[:first[-last]]@commit [symbol:NAME] [words:HASH]`, in old ones `text:HASH`. After the last `@` is none,
so that a path may."""

LAYOUT = ",;()\\"  # What formatters add and drop when they wrap and join lines.
FOLDED = str.maketrans("'`", '""', LAYOUT)
LOOKS_CUT = re.compile(
    r":(?:-|[1-9]\d{0,8}(?:-[1-9]\d{0,8})?)$"
)  # Would be read as lines: `:-` is written behind it.


def parse_anchor(cite: str) -> Anchor | None:
    """The anchor that a cite writes, or None: a cite may be anything. A path is as git lists it: not absolute, not
    relative to a directory, in one line."""
    match = WRITTEN.fullmatch(cite)
    if match is None:
        return None
    path, begin, end, commit, symbol, by, text = match.groups()
    first = int(begin) if begin else None
    last = int(end) if end else first
    if first is not None and last is not None and last < first:
        return None
    lines = {"first": first, "last": last}
    return Anchor(
        path=path, commit=commit, **lines, symbol=symbol, text=text, is_by_words=by == "words"
    )


def is_citable(path: str) -> bool:
    """Whether an anchor can name this file."""
    return re.fullmatch(PATH, path) is not None


def may_hide(anchor: Anchor, entry: Entry) -> bool:
    """Whether an entry is to be hidden once this anchor is gone: not if the anchor is a guess, for the entry does not
    name what it cites (a definition, a file with or without the extension), nor if the entry is about a rejected
    approach: that its code is gone is what it says."""
    name = anchor.path.rpartition("/")[2]
    names = {name, name.partition(".")[0], tail_of(anchor.symbol or "")} - {""}
    prose = entry.text
    is_named = any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", prose) for one in names)
    return entry.adoption != "rejected" and is_named


def format_anchor(anchor: Anchor) -> str:
    """The inverse of parse_anchor; a single line is written once, as people cite it."""
    end = f"-{anchor.last}" if anchor.last != anchor.first else ""
    lines = (
        f":{anchor.first}{end}"
        if anchor.first is not None
        else ":-"
        if LOOKS_CUT.search(anchor.path)
        else ""
    )
    symbol = f" symbol:{anchor.symbol}" if anchor.symbol else ""
    text = f" {'words' if anchor.is_by_words else 'text'}:{anchor.text}" if anchor.text else ""
    return f"{anchor.path}{lines}@{anchor.commit}{symbol}{text}"


def fold(text: str) -> str:
    """`text` as it is whoever formatted it: no white space, no LAYOUT, one kind of quote. Folding lines and joining
    them is folding the text: where it is broken does not matter."""
    return "".join(text.split()).translate(FOLDED)


def cut_lines(text: str, lines: tuple[int, int] | None) -> str:
    """The lines first to last of `text`, or all of it. Lines end where git ends them: at a line feed."""
    return text if lines is None else "\n".join(text.split("\n")[lines[0] - 1 : lines[1]])


def has_hash(anchor: Anchor, said: Said, text: str) -> bool:
    """Whether the hash of an anchor is that of these words, or in an anchor of old that of this text, folded."""
    own = _hash("\0".join(said.words)) if anchor.is_by_words else _hash(fold(text))
    return anchor.text is not None and own.startswith(anchor.text)


def _hash(text: str) -> str:
    """SHA-256 of a text as UTF-8, in hex; anchors carry its first twelve digits."""
    import hashlib  # not at the top: 4 ms that a reader of fresh anchors need not pay

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_anchor(
    path: str,
    text: str,
    commit: str,
    lines: tuple[int, int] | None = None,
    symbol: str | None = None,
) -> Anchor:
    """The anchor of a file whose text at `commit` is `text`: of lines, of a definition (with its lines), or whole."""
    first, last = lines or (None, None)
    bare = Anchor(path=path, commit=commit, first=first, last=last, symbol=symbol)
    subject = find_subject(bare, text)
    if subject is None or not subject.said.words:
        return bare
    named = subject.definition if not subject.is_part else None
    first, last = (named.first, named.last) if named and not lines else (first, last)
    cited = named.name if named else symbol if lines else None
    text_hash = _hash("\0".join(subject.said.words))[:HASH_WIDTH]
    return replace(bare, first=first, last=last, symbol=cited, text=text_hash, is_by_words=True)


def enrich_anchor(anchor: Anchor, text: str, prose: str) -> Anchor:
    """An anchor with its hash; where it cites a whole file and `prose` names a definition in it, of that definition."""
    if anchor.text is not None:
        return anchor
    lines = lines_of(anchor)
    named = (
        find_named(anchor.path, text, prose) if lines is None and anchor.symbol is None else None
    )
    return make_anchor(
        anchor.path, text, anchor.commit, lines, named.name if named else anchor.symbol
    )


Lines = tuple[int, int]  # The first and the last line of a place, 1-based, both included.
TELLING = 8  # Fewer words stand in many places: they are looked for in their own only.


class Subject(NamedTuple):
    """What an anchor cites in the text of its commit. `definition` is what it cites, or (`is_part`) what the cited
    lines stand in; None for lines of no definition and for a whole file. `said` are the cited words, those of a text
    that is read as `path`: as prose if it is ""."""

    definition: Definition | None
    is_part: bool
    lines: Lines | None
    said: Said
    path: str

    @property
    def is_telling(self) -> bool:
        return len(self.said.words) >= TELLING


def find_subject(anchor: Anchor, text: str) -> Subject | None:
    """What an anchor cites in `text`; None if that says nothing."""
    path, lines = anchor.path, lines_of(anchor)
    around, is_all = find_around(path, text, lines) if lines else (None, False)
    if is_all and around and anchor.symbol in (None, around.name):
        return Subject(around, False, lines, say_definition(path, text, around), path)
    named = find_definition(path, text, anchor.symbol) if anchor.symbol else None
    if named is not None:
        return Subject(
            named, False, (named.first, named.last), say_definition(path, text, named), path
        )
    if lines is None:
        return Subject(None, False, None, read_code(path, text).say_all(), path)
    if around and is_all:
        return Subject(around, False, lines, say_definition(path, text, around), path)
    said = cut_words(
        say_definition(path, text, around) if around else read_code(path, text).say_all(), lines
    )
    if said.words:
        return Subject(around, True, lines, said, path)
    said = cut_words(read_code("", text).say_all(), lines)
    return Subject(None, True, lines, said, "") if said.words else None


def lines_of(place: Anchor | Verdict) -> Lines | None:
    return (place.first, place.last) if place.first is not None and place.last is not None else None


def say_definition(path: str, text: str, definition: Definition) -> Said:
    """The words of a definition, of all its parts one after the other."""
    code = read_code(path, text)
    return join_words([code.say(*span) for span in definition.spans])


def join_words(parts: list[Said]) -> Said:
    if len(parts) == 1:
        return parts[0]
    return Said(
        tuple(word for one in parts for word in one.words),
        tuple(row for one in parts for row in one.rows),
    )


def cut_words(said: Said, lines: Lines) -> Said:
    """The words of these rows, with the ends of the blocks that begin in them."""
    rows = [at for at, row in enumerate(said.rows) if lines[0] <= row <= lines[1]]
    if not rows:
        return Said((), ())
    start, stop = rows[0], rows[-1] + 1
    depth = sum((word == DEEPER) - (word == BACK) for word in said.words[start:stop])
    while depth > 0 and said.words[stop : stop + 1] == (BACK,):
        stop, depth = stop + 1, depth - 1
    start -= said.words[start - 1 : start] == (BLANK,)
    stop += said.words[stop : stop + 1] == (BLANK,)
    while stop > start + 1 and said.words[stop - 1] == ",":
        stop -= 1
    return Said(said.words[start:stop], said.rows[start:stop])
