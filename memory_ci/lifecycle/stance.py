"""Claims: what an entry says, sentence by sentence, in a form in which its opposite differs in the stance alone.

Precision comes first: a sentence that tells of the past, asks, quotes, gives an example or speaks of "it" makes none.
Whatever stands in a condition belongs to what is spoken of: `when the flag is set` and `when the flag is not set` are
two subjects, not two stances on one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from memory_ci.records.entry import Entry
from memory_ci.text import stem, unfenced_lines

# -- the words that turn a statement into its opposite, and those that say nothing about what it speaks of

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
AFFIRMING = frozenset(
    (PERMISSION, SWITCH, EXECUTION)
)  # The same as to affirm and to deny: `skip X` is `never X`.
PAIRS: tuple[tuple[str, Stand, str, str], ...] = (
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

POLES: dict[str, Pole] = {
    word: Pole(pair, side, stand)
    for pair, stand, *sides in PAIRS
    for side, said in enumerate(sides)
    for word in said.split()
}

BE = frozenset("be is are been being stay stays remain remains become becomes defaults".split())
MODALS = frozenset("must should shall will would can could may might to do does".split())
DIRECTIONS = frozenset(
    "from into onto via".split()
)  # They mark what follows: `from X` is not `into X`.
FUNCTION_WORDS = frozenset(
    """a an the its his her our your their we you i us my it they there of for in on at as and or by with this that
    these those please always ever all any every each also so just simply really strictly explicitly even ought need
    needs""".split()
)
FILLERS = (
    BE | MODALS | DIRECTIONS | FUNCTION_WORDS
)  # They say nothing; hedges (`usually`) and limits (`only`) do.
LIGHT = frozenset(
    """use uses used using prefer prefers make makes making sure ensure ensures have has set sets pick choose go
    keep keeps""".split()
)  # Verbs that only say `be it so`.
SINGLE_CHOICE = frozenset("use uses prefer prefers choose pick default be is are".split())
PREFERENCE = frozenset("prefer prefers favor favour choose chosen pick use value".split())
CONDITIONS = frozenset(
    "if when whenever unless while until once where whose which that who".split()
)
PREPOSITIONS = frozenset(
    "in on for at with within under during by as before after from inside outside".split()
)
# Before `that` they announce the statement itself, no condition of it.
COMPLEMENTS = frozenset(
    "sure ensure ensures note means so verify check require requires assume".split()
)
UNITS: dict[str, str] = {
    word: unit
    for unit, said in {
        "second": "s sec secs second seconds", "millisecond": "ms millisecond milliseconds",
        "minute": "min mins minute minutes", "hour": "h hr hrs hour hours", "day": "d day days", "week": "week weeks",
        "kilobyte": "kb kib kilobytes", "megabyte": "mb mib megabytes", "gigabyte": "gb gib gigabytes",
        "percent": "% percent", "thousand": "k",
    }.items()
    for word in said.split()
}  # fmt: skip

QUANTITIES = frozenset(
    """timeout limit retry attempt worker thread process replica size ttl port interval threshold budget coverage delay
    width length column line space indent indentation maximum minimum max min approval reviewer connection character
    entry file argument parameter level depth batch page version concurrency parallelism""".split()
)  # What has one value at a time (singular): a second value of the same is another opinion.
LINKS = frozenset(
    "to is be are at of under over above below within exceed exceeds than least most".split()
)
LABELS = frozenset(
    """issue pr pull request ticket bug http https error status code step rfc section chapter phase exit commit option
    example case rule item tier priority severity level class type figure table appendix adr day pep
    tls""".split()
)  # A number after them is a name, not an amount: two of them are two things.
VERSIONED = frozenset("use uses require requires pin target targets install default on".split())
SPELLED = {
    word: str(value)
    for value, word in enumerate("two three four five six seven eight nine ten".split(), start=2)
}
PARTICIPLES = {
    "run": "run", "kept": "keep", "written": "write", "set": "set", "sent": "send", "built": "build", "read": "read",
    "put": "put", "made": "make", "done": "do", "held": "hold", "taken": "take", "given": "give", "shown": "show",
    "chosen": "choose", "thrown": "throw", "caught": "catch", "left": "leave", "begun": "begin", "split": "split",
}  # fmt: skip
"""Irregular ones; those in -ed are known by their ending."""


# -- the words of a sentence, told apart into what it speaks of and what it says of that

OrderKind = Literal["time", "preference"]
PIVOTS: dict[str, OrderKind] = {
    "before": "time",
    "after": "time",
    "instead": "preference",
    "over": "preference",
}
NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)(%|[a-z]*)")


class Token(NamedTuple):
    """A lower-case word; `is_free` outside of conditions."""

    word: str
    is_free: bool


class Claim(NamedTuple):
    """What is spoken of, as stems in order (sorted where an order is said), and the stance on it. That is: whether it
    denies, sides of antonym pairs, amounts (each a `#` in `about`), and what an order puts first and second."""

    about: tuple[str, ...]
    denied: bool = False
    poles: tuple[tuple[str, int], ...] = ()
    amounts: tuple[str, ...] = ()
    order: OrderKind | None = None
    first: frozenset[str] = frozenset()
    second: frozenset[str] = frozenset()

    @property
    def subject(self) -> tuple[object, ...]:
        """What two claims must share to be two stances on one thing."""
        return self.about, self.order, tuple(pair for pair, _ in self.poles)


def find_opposition(one: Claim, other: Claim) -> str | None:
    """How two claims with one subject oppose each other; None unless it is in exactly one respect. One denies what the
    other says; or, where neither denies, they differ in one antonym, one amount or the order."""
    if one.denied != other.denied:
        return "one says not" if one._replace(denied=other.denied) == other else None
    differences = [
        pair
        for (pair, side), (_, opposite) in zip(one.poles, other.poles, strict=True)
        if side != opposite
    ]
    amounts = [(min(pair), max(pair)) for pair in zip(one.amounts, other.amounts, strict=True)]
    differences += [f"{a} against {b}" for a, b in amounts if a != b]
    if (one.first, one.second) != (other.first, other.second):
        is_reversed = one.first & other.second and one.second & other.first
        differences.append("the reverse order" if is_reversed else "")
    is_refined = any(
        b.startswith(f"{a}.") for a, b in amounts
    )  # a version given more exactly: 18 and 18.2
    return (
        (differences[0] or None)
        if len(differences) == 1 and not (one.denied or is_refined)
        else None
    )


def read_claim(tokens: Sequence[Token], min_words: int) -> Claim | None:
    """The claim that the words make; None if fewer than `min_words` of them say anything."""
    reader = _Reader([token.word for token in tokens])
    for at, token in enumerate(tokens):
        if token.is_free:
            reader.read(at)
        else:
            reader.read_condition(token.word)
    is_enough = reader.weight >= min_words and any(
        word != "#" for part in reader.parts for word in part
    )
    return reader.claim() if is_enough else None


QUANTITY_STEMS = frozenset(map(stem, QUANTITIES))


def _last_before(words: Sequence[str], passed: Container[str]) -> list[str]:
    """For each place the nearest word before it that is not `passed` over; "" where there is none."""
    return list(
        accumulate(words[:-1], lambda last, word: last if word in passed else word, initial="")
    )


class _Reader:
    """Reads words from left to right. `parts` are what stands before and after the word that puts in order. A sentence
    may have a hundred thousand words: no step may look at all of them."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.known = frozenset(words)
        self.directions = _last_before(words, FUNCTION_WORDS)
        self.said = _last_before(words, NEGATORS | {"always", "ever"})
        self.quantity = next(
            (at for at, word in enumerate(words) if stem(word) in QUANTITY_STEMS), len(words)
        )
        self.version = next((at for at, word in enumerate(words) if word in VERSIONED), len(words))
        self.parts: tuple[deque[str], deque[str]] = (deque(), deque())
        self.poles: dict[str, int] = {}
        self.amounts: list[str] = []
        self.denied = False
        self.pivot = ""
        self.weight = 0

    def read(self, at: int) -> None:
        word = self.words[at]
        if word in NEGATORS:
            self.denied = not self.denied
        elif not self.pivot and word in PIVOTS and (word != "over" or PREFERENCE & self.known):
            self.pivot = word
        elif not (self._read_amount(at) or self._read_pole(at)):
            self._read_word(at)

    def read_condition(self, word: str) -> None:
        if word in NEGATORS or word not in FILLERS | {"if", "when", "whenever"}:
            self._put(f"?{stem(word)}")

    def claim(self) -> Claim:
        stance = (self.denied, tuple(sorted(self.poles.items())), tuple(self.amounts))
        before, after = self.parts
        if not self.pivot:
            return Claim((*before, *after), *stance)
        first, second = (
            frozenset(part)
            for part in ((after, before) if self.pivot == "after" else (before, after))
        )
        return Claim(
            tuple(sorted(before + after)),
            *stance,
            PIVOTS[self.pivot],
            first - second,
            second - first,
        )

    def _put(self, word: str, *, in_front: bool = False) -> None:
        part = self.parts[1 if self.pivot else 0]
        (part.appendleft if in_front else part.append)(word)
        self.weight += 1

    def _read_word(self, at: int) -> None:
        word = self.words[at]
        if word in LIGHT:
            self.weight += 1
        elif word in UNITS and self._word(at - 1)[:1].isdigit():
            self._put(UNITS[word])
        elif (word in PARTICIPLES or word.endswith("ed")) and self._is_said(at):
            self._put(stem(PARTICIPLES.get(word, word)), in_front=True)
        elif word not in FILLERS:
            direction = self.directions[at]
            self._put(f"{direction}:{stem(word)}" if direction in DIRECTIONS else stem(word))

    def _read_amount(self, at: int) -> bool:
        """Takes a number that is the value of what has one value at a time; no name, as in `step 2` or `HTTP 429`."""
        match = NUMBER.fullmatch(self.words[at])
        before, after = self._word(at - 1), self._word(at + 1)
        if match is None or before in LABELS or (match[2] and match[2] not in UNITS):
            return False
        is_amount = match[2] or after in UNITS or {stem(after), stem(before)} & QUANTITY_STEMS
        is_version = before.isalpha() and before not in FILLERS and self.version < at - 1
        if not is_amount and not (self.quantity < at if before in LINKS else is_version):
            return False
        self._put("#")
        self.amounts.append(match[1])
        if match[2]:
            self._put(UNITS[match[2]])
        return True

    def _read_pole(self, at: int) -> bool:
        pole = POLES.get(self.words[at])
        if pole is None or not self._is_stance(pole.stand, at):
            return False
        self.weight += 1
        if pole.pair in AFFIRMING:
            self.denied = self.denied != bool(pole.side)
        else:
            self.poles[pole.pair] = pole.side
        return True

    def _is_stance(self, stand: Stand, at: int) -> bool:
        if stand == "verb" and not any(self.parts):
            return not BE & set(
                self.words[at + 1 : at + 4]
            )  # `exclude patterns are …` speaks of patterns
        if stand == "verb":
            return self.words[at].endswith("s") or self._word(at - 1) in MODALS | NEGATORS
        if stand == "anywhere" or self._is_said(at):
            return True
        # A verb of choice stands shortly before the word, with no preposition between them.
        near = self.words[max(0, at - 3) : at]
        chosen = [place for place, word in enumerate(near) if word in SINGLE_CHOICE]
        return stand == "choice" and bool(chosen) and not PREPOSITIONS & set(near[chosen[-1] :])

    def _is_said(self, at: int) -> bool:
        """Whether a form of `be` stands before the word, or `keep … private` around it."""
        is_last = at + 1 == len(self.words)
        return self.said[at] in BE or (
            is_last and not self.known.isdisjoint(("keep", "make", "leave"))
        )

    def _word(self, at: int) -> str:
        return self.words[at] if 0 <= at < len(self.words) else ""


# -- the sentences of an entry

NO_PROSE = re.compile(
    r"^[ \t]*(?:[>|#]|[-*+•] |\d+[.)] ).*$", re.MULTILINE
)  # List items are often examples.
BLANKS = re.compile(r"[^\S\n]+")
BLANK_LINES = re.compile(
    r"\n\s*\n"
)  # Shortened first: long runs would make the patterns below slow.
SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*;\s+|\s+(?:[–—]|--?)\s+|\n[ \t]*\n")  # noqa: RUF001 - the dashes are meant
NO_CLAIM = re.compile(
    r"\?\s*\Z|…\s*\Z|\A\s*[\"“]"  # asked, cut, quoted
    r"|\A\s*(?:bad|good|wrong|right|correct|incorrect|example|do|don't|before|after|old|new)\s*:"
    r"|\A\s*(?:it|this|that|these|those|they|he|she|such|here|there|both|otherwise|then)\b"
    r"|\A\s*no\b|\b(?:bump|bumps|bumped)\b"  # nothing is stated, or something was done once
    r"|\b(?:e\.g|for example|for instance)\b"
    r"|\b(?:was|were|wasn't|weren't|did|didn't|had|hadn't|used to|took|broke|measured|tried|previously|formerly"
    r"|originally|earlier)\b"
    r"|\bnot (?:only|just|necessarily|always|merely|yet)\b|\bno (?:more|fewer|less|later)\b",
    re.IGNORECASE,
)
ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|[*`\"“”]|(?<=\d),(?=\d{3}\b)")
REASON = re.compile(
    r"[,:]?\s*\b(?:because|since|so that|due to|otherwise|or else|in order to|as (?:it|they|this|that|we|there)"
    r"|to (?:avoid|prevent|ensure|guarantee|make sure|keep))\b.*",
    re.IGNORECASE | re.DOTALL,
)  # Two that disagree give different reasons: only what they say is compared.
REWORDED = (
    (re.compile("[\u2019`]"), "'"),
    (re.compile(r"(?<=\d)\s+(?=%)"), ""),
    (re.compile(r"\bstop using\b|\brefrain from\b", re.IGNORECASE), "avoid"),
    (re.compile(r"\b(?:do|does) not need to\b|\bno need to\b", re.IGNORECASE), "not"),
    (re.compile(r"\b(?:instead of|rather than)\b|,\s*not\b(?! to\b)", re.IGNORECASE), " instead"),
    (re.compile(r"\bturn(ed|s)? (on|off)\b", re.IGNORECASE), r"turn\1-\2"),
)
TOKEN = re.compile(r",|#?[^\W_]+(?:[._/:\-']?[^\W_]+|_+[^\W_]+)*_*[%#+]*")
MIN_WORDS = 2
MIN_BODY_WORDS = (
    3  # A sentence of the body leans on those around it: it must say more to stand alone.
)


def claims_of(entry: Entry) -> frozenset[Claim]:
    """The claims of the title and of each sentence of the body."""
    prose = "\n".join(unfenced_lines(entry.body.splitlines()))
    body = BLANK_LINES.sub("\n\n", BLANKS.sub(" ", NO_PROSE.sub("\n", prose)))
    found = [parse_claim(sentence) for sentence in SENTENCE.split(BLANKS.sub(" ", entry.title))]
    found += [parse_claim(sentence, MIN_BODY_WORDS) for sentence in SENTENCE.split(body)]
    return frozenset(claim for claim in found if claim is not None)


def parse_claim(sentence: str, min_words: int = MIN_WORDS) -> Claim | None:
    """The claim of one sentence; None if it makes none, or one of fewer words."""
    for pattern, plain in REWORDED:
        sentence = pattern.sub(plain, sentence)
    if NO_CLAIM.search(sentence):
        return None
    phrases = list(_phrases(REASON.sub("", ASIDE.sub(" ", sentence))))
    opening = phrases[0][:1]  # what only says when or where is the same wherever it stands
    if len(phrases) > 1 and opening and (not opening[0].is_free or opening[0].word in PREPOSITIONS):
        phrases = [*phrases[1:], phrases[0]]
    return read_claim([token for phrase in phrases for token in phrase], min_words)


def _phrases(text: str) -> Iterator[list[Token]]:
    """The words between commas; those from the word on that opens a condition are marked."""
    phrase: list[Token] = []
    is_free, last = True, ""
    for match in TOKEN.finditer(text):
        word = match.group().lower()
        if word == ",":
            yield phrase
            phrase, is_free = [], True
            continue
        is_free = is_free and not (
            word in CONDITIONS and not (word == "that" and last in COMPLEMENTS)
        )
        phrase.append(Token(SPELLED.get(word, word), is_free))
        last = word
    yield phrase
