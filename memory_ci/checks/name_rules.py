"""Rules on the names of things in code, read from a sentence: `end method names with '_md'`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from memory_ci.regex import Regex
from memory_ci.text import spell_negations

MAX_TEXT = 300  # Characters that are read.
MAX_RULES = 8  # Rules of one sentence; more are a list that nobody said.

Thing = Literal["function", "method", "class", "variable", "attribute", "argument"]
NameForm = Literal["start", "end", "contain", "style", "digit"]


class NameRule(NamedTuple):
    """How the names of a kind of thing must be.

    Attributes:
        thing: the kind of thing.
        form: what of the name is set.
        value: the text at that place, the style (`snake`, `pascal`, `camel`, `upper`, `lower`), or
            how many digits (`one`, `some`).
        is_forbidden: whether names must not be so.
    """

    thing: Thing
    form: NameForm
    value: str
    is_forbidden: bool = False


THINGS: tuple[tuple[Thing, str], ...] = (
    ("argument", r"(?:(?:function|method|keyword) )?(?:arguments?|parameters?|params)"),
    ("attribute", r"(?:(?:class|instance|object) )?attributes?"),
    ("function", r"functions?"),
    ("method", r"(?:(?:class|instance) )?methods?"),
    ("class", r"class(?:es)?"),
    ("variable", r"variables?"),
)
THING = Regex(
    r"(?<![\w'\"`-])(?:" + "|".join(rf"(?P<{thing}>{words})" for thing, words in THINGS) + r")\b"
    r"(?! (?:name )?(?:argument|parameter|param|attribute|method|variable|function|class)s?\b)"
    r"(?P<name>(?:'s)? names?\b)?",
    re.IGNORECASE,
)
"""A kind of thing. In `class attributes` the last word counts."""

BEFORE_THING = Regex(
    r"(?:^|\b(?:all|any|both|your|our|my|their|the|every|each|new|python|javascript|typescript"
    r"|code|regular|for|to|in|into|within|of|with|on|when|and|or|that|these|those|as|from|at"
    r"|name|names|named|naming|writing|defining|creating|adding|using|write|define"
    r"|start|starts|starting|begin|begins|beginning|end|ends|ending|prefix|prefixing|suffix"
    r"|suffixing|append|then|now|also|always|never|want|keep|make|have|ensure|write|avoid)|[,:;.(])\s*$",
    re.IGNORECASE,
)
"""What may come before a thing. Another word tells which are meant: `helper functions`."""

QUOTE = r"['\"`\u2018\u2019\u201c\u201d]"
VALUE = rf"{QUOTE}(?P<value>\w{{1,30}}){QUOTE}"
GAP = r"[^.;?!(\['\"`\u2018\u2019\u201c\u201d]{0,60}?"
PREFIX_VERB = r"(?:start|begin|prefix|prefac|prepend)(?:s|e|es|ed|ing|ning|n)?|prefixes"
SUFFIX_VERB = r"(?:end|suffix|append|finish)(?:s|es|ed|ing)?"

REQUIREMENT_PATTERNS: tuple[tuple[NameForm, str], ...] = (
    # "use 'm_' as a prefix", "'m_' at the start"
    ("start", rf"{VALUE} (?:as (?:a|the|their|its) )?prefix\b"),
    ("end", rf"{VALUE} (?:as (?:a|the|their|its) )?suffix\b"),
    ("start", rf"{VALUE} at the (?:start|beginning|front)\b"),
    ("end", rf"{VALUE} at the end\b"),
    # "start names with 'm_'", "prefix all names with 'm_'"
    ("start", rf"\b(?:{PREFIX_VERB})\b{GAP}{VALUE}"),
    ("end", rf"\b(?:{SUFFIX_VERB})\b{GAP}{VALUE}"),
    # "add the substring 'chx'", "include 'chx'"
    (
        "contain",
        r"\b(?:includ|contain|incorporat|insert|hav|add|us)(?:e|es|s|ing)?"
        rf" (?:the |a )?(?:string|substring|text|word|letters|characters) {VALUE}",
    ),
    ("contain", rf"\b(?:includ|contain|incorporat)(?:e|es|s|ing)? {VALUE}"),
    # "include exactly one digit"
    (
        "digit",
        r"\b(?:includ|contain|hav|add|incorporat)(?:e|es|s|ing)?"
        r" (?P<value>(?:exactly |only |at least )?(?:a|one) (?:single )?|single )?"
        r"(?:digit|numeral)\b",
    ),
    # "use snake_case", "'CamelCase'", "all caps"
    (
        "style",
        rf"{QUOTE}?\b(?P<value>snake[ _-]?case|(?:(?:upper|lower)[ _-]?)?camel[ _-]?case"
        rf"|pascal[ _-]?case|(?:all )?upper[ _-]?case|all[ -]caps|lower[ _-]?case)\b{QUOTE}?",
    ),
)
REQUIREMENTS = tuple(
    (form, Regex(pattern, re.IGNORECASE)) for form, pattern in REQUIREMENT_PATTERNS
)
"""What names must be like. Of two patterns that read the same words the first counts."""

WORDS_ABOUT_NAMES = Regex(r"\bnam(?:e|es|ed|ing)\b|\b(?:pre|suf)fix(?:es|ed|ing)?\b", re.IGNORECASE)
"""Words that are about names."""

LIST_SEPARATOR = Regex(r"\s*(?:,|,? and\b|,? or\b|/|&)\s*(?:all |your |our |the )*", re.IGNORECASE)
"""What may stand between two things of which the same is said."""

WORDS_UP_TO_THING = Regex(
    r"[^,;]{0,30}\b(?:in|into|for|of|to|within|on|at|all|when|naming)\b[^,;]{0,30}$"
)
"""Words between what names must be like and the thing behind it: `in the names of`."""

NEGATION = r"\b(?:never|not|cannot|\w+n't|avoid|no longer|stop)\b"
NEGATION_WORD = Regex(NEGATION, re.IGNORECASE)
"""A negation."""

POSITIVE_NEGATION = Regex(
    r"\b(?:do not|don't|never) (?:forget|hesitate|fail) to\b|\bnot only\b", re.IGNORECASE
)
"""A negation that forbids nothing."""

INSERTED_WORDS = Regex(rf"(?P<negation>{NEGATION}),[^,:;]*,", re.IGNORECASE)
"""Words within a clause, behind its negation: `never, whatever happens, start names with`."""

LISTED_VALUE = Regex(rf"{QUOTE}\w{{1,30}}{QUOTE}|\b\w+[ _-]?case\b|\ball[ -]caps\b", re.IGNORECASE)
"""One of several values in a list."""

REJECTED_VALUE = Regex(
    rf",? (?:not|instead of|rather than|over) (?:{LISTED_VALUE.pattern}),?", re.IGNORECASE
)
"""What is not chosen, between the choice and what it is for."""

CLAUSE_END = Regex(r"[,:;](?!\s*(?:(?:and|or|nor)\b[\s,]*)*(?:[,:;]|$))", re.IGNORECASE)
"""The end of a clause; not a comma of a list, behind which only other values stand."""

WORDS_BEFORE_REJECTED_VALUE = Regex(
    rf"\b(?:(?:instead of|rather than|used to|previously|formerly)(?: [\w ]{{1,40}})?"
    rf"|not|from|than|over) {QUOTE}?$",
    re.IGNORECASE,
)
"""The words before what holds no more: `start them with 'b_' instead of 'a_'`."""

RESTRICTING_WORDS = Regex(
    r"\b(?:if|unless|except|only|where|whose|other than|apart from|some|certain|most|sometimes"
    r"|private|protected|public|static|abstract|async|boolean|constants?|tests?|fixtures?)\b",
    re.IGNORECASE,
)
"""Words by which a rule is about a part of the things, which no line shows."""


def find_name_rules(text: str) -> list[NameRule]:
    """Return the rules on names in code that a sentence states.

    A question or a sentence with a condition states no rules, and neither does a sentence that
    would state more than MAX_RULES.

    >>> find_name_rules("Always start function names with 'fn_'")
    [NameRule(thing='function', form='start', value='fn_', is_forbidden=False)]
    """
    text = " ".join(text[:MAX_TEXT].split())
    things = list(THING.finditer(text))
    if not things:
        return []
    is_question = text.rstrip(" '\"").endswith("?")
    if is_question or RESTRICTING_WORDS.search(text):
        return []
    is_about_names = WORDS_ABOUT_NAMES.search(text) is not None
    rules: dict[NameRule, None] = {}  # without duplicates, in order
    for form, requirement in _find_requirements(text):
        for thing in _choose_things(text, things, requirement):
            rule = _make_rule(text, thing, form, requirement)
            if rule is not None and (is_about_names or _can_only_be_about_names(rule)):
                rules[rule] = None
    return list(rules) if len(rules) <= MAX_RULES else []


def _find_requirements(text: str) -> list[tuple[NameForm, re.Match[str]]]:
    """Return the requirements on names that a text states, in the order of the text.

    Each is the form (such as a prefix or a style) and the match of its pattern. If two patterns
    match at the same position, only the first of REQUIREMENTS counts. A value that the text
    rejects (`instead of 'a_'`) is left out.
    """
    requirements: list[tuple[NameForm, re.Match[str]]] = []
    matched_positions: set[int] = set()
    for form, pattern in REQUIREMENTS:
        for match in pattern.finditer(text):
            position = match.start()
            is_rejected = False
            if match["value"]:
                position = match.start("value")
                is_rejected = WORDS_BEFORE_REJECTED_VALUE.search(text[:position]) is not None
            if position not in matched_positions and not is_rejected:
                requirements.append((form, match))
            matched_positions.add(position)

    def position_in_text(requirement: tuple[NameForm, re.Match[str]]) -> int:
        _, match = requirement
        return match.start()

    return sorted(requirements, key=position_in_text)


def _choose_things(
    text: str, things: list[re.Match[str]], requirement: re.Match[str]
) -> list[re.Match[str]]:
    """Return the kinds of things that a requirement on names is about.

    In `start functions and methods with 'a_'` these are `functions` and `methods`: the nearest kind
    and all that are joined to it. The nearest is inside of the requirement, else behind it if a
    preposition leads there, else before it.

    Args:
        text: the sentence.
        things: the matches of kinds of things (`functions`) in it, at least one.
        requirement: the match that says what their names must be like.
    """
    start, end = requirement.span()
    inside = [thing for thing in things if start <= thing.start() < end]
    before = [thing for thing in things if thing.end() <= start]
    behind = [thing for thing in things if thing.start() >= end]
    if inside:
        nearest = inside[-1]
    elif behind and _leads_to_thing(text[end : behind[0].start()]):
        nearest = behind[0]
    elif before:
        nearest = before[-1]
    else:
        return []
    return _list_joined_things(text, things, things.index(nearest))


def _leads_to_thing(words_between: str) -> bool:
    """Return whether the words between a requirement and a thing join them: `in the names of`."""
    return WORDS_UP_TO_THING.match(REJECTED_VALUE.sub("", words_between)) is not None


def _list_joined_things(text: str, things: list[re.Match[str]], index: int) -> list[re.Match[str]]:
    """Return the thing with an index and those that are joined to it by commas or `and`."""

    def is_joined(left: re.Match[str], right: re.Match[str]) -> bool:
        return LIST_SEPARATOR.fullmatch(text[left.end() : right.start()]) is not None

    first = index
    while first > 0 and is_joined(things[first - 1], things[first]):
        first -= 1
    last = index
    while last + 1 < len(things) and is_joined(things[last], things[last + 1]):
        last += 1
    return things[first : last + 1]


def _make_rule(
    text: str, thing: re.Match[str], form: NameForm, requirement: re.Match[str]
) -> NameRule | None:
    """Return the rule that a sentence states for the names of a kind of code, such as functions.

    None if the sentence is about only some of that kind, as in `helper functions`.

    Args:
        text: the sentence.
        thing: the match of the kind, such as `functions`.
        form: the property of the name that is required, such as its start or its style.
        requirement: the match of the requirement, such as `start names with 'fn_'`.
    """
    if not BEFORE_THING.search(text[: thing.start()]):
        return None
    # The kind is the name of the group that matched.
    kind = next(name for name, _ in THINGS if thing[name])
    value = requirement["value"] or ""
    if form == "style":
        value = _name_style(value, kind)
    elif form == "digit":
        value = "one" if re.search(r"single|exactly|only", value, re.IGNORECASE) else "some"

    # The words up to the first word of the requirement, by which a negation is found: that word is
    # its verb (`never start`). A style has no verb, and may stand in a list of styles.
    words_before = text[: requirement.start()]
    if form != "style":
        first_word = re.split(r"\W", requirement[0], maxsplit=1)[0]
        words_before += first_word
    return NameRule(kind, form, value, is_forbidden=is_negated(words_before))


def is_negated(words_before: str) -> bool:
    """Return whether a verb or a value is negated by the words before it: `never start names with`.

    Only the clause of the verb counts. Left out are negations that ask for something (`don't
    forget to`), words that are inserted between the negation and the verb (`never, whatever
    happens, start`), and the other values of a list (`never use 'a_', 'b_'`).

    Args:
        words_before: the sentence up to the verb or the value.

    >>> is_negated("From now on, never start"), is_negated("Not bad, but don't forget to start")
    (True, False)
    """
    text = spell_negations(words_before)
    text = POSITIVE_NEGATION.sub("", text)
    text = INSERTED_WORDS.sub(r"\g<negation>", text)
    text = LISTED_VALUE.sub("", text)
    last_clause = CLAUSE_END.split(text)[-1]
    return NEGATION_WORD.search(last_clause) is not None


def _name_style(words: str, kind: Thing) -> str:
    """Return the style that words name (`snake_case`, `CamelCase`, `all caps`).

    `camel case` of classes, and `CamelCase`, begin with a capital letter: they are `pascal`.
    """
    plain = re.sub(r"[ _-]", "", words)
    lower = plain.lower()
    if "snake" in lower:
        return "snake"
    if "pascal" in lower or lower.startswith("uppercamel"):
        return "pascal"
    if "camel" in lower:
        is_capital = kind == "class" or (plain.startswith("C") and not lower.startswith("lower"))
        return "pascal" if is_capital else "camel"
    return "lower" if lower.startswith("lower") else "upper"


def _can_only_be_about_names(rule: NameRule) -> bool:
    """Return whether a rule can only be about names, even if its text does not say "name".

    A value with an underscore at its inner end, such as `fn_` at the start of functions or `_at` at
    their end, is part of a name. `return` at the end of functions may be about their code.
    """
    if rule.form == "start":
        return rule.value.endswith("_")
    if rule.form == "end":
        return rule.value.startswith("_")
    return rule.form == "style"


def find_name_conflict(rules: Iterable[NameRule], other_rules: Iterable[NameRule]) -> str:
    """Return how two lists of rules set the same names to different values; "" if they do not.

    >>> find_name_conflict(find_name_rules("Start methods with `a_`"),
    ...     find_name_rules("Start method names with `b_`"))
    "'a_' against 'b_'"
    """
    other_values: dict[tuple[Thing, NameForm], str] = {}
    for rule in other_rules:
        if is_exclusive(rule):
            other_values[rule.thing, rule.form] = rule.value
    for rule in rules:
        other_value = other_values.get((rule.thing, rule.form))
        if is_exclusive(rule) and other_value is not None and other_value != rule.value:
            return f"'{rule.value}' against '{other_value}'"
    return ""


def is_exclusive(rule: NameRule) -> bool:
    """Return whether names can have only one such value: they may contain several texts."""
    return rule.form in ("start", "end", "style") and not rule.is_forbidden


def iter_sentences(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text."""
    for line in text.splitlines():
        yield from re.split(r"(?<=[.!?])\s+", line)
