"""The words that turn a statement into its opposite, and those that say nothing about what it speaks of (tables)."""

from __future__ import annotations

from typing import Literal, NamedTuple

Stand = Literal["verb", "state", "choice", "anywhere"]


class Pole(NamedTuple):
    """One side of an antonym pair, and where in a sentence it is a stance rather than part of a name.

    verb      at the start, after a modal, or in the third person: `disable retries`, but not `disable flags are …`
    state     said of the subject: `is optional`, but not `optional fields are …`
    choice    a state, or chosen by a verb such as `use`: `use the async client`
    anywhere  always
    """

    pair: str
    side: int
    stand: Stand


NEGATORS = frozenset(
    """not never no cannot can't don't doesn't mustn't shouldn't won't wouldn't isn't aren't needn't neither nor none
    avoid avoids avoiding""".split()
)

PERMISSION, SWITCH, EXECUTION = "allow/forbid", "enable/disable", "run/skip"
AFFIRMING = frozenset((PERMISSION, SWITCH, EXECUTION))
"""The pairs that are the same as to affirm and to deny: `X is forbidden`, `disable X` and `skip X` are `never X`."""

PAIRS: tuple[tuple[str, Stand, str, str], ...] = (
    (PERMISSION, "verb", "allow permit allows permits", "forbid forbids disallow disallows prohibit prohibits"),
    (PERMISSION, "state", "allowed permitted acceptable ok okay", "forbidden disallowed prohibited banned"),
    (SWITCH, "verb", "enable enables turn-on turns-on", "disable disables turn-off turns-off"),
    (SWITCH, "state", "enabled on turned-on", "disabled off turned-off"),
    (EXECUTION, "verb", "run runs perform performs", "skip skips bypass bypasses"),
    ("include/exclude", "verb", "include includes", "exclude excludes omit omits"),
    ("include/exclude", "state", "included", "excluded omitted"),
    ("accept/reject", "verb", "accept accepts", "reject rejects refuse refuses"),
    ("accept/reject", "state", "accepted", "rejected refused"),
    ("increase/decrease", "verb", "increase increases raise raises", "decrease decreases lower lowers reduce reduces"),
    ("show/hide", "verb", "show shows", "hide hides"),
    ("required/optional", "state", "required mandatory compulsory", "optional voluntary"),
    ("safe/unsafe", "state", "safe", "unsafe"),
    ("sync/async", "choice", "sync synchronous blocking", "async asynchronous non-blocking nonblocking"),
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
    ("parallel/serial", "anywhere", "parallel concurrently", "serial serially sequential sequentially"),
    ("eager/lazy", "anywhere", "eagerly", "lazily"),
    ("manually/automatically", "anywhere", "manually", "automatically"),
    ("explicit/implicit", "anywhere", "explicitly", "implicitly"),
    ("true/false", "anywhere", "true", "false"),
)

POLES: dict[str, Pole] = {
    word: Pole(pair, side, stand)
    for pair, stand, *sides in PAIRS
    for side, said in enumerate(sides)
    for word in said.split()
}

BE = frozenset("be is are been being stay stays remain remains become becomes defaults".split())
MODALS = frozenset("must should shall will would can could may might to do does".split())

DIRECTIONS = frozenset("from into onto via".split())
"""What follows is marked with them: copying from one place is not copying into it."""

FUNCTION_WORDS = frozenset(
    """a an the its his her our your their we you i us my it they there of for in on at as and or by with this that
    these those please always ever all any every each also so just simply really strictly explicitly even ought need
    needs""".split()
)
FILLERS = BE | MODALS | DIRECTIONS | FUNCTION_WORDS
"""Words without a say in what a sentence speaks of. Hedges (`usually`) and limits (`only`) are none of them."""

LIGHT = frozenset(
    """use uses used using prefer prefers make makes making sure ensure ensures have has set sets pick choose go
    keep keeps""".split()
)
"""Verbs that only say `be it so`."""

SINGLE_CHOICE = frozenset("use uses prefer prefers choose pick default be is are".split())
PREFERENCE = frozenset("prefer prefers favor favour choose chosen pick use value".split())
CONDITIONS = frozenset("if when whenever unless while until once where whose which that who".split())
PREPOSITIONS = frozenset("in on for at with within under during by as before after from inside outside".split())
COMPLEMENTS = frozenset("sure ensure ensures note means so verify check require requires assume".split())
"""Before `that` they announce the statement itself, no condition of it."""

UNITS: dict[str, str] = {
    word: unit
    for unit, said in {
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
    }.items()
    for word in said.split()
}  # fmt: skip

QUANTITIES = frozenset(
    """timeout limit retry attempt worker thread process replica size ttl port interval threshold budget coverage delay
    width length column line space indent indentation maximum minimum max min approval reviewer connection character
    entry file argument parameter level depth batch page version concurrency parallelism""".split()
)
"""What has one value at a time (singular): a second value of the same is another opinion."""

LINKS = frozenset("to is be are at of under over above below within exceed exceeds than least most".split())
LABELS = frozenset(
    """issue pr pull request ticket bug http https error status code step rfc section chapter phase exit commit option
    example case rule item tier priority severity level class type figure table appendix adr day pep
    tls""".split()
)
"""A number after them is a name, not an amount: two of them are two things."""

VERSIONED = frozenset("use uses require requires pin target targets install default on".split())
SPELLED = {
    word: str(value) for value, word in enumerate("two three four five six seven eight nine ten".split(), start=2)
}
PARTICIPLES = {
    "run": "run", "kept": "keep", "written": "write", "set": "set", "sent": "send", "built": "build", "read": "read",
    "put": "put", "made": "make", "done": "do", "held": "hold", "taken": "take", "given": "give", "shown": "show",
    "chosen": "choose", "thrown": "throw", "caught": "catch", "left": "leave", "begun": "begin", "split": "split",
}  # fmt: skip
"""Irregular ones; those in -ed are known by their ending."""
