"""Source text as the words that it says to a machine: layout, comments and docstrings apart (docs/anchors.md).

A lexer of a few lines for each family of languages, no parser: what it misreads it misreads in the same way each time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

C_REMARK = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
DOUBLE = r"\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\Z)"
QUOTED = (
    DOUBLE + r"|'(?:\\.|[^'\\\n]){0,300}'"
)  # Ends with its line or the text, if it is not closed.
PY_STRING = (
    r"(?:[rRbBuUfF]{1,2}(?=[\"']))?"
    r"(?:\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*(?:\"\"\"|\Z)|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)"
    rf"|{DOUBLE}|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z))"
)
RAW = "|".join(rf"b?r{mark}\".*?(?:\"{mark}|\Z)" for mark in ("###", "##", "#", ""))
RUST_STRING = rf"{RAW}|b?\"(?:\\.|[^\"\\])*(?:\"|\Z)|b?'(?:\\[^\n']+|\\'|[^'\\\n])'"
REGEX = (
    r"(?:(?<=[\n=(,:\[!&|?{};])|(?<=[=(,:\[!&|?{};] )|(?<=\n  )|(?<=\n    )|(?<=return ))"
    r"/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n]){0,200}\]|[^/\\\n\[])+/"
)


def _lexer(*literals: str) -> str:
    """A pattern, compiled where it is first used: a line break and the indentation behind it, remarks and literals, a
    word, any other character but white space."""
    return "|".join((r"(?s)\n[ \t\f\r\v]*", *literals, r"\w+", r"\S"))


PYTHON = _lexer(r"\#[^\n]*|\\\r?\n", PY_STRING)
HASHED = _lexer(r"(?<![^\s])\#[^\n]*|\\\r?\n", QUOTED)
INI = _lexer(r"(?<=\s)[\#;][^\n]*")
PROSE = _lexer()
RUST = _lexer(C_REMARK, RUST_STRING)
SCRIPT = _lexer(C_REMARK, REGEX, QUOTED, r"`(?:\\.|[^`\\])*(?:`|\Z)")
CURLY = _lexer(C_REMARK, r"\"\"\".*?(?:\"\"\"|\Z)", QUOTED, r"`[^`]*(?:`|\Z)")
# How a remark begins: what is dropped, with the line breaks that join two lines.
REMARKS = {
    PYTHON: ("#", "\\\n", "\\\r"),
    HASHED: ("#", "\\\n", "\\\r"),
    INI: ("#", ";"),
    PROSE: ("\0",),
}
LEXERS = {
    "py pyi": PYTHON,
    "js jsx mjs cjs ts tsx mts cts": SCRIPT,
    "rs": RUST,
    "go java kt cs c h cc cpp cxx hh hpp hxx swift scala php": CURLY,
    "toml yaml yml sh bash zsh rb": HASHED,
    "ini cfg": INI,
}
BY_EXTENSION = {ext: lexer for exts, lexer in LEXERS.items() for ext in exts.split()}
INDENTED = frozenset((PYTHON, HASHED, INI))  # Line breaks end, and indentation joins, what is said.
BRACKETS = {")": "(", "]": "[", "}": "{"}
OPENING = frozenset("([{")
BREAK, DEEPER, BACK, BLANK = (
    "\n",
    "\n>",
    "\n<",
    "\n\n",
)  # End of a line, begin and end of a block, paragraph.
HEADS = frozenset("if elif else for while with try except finally def class async".split())
KEYWORDS = HEADS | frozenset(
    "return in and or not yield await del assert import from lambda is as raise case".split()
)
FOLLOWERS = frozenset(("else", "elif", "except", "finally"))

OPENS_GROUP = frozenset(
    "return assert in = if elif while yield else del raise for with ( [ { , : > import".split()
) | {BREAK}
ENDS_GROUP = frozenset(": ) ] } , = if else for as".split()) | {BREAK}
OPENS_TUPLE = frozenset(("return", "in", "=", "yield", "del", "for", "import", BREAK))
ENDS_TUPLE = frozenset((BREAK, ":", "=", "in"))  # Around what a formatter may put brackets.
EXPORTS = frozenset(("export", "default", "declare"))  # Who may use it is no part of what it says.
QUOTES = "'\"`#"
QUOTE = re.compile(r"['\"`]")
UNKNOWN = -1  # The indentation of what follows in the line in which a long remark or literal ends.
WORD_END = re.compile(r"[\w)\]}\"]$")
ESCAPED_QUOTE = re.compile(r"\\(['\"])")
FIELD_SPACE = re.compile(r"(?<=(?<!\{)\{)\s+|\s+(?=\}(?!\}))")
PY_QUOTES = re.compile(
    r"(?P<prefix>\w*)(?P<quote>\"\"\"|'''|[\"'])(?P<body>.*)(?P=quote)", re.DOTALL
)


class Line(NamedTuple):
    """Words that stand together: of one line of text, or in indented languages until a bracket is closed again."""

    indent: int
    start: int
    stop: int
    depth: int


class Said(NamedTuple):
    """Words as they are compared, and the row of each (1-based; 0 for what says only how blocks are nested)."""

    words: tuple[str, ...]
    rows: tuple[int, ...]


class Code:
    """A text as words: `words[i]` begins in row `rows[i]`, and is a literal if `i` is in `strings`."""

    def __init__(self, path: str, text: str) -> None:
        self.extension = path.rpartition(".")[2].lower()
        self.lexer = BY_EXTENSION.get(self.extension, PROSE)
        self.words: list[str] = []
        self.rows: list[int] = []
        self.lines: list[Line] = []
        self.strings: set[int] = set()
        self._said: dict[tuple[int, int], Said] = {}
        self._read(text.expandtabs(4) if self.lexer in INDENTED and "\t" in text else text)

    def _read(self, text: str) -> None:
        words, rows, remarks = self.words, self.rows, REMARKS.get(self.lexer, ("//", "/*"))
        row, indents = 1, {0: 0}
        for word in re.findall(self.lexer, text):
            if word[0] == "\n":
                row, indents[len(words)] = row + 1, len(word) - 1
                continue
            is_plain = word[0].isalnum() and word[-1] not in QUOTES
            is_remark = not is_plain and word.startswith(remarks)
            if not is_remark:
                if len(word) > 1 and not is_plain and QUOTE.search(word):
                    self.strings.add(len(words))
                words.append(word)
                rows.append(row)
            if not is_plain and "\n" in word:
                row, indents[len(words)] = row + word.count("\n"), UNKNOWN
        self._break_lines(indents)

    def _break_lines(self, indents: Mapping[int, int]) -> None:
        """Lines begin at the words of `indents`, but not inside of brackets of an indented language, nor in a word."""
        words, is_indented = self.words, self.lexer in INDENTED
        depth, start, start_depth = 0, 0, 0
        for at, word in enumerate(words):
            if (
                at in indents
                and at > start
                and not (is_indented and depth)
                and indents[at] != UNKNOWN
            ):
                self.lines.append(Line(indents[start], start, at, start_depth))
                start, start_depth = at, depth
            if word in OPENING:
                depth += 1
            elif word in BRACKETS and depth:
                depth -= 1
        if words:
            self.lines.append(Line(indents[start], start, len(words), start_depth))

    def say(self, start: int, stop: int) -> Said:
        """The words from `start` to `stop` as they are compared."""
        if (start, stop) not in self._said:
            found = list(
                self._say_indented(start, stop)
                if self.lexer in INDENTED
                else self._say_flat(start, stop)
            )
            self._said[start, stop] = Said(
                tuple(word for word, _ in found), tuple(row for _, row in found)
            )
        return self._said[start, stop]

    def find_rows(self, first: int, last: int) -> tuple[int, int]:
        """The words that begin in these rows, from and to (the latter not included)."""
        return bisect_left(self.rows, first), bisect_right(self.rows, last)

    def say_all(self) -> Said:
        return self.say(0, len(self.words))

    def _say_flat(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        words, rows = self.words, self.rows
        if self.lexer is PROSE:
            yield BLANK, 0
            for at in range(start, stop):
                if at > start and rows[at] > rows[at - 1] + 1:
                    yield BLANK, 0
                yield words[at], rows[at]
            yield BLANK, 0
            return
        is_script = self.lexer is SCRIPT
        while is_script and start < stop and words[start] in EXPORTS:
            start += 1
        dropped = _needless(words[start:stop], groups=False)
        for at in range(start, stop):
            word = words[at]
            if at - start in dropped or (
                word == ";" and (is_script or words[at + 1 : at + 2] == ["}"])
            ):
                continue
            yield (f'"{word[1:-1]}"' if at in self.strings and word[0] == "'" else word), rows[at]

    def _say_indented(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        stack: list[int] = []
        inside: list[bool] = []  # a function, for each block of the stack
        head = ""
        is_python, is_body = self.lexer is PYTHON, start == 0
        at = bisect_right(self.lines, start, key=lambda line: line.stop)
        while at < len(self.lines) and self.lines[at].start < stop:
            line, at = self.lines[at], at + 1
            first = max(line.start, start)
            words = range(first, min(line.stop, stop))
            if is_python and (
                (is_body and self.strings.issuperset(words))
                or self.words[first : line.stop] == ["pass"]
            ):
                is_body = False  # a docstring; it may be followed by another string, which is none
                continue
            while stack and line.indent < stack[-1]:
                stack.pop()
                inside.pop()
                if stack:
                    yield BACK, 0
            if stack and line.indent > stack[-1]:
                yield DEEPER, 0
            if not stack or line.indent > stack[-1]:
                stack.append(line.indent)
                inside.append(head == "def" or (head != "class" and inside[-1:] == [True]))
            head = next((word for word in self.words[first : line.stop] if word != "async"), "")
            is_body = is_python and head in ("def", "class")
            yield from self._say_line(words, is_local=is_python and inside[-1])

        yield from ((BACK, 0) for _ in stack[1:])

    def _say_line(self, line: range, *, is_local: bool) -> Iterator[tuple[str, int]]:
        """One logical line (`is_local`: of a function); behind the colon of `if x: y` is a block of its own."""
        words: list[str] = []
        rows: list[int] = []
        is_python = self.lexer is PYTHON
        for at in line:
            word = self.words[at]
            if at in self.strings:
                word = _plain_string(word) if is_python else f'"{word[1:-1]}"'
                if is_python and at - 1 in self.strings and at > line.start:
                    words[-1] = _joined(words[-1], word)
                    continue
            words.append(BREAK if word == ";" and is_python else word)
            rows.append(self.rows[at])
        colon = _inner_colon(words) if is_python and words[0] in HEADS else -1
        dropped = _needless(words, groups=is_python) | (
            _annotations(words, is_local=is_local) if is_python else set()
        )
        if len(dropped) == len(words):
            return
        for at, (word, row) in enumerate(zip(words, rows, strict=True)):
            if at not in dropped:
                yield word, row
            if at == colon:
                yield from ((BREAK, row), (DEEPER, 0))
        if words[-1] != BREAK:
            yield BREAK, rows[-1]
        if colon >= 0:
            yield BACK, 0


@lru_cache(maxsize=512)
def read_code(path: str, text: str) -> Code:
    return Code(path, text)


def _needless(words: Sequence[str], *, groups: bool) -> set[int]:
    """Where commas before a closing bracket stand, and (`groups`) brackets around a whole expression of Python."""
    opened: list[int] = []
    commas: dict[int, int] = {}
    dropped: set[int] = set()
    for at, word in enumerate(words):
        if word in OPENING:
            opened.append(at)
            commas[at] = 0
        elif word == "," and opened:
            commas[opened[-1]] += 1
        elif word in BRACKETS and opened:
            start = opened.pop()
            before = words[start - 1] if start else BREAK
            is_applied = before not in KEYWORDS and WORD_END.search(before) is not None
            if words[at - 1] == "," and (
                commas[start] > 1
                or word == "}"
                or is_applied is (word == ")")
                or before == "import"
            ):
                dropped.add(at - 1)
            if groups and word == ")" and not is_applied and at > start + 1:
                after = words[at + 1] if at + 1 < len(words) else BREAK
                is_tuple = commas[start] > 0
                if before in (OPENS_TUPLE if is_tuple else OPENS_GROUP) and after in (
                    ENDS_TUPLE if is_tuple else ENDS_GROUP
                ):
                    dropped |= {start, at}
    return dropped


def _annotations(words: Sequence[str], *, is_local: bool) -> set[int]:
    """Where the types of a Python function's header or of its variables stand: they say nothing to the machine."""
    if is_local and words[0] not in KEYWORDS and words[1:2] and words[1] in ":.":
        return _variable_type(words)
    start = words.index("def") if "def" in words[:2] else len(words)
    dropped: set[int] = set()
    depth, is_name, is_type, is_result = 0, True, False, False
    for at in range(start, len(words)):
        word = words[at]
        depth += (word in OPENING) - (word in BRACKETS)
        if depth == 1 and word in (",", "(", "=") and not is_result:
            is_name, is_type = word != "=", False
        elif depth == 1 and word == ":" and is_name:
            is_type = True
        elif depth == 0 and word == ")":
            is_type = is_result = words[at + 1 : at + 3] == ["-", ">"]
            continue
        elif depth == 0 and word == ":":
            break
        if is_type:
            dropped.add(at)
    return dropped


def _variable_type(words: Sequence[str]) -> set[int]:
    """Where the type of a local variable stands, in `x: int = 1`; all of `x: int`, which does nothing."""
    depth, colon = 0, 0
    for at, word in enumerate(words):
        depth += (word in OPENING) - (word in BRACKETS)
        if depth == 0 and (word in ("=", BREAK) or (not colon and word in KEYWORDS)):
            return set(range(colon, at)) if colon else set()
        if depth == 0 and word == ":":
            colon = colon or at
    return set(range(len(words))) if colon else set()


def _inner_colon(words: Sequence[str]) -> int:
    """The colon behind which the block of a head follows in the same line; -1 where there is none."""
    depth, lambdas = 0, 0
    for at, word in enumerate(words[:-1]):
        depth += (word in OPENING) - (word in BRACKETS)
        if word == "lambda":
            lambdas += 1
        elif word == ":" and depth == 0 and words[at + 1] != "=":
            if not lambdas:
                return at
            lambdas -= 1
    return -1


def _plain_string(word: str) -> str:
    """A Python literal with one kind of quotes, without a prefix that says nothing."""
    match = PY_QUOTES.fullmatch(word)
    if match is None:
        return word
    prefix, body = match["prefix"].lower().replace("u", ""), match["body"]
    if "\\" not in body:
        prefix = prefix.replace("r", "")
    elif "r" not in prefix:
        body = ESCAPED_QUOTE.sub(r"\1", body)
    if "f" in prefix:
        body = FIELD_SPACE.sub("", body)
    return f'{"".join(sorted(prefix))}"{body}"'


def _joined(one: str, other: str) -> str:
    """Neighbouring literals as the one that they are; those of different kinds stay apart."""
    prefix, _, body = one.partition('"')
    other_prefix, _, other_body = other.partition('"')
    return f'{prefix}"{body[:-1]}{other_body}' if prefix == other_prefix else f"{one}{other}"
