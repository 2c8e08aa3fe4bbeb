"""Find definitions (functions, types, constants) in source text by patterns of their first line.

There is no parser: a wrong guess costs precision only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from memory_ci.anchors.words import (
    CLOSING,
    DEPTH_CHANGE,
    INDENTED_LEXERS,
    LEXER_BY_EXTENSION,
    PYTHON_KEYWORDS,
    PYTHON_LEXER,
    Code,
    Line,
    read_code,
    split_keys,
)
from memory_ci.regex import Regex

# Characters. A longer line is generated or minified: no pattern may take long on it.
MAX_WIDTH = 400
MODIFIERS = """public private protected internal static final abstract sealed override virtual
    async readonly default synchronized native export declare get set""".split()
MODIFIER_WORDS = rf"(?:(?:{'|'.join(MODIFIERS)})\s+)*"
C_TYPES = r"(?:typedef\s+)?(?:struct|class|enum(?:\s+class)?|union|namespace)"
RUST_QUALIFIERS = r"(?:(?:default|const|async|unsafe|extern(?:\s+\"\w*\")?)\s+)*"
RUST_ITEMS = r"(?:fn|struct|enum|trait|union|mod|type|const|static|macro_rules!)"
JAVA_TYPE = r"(?:<[^>]*>\s*)?\w[\w.<>\[\],?]*(?:,\s+[\w.<>\[\],?]+)*\s+"
C_RETURN_TYPE = r"(?!(?:return|else|typedef)\b)[\w:*&<>,~\[\]][\w:*&<>,~\[\] ]*?[ *&]"

# Patterns of a definition's first line, by the extensions of the language's files.
LANGUAGES = {
    "js jsx mjs cjs ts tsx mts cts": (
        rf"\s*{MODIFIER_WORDS}(?:function\*?|class|interface|enum|type|namespace)\s+"
        r"(?P<name>[\w$]+)",
        rf"{MODIFIER_WORDS}(?:const|let|var)\s+(?:enum\s+)?(?P<name>[\w$]+)",
        rf"\s+{MODIFIER_WORDS}\*?(?P<name>[\w$]+)\s*(?:<[^>]*>)?\([\w$,\s:?]*\)\s*(?::[^()]*)?"
        r"\{\s*$",
        rf"\s+{MODIFIER_WORDS}\*?(?P<member>#?[\w$]+)\s*(?:<|\()",
    ),
    "go": (
        r"func\s+(?:\(\s*(?:\w+\s+)?\*?(?P<owner>\w+)[^)]*\)\s*)?(?P<name>\w+)",
        r"(?:type|var|const)\s+(?P<name>\w+)",
        r"(?P<group>type|var|const)\s*\(\s*$",
    ),
    "rs": (
        rf"\s*(?:pub(?:\([^)]*\))?\s+)?{RUST_QUALIFIERS}{RUST_ITEMS}\s+(?:mut\s+)?(?P<name>\w+)",
        r"\s*(?:unsafe\s+)?(?P<impl>impl)\b",
    ),
    "java kt cs": (
        rf"\s*{MODIFIER_WORDS}(?:class|interface|enum|record|@interface|object)\s+(?P<name>\w+)",
        rf"\s+{MODIFIER_WORDS}(?:fun\s+|{JAVA_TYPE})(?P<name>\w+)\s*\([^;=]*$",
    ),
    "c h cc cpp cxx hh hpp hxx": (
        rf"\s*{C_TYPES}\s+(?P<name>\w+)[^;()]*$",
        rf"{C_RETURN_TYPE}(?P<name>~?\w+(?:::~?\w+)*)\s*\([^;]*$",
        r"#\s*define\s+(?P<name>\w+)",
    ),
    "rb": (
        r"\s*(?:def\s+(?:self\.)?|class\s+|module\s+)(?P<name>[\w:]+[?!]?)",
        r"\s*(?P<name>[A-Z][A-Z0-9_]+)\s*=(?!=)",
    ),
    "sh bash zsh": (
        r"\s*(?:function\s+)?(?P<name>[\w-]+)\s*\(\)",
        r"\s*function\s+(?P<name>[\w-]+)",
    ),
}
PATTERNS = split_keys(LANGUAGES)
# Words that are followed by parentheses and define nothing.
CALL_LIKE_KEYWORDS = frozenset(
    "if for while switch catch return function else do try with await throw super sizeof".split()
)
# A line that closes a definition, and is its last one.
END_OF_BLOCK = Regex(r"[)\]}]|end\b")
CONTINUATION = Regex(
    r"\{|[)\]}].*(?:[:{]|=>)$|(?:public|private|protected)\s*:"
    r"|(?:rescue|ensure|else|elsif|when|where)\b"
)
"""A line at the indentation of a definition that still belongs to it.

An opening brace on a line of its own, the end of a signature over several lines, an access label,
the clauses of Ruby and Rust.
"""

# A name in prose, with the back quote before it and the bracket or back quote after it: `a.b(`.
MENTION = Regex(
    r"(?P<before>`?)(?<![\w$])"
    r"(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*[!?]?)(?P<after>[(`]?)"
)
# A sign that a name is of code: `a_b`, `aB`, `a.b`, `a::b`, `a#b`.
CODE_SIGN = Regex(r"\w_\w|[a-z\d][A-Z]|\.|::|#")
CAPITALISED = Regex(r"[A-Z][A-Za-z\d]*")
TYPE_KEYWORDS = frozenset(
    """class interface enum struct trait union type mod module namespace record object
    typedef""".split()
)
# Words of a definition, among which its keyword and its name are searched for. Chosen by hand.
MAX_HEAD = 12
SCOPE_KEYWORD = Regex(r"\b(?:class|interface|mod|enum)\b")
RUST_TYPE_MARKS = frozenset(("unsafe", "impl", "mut", "dyn", "const"))
GROUP_MEMBER = Regex(r"\s+(?P<name>\w+)")
# A definition continues in the next line after the first words, and before the second.
LINE_CONTINUES_AFTER = frozenset(
    ", = < => & | + - * / . ? : ( [ { extends implements where for ->".split()
)
LINE_CONTINUES_BEFORE = frozenset(". ? : | & = > + - * / { where extends implements".split())


class Definition(NamedTuple):
    """A function, type or constant.

    Several of one name (overloads, a getter and its setter) may be merged to one, with a span and
    a head for each.

    Attributes:
        name: the name with its owners before it, joined by dots.
        first: the number of the first line, 1-based.
        last: the number of the last line.
        spans: the ranges (start, stop) of the indices of its words.
        heads: the index of its first word after the decorators, for each span.
    """

    name: str
    first: int
    last: int
    spans: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """The range of the indices of the words of a definition that is not merged."""
        (only_span,) = self.spans
        return only_span


class EnclosingDefinition(NamedTuple):
    """The definition around some lines.

    Attributes:
        definition: the definition.
        is_whole: whether the lines hold all of it, apart from its decorators.
    """

    definition: Definition
    is_whole: bool


class _Scope(NamedTuple):
    """An open definition, the owner of the definitions inside of it.

    Attributes:
        name: its full name; "" if it is no part of the names inside of it.
        stop: the index after its last word.
        depth: number of brackets that are open before its first line.
        kind: its kind, as `_match_row` returns it; for Python its keyword.
    """

    name: str
    stop: int
    depth: int
    kind: str


@lru_cache(maxsize=512)
def list_definitions(path: str, text: str) -> tuple[Definition, ...]:
    """Return the functions, types and constants of a file in order; none for an unknown language.

    Args:
        path: the path of the file, whose extension decides on the language.
        text: its text.
    """
    code = read_code(path, text)
    if code.lexer is PYTHON_LEXER:
        return tuple(_list_python_definitions(code))
    patterns = _compile_patterns(code.extension)
    if not patterns:
        return ()
    return tuple(_list_by_patterns(code, text.split("\n"), patterns))


def find_definition(path: str, text: str, symbol: str) -> Definition | None:
    """Return the definition of a file that `symbol` (`post`, `Client.post`) names.

    It is matched by its whole name, else by the end of it, else by its last part if a single
    definition has that. A nested definition (a function in a function) counts only if no outer
    definition has the name. Several definitions of one name are merged.
    """
    name = _join_by_dots(symbol)
    matches = _match_name(path, text, name)
    if not matches:
        return None
    least_depth = min(definition.name.count(".") for definition in matches)
    outer = [definition for definition in matches if definition.name.count(".") == least_depth]
    distinct_names = {definition.name for definition in outer}
    if len(distinct_names) > 1:
        return None
    return merge_definitions(outer)


def _match_name(path: str, text: str, name: str) -> list[Definition]:
    """Return the definitions that a name may mean, by the first of these rules that finds some.

    `Client.post` means the definitions with this name, else those whose name ends in `.Client.post`
    (such as `api.Client.post`), else those whose last part is `post`.
    """
    short_name = strip_owners(name)
    if short_name not in text:
        return []
    same_name: list[Definition] = []
    same_end: list[Definition] = []
    same_short_name: list[Definition] = []
    for definition in list_definitions(path, text):
        if strip_owners(definition.name) != short_name:
            continue
        same_short_name.append(definition)
        if definition.name == name:
            same_name.append(definition)
        if definition.name.endswith(f".{name}"):
            same_end.append(definition)
    return same_name or same_end or same_short_name


def merge_definitions(definitions: Sequence[Definition]) -> Definition:
    """Merge definitions of one name to a single one, which has the spans and heads of all.

    It reaches from the first line of the first definition to the last line of the last one.
    """
    spans: list[tuple[int, int]] = []
    heads: list[int] = []
    for definition in definitions:
        spans += definition.spans
        heads += definition.heads
    first = min(definition.first for definition in definitions)
    last = max(definition.last for definition in definitions)
    return Definition(definitions[0].name, first, last, tuple(spans), tuple(heads))


def find_enclosing(path: str, text: str, lines: tuple[int, int]) -> EnclosingDefinition | None:
    """Return the innermost definition that has all words of some lines; None if there is none.

    Args:
        path: the path of the file.
        text: its text.
        lines: the first and the last line.
    """
    lines_start, lines_stop = read_code(path, text).find_words(*lines)
    if lines_start >= lines_stop:
        return None

    innermost: Definition | None = None
    innermost_start = 0
    for definition in list_definitions(path, text):
        start, stop = definition.span
        has_all_words = start <= lines_start and lines_stop <= stop
        if has_all_words and start >= innermost_start:
            innermost = definition
            innermost_start = start
    if innermost is None:
        return None
    _, innermost_stop = innermost.span
    first_after_decorators = innermost.heads[0]
    is_whole = lines_stop == innermost_stop and lines_start <= first_after_decorators
    return EnclosingDefinition(innermost, is_whole)


def find_mentioned_definition(path: str, text: str, prose: str) -> Definition | None:
    """Return the first definition of a file that a text names as code; None if it names none.

    A name is written as code in back quotes, with parentheses, or with a sign such as `_`. A plain
    word is no name: "before you run the tests" does not name a function `run`.

    Args:
        path: the path of the file.
        text: its text.
        prose: the text that names definitions.
    """
    for mention in list_mentions(prose):
        definition = find_definition(path, text, mention)
        if definition is not None:
            return definition
    return None


def list_mentions(prose: str, *, include_weak: bool = True) -> list[str]:
    """Return the names that a text writes as code, such as `Client.post`, `retry()`, `max_size`.

    Owners are joined by dots, whatever the language writes (`a::b`, `a#b`).

    Args:
        prose: the text of an entry or task.
        include_weak: include names that may not be of code: those in lower case and back quotes,
            such as commands (`pytest`), and capitalised ones, such as products (GitHub).
    """
    names: dict[str, None] = {}
    for mention in MENTION.finditer(prose):
        name = mention["name"]
        is_called = mention["after"] == "("
        is_quoted = mention["before"] == "`" or mention["after"] == "`"
        has_code_sign = CODE_SIGN.search(name) is not None
        if is_called:
            is_of_code = True
        elif include_weak:
            is_of_code = has_code_sign or is_quoted
        else:
            may_be_product = CAPITALISED.fullmatch(name) is not None and not mention["before"]
            has_strong_sign = has_code_sign and not may_be_product
            is_of_code = has_strong_sign or (is_quoted and not name.islower())
        if is_of_code:
            names[_join_by_dots(name)] = None
    return list(names)


@cache
def _compile_patterns(extension: str) -> tuple[re.Pattern[str], ...]:
    """Compile the patterns of a language when its first file is read.

    To compile the patterns of all languages takes as long as to start Python.
    """
    return tuple(re.compile(pattern) for pattern in PATTERNS.get(extension, ()))


def is_code(path: str) -> bool:
    """Return whether definitions can be recognised in files of this kind."""
    extension = path.rpartition(".")[2].lower()
    return extension in PATTERNS or LEXER_BY_EXTENSION.get(extension) is PYTHON_LEXER


def is_type(path: str, text: str, definition: Definition) -> bool:
    """Return whether a definition is a class, another type or a module."""
    words = read_code(path, text).words
    head = definition.heads[0]
    words_before_name = words[head : head + MAX_HEAD]
    short_name = strip_owners(definition.name)
    if short_name in words_before_name:
        words_before_name = words_before_name[: words_before_name.index(short_name)]
    return not TYPE_KEYWORDS.isdisjoint(words_before_name)


def strip_owners(name: str) -> str:
    """Return the last part of a name.

    >>> strip_owners("Client.post")
    'post'
    """
    return name.rpartition(".")[2]


def _join_by_dots(symbol: str) -> str:
    return symbol.replace("::", ".").replace("#", ".")


def _make_definition(code: Code, name: str, start: int, head: int, stop: int) -> Definition:
    """Return a definition with the numbers of its first and its last line.

    Args:
        code: the text as words.
        name: its full name, with the classes and functions around it.
        start: the index of its first word.
        head: the index of its first word after the decorators.
        stop: the index after its last word.
    """
    last_word = code.words[stop - 1]
    last_line = code.rows[stop - 1] + last_word.count("\n")  # A literal may have several lines.
    return Definition(
        name=name, first=code.rows[start], last=last_line, spans=((start, stop),), heads=(head,)
    )


def _close_scopes(scopes: list[_Scope], start: int) -> None:
    """Drop the scopes that end before the word with this index."""
    while scopes and start >= scopes[-1].stop:
        scopes.pop()


def _list_python_definitions(code: Code) -> Iterator[Definition]:
    """Yield the functions and classes of a Python text, and the assignments outside of them."""
    scopes: list[_Scope] = []  # The definitions around a line, the innermost last.
    for number, line in enumerate(code.lines):
        _close_scopes(scopes, line.start)
        first_words = code.words[line.start : line.start + 3]
        if first_words[0] == "async":
            del first_words[0]
        if len(first_words) > 1 and first_words[0] in ("def", "class"):
            keyword = first_words[0]
            short_name = first_words[1]
            name = f"{scopes[-1].name}.{short_name}" if scopes else short_name
            stop = _find_dedent(code, number)
            scopes.append(_Scope(name, stop, 0, keyword))
            start = _find_decorators(code, number)
            yield _make_definition(code, name, start, line.start, stop)
        elif not scopes and _is_assignment(code, line):
            name = code.words[line.start]
            yield _make_definition(code, name, line.start, line.start, line.stop)


def _find_dedent(code: Code, number: int) -> int:
    """Return the index of the first word below a line that is not indented deeper than the line.

    Args:
        code: the text as words.
        number: the index of the line.
    """
    indent = code.lines[number].indent
    for below in range(number + 1, len(code.lines)):
        if code.lines[below].indent <= indent:
            return code.lines[below].start
    return len(code.words)


def _is_assignment(code: Code, line: Line) -> bool:
    """Return whether a Python line is `name = ...` or `name: type = ...`."""
    words = code.words[line.start : line.stop]
    if not words[0].isidentifier() or words[0] in PYTHON_KEYWORDS:
        return False
    if words[1:2] == ["="]:
        return words[2:3] != ["="]
    if words[1:2] != [":"]:
        return False
    depth = 0
    for word in words[1:]:
        depth += DEPTH_CHANGE.get(word, 0)
        if word == "=" and depth == 0:
            return True
    return False


def _find_decorators(code: Code, number: int) -> int:
    """Return the index of the first word of the definition in a line, its decorators included.

    The attributes of Rust are not part of a definition: they tell the compiler, linters and derived
    code how to treat it.

    Args:
        code: the text as words.
        number: the index of the line.
    """
    own_line = code.lines[number]
    start = own_line.start
    for above in range(number - 1, -1, -1):
        line = code.lines[above]
        if line.depth > own_line.depth:
            continue
        if line.indent != own_line.indent or code.words[line.start] != "@":
            break
        start = line.start
    return start


def _list_by_patterns(
    code: Code, rows: Sequence[str], patterns: Sequence[re.Pattern[str]]
) -> Iterator[Definition]:
    """Yield the definitions of a text whose first line matches a pattern of the language.

    The name of each begins with the names of the definitions around it. An `impl` of Rust is no
    definition: it only gives the name of its type to the functions in it. A `mod` of Rust is one,
    but gives no name to what is in it.

    Args:
        code: the text as words.
        rows: the lines of the text.
        patterns: the patterns of the language.
    """
    scopes: list[_Scope] = []  # The definitions around a line, the innermost last.
    for number, line in enumerate(code.lines):
        _close_scopes(scopes, line.start)
        row = rows[code.rows[line.start] - 1]
        if len(row) > MAX_WIDTH:
            continue
        row_indent = len(row) - len(row.lstrip())
        # Else the first word is not at the begin of its row: a comment or literal ends before it.
        is_whole_row = code.lexer in INDENTED_LEXERS or row_indent == line.indent
        if not is_whole_row:
            continue

        kind, name = _match_row(row, patterns, scopes[-1] if scopes else None, line)
        if not kind:
            continue
        if kind == "impl":
            name = _find_implementer(code.words, line.start)
        named_owners = [scope.name for scope in scopes if scope.name]
        owner = named_owners[-1] if named_owners else ""
        full_name = _join_by_dots(f"{owner}.{name}" if name and owner else name)
        scope_name = owner if kind == "mod" else full_name
        stop = _find_stop(code, number)
        scopes.append(_Scope(scope_name, stop, line.depth, kind))
        if name and kind != "impl":
            start = _find_decorators(code, number)
            yield _make_definition(code, full_name, start, line.start, stop)


def _match_row(
    row: str, patterns: Sequence[re.Pattern[str]], scope: _Scope | None, line: Line
) -> tuple[str, str]:
    """Return (kind, name) of the definition that begins in a line; ("", "") if none does.

    These are the kinds:

    - `class`, `interface`, `mod`, `enum`: the keyword of a definition that has one of these;
    - `group`: the head of a group of declarations of Go, `const (`, which has no name;
    - `member`: a declaration in such a group;
    - `impl`: the head of an implementation of Rust, whose name is found later;
    - `item`: any other definition.

    Args:
        row: the line as text.
        patterns: the patterns of the language.
        scope: the innermost definition around the line.
        line: the line as words.
    """
    is_member = scope is not None and line.depth == scope.depth + 1
    if scope and scope.kind == "group":
        match = GROUP_MEMBER.match(row) if is_member else None
        return ("member", match["name"]) if match else ("", "")

    is_class_member = is_member and scope is not None and scope.kind == "class"
    for pattern in patterns:
        match = pattern.match(row)
        if match is None:
            continue
        groups = match.groupdict()
        if groups.get("group"):
            return "group", ""
        if groups.get("impl"):
            return "impl", ""
        if groups.get("member") and is_class_member:
            return "item", groups["member"]
        name = groups.get("name")
        if name and name not in CALL_LIKE_KEYWORDS:
            if groups.get("owner"):
                name = f"{groups['owner']}.{name}"
            keyword = SCOPE_KEYWORD.search(row[: match.end()])
            return keyword[0] if keyword else "item", name
    return "", ""


def _find_implementer(words: Sequence[str], start: int) -> str:
    """Return the type that an `impl` of Rust is for.

    It is `Y` in `impl<'a> fmt::Display for a::Y<'a> where T: X {`.
    """
    depth = 0
    name = ""
    for index in range(start, len(words)):
        word = words[index]
        before = words[index - 1]
        if depth == 0 and word in ("{", "where"):
            break
        if word == "<":
            depth += 1
        elif word == ">" and before != "-":
            depth -= 1
        if depth == 0 and word == "for":
            name = ""
        elif depth == 0 and word.isidentifier() and word not in RUST_TYPE_MARKS and before != "'":
            name = word
    return name


def _find_stop(code: Code, number: int) -> int:
    """Return the index after the last word of the definition that begins in a line.

    It ends where its brackets are closed and no further line continues it. If they are never
    closed, its indentation decides.

    Args:
        code: the text as words.
        number: the index of the line.
    """
    if code.lexer in INDENTED_LEXERS:
        return _find_stop_by_indent(code, number)
    lines = code.lines
    first_line = lines[number]
    for index in range(number, len(lines)):
        line = lines[index]
        is_closing = line.depth <= first_line.depth and code.words[line.start] in CLOSING
        if index > number and is_closing:
            return line.start
        if index + 1 < len(lines) and _ends_definition(code, first_line, line, lines[index + 1]):
            return line.stop
    open_brackets = sum(DEPTH_CHANGE.get(word, 0) for word in code.words[first_line.start :])
    if open_brackets > 0:
        return _find_stop_by_indent(code, number)
    return len(code.words)


def _ends_definition(code: Code, first_line: Line, line: Line, next_line: Line) -> bool:
    """Return whether a definition of a language with braces ends with a line of it.

    The first of these rules that applies decides. The definition

    - goes on while its brackets are open;
    - ends with `;`, and with the block around it;
    - ends with `}`, if the next line does not begin with a word that continues a statement;
    - goes on after or before a word that continues a statement, such as `=` or `.`;
    - ends if the next line is not indented deeper than its first line.

    Args:
        code: the text as words.
        first_line: the first line of the definition.
        line: a line of it.
        next_line: the line after `line`.
    """
    if next_line.depth > first_line.depth:
        return False
    last_word = code.words[line.stop - 1]
    if last_word == ">" and code.words[line.stop - 2] in ("=", "-"):
        last_word = "=>"  # The lexer splits `=>` and `->`, which continue in the next line.
    if last_word == ";" or next_line.depth < first_line.depth:
        return True
    is_continued_below = code.words[next_line.start] in LINE_CONTINUES_BEFORE
    if last_word == "}" and not is_continued_below:
        return True
    if last_word in LINE_CONTINUES_AFTER or is_continued_below:
        return False
    return next_line.indent <= first_line.indent


def _find_stop_by_indent(code: Code, number: int) -> int:
    """Return the index after the last word of a definition, judged by indentation.

    A definition has the lines below its first line that are indented deeper. Of the lines with the
    same indentation it has those that continue it, such as `else` or `{` (CONTINUATION), and then
    one that closes it, such as `end` or `}` (END_OF_BLOCK). Lines that begin with `#` do not count.

    Args:
        code: the text as words.
        number: the index of the definition's first line.
    """
    first_line = code.lines[number]
    stop = first_line.stop
    for below in range(number + 1, len(code.lines)):
        line = code.lines[below]
        text = " ".join(code.words[line.start : line.stop])
        if text.startswith("#"):
            continue
        is_same_indent = line.indent == first_line.indent
        is_continuation = is_same_indent and CONTINUATION.match(text)
        if line.indent > first_line.indent or is_continuation:
            stop = line.stop
            continue
        is_closing_line = is_same_indent and END_OF_BLOCK.match(text)
        return line.stop if is_closing_line else stop
    return stop
