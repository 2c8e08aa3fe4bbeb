"""Definitions in source text, found by the look of their first line: no parser, a wrong guess costs precision only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_LINES = 300
"""A definition is followed for at most this many lines."""

MAX_WIDTH = 400
"""A longer line is generated or minified: it is not looked at, so that no pattern can take long on it."""

MODIFIERS = """public private protected internal static final abstract sealed override virtual async readonly default
    synchronized native export declare get set""".split()
WORDS = rf"(?:(?:{'|'.join(MODIFIERS)})\s+)*"
C_TYPES = r"(?:typedef\s+)?(?:struct|class|enum(?:\s+class)?|union|namespace)"
RUST_ITEMS = r"(?:fn|struct|enum|trait|union|mod|type|const|static|macro_rules!)"

PYTHON = (r"\s*(?:async\s+)?(?:def|class)\s+(?P<name>\w+)", r"(?P<name>[A-Z][A-Z0-9_]+)\s*(?::[^=]+)?=(?!=)")
SCRIPT = (
    rf"\s*{WORDS}(?:function\*?|class|interface|enum|type|namespace)\s+(?P<name>[\w$]+)",
    r"(?:export\s+)?(?:const|let|var)\s+(?P<name>[\w$]+)\s*(?::[^=]+)?=",
    rf"\s+{WORDS}\*?(?P<name>[\w$]+)\s*(?:<[^>]*>)?\([^;]*\{{\s*$",
)
GO = (
    r"func\s+(?:\(\s*(?:\w+\s+)?\*?(?P<owner>\w+)[^)]*\)\s*)?(?P<name>\w+)",
    r"(?:type|var|const)\s+(?P<name>\w+)",
)
RUST = (
    rf"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:default|const|async|unsafe|extern(?:\s+\"\w*\")?)\s+)*{RUST_ITEMS}\s+(?P<name>\w+)",
)
JAVA = (
    rf"\s*{WORDS}(?:class|interface|enum|record|@interface|object)\s+(?P<name>\w+)",
    rf"\s+{WORDS}(?:fun\s+|(?:<[^>]*>\s*)?\w[\w.<>\[\],?]*(?:,\s+[\w.<>\[\],?]+)*\s+)(?P<name>\w+)\s*\([^;=]*$",
)
C = (
    rf"\s*{C_TYPES}\s+(?P<name>\w+)[^;()]*$",
    r"(?!(?:return|else|typedef)\b)[\w:*&<>,~\[\]][\w:*&<>,~\[\] ]*?[ *&](?P<name>~?\w+(?:::~?\w+)*)\s*\([^;]*$",
    r"#\s*define\s+(?P<name>\w+)",
)
RUBY = (
    r"\s*(?:def\s+(?:self\.)?|class\s+|module\s+)(?P<name>[\w:]+[?!]?)",
    r"\s*(?P<name>[A-Z][A-Z0-9_]+)\s*=(?!=)",
)
SHELL = (r"\s*(?:function\s+)?(?P<name>[\w-]+)\s*\(\)", r"\s*function\s+(?P<name>[\w-]+)")

LANGUAGES = {
    "py pyi": PYTHON,
    "js jsx mjs cjs ts tsx mts cts": SCRIPT,
    "go": GO,
    "rs": RUST,
    "java kt cs": JAVA,
    "c h cc cpp cxx hh hpp hxx": C,
    "rb": RUBY,
    "sh bash zsh": SHELL,
}
"""Patterns of a definition's first line, by the extensions of the language's files."""

PATTERNS = {ext: tuple(map(re.compile, table)) for exts, table in LANGUAGES.items() for ext in exts.split()}

KEYWORDS = frozenset("if for while switch catch return function new else do try with await throw super sizeof".split())
"""What is followed by parentheses and defines nothing."""

CLOSES = re.compile(r"[)\]}]|end\b")
CONTINUES = re.compile(
    r"\{|[)\]}].*(?:[:{]|=>)$|(?:public|private|protected)\s*:|(?:rescue|ensure|else|elsif|when|where)\b"
)
"""What may stand at the indentation of a definition and still belong to it: an opening brace on a line of its own, the
end of a signature over several lines, an access label, the clauses of Ruby and Rust."""

MENTION = re.compile(
    r"(?P<tick>`?)(?<![\w$])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*[!?]?)(?P<call>[(`]?)"
)
CODE_LIKE = re.compile(r"\w_\w|[a-z\d][A-Z]|\.|::|#")


class Definition(NamedTuple):
    """A function, type or constant: its name with its owners before it, and its lines (1-based)."""

    name: str
    first: int
    last: int


@lru_cache(maxsize=512)
def list_definitions(path: str, text: str) -> tuple[Definition, ...]:
    """The definitions of a file in order; none in a language that is not in the table."""
    patterns = PATTERNS.get(path.rpartition(".")[2].lower(), ())
    lines = text.split("\n") if patterns else []
    owners: list[Definition] = []
    found: list[Definition] = []
    for start, name in _openings(lines, patterns):
        while owners and owners[-1].last <= start:
            owners.pop()
        whole = f"{owners[-1].name}.{name}" if owners else name
        owners.append(Definition(whole, start + 1, _end(lines, start) + 1))
        found.append(owners[-1])
    return tuple(found)


def find_definition(path: str, text: str, symbol: str) -> Definition | None:
    """The definition that `symbol` names: by its whole name, by the end of it, by its last part if only one has it."""
    wanted = _dotted(symbol)
    tail = wanted.rpartition(".")[2]
    definitions = list_definitions(path, text) if tail in text else ()
    for fits in (
        [one for one in definitions if one.name == wanted],
        [one for one in definitions if one.name.endswith(f".{wanted}")],
        [one for one in definitions if one.name.rpartition(".")[2] == tail],
    ):
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def find_named(path: str, text: str, prose: str) -> Definition | None:
    """The first definition of a file that `prose` names as code does: in back quotes, with parentheses or a joint.

    A plain word is no name: a function `run` is not meant by "before you run the tests".
    """
    for mention in MENTION.finditer(prose):
        if mention["tick"] or mention["call"] or CODE_LIKE.search(mention["name"]):
            found = find_definition(path, text, mention["name"])
            if found is not None:
                return found
    return None


def _dotted(symbol: str) -> str:
    return symbol.replace("::", ".").replace("#", ".")


def _openings(lines: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> Iterator[tuple[int, str]]:
    """The lines (0-based) on which something is defined, and its name."""
    for number, line in enumerate(lines):
        matches = (pattern.match(line) for pattern in patterns if len(line) <= MAX_WIDTH)
        for match in matches:
            if match is not None and match["name"] not in KEYWORDS:
                owner = match.groupdict().get("owner")
                yield number, _dotted(f"{owner}.{match['name']}" if owner else match["name"])
                break


def _end(lines: Sequence[str], start: int) -> int:
    """The last line (0-based) of the definition that begins at `start`: what is indented deeper, and what closes it."""
    indent, last = _indent(lines[start]), start
    for number in range(start + 1, min(len(lines), start + MAX_LINES)):
        line = lines[number].strip()
        if not line or line.startswith("#"):
            continue
        depth = _indent(lines[number])
        if depth > indent or (depth == indent and CONTINUES.match(line)):
            last = number
        else:
            return number if depth == indent and CLOSES.match(line) else last
    return last


def _indent(line: str) -> int:
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())
