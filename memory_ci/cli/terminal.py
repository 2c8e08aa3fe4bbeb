"""Layout of text at a terminal: folding, colours, columns, bars, and excerpts of files.

Output to a pipe is neither folded nor cut nor coloured, and says the same.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from memory_ci.findings import printable
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

if TYPE_CHECKING:
    from memory_ci.records.entry import Located
    from memory_ci.records.episode import UseCount

RED = "31"
GREEN = "32"
YELLOW = "33"
CYAN = "36"
BOLD = "1"
DIM = "2"
LOOKS = (
    (r"^(?:Error|error|fail|refused)\b", f"{BOLD};{RED}"),
    (r"^(?:Warning|warning|warn)\b", YELLOW),
    (r"^(?:Hint|Note|More|help)(?=:)|^ *->", CYAN),
    (r"^ok(?= )", GREEN),
    (r"^(?:skip|out)(?= )", DIM),
    (r"█+", GREEN),
    # path:line, which terminals open
    (r"(?<![\w/.-])[\w./-]*\.\w+:\d+(?::\d+|-\d+)?(?![\w-])", BOLD),
    # an id, in the colour that git uses for its own
    (r"(?<![\w/.+:-])[0-9a-f]{8}(?![\w-])", YELLOW),
    (r"`[^`\n]+`", CYAN),
    (r"░+|^ *\d* \|(?= |$)", DIM),
    (r"(?<!\^)\^+$", f"{BOLD};{RED}"),
    (r"\[[a-z]+(?:-[a-z]+)+\]$", DIM),
)
PAINT = Regex("|".join(f"({pattern})" for pattern, _ in LOOKS), re.MULTILINE)
HELP_STYLES = {"heading": f"{BOLD};{GREEN}", "example": DIM, "name": f"{BOLD};{CYAN}"}
HELP_STYLES |= {"flag": f"{BOLD};{CYAN}", "code": CYAN}
HELP_PAINT = Regex(
    r"(?P<heading>^(?:[A-Z][A-Za-z ]+| +Example):(?= |$))"
    r"|(?P<example>(?<=^    )(?:memory-ci|git|GITHUB_TOKEN).*$|(?<=  )\$ memory-ci .*$)"
    r"|(?P<name>(?<=^  )[a-z][a-z-]*(?=  +\S))"
    r"|(?P<flag>(?<![\w-])(?:-\w, )?--[a-z][\w-]*)"
    r"|(?P<code>`[^`\n]+`)",
    re.MULTILINE,
)
"""The parts of a page of help that have a colour of their own."""

# What a line begins with before its text: blanks, lines of a tree, a bullet or a number.
LEAD = Regex(r"[\s│├└─>]*(?:-> |[-*-] |\d+\. )?")
WORD = Regex(r"(?:`[^`]{1,60}`|\S)+")  # A quotation in backticks is one word.
# The gap before a cell of a table: two blanks or more, with the character before them.
CELL_GAP = Regex(r"\S  +(?=\S)")
COMMAND_LINE = Regex(r"(?:^\s*(?:-> )?(?:memory-ci|git|gh)|: (?:git|gh)) \w")
"""A command in a line, which somebody may copy; a line break would break it."""

BLOCK_START = Regex(r"#|>|<!--| *(?:[-*+]|\d+\.) ")
"""The start of a block in a line of Markdown."""

# A line of an excerpt of a file: `12 | text`.
EXCERPT_LINE = Regex(r" *\d* \| ")
LITERAL = Regex(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
EDITED_SYMBOL = Regex(r"`([^`]+)` (?:edited|removed) (?=in\b|here\b)")
"""The definition that a finding on cited code names, as `CodeEdit` writes it."""

NARROWEST = 40  # Columns to which lines are folded at a narrower terminal.
GAP = 2  # Blanks between two cells of a table.
LEAST_TITLE = 16  # Columns of a title at least, even if its line does not fit then.
READABLE_TITLE = 50  # Columns that are enough to read a title.
MAX_BEFORE = 60  # Characters before the marked part of a file's line. If there are more, half of
# these are shown.
MAX_INDENT_SHARE = 0.6  # Of the width: a continuation is not indented more. Chosen by hand.


def paint(text: str) -> str:
    """Return text with colours."""
    return PAINT.sub(_paint_match, text)


def _paint_match(match: re.Match[str]) -> str:
    _, style = LOOKS[(match.lastindex or 1) - 1]
    return f"\x1b[{style}m{match[0]}\x1b[0m"


def paint_help(text: str) -> str:
    """Return the help of a command with colours for headings, names, options and examples."""
    return HELP_PAINT.sub(_paint_help_match, text)


def _paint_help_match(match: re.Match[str]) -> str:
    name = match.lastgroup or ""
    return f"\x1b[{HELP_STYLES[name]}m{match[0]}\x1b[0m"


def fold(text: str, width: int) -> str:
    r"""Return text with lines folded between words to a width, and continuations indented.

    A continuation begins below the last column of a table in its line. Two things are not folded: a
    word longer than the width, such as a path, since terminals open a whole path by a click; and a
    line with a command, since people copy it.

    >>> fold("truth  100.0  fresh 100%, marked 0%, withheld 0%, unanchored 0%\n", 44)
    'truth  100.0  fresh 100%, marked 0%,\n              withheld 0%, unanchored 0%\n'
    """
    width = max(width, NARROWEST)
    parts: list[str] = []
    for line in text.splitlines():
        parts += _fold_line(line, width)
    return "".join(f"{part}\n" for part in parts)


def _fold_line(line: str, width: int) -> Iterable[str]:
    """Return the parts of a line that is folded to a width.

    A line with a command stays whole, unless it is a row of a table. A line of an excerpt of a file
    is cut off instead of folded.
    """
    max_indent = width * MAX_INDENT_SHARE
    all_starts = [gap.end() for gap in CELL_GAP.finditer(line)]
    cell_starts = [start for start in all_starts if start <= max_indent]
    is_command = COMMAND_LINE.search(line) is not None and not cell_starts
    if columns(line) <= width or is_command:
        return [line]
    if EXCERPT_LINE.match(line):
        return [cut(line, width)]
    return _wrap_line(line, max(cell_starts, default=0), width)


def _wrap_line(line: str, indent: int, width: int) -> Iterator[str]:
    """Yield the parts of a line, folded between words.

    Continuations begin at the column `indent`, or below the text after a bullet or number.
    """
    head = line[: max(indent, LEAD.match(line).end())]  # type: ignore[union-attr] # it always matches
    part = head
    is_empty = True
    for word in WORD.findall(line[len(head) :]):
        if not is_empty and columns(f"{part}{word}") > width:
            yield part.rstrip()
            part = " " * columns(head)
        part = f"{part}{word} "
        is_empty = False
    yield part.rstrip()


def fold_markdown(text: str, width: int) -> str:
    r"""Fold a page of Markdown; a row of a table becomes an item, and code stays unchanged.

    >>> fold_markdown("Prose that\ngoes on.\n\n| key | default |\n|---|---|\n| `a` | 1 |\n", 80)
    'Prose that goes on.\n\nkey: default\n- `a`: 1\n'
    """
    width = max(width, NARROWEST)
    parts: list[str] = []
    for line, is_code in _join_blocks(text):
        if is_code:
            parts.append(line)
        else:
            parts += _wrap_line(line, 0, width)
    return "".join(f"{part}\n" for part in parts)


def _join_blocks(text: str) -> list[tuple[str, bool]]:
    """Return each block of Markdown as one line, and whether it is code.

    A block is a paragraph, an item, a row of a table, an empty line, or a line of code.
    """
    blocks: list[tuple[str, bool]] = []
    is_in_paragraph = False  # Whether the next line of text continues the last block.
    is_after_empty_line = True
    lines = text.splitlines()
    for line, unfenced in zip(lines, unfenced_lines(lines), strict=True):
        is_row = unfenced.startswith("|")
        is_fenced = unfenced != line
        is_code = is_fenced or (unfenced.startswith("    ") and not is_in_paragraph)
        is_text = not is_code and unfenced.strip() != ""
        if is_row:
            item = _row_as_item(unfenced, is_head=is_after_empty_line)
            if item:
                blocks.append((item, False))
            is_in_paragraph = False
        elif is_in_paragraph and is_text and not BLOCK_START.match(unfenced):
            paragraph, _ = blocks[-1]
            blocks[-1] = (f"{paragraph} {unfenced.strip()}", False)
        else:
            blocks.append((line, is_code))
            is_in_paragraph = is_text and not unfenced.startswith("#")
        is_after_empty_line = not blocks or blocks[-1][0] == ""
    return blocks


def _row_as_item(row: str, *, is_head: bool) -> str:
    """Return a row of a Markdown table as a list item, `- first: second | third`.

    Return "" for the line of hyphens below the names of the columns. The first row gets no bullet.

    >>> _row_as_item("| `push` | one push | write |", is_head=False)
    '- `push`: one push | write'
    >>> _row_as_item("|---|---|", is_head=False)
    ''
    """
    cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
    first, *others = [cell.strip().replace("\\|", "|") for cell in cells]
    if not first.strip("-: ") and not "".join(others).strip("-: "):
        return ""
    bullet = "" if is_head else "- "
    colon = ": " if first and others else ""
    return f"{bullet}{first}{colon}{' | '.join(others)}"


def columns(text: str) -> int:
    """Return how many columns a text takes: two for a wide letter, none for a combining accent."""
    if text.isascii():
        return len(text)
    count = 0
    for char in text:
        if not unicodedata.combining(char):
            count += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return count


def cut(text: str, width: int) -> str:
    """Return a text cut to a width in columns, with an ellipsis at its end if it was cut."""
    if columns(text) <= width:
        return text
    available = max(width - 1, 0)
    start = text[:available]
    while columns(start) > available:
        start = start[:-1]
    return f"{start.rstrip()}…"


def render_rows(rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """Return a line for each row, its cells aligned, and cut to a width unless that is 0."""
    sizes = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    sizes[-1:] = [0]  # the last cell of a row is not padded
    lines = []
    for row in rows:
        padded = [
            f"{cell}{' ' * (size - columns(cell))}" for cell, size in zip(row, sizes, strict=True)
        ]
        line = (" " * GAP).join(padded).rstrip()
        lines.append(cut(line, width) if width else line)
    return "".join(f"{line}\n" for line in lines)


def render_entries(
    ranked: Sequence[tuple[float, Located]], usage: Mapping[str, UseCount], width: int = 0
) -> str:
    """Return a line for each entry: id, prominence, `used/served`, type, scope, title.

    The prominence says how likely an entry is to be useful; `used/served` counts how often agents
    used it and were served it.

    Args:
        ranked: entries with their prominence.
        usage: use counts by id; without counts, the column is left out.
        width: the width of a terminal, for which the columns have names; 0 elsewhere.
    """
    # Not at the top: hooks, which load this module too, print no entries.
    from memory_ci.records.entry import name_entry

    ids = short_ids(located.entry.id for _, located in ranked)
    rows: list[dict[str, str]] = []
    for value, located in ranked:
        entry = located.entry
        status = "" if entry.status == "active" else f"({entry.status}) "
        row = {"id": ids[entry.id], "score": f"{value:.2f}"}
        if usage:
            row["used/served"] = _render_count(usage.get(entry.id))
        row |= {"type": entry.type, "scope": located.scope.target}
        row["title"] = f"{status}{name_entry(entry)}"
        rows.append({name: printable(cell) for name, cell in row.items()})
    if width and rows:
        return _render_table(rows, width)
    return render_rows([list(row.values()) for row in rows])


def _render_table(rows: Sequence[Mapping[str, str]], width: int) -> str:
    """Return rows of cells by column name as a table: id, title, then the other columns.

    A column whose cells are all alike is left out. The title is cut to the width that the others
    leave; if that is too little to read it, the last columns are left out.
    """
    names = list(rows[0])
    table = [dict(zip(names, names, strict=True)), *rows]  # The first row has the column names.
    sizes = {name: max(columns(row[name]) for row in table) for name in names}
    other_names: list[str] = []
    for name in names:
        distinct_cells = {row[name] for row in rows}
        is_alike = len(rows) > 1 and len(distinct_cells) == 1
        if name not in ("id", "title") and not is_alike:
            other_names.append(name)

    title_width = width - sizes["id"] - GAP
    for name in other_names:
        title_width -= sizes[name] + GAP
    readable_width = min(sizes["title"], READABLE_TITLE)
    while len(other_names) > 1 and title_width < readable_width:
        left_out = other_names.pop()
        title_width += sizes[left_out] + GAP
    title_width = max(title_width, LEAST_TITLE)

    lines: list[list[str]] = []
    for row in table:
        title = cut(row["title"], title_width)
        lines.append([row["id"], title, *(row[name] for name in other_names)])
    return render_rows(lines)


def _render_count(count: UseCount | None) -> str:
    return f"{count.used_count}/{count.served_count}" if count else ""


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return each id with its beginning: as many characters, 8 at least, as make all differ."""
    unique = set(ids)
    for size in range(8, 36):
        if len({id_[:size] for id_ in unique}) == len(unique):
            return {id_: id_[:size] for id_ in unique}
    return {id_: id_[:36] for id_ in unique}


def render_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV (RFC 4180), with an apostrophe before text that would be a formula."""
    import csv  # only `list --format csv` needs it

    text = StringIO()
    writer = csv.writer(text)
    for row in (head, *rows):
        writer.writerow([_csv_cell(value) for value in row])
    return text.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return re.sub(r"^(?=[=+@-])", "'", printable(value))


def render_excerpt(
    line: int, source: str, message: str, symbols: Sequence[str] | None = None
) -> tuple[str, int]:
    """Return a line of a file with carets below the part that a message is about.

    Args:
        line: the number of the line.
        source: the line.
        message: a message. The part is the first text of the line that it quotes or names.
        symbols: names of definitions; the part is the first of them in the line instead.

    Returns:
        The excerpt, and the column (from 1) where the part begins.
    """
    text = printable(source.expandtabs(4).rstrip())
    if symbols is None:
        start, end = _find_quoted(text, message)
    else:
        start, end = _find_symbol(text, symbols)
    column = start + 1
    if start > MAX_BEFORE:
        # Leave out the beginning of the text, with an ellipsis in its place.
        omitted = start - MAX_BEFORE // 2
        text = f"…{text[omitted:]}"
        start += 1 - omitted
        end += 1 - omitted
    gutter = " " * len(str(line))
    indent = " " * columns(text[:start])
    carets = "^" * max(columns(text[start:end]), 1)
    return f"{gutter} |\n{line} | {text}\n{gutter} | {indent}{carets}\n", column


def _find_quoted(source: str, message: str) -> tuple[int, int]:
    """Return start and end of the part of a line that a message is about.

    It is the first of these that the line has: a text that the message quotes, the last part of a
    dotted key that it quotes, a word of it as a YAML key. Else it is the whole line.
    """
    quoted = [match[2] for match in re.finditer(r"(['\"`])(.+?)\1", message)]
    last_parts = [word.rpartition(".")[2] for word in quoted]
    keys = [f"{word}:" for word in re.findall(r"\w+", message)]
    for word in (*quoted, *last_parts, *keys):
        start = source.find(word)
        if word and start >= 0:
            return start, start + len(word.rstrip(":"))
    return _find_text(source)


def _find_symbol(source: str, symbols: Iterable[str]) -> tuple[int, int]:
    """Return start and end of a symbol's name in a line of code, outside of literals.

    Without such a name, return start and end of the whole line.

    Args:
        source: the line.
        symbols: symbols such as `Client.post`; only their last part is searched for.
    """
    code = LITERAL.sub(lambda literal: " " * len(literal[0]), source)
    for symbol in symbols:
        name = symbol.rpartition(".")[2]
        if match := re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", code):
            return match.span()
    return _find_text(source)


def _find_text(source: str) -> tuple[int, int]:
    return len(source) - len(source.lstrip()), len(source)


def render_finding_block(finding: Finding, source: str | None) -> str:
    """Return a finding in the layout of ruff: `FILE:LINE:COLUMN: code message`, excerpt, and hint.

    Args:
        finding: the finding.
        source: the line of the file, None if it cannot be read.
    """
    # A finding on cited code names definitions, whose names in the line are marked. Other findings
    # quote the part that they are about.
    is_on_cited_code = finding.code.startswith("anchor-")
    symbols = EDITED_SYMBOL.findall(finding.message) if is_on_cited_code else None
    excerpt = ""
    column = 1
    if source:
        excerpt, column = render_excerpt(finding.line, source, finding.message, symbols)
    level = "" if finding.level == "error" else f" ({finding.level})"
    hint = f"help: {printable(finding.hint)}\n" if finding.hint else ""
    location = f"{printable(finding.path)}:{finding.line}:{column}"
    return f"{location}: {finding.code}{level} {printable(finding.message)}\n{excerpt}{hint}\n"


BLOCKS = str.maketrans({"█": "#", "░": "-", "…": ".", "·": ","})
"""Substitutes for a stream without Unicode."""


def bar(share: float, width: int = 10) -> str:
    """Return a bar for a share of 1.

    >>> bar(0.5, 4)
    '██░░'
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


DRAW_SECONDS = 0.1
"""The shortest time between two drawings of a count, for work of many thousand items."""

BAR_WIDTH = 20


class ProgressLine:
    """One line at a terminal that is drawn again and again: `Reading files  3 of 12 ███░░░`."""

    def __init__(self, width: int, write: Callable[[str], None]) -> None:
        """Prepare a line.

        Args:
            width: the columns of the terminal; a wider line would not be overwritten.
            write: writes to the terminal, and flushes.
        """
        self._width = width
        self._write = write
        self._label = ""
        self._drawn_at = 0.0

    def draw(self, label: str, done: int, total: int) -> None:
        """Draw the line, but not more often than every `DRAW_SECONDS` for the same label.

        Args:
            label: the work, in plain words.
            done: how many items are done.
            total: how many items there are; 0 if unknown, then only the label is drawn.
        """
        now = time.monotonic()
        if label == self._label and now - self._drawn_at < DRAW_SECONDS and done < total:
            return
        self._label = label
        self._drawn_at = now
        text = f"{label}…"
        if total:
            counts = f"{total:,}"
            text = f"{label} {done:>{len(counts)},} of {counts} {bar(done / total, BAR_WIDTH)}"
        self._write(f"\x1b[K{cut(text, self._width - 1)}\r")  # The next output overwrites it.

    def clear(self) -> None:
        """Remove the line."""
        self._write("\x1b[K")
