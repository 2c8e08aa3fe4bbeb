"""The look of text at a terminal: lines folded to its width, colour by what a word is, bars, lines of files.

Text is made without any of it and means the same without: what is piped is neither folded nor cut nor coloured.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from memory_ci.findings import printable
from memory_ci.records.report import Finding
from memory_ci.text import unfenced_lines

if TYPE_CHECKING:
    from memory_ci.records.entry import Located
    from memory_ci.records.episode import UseCount

RED, GREEN, YELLOW, CYAN, BOLD, DIM = "31", "32", "33", "36", "1", "2"
LOOKS = (
    (r"^(?:Error|error|fail|refused)\b", f"{BOLD};{RED}"),
    (r"^(?:Warning|warning|warn)\b", YELLOW),
    (r"^(?:Hint|Note|More|help)(?=:)|^ *->", CYAN),
    (r"^ok(?= )", GREEN),
    (r"^(?:skip|out)(?= )", DIM),
    (r"(?<= of 100, )green|█+", GREEN),
    (r"(?<= of 100, )yellow", YELLOW),
    (r"(?<= of 100, )red", RED),
    (
        r"(?<![\w/.-])[\w./-]*\.\w+:\d+(?::\d+|-\d+)?(?![\w-])",
        BOLD,
    ),  # path:line, which terminals open
    (
        r"(?<![\w/.+:-])[0-9a-f]{8}(?![\w-])",
        YELLOW,
    ),  # an id, in the colour that git has for its own
    (r"`[^`\n]+`", CYAN),
    (r"░+|^ *\d* \|(?= |$)", DIM),
    (r"(?<!\^)\^+$", f"{BOLD};{RED}"),
    (r"\[[a-z]+(?:-[a-z]+)+\]$", DIM),
)
PAINT = re.compile("|".join(f"({pattern})" for pattern, _ in LOOKS), re.MULTILINE)
LEAD = re.compile(r"[\s│├└─>]*(?:-> |[-*-] |\d+\. )?")
WORD = re.compile(r"(?:`[^`]{1,60}`|\S)+")  # What backticks quote is one.
CELL = re.compile(r"\S  +(?=\S)")
COMMAND = re.compile(r"(?:^\s*(?:-> )?(?:memory-ci|git|gh)|: (?:git|gh)) \w")
"""Where a line has a command to copy, which a line break would break."""

BLOCK = re.compile(r"#|>|<!--| *(?:[-*+]|\d+\.) ")
"""Where a line of Markdown begins a block of its own."""

EXCERPT = re.compile(r" *\d* \| ")
LITERAL = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
EDITED_SYMBOL = re.compile(r"`([^`]+)` (?:edited|removed) (?=in\b|here\b)")
"""The definition that a finding on cited code names, as `CodeEdit` writes it."""

NARROWEST = 40
FAR = 60  # Columns of a line of a file before what is meant, of which half are shown.


def paint(text: str) -> str:
    """`text` with the colours of what stands in it; without them it is the same."""
    return PAINT.sub(
        lambda found: f"\x1b[{LOOKS[(found.lastindex or 1) - 1][1]}m{found[0]}\x1b[0m", text
    )


def fold(text: str, width: int) -> str:
    r"""Lines of at most `width` columns, broken between words; what goes on stands below the last column it began in.

    A word that is longer, such as a path, stays whole: terminals open it. So does a command, which is copied.

    >>> fold("truth  100.0  fresh 100%, marked 0%, withheld 0%, unanchored 0%\n", 44)
    'truth  100.0  fresh 100%, marked 0%,\n              withheld 0%, unanchored 0%\n'
    """
    return "".join(
        f"{part}\n" for line in text.splitlines() for part in _parts(line, max(width, NARROWEST))
    )


def _parts(line: str, width: int) -> Iterable[str]:
    cells = [found.end() for found in CELL.finditer(line) if found.end() <= width * 0.6]
    if columns(line) <= width or (COMMAND.search(line) and not cells):
        return [line]
    return (
        [cut(line, width)] if EXCERPT.match(line) else _wrapped(line, max(cells, default=0), width)
    )


def _wrapped(line: str, indent: int, width: int) -> Iterator[str]:
    """`line` in parts; what goes on stands below column `indent`, and not before what leads the line."""
    head = line[: max(indent, LEAD.match(line).end())]  # type: ignore[union-attr] # it always matches
    shown, is_empty = head, True
    for word in WORD.findall(line[len(head) :]):
        if not is_empty and columns(f"{shown}{word}") > width:
            yield shown.rstrip()
            shown = " " * columns(head)
        shown, is_empty = f"{shown}{word} ", False
    yield shown.rstrip()


def fold_markdown(text: str, width: int) -> str:
    r"""A page of Markdown in `width` columns: prose and items are folded, a row of a table is an item, code stays.

    >>> fold_markdown("Prose that\ngoes on.\n\n| key | default |\n|---|---|\n| `a` | 1 |\n", 80)
    'Prose that goes on.\n\nkey: default\n- `a`: 1\n'
    """
    width = max(width, NARROWEST)
    parts = (
        part
        for line, is_code in _blocks(text)
        for part in ([line] if is_code else _wrapped(line, 0, width))
    )
    return "".join(f"{part}\n" for part in parts)


def _blocks(text: str) -> list[tuple[str, bool]]:
    """Each paragraph, item, row and empty line of Markdown as one line, each line of code, and whether it is code."""
    blocks: list[tuple[str, bool]] = []
    goes_on, lines = False, text.splitlines()
    for line, bare in zip(lines, unfenced_lines(lines), strict=True):
        is_code = bare != line or (
            bare.startswith("    ") and not goes_on
        )  # in a fence, or indented
        if bare.startswith("|"):
            row = _row_as_item(bare, is_head=not (blocks and blocks[-1][0]))
            blocks += [(row, False)] if row else []
            goes_on = False
        elif goes_on and not is_code and bare.strip() and not BLOCK.match(bare):
            blocks[-1] = (f"{blocks[-1][0]} {bare.strip()}", False)
        else:
            blocks.append((line, is_code))
            goes_on = not is_code and bool(bare.strip()) and not bare.startswith("#")
    return blocks


def _row_as_item(row: str, *, is_head: bool) -> str:
    """`- first: second | third`; nothing for the line below the names of the columns.

    >>> _row_as_item("| `push` | one push | write |", is_head=False), _row_as_item("|---|---|", is_head=False)
    ('- `push`: one push | write', '')
    """
    first, *rest = (
        cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))
    )
    if not first.strip("-: ") and not "".join(rest).strip("-: "):
        return ""
    return f"{'' if is_head else '- '}{first}{': ' if first and rest else ''}{' | '.join(rest)}"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for each wide letter, none for an accent of its own."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with an ellipsis for what is left out."""
    if columns(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while columns(kept) > max(width - 1, 0):
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def render_rows(rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """A line a row, its cells in columns; cut to `width`, if that is given."""
    sizes = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    sizes[-1:] = [0]
    lines = (
        "  ".join(
            f"{cell}{' ' * (size - columns(cell))}" for cell, size in zip(row, sizes, strict=True)
        ).rstrip()
        for row in rows
    )
    return "".join(f"{cut(line, width) if width else line}\n" for line in lines)


def render_entries(
    ranked: Sequence[tuple[float, Located]], usage: Mapping[str, UseCount], width: int = 0
) -> str:
    """A line an entry: id, prominence, `used/given` where any was given, type, scope, title. With a `width`, at a
    terminal, the columns have names, and each entry is one line."""
    ids = short_ids(place.entry.id for _, place in ranked)
    heads = (
        [("id", "score", *(["used/given"] if usage else []), "type", "scope", "title")]
        if width and ranked
        else []
    )
    rows = [
        (
            ids[place.entry.id],
            f"{value:.2f}",
            *(
                [f"{one.used}/{one.given}" if (one := usage.get(place.entry.id)) else ""]
                if usage
                else []
            ),
            place.entry.type,
            place.scope.target,
            f"{'' if place.entry.status == 'active' else f'({place.entry.status}) '}{place.entry.title}",
        )
        for value, place in ranked
    ]
    return render_rows([*heads, *([printable(cell) for cell in row] for row in rows)], width)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id by so much of its start as tells all of them apart, 8 characters at least."""
    known = set(ids)
    size = next(
        (size for size in range(8, 36) if len({one[:size] for one in known}) == len(known)), 36
    )
    return {one: one[:size] for one in known}


def render_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV (RFC 4180), of which no text is a formula to a spreadsheet: an apostrophe stands before one."""
    text = StringIO()
    for row in (head, *rows):
        cells = (printable(cell) if isinstance(cell, str) else cell for cell in row)
        csv.writer(text).writerow(
            re.sub(r"^(?=[=+@-])", "'", one) if isinstance(one, str) else one for one in cells
        )
    return text.getvalue()


def render_excerpt(
    line: int, source: str, said: str, symbols: Sequence[str] | None = None
) -> tuple[str, int]:
    """Return a line of a file with carets below what is meant, and the column (from 1) where that begins.

    Args:
        line: the number of the line.
        source: the line.
        said: a message, whose words tell what is meant.
        symbols: names of definitions of which one is meant, instead of what `said` tells.
    """
    shown = printable(source.expandtabs(4).rstrip())
    first, last = _focus(shown, said) if symbols is None else _find_symbol(shown, symbols)
    column = first + 1
    if first > FAR:
        shown, first, last = (
            f"…{shown[first - FAR // 2 :]}",
            FAR // 2 + 1,
            last - first + FAR // 2 + 1,
        )
    gutter = " " * len(str(line))
    marks = f"{' ' * columns(shown[:first])}{'^' * max(columns(shown[first:last]), 1)}"
    return f"{gutter} |\n{line} | {shown}\n{gutter} | {marks}\n", column


def _focus(source: str, said: str) -> tuple[int, int]:
    """Where the words stand that a message quotes, else the key that it names, else all of the line."""
    quoted = [found[2] for found in re.finditer(r"(['\"`])(.+?)\1", said)]
    keys = [f"{word}:" for word in re.findall(r"\w+", said)]
    for word in (*quoted, *(one.rpartition(".")[2] for one in quoted), *keys):
        if word and (at := source.find(word)) >= 0:
            return at, at + len(word.rstrip(":"))
    return _find_text(source)


def _find_symbol(source: str, symbols: Iterable[str]) -> tuple[int, int]:
    """Return where the last part of a symbol stands as a name, outside of literals; else all of the line."""
    code = LITERAL.sub(lambda literal: " " * len(literal[0]), source)
    for symbol in symbols:
        name = symbol.rpartition(".")[2]
        if found := re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", code):
            return found.span()
    return _find_text(source)


def _find_text(source: str) -> tuple[int, int]:
    return len(source) - len(source.lstrip()), len(source)


def render_finding_block(finding: Finding, source: str | None) -> str:
    """A finding as ruff shows one: `FILE:LINE:COLUMN: code message`, the line itself, and what to do."""
    message, hint = (
        printable(finding.message),
        f"help: {printable(finding.hint)}\n" if finding.hint else "",
    )
    level = "" if finding.level == "error" else f" ({finding.level})"
    symbols = EDITED_SYMBOL.findall(finding.message) if finding.code.startswith("anchor-") else None
    excerpt, column = (
        render_excerpt(finding.line, source, finding.message, symbols) if source else ("", 1)
    )
    place = f"{printable(finding.path)}:{finding.line}:{column}"
    return f"{place}: {finding.code}{level} {message}\n{excerpt}{hint}\n"


BLOCKS = str.maketrans({"█": "#", "░": "-", "…": ".", "·": ","})
"""What stands for them where a stream has no Unicode."""


def bar(share: float, width: int = 10) -> str:
    """A share of 1 as a bar.

    >>> bar(0.5, 4)
    '██░░'
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)
