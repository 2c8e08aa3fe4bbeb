"""Words that carry the stance of a sentence: opposites, negations, conditions and quantities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from memory_ci.text import stem

# -- words that turn a statement into its opposite

Role = Literal["verb", "state", "choice", "anywhere"]
"""Where a word of an antonym pair says something about the subject, and is no part of a name.

- verb: at the start, after a modal verb, or in the third person: `disable retries`, but not
  `disable flags are …`;
- state: said of the subject: `is optional`, but not `optional fields are …`;
- choice: a state, or chosen by a verb such as `use`: `use the async client`;
- anywhere: always.
"""


class Antonym(NamedTuple):
    """A word's side (0 or 1) in an antonym pair, and the role in which it is no part of a name."""

    pair: str
    side: int
    role: Role


NEGATORS = frozenset(
    """not never no cannot can't don't doesn't mustn't shouldn't won't wouldn't isn't aren't
    needn't neither nor none avoid avoids avoiding""".split()
)

PERMISSION = "allow/forbid"
SWITCH = "enable/disable"
EXECUTION = "run/skip"

NEGATING_PAIRS = frozenset((PERMISSION, SWITCH, EXECUTION))
"""Pairs that mean the same as to affirm and to deny: `skip X` is `never X`."""

PAIRS: tuple[tuple[str, Role, str, str], ...] = (
    (
        PERMISSION,
        "verb",
        "allow permit allows permits",
        "forbid forbids disallow disallows prohibit prohibits",
    ),
    (
        PERMISSION,
        "state",
        "allowed permitted acceptable ok okay",
        "forbidden disallowed prohibited banned",
    ),
    (SWITCH, "verb", "enable enables turn-on turns-on", "disable disables turn-off turns-off"),
    (SWITCH, "state", "enabled on turned-on", "disabled off turned-off"),
    (EXECUTION, "verb", "run runs perform performs", "skip skips bypass bypasses"),
    ("include/exclude", "verb", "include includes", "exclude excludes omit omits"),
    ("include/exclude", "state", "included", "excluded omitted"),
    ("accept/reject", "verb", "accept accepts", "reject rejects refuse refuses"),
    ("accept/reject", "state", "accepted", "rejected refused"),
    (
        "increase/decrease",
        "verb",
        "increase increases raise raises",
        "decrease decreases lower lowers reduce reduces",
    ),
    ("show/hide", "verb", "show shows", "hide hides"),
    ("required/optional", "state", "required mandatory compulsory", "optional voluntary"),
    ("safe/unsafe", "state", "safe", "unsafe"),
    (
        "sync/async",
        "choice",
        "sync synchronous blocking",
        "async asynchronous non-blocking nonblocking",
    ),
    ("public/private", "choice", "public", "private"),
    ("mutable/immutable", "choice", "mutable", "immutable"),
    ("strict/lenient", "choice", "strict", "lenient permissive loose"),
    ("relative/absolute", "choice", "relative", "absolute"),
    ("static/dynamic", "choice", "static", "dynamic"),
    ("stateful/stateless", "choice", "stateful", "stateless"),
    ("single/double", "choice", "single", "double"),
    ("tabs/spaces", "choice", "tabs", "spaces"),
    ("case-sensitive/insensitive", "choice", "case-sensitive", "case-insensitive"),
    ("lower/upper case", "choice", "lowercase lower-case", "uppercase upper-case"),
    ("ascending/descending", "anywhere", "ascending", "descending"),
    ("sync/async", "anywhere", "synchronously", "asynchronously"),
    (
        "parallel/serial",
        "anywhere",
        "parallel concurrently",
        "serial serially sequential sequentially",
    ),
    ("eager/lazy", "anywhere", "eagerly", "lazily"),
    ("manually/automatically", "anywhere", "manually", "automatically"),
    ("explicit/implicit", "anywhere", "explicitly", "implicitly"),
    ("true/false", "anywhere", "true", "false"),
)
"""Antonym pairs: the name of the pair, the role, and the words of either side."""


def _list_antonyms() -> Iterator[tuple[str, Antonym]]:
    for pair, role, *sides in PAIRS:
        for side, words in enumerate(sides):
            for word in words.split():
                yield word, Antonym(pair, side, role)


ANTONYMS = dict(_list_antonyms())

# -- words that say nothing about the subject

BE = frozenset("be is are been being stay stays remain remains become becomes defaults".split())
MODALS = frozenset("must should shall will would can could may might to do does".split())

DIRECTIONS = frozenset("from into onto via".split())
"""Words that change the meaning of the next word: `from X` is not `into X`."""

FUNCTION_WORDS = frozenset(
    """a an the its his her our your their we you i us my it they there of for in on at as and or
    by with this that these those please always ever all any every each also so just simply
    really strictly explicitly even ought need needs""".split()
)

WORDS_WITHOUT_CONTENT = BE | MODALS | DIRECTIONS | FUNCTION_WORDS
"""Words without content. Hedges (`usually`) and limits (`only`) have content."""

EMPTY_VERBS = frozenset(
    """use uses used using prefer prefers make makes making sure ensure ensures have has set sets
    pick choose go keep keeps""".split()
)
"""Verbs without a meaning of their own: `use tabs` and `prefer tabs` are about tabs."""

CHOICE_VERBS = frozenset("use uses prefer prefers choose pick default be is are".split())
CHOICE_DISTANCE = 3
"""Words before what is chosen in which the verb of choice is: `use the async client`."""

PREFERENCE_VERBS = frozenset("prefer prefers favor favour choose chosen pick use value".split())
CONDITION_WORDS = frozenset(
    "if when whenever unless while until once where whose which that who".split()
)
PREPOSITIONS = frozenset(
    "in on for at with within under during by as before after from inside outside".split()
)

WORDS_BEFORE_THAT = frozenset(
    "sure ensure ensures note means so verify check require requires assume".split()
)
"""Words after which `that` begins the statement itself, and no condition."""

# -- amounts and forms of words

WORDS_BY_UNIT = {
    "second": "s sec secs second seconds",
    "millisecond": "ms millisecond milliseconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "d day days",
    "week": "week weeks",
    "kilobyte": "kb kib kilobytes",
    "megabyte": "mb mib megabytes",
    "gigabyte": "gb gib gigabytes",
    "percent": "% percent",
    "thousand": "k",
}
UNITS = {word: unit for unit, words in WORDS_BY_UNIT.items() for word in words.split()}

QUANTITIES = frozenset(
    """timeout limit retry attempt worker thread process replica size ttl port interval threshold
    budget coverage delay width length column line space indent indentation maximum minimum max
    min approval reviewer connection character entry file argument parameter level depth batch
    page version concurrency parallelism""".split()
)
"""Things that have one value at a time (singular), so a second value is another opinion."""

QUANTITY_STEMS = frozenset(stem(word) for word in QUANTITIES)

QUANTITY_LINKS = frozenset(
    "to is be are at of under over above below within exceed exceeds than least most".split()
)
"""Words that may come between a quantity and its value."""

NUMBERED_NAMES = frozenset(
    """issue pr pull request ticket bug http https error status code step rfc section chapter
    phase exit commit option example case rule item tier priority severity level class type
    figure table appendix adr day pep tls""".split()
)
"""Words before a number that is a name and no amount: two such numbers are two things."""

VERSION_VERBS = frozenset("use uses require requires pin target targets install default on".split())
"""Words before a version: `use python 3.12`."""

SPELLED_NUMBERS = {
    word: str(value)
    for value, word in enumerate("two three four five six seven eight nine ten".split(), start=2)
}

PARTICIPLES = {
    "run": "run",
    "kept": "keep",
    "written": "write",
    "set": "set",
    "sent": "send",
    "built": "build",
    "read": "read",
    "put": "put",
    "made": "make",
    "done": "do",
    "held": "hold",
    "taken": "take",
    "given": "give",
    "shown": "show",
    "chosen": "choose",
    "thrown": "throw",
    "caught": "catch",
    "left": "leave",
    "begun": "begin",
    "split": "split",
}
"""Irregular participles; regular ones are recognised by their ending -ed."""


OrderKind = Literal["time", "preference"]

PIVOTS: dict[str, OrderKind] = {
    "before": "time",
    "after": "time",
    "instead": "preference",
    "over": "preference",
}
"""Words that put the part before them and the part after them in an order."""
