"""Definitions in source text, found by the look of their first line: no parser, a wrong guess costs precision only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from memory_ci.anchors.words import BY_EXTENSION, INDENTED, PYTHON, Code, Line, read_code
from memory_ci.anchors.words import KEYWORDS as PYTHON_KEYWORDS

if TYPE_CHECKING:
    pass

MAX_WIDTH = 400  # A longer line is generated or minified: it is not looked at, so that no pattern can take long on it.
MODIFIERS = """public private protected internal static final abstract sealed override virtual async readonly default
    synchronized native export declare get set""".split()
WORDS = rf"(?:(?:{'|'.join(MODIFIERS)})\s+)*"
C_TYPES = r"(?:typedef\s+)?(?:struct|class|enum(?:\s+class)?|union|namespace)"
RUST_ITEMS = r"(?:fn|struct|enum|trait|union|mod|type|const|static|macro_rules!)"

# Patterns of a definition's first line, by the extensions of the language's files.
LANGUAGES = {
    "js jsx mjs cjs ts tsx mts cts": (
        rf"\s*{WORDS}(?:function\*?|class|interface|enum|type|namespace)\s+(?P<name>[\w$]+)",
        rf"{WORDS}(?:const|let|var)\s+(?:enum\s+)?(?P<name>[\w$]+)",
        rf"\s+{WORDS}\*?(?P<name>[\w$]+)\s*(?:<[^>]*>)?\([\w$,\s:?]*\)\s*(?::[^()]*)?\{{\s*$",
        rf"\s+{WORDS}\*?(?P<member>#?[\w$]+)\s*(?:<|\()",
    ),
    "go": (
        r"func\s+(?:\(\s*(?:\w+\s+)?\*?(?P<owner>\w+)[^)]*\)\s*)?(?P<name>\w+)",
        r"(?:type|var|const)\s+(?P<name>\w+)",
        r"(?P<group>type|var|const)\s*\(\s*$",
    ),
    "rs": (
        rf"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:default|const|async|unsafe|extern(?:\s+\"\w*\")?)\s+)*{RUST_ITEMS}\s+(?:mut\s+)?(?P<name>\w+)",
        r"\s*(?:unsafe\s+)?(?P<impl>impl)\b",
    ),
    "java kt cs": (
        rf"\s*{WORDS}(?:class|interface|enum|record|@interface|object)\s+(?P<name>\w+)",
        rf"\s+{WORDS}(?:fun\s+|(?:<[^>]*>\s*)?\w[\w.<>\[\],?]*(?:,\s+[\w.<>\[\],?]+)*\s+)(?P<name>\w+)\s*\([^;=]*$",
    ),
    "c h cc cpp cxx hh hpp hxx": (
        rf"\s*{C_TYPES}\s+(?P<name>\w+)[^;()]*$",
        r"(?!(?:return|else|typedef)\b)[\w:*&<>,~\[\]][\w:*&<>,~\[\] ]*?[ *&](?P<name>~?\w+(?:::~?\w+)*)\s*\([^;]*$",
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
PATTERNS = {ext: table for exts, table in LANGUAGES.items() for ext in exts.split()}
# What is followed by parentheses and defines nothing.
KEYWORDS = frozenset(
    "if for while switch catch return function else do try with await throw super sizeof".split()
)
CLOSES = re.compile(r"[)\]}]|end\b")
CONTINUES = re.compile(
    r"\{|[)\]}].*(?:[:{]|=>)$|(?:public|private|protected)\s*:|(?:rescue|ensure|else|elsif|when|where)\b"
)
"""What may stand at the indentation of a definition and still belong to it: an opening brace on a line of its own, the
end of a signature over several lines, an access label, the clauses of Ruby and Rust."""

MENTION = re.compile(
    r"(`?)(?<![\w$])([A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*[!?]?)([(`]?)"
)
CODE_LIKE = re.compile(r"\w_\w|[a-z\d][A-Z]|\.|::|#")
TITLED = re.compile(r"[A-Z][A-Za-z\d]*")
TYPES = frozenset(
    "class interface enum struct trait union type mod module namespace record object typedef".split()
)
MAX_HEAD = (
    12  # What tells a type from a function stands in so many words of its head, before its name.
)
KINDS = re.compile(r"\b(?:class|interface|mod|enum)\b")
RUST_MARKS = frozenset(("unsafe", "impl", "mut", "dyn", "const"))
GROUP_MEMBER = re.compile(r"\s+(?P<name>\w+)")
CLOSING = frozenset(")]}")
GOES_ON = frozenset(", = < => & | + - * / . ? : ( [ { extends implements where for ->".split())
LEADS = frozenset(
    ". ? : | & = > + - * / { where extends implements".split()
)  # A definition goes on before them.


class Definition(NamedTuple):
    """A function, type or constant: its name with its owners before it, its lines (1-based), and where its words are.
    Several of one name (overloads, a getter and its setter) are one, with a span each. `heads` are where they begin
    without their decorators."""

    name: str
    first: int
    last: int
    spans: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()


class _Scope(NamedTuple):
    """What is being defined, as an owner of what follows in it."""

    name: str
    stop: int
    depth: int
    kind: str


@lru_cache(maxsize=512)
def list_definitions(path: str, text: str) -> tuple[Definition, ...]:
    """The definitions of a file in order; none in a language that is not in the table."""
    code = read_code(path, text)
    patterns = _compiled(code.extension)
    if code.lexer is PYTHON:
        return tuple(_list_python(code))
    return tuple(_list_by_look(code, text.split("\n"), patterns)) if patterns else ()


def find_definition(path: str, text: str, symbol: str) -> Definition | None:
    """The definition that `symbol` names: by its whole name, by the end of it, by its last part if only one has it.
    What stands inside of others (a function in a function) counts only where nothing outside has the name."""
    wanted = _dotted(symbol)
    tail = tail_of(wanted)
    definitions = list_definitions(path, text) if tail in text else ()
    for fits in (
        [one for one in definitions if one.name == wanted],
        [one for one in definitions if one.name.endswith(f".{wanted}")],
        [one for one in definitions if tail_of(one.name) == tail],
    ):
        if fits:
            least = min(one.name.count(".") for one in fits)
            outer = [one for one in fits if one.name.count(".") == least]
            return merge_definitions(outer) if len({one.name for one in outer}) == 1 else None
    return None


def merge_definitions(parts: Sequence[Definition]) -> Definition:
    spans = tuple(span for one in parts for span in one.spans)
    heads = tuple(head for one in parts for head in one.heads)
    first, last = min(one.first for one in parts), max(one.last for one in parts)
    return Definition(parts[0].name, first, last, spans, heads)


def find_around(path: str, text: str, lines: tuple[int, int]) -> tuple[Definition | None, bool]:
    """(the innermost definition whose words the lines lie in, whether they are all of it, decorators apart)."""
    code = read_code(path, text)
    start, stop = code.find_rows(*lines)
    best: Definition | None = None
    for one in list_definitions(path, text):
        ((begin, end),) = one.spans
        if (
            start < stop
            and begin <= start
            and stop <= end
            and not (best and begin < best.spans[0][0])
        ):
            best = one
    return best, best is not None and stop == best.spans[0][1] and start <= best.heads[0]


def find_named(path: str, text: str, prose: str) -> Definition | None:
    """The first definition of a file that `prose` names as code does: in back quotes, with parentheses or a joint. A
    plain word is no name: a function `run` is not meant by "before you run the tests"."""
    found = (find_definition(path, text, mention) for mention in list_mentions(prose))
    return next(filter(None, found), None)


def list_mentions(prose: str, *, plain: bool = True) -> list[str]:
    """The names that `prose` writes as code, owners before them with a dot between. Those of small letters alone that
    only stand in back quotes (commands do so as well), and those that begin with a capital and have no sign of code
    (products do so as well, `GitHub`), count if `plain`."""
    found = (
        name
        for tick, name, call in MENTION.findall(prose)
        if call == "("
        or (CODE_LIKE.search(name) and (plain or tick or not TITLED.fullmatch(name)))
        or ((tick or call) and (plain or not name.islower()))
    )
    return list(dict.fromkeys(map(_dotted, found)))


@cache
def _compiled(extension: str) -> tuple[re.Pattern[str], ...]:
    """The patterns of a language, compiled when its first file is read: all of them take as long as bare Python."""
    return tuple(map(re.compile, PATTERNS.get(extension, ())))


def is_code(path: str) -> bool:
    """Whether definitions are known in files of this kind."""
    extension = path.rpartition(".")[2].lower()
    return extension in PATTERNS or BY_EXTENSION.get(extension) is PYTHON


def is_type(path: str, text: str, definition: Definition) -> bool:
    """Whether a definition is a class or another type, or a module: what holds others, or says how data look."""
    words, (head, *_) = read_code(path, text).words, definition.heads
    tail = tail_of(definition.name)
    before = words[head : head + MAX_HEAD]
    return not TYPES.isdisjoint(before[: before.index(tail)] if tail in before else before)


def tail_of(name: str) -> str:
    """The last part of a name: that of a definition without its owners."""
    return name.rpartition(".")[2]


def _dotted(symbol: str) -> str:
    return symbol.replace("::", ".").replace("#", ".")


def _definition(code: Code, name: str, start: int, head: int, stop: int) -> Definition:
    last = code.rows[stop - 1] + code.words[stop - 1].count("\n")
    return Definition(name, code.rows[start], last, ((start, stop),), (head,))


def _list_python(code: Code) -> Iterator[Definition]:
    words, lines = code.words, code.lines
    scopes: list[_Scope] = []
    for number, line in enumerate(lines):
        while scopes and line.start >= scopes[-1].stop:
            scopes.pop()
        head = words[line.start : line.start + 3]
        at = 1 if head[:1] == ["async"] else 0
        owner = f"{scopes[-1].name}." if scopes else ""
        if head[at : at + 1] in (["def"], ["class"]) and len(head) > at + 1:
            below = range(number + 1, len(lines))
            stop = next(
                (lines[at].start for at in below if lines[at].indent <= line.indent), len(words)
            )
            scopes.append(_Scope(owner + head[at + 1], stop, 0, head[at]))
            yield _definition(
                code, owner + head[at + 1], _decorated(code, number), line.start, stop
            )
        elif (
            not scopes
            and head[0].isidentifier()
            and head[0] not in PYTHON_KEYWORDS
            and _is_assigned(code, line)
        ):
            yield _definition(code, head[0], line.start, line.start, line.stop)


def _is_assigned(code: Code, line: Line) -> bool:
    """Whether a line is `name = ...` or `name: type = ...`."""
    words = code.words[line.start : line.stop]
    if words[1:2] == ["="]:
        return words[2:3] != ["="]
    depth = 0
    for word in words[1:] if words[1:2] == [":"] else ():
        depth += (word in "([{") - (word in ")]}")
        if word == "=" and depth == 0:
            return True
    return False


def _decorated(code: Code, number: int) -> int:
    """Where the decorators of the definition in a line begin, else the line itself. The attributes of Rust are no part
    of it: they tell the compiler, linters and derived code what to do with it."""
    words, lines = code.words, code.lines
    start, own = lines[number].start, lines[number]
    for at in range(number - 1, -1, -1):
        line = lines[at]
        if line.depth > own.depth:
            continue
        if line.indent != own.indent or words[line.start] != "@":
            break
        start = line.start
    return start


def _list_by_look(
    code: Code, lines: Sequence[str], patterns: Sequence[re.Pattern[str]]
) -> Iterator[Definition]:
    scopes: list[_Scope] = []
    for number, line in enumerate(code.lines):
        while scopes and line.start >= scopes[-1].stop:
            scopes.pop()
        row = lines[code.rows[line.start] - 1]
        if len(row) > MAX_WIDTH or (
            code.lexer not in INDENTED and len(row) - len(row.lstrip()) != line.indent
        ):
            continue  # generated or minified; or the line begins inside of a comment or a literal
        kind, name = _look(row, patterns, scopes[-1] if scopes else None, line)
        name = _find_implementer(code.words, line.start) if kind == "impl" else name
        if kind:
            stop = _stop(code, number)
            owner = next((scope.name for scope in reversed(scopes) if scope.name), "")
            whole = name if not name or not owner else f"{owner}.{name}"
            scopes.append(
                _Scope(_dotted(whole) if kind != "mod" else owner, stop, line.depth, kind)
            )
            if name and kind != "impl":
                yield _definition(code, _dotted(whole), _decorated(code, number), line.start, stop)


def _look(
    row: str, patterns: Sequence[re.Pattern[str]], scope: _Scope | None, line: Line
) -> tuple[str, str]:
    """(what a line defines, its name), ("", "") if nothing."""
    is_member = scope is not None and line.depth == scope.depth + 1
    if scope and scope.kind == "group":
        match = GROUP_MEMBER.match(row) if is_member else None
        return ("member", match["name"]) if match else ("", "")
    for pattern in patterns:
        match = pattern.match(row)
        if match is None:
            continue
        found = match.groupdict()
        if found.get("group"):
            return "group", ""
        if found.get("impl"):
            return "impl", ""
        name, member = found.get("name"), found.get("member")
        if member and is_member and scope and scope.kind == "class":
            return "item", member
        if name and name not in KEYWORDS:
            kind = KINDS.search(row[: match.end()])
            owner = f"{found['owner']}." if found.get("owner") else ""
            return kind[0] if kind else "item", owner + name
    return "", ""


def _find_implementer(words: Sequence[str], start: int) -> str:
    """The type that an `impl` of Rust is for: `Y` in `impl<'a> fmt::Display for a::Y<'a> where T: X {`."""
    depth, name = 0, ""
    for at in range(start, len(words)):
        word = words[at]
        if depth == 0 and word in ("{", "where"):
            break
        depth += (word == "<") - (word == ">" and words[at - 1] != "-")
        if depth == 0 and word == "for":
            name = ""
        elif depth == 0 and word.isidentifier() and word not in RUST_MARKS and words[at - 1] != "'":
            name = word
    return name


def _stop(code: Code, number: int) -> int:
    """Where the words of the definition end that begins in a line: its brackets are closed, nothing goes on."""
    words, lines = code.words, code.lines
    own = lines[number]
    if code.lexer in INDENTED:
        return _loose_stop(code, number)
    for at in range(number, len(lines)):
        line, after = lines[at], lines[at + 1] if at + 1 < len(lines) else None
        if at > number and line.depth <= own.depth and words[line.start] in CLOSING:
            return line.start
        if after is None:
            break
        if after.depth > own.depth:
            continue
        last, follows = words[line.stop - 1], words[after.start]
        if last == ">" and words[line.stop - 2] in "=-":
            last = "=>"
        if last == ";" or after.depth < own.depth or (last == "}" and follows not in LEADS):
            return line.stop
        if last in GOES_ON or follows in LEADS or after.indent > own.indent:
            continue
        return line.stop
    is_closed = sum((word in "([{") - (word in ")]}") for word in words[own.start :]) <= 0
    return len(words) if is_closed else _loose_stop(code, number)


def _loose_stop(code: Code, number: int) -> int:
    """By indentation: what is indented deeper, and what closes it."""
    own = code.lines[number]
    stop = own.stop
    for at in range(number + 1, len(code.lines)):
        line = code.lines[at]
        said = " ".join(code.words[line.start : line.stop])
        if said.startswith("#"):
            continue
        if line.indent > own.indent or (line.indent == own.indent and CONTINUES.match(said)):
            stop = line.stop
        else:
            return line.stop if line.indent == own.indent and CLOSES.match(said) else stop
    return stop
