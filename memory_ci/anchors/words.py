"""Split source text into words that do not depend on layout, comments and docstrings.

Two versions of code are compared by them (docs/serving.md#anchors). There is a lexer of a few lines
for each family of languages and no parser: a lexer misreads the same text in the same way each
time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from memory_ci.regex import Regex

T = TypeVar("T")

C_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
DOUBLE_QUOTED = r"\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\Z)"
# A double-quoted string that is not closed ends with its line or with the text.
QUOTED = DOUBLE_QUOTED + r"|'(?:\\.|[^'\\\n]){0,300}'"
PYTHON_STRING = (
    r"(?:[rRbBuUfF]{1,2}(?=[\"']))?"
    r"(?:\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*(?:\"\"\"|\Z)"
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)"
    rf"|{DOUBLE_QUOTED}|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z))"
)
RUST_RAW_STRING = "|".join(rf"b?r{mark}\".*?(?:\"{mark}|\Z)" for mark in ("###", "##", "#", ""))
RUST_STRING = rf"{RUST_RAW_STRING}|b?\"(?:\\.|[^\"\\])*(?:\"|\Z)|b?'(?:\\[^\n']+|\\'|[^'\\\n])'"
SCRIPT_REGEX = (
    r"(?:(?<=[\n=(,:\[!&|?{};])|(?<=[=(,:\[!&|?{};] )|(?<=\n  )|(?<=\n    )|(?<=return ))"
    r"/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n]){0,200}\]|[^/\\\n\[])+/"
)


def _build_lexer(*literals: str) -> str:
    """Return a pattern that matches one token.

    A token is a line break with the indentation after it, a comment or literal (`literals`), a
    word, or any other character but white space. The pattern is compiled where it is first used.
    """
    return "|".join((r"(?s)\n[ \t\f\r\v]*", *literals, r"\w+", r"\S"))


PYTHON_LEXER = _build_lexer(r"\#[^\n]*|\\\r?\n", PYTHON_STRING)
HASH_LEXER = _build_lexer(r"(?<![^\s])\#[^\n]*|\\\r?\n", QUOTED)
INI_LEXER = _build_lexer(r"(?<=\s)[\#;][^\n]*")
PROSE_LEXER = _build_lexer()
RUST_LEXER = _build_lexer(C_COMMENT, RUST_STRING)
SCRIPT_LEXER = _build_lexer(C_COMMENT, SCRIPT_REGEX, QUOTED, r"`(?:\\.|[^`\\])*(?:`|\Z)")
CURLY_LEXER = _build_lexer(C_COMMENT, r"\"\"\".*?(?:\"\"\"|\Z)", QUOTED, r"`[^`]*(?:`|\Z)")
# Beginnings of tokens to drop: comments, and line breaks that join two lines.
COMMENT_STARTS = {
    PYTHON_LEXER: ("#", "\\\n", "\\\r"),
    HASH_LEXER: ("#", "\\\n", "\\\r"),
    INI_LEXER: ("#", ";"),
    PROSE_LEXER: ("\0",),
}
C_COMMENT_STARTS = ("//", "/*")
LEXERS = {
    "py pyi": PYTHON_LEXER,
    "js jsx mjs cjs ts tsx mts cts": SCRIPT_LEXER,
    "rs": RUST_LEXER,
    "go java kt cs c h cc cpp cxx hh hpp hxx swift scala php": CURLY_LEXER,
    "toml yaml yml sh bash zsh rb": HASH_LEXER,
    "ini cfg": INI_LEXER,
}


def split_keys(table: Mapping[str, T]) -> dict[str, T]:
    """Return a table with a key for each word of the keys of `table`.

    >>> split_keys({"py pyi": 1, "rs": 2})
    {'py': 1, 'pyi': 1, 'rs': 2}
    """
    by_word: dict[str, T] = {}
    for words, value in table.items():
        by_word.update(dict.fromkeys(words.split(), value))
    return by_word


LEXER_BY_EXTENSION = split_keys(LEXERS)
# In these languages line breaks end a statement, and indentation nests blocks.
INDENTED_LEXERS = frozenset((PYTHON_LEXER, HASH_LEXER, INI_LEXER))

DEPTH_CHANGE = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
OPENING = frozenset("([{")
CLOSING = frozenset(")]}")

# Words for layout: the end of a line, the begin and end of a block, a paragraph break.
LINE_END = "\n"
INDENT = "\n>"
DEDENT = "\n<"
PARAGRAPH = "\n\n"

BLOCK_KEYWORDS = frozenset("if elif else for while with try except finally def class async".split())
PYTHON_KEYWORDS = BLOCK_KEYWORDS | frozenset(
    "return in and or not yield await del assert import from lambda is as raise case".split()
)
BRANCH_KEYWORDS = frozenset(("else", "elif", "except", "finally"))

# Words before and after which a Python formatter may add or drop brackets.
OPENS_GROUP = frozenset(
    "return assert in = if elif while yield else del raise for with ( [ { , : > import".split()
) | {LINE_END}
ENDS_GROUP = frozenset(": ) ] } , = if else for as".split()) | {LINE_END}
OPENS_TUPLE = frozenset(("return", "in", "=", "yield", "del", "for", "import", LINE_END))
ENDS_TUPLE = frozenset((LINE_END, ":", "=", "in"))

# Words before an exported definition of a script: `export default class`.
EXPORT_KEYWORDS = frozenset(("export", "default", "declare"))
QUOTES = "'\"`#"
QUOTE = Regex(r"['\"`]")
# Of words that follow a comment or literal of several lines in its last line: they begin no line.
UNKNOWN_INDENT = -1
WORD_END = Regex(r"[\w)\]}\"]$")
# An escaped quote in a literal: `\'`.
ESCAPED_QUOTE = Regex(r"\\(['\"])")
# Blanks at the edges of a field of an f-string: `{ a }`.
FIELD_SPACE = Regex(r"(?<=(?<!\{)\{)\s+|\s+(?=\}(?!\}))")
PYTHON_LITERAL = Regex(
    r"(?P<prefix>\w*)(?P<quote>\"\"\"|'''|[\"'])(?P<body>.*)(?P=quote)", re.DOTALL
)


class Line(NamedTuple):
    """A line of words, in an indented language with the lines that its brackets enclose.

    Attributes:
        indent: number of blanks before the first word.
        start: index of the first word.
        stop: index after the last word.
        depth: number of brackets that are open where the line begins.
    """

    indent: int
    start: int
    stop: int
    depth: int


class Tokens(NamedTuple):
    """Normalised words, ready to be compared.

    Attributes:
        words: the words and the marks of layout.
        rows: the row of each word, 1-based; 0 for a mark that only shows how blocks nest.
    """

    words: tuple[str, ...]
    rows: tuple[int, ...]


class _Block(NamedTuple):
    """A block of an indented language.

    Attributes:
        indent: number of blanks before its lines.
        is_function: whether it is in the body of a function.
    """

    indent: int
    is_function: bool


class Code:
    """A source text split into words.

    Attributes:
        extension: the extension of the file, in small letters.
        lexer: the pattern of the language.
        words: the words of the text without comments.
        rows: the row in which each word begins, 1-based.
        lines: the lines that the words form.
        literal_indices: the indices of the words that are literals.
        _normalized: the normalised words of each range (start, stop) that was asked for.
    """

    def __init__(self, path: str, text: str) -> None:
        """Split a text by the lexer that the extension of its path asks for."""
        self.extension = path.rpartition(".")[2].lower()
        self.lexer = LEXER_BY_EXTENSION.get(self.extension, PROSE_LEXER)
        self.words: list[str] = []
        self.rows: list[int] = []
        self.lines: list[Line] = []
        self.literal_indices: set[int] = set()
        self._normalized: dict[tuple[int, int], Tokens] = {}
        if self.lexer in INDENTED_LEXERS and "\t" in text:
            text = text.expandtabs(4)
        indents = self._split_words(text)
        self._break_lines(indents)

    def _split_words(self, text: str) -> dict[int, int]:
        """Fill `words`, `rows` and `literal_indices` with the tokens of a text, without comments.

        Returns:
            The indentation of each line of the text, by the index of its first word. It is
            UNKNOWN_INDENT for a word in the last row of a comment or literal of several rows.
        """
        words = self.words
        rows = self.rows
        comment_starts = COMMENT_STARTS.get(self.lexer, C_COMMENT_STARTS)
        row = 1
        indents = {0: 0}
        for token in re.findall(self.lexer, text):
            if token[0] == "\n":  # A line break with the blanks after it.
                row += 1
                indents[len(words)] = len(token) - 1
                continue

            is_plain_word = token[0].isalnum() and token[-1] not in QUOTES
            if is_plain_word or not token.startswith(comment_starts):
                if not is_plain_word and len(token) > 1 and QUOTE.search(token):
                    self.literal_indices.add(len(words))
                words.append(token)
                rows.append(row)
            if not is_plain_word and "\n" in token:  # A comment or literal of several lines.
                row += token.count("\n")
                indents[len(words)] = UNKNOWN_INDENT
        return indents

    def _break_lines(self, indents: Mapping[int, int]) -> None:
        """Fill `lines` by joining the words of each line.

        In an indented language a line goes on until its brackets are closed.

        Args:
            indents: the indentation of each line of the text, by the index of its first word.
        """
        is_indented = self.lexer in INDENTED_LEXERS
        depth = 0  # Of open brackets.
        start = 0  # The index of the first word of the line.
        start_depth = 0
        for index, word in enumerate(self.words):
            is_first_in_row = index in indents and indents[index] != UNKNOWN_INDENT
            is_in_brackets = is_indented and depth > 0
            if index > start and is_first_in_row and not is_in_brackets:
                self.lines.append(Line(indents[start], start, index, start_depth))
                start = index
                start_depth = depth
            if word in DEPTH_CHANGE:
                depth = max(0, depth + DEPTH_CHANGE[word])
        if self.words:
            self.lines.append(Line(indents[start], start, len(self.words), start_depth))

    def find_words(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of indices (start, stop) of the words that begin in these rows."""
        return bisect_left(self.rows, first), bisect_right(self.rows, last)

    def normalize_all(self) -> Tokens:
        """Return all words in the form in which they are compared."""
        return self.normalize(0, len(self.words))

    def normalize(self, start: int, stop: int) -> Tokens:
        """Return the words from `start` to `stop` in the form in which they are compared."""
        tokens = self._normalized.get((start, stop))
        if tokens is None:
            pairs = list(self._iter_normalized(start, stop))
            words = tuple(word for word, _ in pairs)
            rows = tuple(row for _, row in pairs)
            tokens = Tokens(words, rows)
            self._normalized[start, stop] = tokens
        return tokens

    def _iter_normalized(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        """Yield (word, row) of the normalised words from `start` to `stop`."""
        if self.lexer in INDENTED_LEXERS:
            return self._normalize_indented(start, stop)
        if self.lexer is PROSE_LEXER:
            return self._normalize_prose(start, stop)
        return self._normalize_curly(start, stop)

    def _normalize_prose(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        """Yield (word, row) of prose, with marks around paragraphs."""
        yield PARAGRAPH, 0
        for index in range(start, stop):
            if index > start and self.rows[index] > self.rows[index - 1] + 1:
                yield PARAGRAPH, 0
            yield self.words[index], self.rows[index]
        yield PARAGRAPH, 0

    def _normalize_curly(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        """Yield (word, row) of a language with braces, in the same form however it is formatted.

        Commas before a closing bracket and semicolons that do nothing are left out, and quotes are
        double quotes. The keywords by which a script exports a definition are left out, too: they
        do not change its work.
        """
        words = self.words
        is_script = self.lexer is SCRIPT_LEXER
        first = start
        while is_script and first < stop and words[first] in EXPORT_KEYWORDS:
            first += 1

        dropped_indices = _find_droppable_words(words[first:stop], drops_groups=False)
        for index in range(first, stop):
            word = words[index]
            if index - first in dropped_indices:
                continue
            is_before_brace = words[index + 1 : index + 2] == ["}"]
            if word == ";" and (is_script or is_before_brace):
                continue
            if word[0] == "'" and index in self.literal_indices:
                word = f'"{word[1:-1]}"'
            yield word, self.rows[index]

    def _normalize_indented(self, start: int, stop: int) -> Iterator[tuple[str, int]]:
        """Yield (word, row) of an indented language, with marks for its blocks.

        Docstrings and `pass` of Python are left out. A docstring is a line of nothing but literals
        at the beginning of the text, or after a line that begins with `def` or `class`.

        Args:
            start: the index of the first word, which may be inside of a line.
            stop: the index after the last word.
        """
        is_python = self.lexer is PYTHON_LEXER
        blocks: list[_Block] = []
        previous_keyword = ""
        may_be_docstring = start == 0
        first_line = bisect_right(self.lines, start, key=lambda line: line.stop)
        for number in range(first_line, len(self.lines)):
            line = self.lines[number]
            if line.start >= stop:
                break

            first = max(line.start, start)
            words = self.words[first : line.stop]
            indices = range(first, min(line.stop, stop))
            is_docstring = may_be_docstring and self.literal_indices.issuperset(indices)
            if is_python and (is_docstring or words == ["pass"]):
                may_be_docstring = False  # A second string is no docstring.
                continue

            yield from _move_to_indent(blocks, line.indent, previous_keyword)
            previous_keyword = _find_keyword(words)
            may_be_docstring = is_python and previous_keyword in ("def", "class")
            yield from self._normalize_line(indices, is_local=blocks[-1].is_function)

        for _ in blocks[1:]:
            yield DEDENT, 0

    def _normalize_line(self, indices: range, *, is_local: bool) -> Iterator[tuple[str, int]]:
        """Yield (word, row) of the normalised words of one line of an indented language.

        A LINE_END follows them. The statements after the colon of `if x: y` become a block of their
        own, as if they were in the next line: LINE_END and INDENT before them, DEDENT after them.
        Of a Python line that only declares the type of a variable nothing is left.

        Args:
            indices: the indices of the words of the line.
            is_local: whether the line is in the body of a function.
        """
        is_python = self.lexer is PYTHON_LEXER
        words, rows = self._join_literals(indices)
        dropped_indices = _find_droppable_words(words, drops_groups=is_python)
        block_colon: int | None = None
        if is_python:
            dropped_indices |= _find_annotations(words, is_local=is_local)
            block_colon = _find_block_colon(words)
        if len(dropped_indices) == len(words):
            return

        for index, word in enumerate(words):
            if index not in dropped_indices:
                yield word, rows[index]
            if index == block_colon:
                yield LINE_END, rows[index]
                yield INDENT, 0
        if words[-1] != LINE_END:
            yield LINE_END, rows[-1]
        if block_colon is not None:
            yield DEDENT, 0

    def _join_literals(self, indices: range) -> tuple[list[str], list[int]]:
        """Return the words of a line with literals normalised, and their rows.

        Literals of Python next to each other are joined, as Python does.
        """
        is_python = self.lexer is PYTHON_LEXER
        words: list[str] = []
        rows: list[int] = []
        for index in indices:
            word = self.words[index]
            is_literal = index in self.literal_indices
            if is_literal and is_python:
                word = _normalize_literal(word)
                if index > indices.start and index - 1 in self.literal_indices:
                    words[-1] = _join_pair(words[-1], word)
                    continue
            elif is_literal:
                word = f'"{word[1:-1]}"'
            elif is_python and word == ";":
                word = LINE_END
            words.append(word)
            rows.append(self.rows[index])
        return words, rows


@lru_cache(maxsize=512)
def read_code(path: str, text: str) -> Code:
    """Split a text into words; the extension of `path` decides on the language."""
    return Code(path, text)


def _move_to_indent(
    blocks: list[_Block], indent: int, previous_keyword: str
) -> Iterator[tuple[str, int]]:
    """Close and open blocks until a line with this indentation can follow.

    The body of a `def` is the body of a function, and so is a block inside of it, apart from the
    body of a class.

    Args:
        blocks: the open blocks, changed in place.
        indent: the indentation of the line.
        previous_keyword: the first word of the line before, whose block the line begins if it is
            indented deeper.

    Yields:
        A DEDENT for each closed block and an INDENT for an opened one, with row 0. The outermost
        block has no marks.
    """
    while blocks and indent < blocks[-1].indent:
        blocks.pop()
        if blocks:
            yield DEDENT, 0
    if not blocks:
        blocks.append(_Block(indent, previous_keyword == "def"))
    elif indent > blocks[-1].indent:
        yield INDENT, 0
        is_in_function = blocks[-1].is_function and previous_keyword != "class"
        blocks.append(_Block(indent, previous_keyword == "def" or is_in_function))


def _find_keyword(words: Sequence[str]) -> str:
    """Return the first word of a line that is not `async`, or ""."""
    for word in words:
        if word != "async":
            return word
    return ""


def _find_droppable_words(words: Sequence[str], *, drops_groups: bool) -> set[int]:
    """Return the indices of words that a code formatter may drop, for they change nothing.

    These are commas before a closing bracket (`f(a, b,)`), apart from the comma that makes a tuple
    (`(a,)`), and, if `drops_groups`, the brackets around a whole expression of Python
    (`return (a or b)`).
    """
    open_brackets: list[int] = []  # The indices of those around a word, the innermost last.
    comma_counts: dict[int, int] = {}  # By index of the opening bracket.
    droppable_indices: set[int] = set()
    for index, word in enumerate(words):
        if word in OPENING:
            open_brackets.append(index)
            comma_counts[index] = 0
        elif not open_brackets:
            continue
        elif word == ",":
            comma_counts[open_brackets[-1]] += 1
        elif word in CLOSING:
            opening = open_brackets.pop()
            before = words[opening - 1] if opening else LINE_END
            comma_count = comma_counts[opening]
            follows_name = before not in PYTHON_KEYWORDS and WORD_END.search(before) is not None
            if words[index - 1] == ",":
                makes_tuple = comma_count == 1 and before != "import"
                if not (makes_tuple and _may_hold_tuple(word, follows_name=follows_name)):
                    droppable_indices.add(index - 1)
            if drops_groups and word == ")" and not follows_name and index > opening + 1:
                after = words[index + 1] if index + 1 < len(words) else LINE_END
                if _is_needless_group(before, after, is_tuple=comma_count > 0):
                    droppable_indices |= {opening, index}
    return droppable_indices


def _may_hold_tuple(closing: str, *, follows_name: bool) -> bool:
    """Return whether a single comma before a closing bracket makes a tuple.

    It does in `(a,)` and `x[a,]`, but not in `f(a,)`, `[a,]` and `{a,}`.

    Args:
        closing: the closing bracket.
        follows_name: whether there is a name before the opening bracket.
    """
    if closing == ")":
        return not follows_name
    return closing == "]" and follows_name


def _is_needless_group(before: str, after: str, *, is_tuple: bool) -> bool:
    """Return whether round brackets in Python change nothing: `return (a or b)`, `in (c, d):`.

    Args:
        before: the word before the opening bracket.
        after: the word after the closing bracket.
        is_tuple: whether there is a comma between them.
    """
    if is_tuple:
        return before in OPENS_TUPLE and after in ENDS_TUPLE
    return before in OPENS_GROUP and after in ENDS_GROUP


def _find_annotations(words: Sequence[str], *, is_local: bool) -> set[int]:
    """Return the indices of the type annotations in a line of Python.

    These are the types in the header of a function and, if `is_local`, the type of a variable: they
    do nothing when the line runs.

    Args:
        words: the words of the line.
        is_local: whether the line is in the body of a function.
    """
    may_be_variable = words[0] not in PYTHON_KEYWORDS and words[1:2] in ([":"], ["."])
    if is_local and may_be_variable:
        return _find_variable_type(words)
    if "def" in words[:2]:
        return _find_signature_types(words)
    return set()


def _find_signature_types(words: Sequence[str]) -> set[int]:
    """Return the indices of the types of parameters and result in the header of a function."""
    type_indices: set[int] = set()
    depth = 0  # Of open brackets; 1 between the brackets of the parameters.
    is_parameter_name = True
    is_type = False
    is_result = False
    for index in range(words.index("def"), len(words)):
        word = words[index]
        depth += DEPTH_CHANGE.get(word, 0)
        if depth == 1 and word in (",", "(", "=") and not is_result:
            is_parameter_name = word != "="  # Else a default value follows.
            is_type = False
        elif depth == 1 and word == ":" and is_parameter_name:
            is_type = True
        elif depth == 0 and word == ")":
            is_result = words[index + 1 : index + 3] == ["-", ">"]
            is_type = is_result
            continue
        elif depth == 0 and word == ":":
            break
        if is_type:
            type_indices.add(index)
    return type_indices


def _find_variable_type(words: Sequence[str]) -> set[int]:
    """Return the indices of the type that a line of a function gives to a variable.

    In `x: int = 1` these are the indices of `: int`. A line such as `x: int` does nothing when it
    runs: all its indices are returned.
    """
    depth = 0
    colon: int | None = None
    for index, word in enumerate(words):
        depth += DEPTH_CHANGE.get(word, 0)
        if depth != 0:
            continue
        if word in ("=", LINE_END):
            return set() if colon is None else set(range(colon, index))
        if colon is None and word in PYTHON_KEYWORDS:  # Another kind of statement.
            return set()
        if colon is None and word == ":":
            colon = index
    return set() if colon is None else set(range(len(words)))


def _find_block_colon(words: Sequence[str]) -> int | None:
    """Return the index of the colon before statements in the same line: `if x: y = 1`.

    The colons of `:=`, of a lambda and inside of brackets do not count.
    """
    if words[0] not in BLOCK_KEYWORDS:
        return None
    depth = 0
    open_lambda_count = 0  # Of lambdas whose colon has not come yet.
    for index, word in enumerate(words[:-1]):
        depth += DEPTH_CHANGE.get(word, 0)
        if word == "lambda":
            open_lambda_count += 1
        elif word == ":" and depth == 0 and words[index + 1] != "=":
            if open_lambda_count == 0:
                return index
            open_lambda_count -= 1
    return None


def _normalize_literal(word: str) -> str:
    """Return a Python literal in double quotes, without a prefix that has no effect.

    Without a backslash `r"a"` is `"a"`. In a literal that is not raw the escape of a quote is
    dropped, as `'it\\'s'` is the same text as `"it's"`. The letters of a prefix have no order.
    """
    match = PYTHON_LITERAL.fullmatch(word)
    if match is None:
        return word
    prefix = match["prefix"].lower().replace("u", "")
    body = match["body"]
    if "\\" not in body:
        prefix = prefix.replace("r", "")
    elif "r" not in prefix:
        body = ESCAPED_QUOTE.sub(r"\1", body)
    if "f" in prefix:
        body = FIELD_SPACE.sub("", body)
    sorted_prefix = "".join(sorted(prefix))
    return f'{sorted_prefix}"{body}"'


def _join_pair(first: str, second: str) -> str:
    """Join two literals of Python next to each other; two of different kinds stay apart.

    Args:
        first: a literal as `_normalize_literal` returns it.
        second: the literal after it.
    """
    prefix, _, body = first.partition('"')
    second_prefix, _, second_body = second.partition('"')
    if prefix != second_prefix:
        return f"{first}{second}"
    return f'{prefix}"{body[:-1]}{second_body}'
