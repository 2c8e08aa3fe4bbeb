"""Checks made from rules on how code is written: names, annotations, imports, comments.

A check can tell from one line or from a new file whether such a rule is kept. Rules about several
lines (each function has a docstring, or a decorator) need a linter and have no template here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from memory_ci.checks.name_rules import NameForm, NameRule, find_name_rules
from memory_ci.checks.patterns import MAX_PATTERN
from memory_ci.checks.repository import RepositoryFiles, has_glob, list_code, list_tests
from memory_ci.records.check import AbsentCheck, ChangeCheck, PresentCheck
from memory_ci.regex import Regex

NAME = r"[^\W\d]\w*"
ARGUMENT = r"(?:[^,()\[\]]|\[[^\[\]]*\]|\([^()]*\))*,"
"""An argument of a definition with its annotation and default, up to the comma."""


class CodeLanguage(NamedTuple):
    """How a language shows names.

    Attributes:
        name: the word by which a rule names the language.
        globs: its files.
        lines: by kind of thing, what comes before and what comes after a name on its line.
        comment: a comment.
    """

    name: Regex[str]
    globs: tuple[str, ...]
    lines: Mapping[str, tuple[str, str]]
    comment: str


PYTHON = CodeLanguage(
    name=Regex(r"\bpython\b|\.py\b", re.IGNORECASE),
    globs=("*.py",),
    lines={
        "function": (r"^(?:async )?def ", r"\s*[\[(]"),
        "method": (r"^\s+(?:async )?def ", r"\((?:self|cls)\b"),
        "class": (r"^\s*class ", r"\s*[\[(:]"),
        "variable": (rf"^\s*(?:{NAME}, )*", rf"(?:, {NAME})*(?:: [^=]+)? = "),
        "attribute": (r"^\s+self\.", r"(?:: [^=]+)? = "),
        "argument": (
            rf"^\s*(?:async )?def \w+\((?:{ARGUMENT})*\s*\*{{0,2}}(?!(?:self|cls)\b)",
            r"\s*(?:[:=,)]|$)",
        ),
    },
    comment=r"(?:^|\s)#(?!!)",
)
JAVASCRIPT = CodeLanguage(
    name=Regex(r"\b(?:java|type)script\b", re.IGNORECASE),
    globs=("*.js", "*.jsx", "*.mjs", "*.ts", "*.tsx"),
    lines={
        "function": (r"^\s*(?:export )?(?:default )?(?:async )?function\*? ", r"\s*[<(]"),
        "class": (r"^\s*(?:export )?(?:default )?(?:abstract )?class ", r"\b"),
        "variable": (r"^\s*(?:export )?(?:const|let|var) ", r"\s*[:=;]"),
    },
    comment=r"//|/\*",
)
GO = CodeLanguage(
    name=Regex(r"\bgolang\b|\bGo (?:code|files?|functions?|variables?)\b"),
    globs=("*.go",),
    lines={
        "function": (r"^func ", r"\s*[\[(]"),
        "method": (r"^func \([^()]*\) ", r"\s*\("),
        "variable": (rf"^\s*(?:var )?(?:{NAME}, )*", rf"(?:, {NAME})*(?: [\w.*\[\]]+)? :?= "),
    },
    comment=r"//|/\*",
)
LANGUAGES = (PYTHON, JAVASCRIPT, GO)

GLOBS_WITHOUT_NAMES = frozenset(("*.sh", "*.sql", "*.vue"))
"""Globs of code whose names a rule about functions or classes is seldom about."""

STYLES = {
    "snake": r"_*[a-z][a-z0-9_]*(?!\w)",
    "pascal": r"_*(?=\w*[a-z]|\w(?!\w))[A-Z][A-Za-z0-9]*(?!\w)",
    "camel": r"_*[a-z][A-Za-z0-9]*(?!\w)",
    "upper": r"_*[A-Z][A-Z0-9_]*(?!\w)",
    "lower": r"[a-z0-9_]+(?!\w)",
}
FORBIDDEN_STYLES = {
    **STYLES,
    "snake": r"_*[a-z0-9]+_[a-z0-9_]*[a-z0-9](?!\w)",
    "camel": r"_*[a-z][a-z0-9]*[A-Z][A-Za-z0-9]*(?!\w)",
}
"""A name of one word, as `count`, is in several styles: who forbids one of them allows it."""

CONSTANT_NAME = r"_*[A-Z][A-Z0-9_]*(?!\w)|_+(?!\w)"
"""A constant, or a value that is not used."""
TYPE_ALIAS = r"(?<!.)[A-Z]\w*"
"""A capitalised name at the start of a line, as `Messages = list[Message]`."""
DUNDER_NAME = r"__\w+__(?!\w)"  # A name that Python demands.

ANNOTATION_DEMAND = Regex(
    r"\b(?:us|includ|add|writ|hav|need|requir|provid)(?:e|es|s|ing)?\b[^.;]{0,40}?"
    r"\b(?P<type>type )?(?:annotations?|hints?)\b",
    re.IGNORECASE,
)
"""A demand for annotations: `add type hints`."""

ANNOTATED_CODE = Regex(
    r"\b(?P<thing>functions?|methods?)\b(?: (?:definitions?|signatures?))?", re.IGNORECASE
)
"""What is to be annotated."""

WORDS_BEFORE_ALL = Regex(
    r"(?:^|\b(?:all|every|each|your|our|the|for|in|to|of|and|or|python))\s*$", re.IGNORECASE
)
"""The words before `functions` where nothing tells which ones are meant."""

WORDS_FOR_ALL_CODE = Regex(
    r"[.!]?$|,| (?:everywhere|throughout)\b| (?:in|to|on|for) (?:all|new|your|our) code\b",
    re.IGNORECASE,
)
"""What follows a demand that holds for all code."""

IMPORT_DEMAND = Regex(
    r"\bimport(?:ing|s|ed)? (?:the )?"
    r"['\"`\u2018\u201c](?P<module>[A-Za-z_][\w.]{0,60})['\"`\u2019\u201d]"
    r"(?: (?:module|library|package))?"
    r"(?=[.!]?$|,| (?:in|into|at the top of) (?:all|every|each)\b| even if\b)",
    re.IGNORECASE,
)
"""A demand for an import: import `logging` in every file."""

EVERY_FILE = Regex(
    r"\balways\b|\b(?:all|every|each) (?:\w+ )?(?:files?|modules?|scripts?)\b|\beven if\b",
    re.IGNORECASE,
)
"""Words by which a demand holds for each file."""

COMMENT_DEMAND = Regex(
    r"\b(?:add|includ|writ|us|put)(?:e|ing)? comments? (?:to|in|into|throughout)"
    r" (?:(?:all|your|our|the|every|each|new|python) )*(?:code|files?|modules?|scripts?)"
    r"(?=[.!]?$|,| (?:because|so that|to (?:explain|clarify|describe|make|improve|help))\b)",
    re.IGNORECASE,
)
"""A demand for comments: `add comments to all files`."""

RESTRICTING_WORDS = Regex(
    r"\b(?:never|don't|do not|not|no|without|avoid|stop|unless|except|only|instead|where|when"
    r"|optional|public|private)\b"
    r"|\b(?<!even )if\b|\?",
    re.IGNORECASE,
)
"""Words by which a rule asks for less than all, or for the opposite."""


def check_names(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule about names in code (`end method names with '_md'`).

    None if the text is no such rule, or if the language of the repository has no pattern of lines
    that define such names.
    """
    rules = find_name_rules(text)
    if not rules:
        return None
    language = _find_language(text, repository)
    if language is None or not all(rule.thing in language.lines for rule in rules):
        return None
    pattern = "|".join(_match_broken_name(rule, language) for rule in rules)
    if len(pattern) > MAX_PATTERN:
        return None
    return AbsentCheck(_list_paths(language, repository), pattern)


def check_annotations(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule that demands type annotations in Python (`add type hints`).

    None if the text is no such rule, or is about some functions alone. A rule that names no
    functions or methods must say that it is about types, and about all code.
    """
    demand = ANNOTATION_DEMAND.search(text)
    annotated_code = ANNOTATED_CODE.search(text)
    if demand is None or RESTRICTING_WORDS.search(text):
        return None
    if annotated_code:
        is_about_all = _is_about_all(text, annotated_code)
    elif demand["type"]:
        is_about_all = WORDS_FOR_ALL_CODE.match(text, demand.end()) is not None
    else:
        is_about_all = False
    if not is_about_all or _find_language(text, repository) is not PYTHON:
        return None
    # A definition whose arguments have no colon, and that has no arrow before its own colon.
    patterns_without_annotations = {
        "function": r"^(?:async )?def \w+\([^:()]*\)\s*:",
        "method": r"^\s+(?:async )?def (?!__)\w+\((?:self|cls)\b[^:()]*\)\s*:",
    }
    named_kinds = {match["thing"].lower().rstrip("s") for match in ANNOTATED_CODE.finditer(text)}
    kinds = sorted(named_kinds or patterns_without_annotations)
    pattern = "|".join(patterns_without_annotations[kind] for kind in kinds)
    return AbsentCheck(_list_paths(PYTHON, repository), pattern)


def check_import(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule by which every Python file imports a module, else None."""
    match = IMPORT_DEMAND.search(text)
    if match is None or not EVERY_FILE.search(text):
        return None
    rule_without_aside = re.sub(r"(?i)\beven if\b.*", "", text)
    is_negative = RESTRICTING_WORDS.search(rule_without_aside)
    if is_negative or _find_language(text, repository) is not PYTHON:
        return None
    module = re.escape(match["module"])
    pattern = rf"^\s*(?:import (?:[\w.]+(?: as \w+)?, *)*{module}|from {module} import)\b(?![.\w])"
    return PresentCheck(_list_paths(PYTHON, repository), pattern)


def check_comments(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule that demands comments in code (`add comments to all files`).

    The check tests that each new file of the language has a comment. None if the text is no such
    rule, or demands comments in some places alone.
    """
    if not COMMENT_DEMAND.search(text) or RESTRICTING_WORDS.search(text):
        return None
    language = _find_language(text, repository)
    if language is None:
        return None
    return PresentCheck(_list_paths(language, repository), language.comment)


def _match_broken_name(rule: NameRule, language: CodeLanguage) -> str:
    """Return the pattern of a line of code with a name that breaks a rule.

    For "start function names with 'fn_'" it finds `def load(` in Python, and not `def fn_load(`.
    The pattern consists of the code before a name of this kind, a test of the name, the name
    itself, and the code after it.
    """
    value = re.escape(rule.value)
    styles = FORBIDDEN_STYLES if rule.is_forbidden else STYLES
    # A rule about digits asks for exactly one, or for at least one.
    digit_pattern = r"[^\W\d]+\d(?!\w*\d)" if rule.value == "one" else r"\w*\d"
    name_patterns: dict[NameForm, str] = {
        "start": value,
        "end": rf"\w*{value}(?!\w)",
        "contain": rf"\w*{value}",
        "style": styles.get(rule.value, ""),
        "digit": digit_pattern,
    }
    name_pattern = name_patterns[rule.form]
    exempt_names = DUNDER_NAME
    if rule.form == "style" and rule.thing == "variable":
        # A constant and an alias of a type have styles of their own.
        exempt_names = f"{DUNDER_NAME}|{CONSTANT_NAME}|{TYPE_ALIAS}"
    # A name breaks the rule if it matches a forbidden pattern, or does not match a required one.
    breaks_rule = rf"(?={name_pattern})" if rule.is_forbidden else rf"(?!{name_pattern})"
    code_before, code_after = language.lines[rule.thing]
    return rf"{code_before}(?!{exempt_names}){breaks_rule}{NAME}{code_after}"


def _is_about_all(text: str, thing: re.Match[str]) -> bool:
    """Return whether a rule is about all of a thing: `in all functions`, not `helper functions`.

    Args:
        text: the rule.
        thing: where it names the thing.
    """
    return WORDS_BEFORE_ALL.search(text[: thing.start()]) is not None


def _find_language(text: str, repository: RepositoryFiles) -> CodeLanguage | None:
    """Return the language that a rule is about, None if that is not clear.

    It is the language that the rule names, if the repository has files of it. If the rule names
    none, it is the language of the repository, if all of its code is in one language. Scripts and
    the like (GLOBS_WITHOUT_NAMES) do not count as code here.
    """
    named_languages = [language for language in LANGUAGES if language.name.search(text)]
    code_globs = set(list_code(repository)) - GLOBS_WITHOUT_NAMES
    present_languages = []
    for language in LANGUAGES:
        if code_globs.intersection(language.globs):
            present_languages.append(language)

    candidates = named_languages or present_languages
    if len(candidates) != 1 or candidates[0] not in present_languages:
        return None
    language = candidates[0]
    if not named_languages and not code_globs.issubset(language.globs):
        return None
    return language


def _list_paths(language: CodeLanguage, repository: RepositoryFiles) -> tuple[str, ...]:
    """Return the globs of a language's code, without tests, whose names their runner demands."""
    code_globs = [glob for glob in language.globs if has_glob(glob, repository)]
    excluded = [f"!{glob}" for glob in list_tests(repository)]
    return (*code_globs, *excluded)
