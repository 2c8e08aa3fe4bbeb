"""Content: redaction, whether words say anything, and which lines of a failure tell what failed."""

from __future__ import annotations

import re

import msgspec

from memory_ci.secrets import find_secrets
from memory_ci.text import count_words, shorten, unquoted_lines, words

# Words that assent, thank or tell an agent to go on. `no`, `stop`, `undo`, `not` are no filler: they correct.
FILLER = frozenset(
    """a again ahead alright also and approve approved awesome commit continue cool danke do done excellent fine fixed
    for go going good gracias great hi hello i is it ja job k keep let's lets lgtm looks me merci merge nice nit now oh
    ok okay on oui perfect please pls proceed push resolved resume right si sounds sure sí thank thanks that that's the
    then this to try ty weiter well work works yeah yep yes you да дальше спасибо 好 好的 继续 谢谢 はい 続けて
    네""".split()
)

SHORT_TURN = 12  # Words of a turn that says little without what came before it.
# How a turn begins that answers what the agent said, however long it is.
ANSWERS = frozenset(
    "yes yeah yep no nope ok okay sure right not ja nein oui non s\u00ed \u0434\u0430 \u043d\u0435\u0442".split()
)

# A line of a comment that repeats the words of another person.
QUOTED = re.compile(r"^[ \t]*>.*(?:\n|\Z)", re.MULTILINE)
# How an agent's program tells of an interrupt: its own words, no person's.
INTERRUPTED = re.compile(r"\A\[[^\]\n]{0,80}\binterrupted\b[^\]\n]{0,80}\]\s*", re.IGNORECASE)
FAILURE = re.compile(
    r"error|exception|fail|fatal|panic|denied|refused|assert|not found|cannot|can't|invalid", re.I
)
PASSED = re.compile(r"\b(?:PASS(?:ED)?|RUN|ok)\b")
FAILURE_LINES = 6
LINE_WIDTH = 200


def says_something(text: str) -> bool:
    """Whether `text` has a word that is neither filler nor a number, and is no bare command.

    >>> [says_something(text) for text in ("ok, go on", "👍 +1", "/compact", "no, retry once")]
    [False, False, False, True]
    """
    first, *others = text.split() or [""]
    # a command to the agent's own program, with nothing but paths: `/compact`, `/add src/a.py`
    is_command = (
        first.startswith("/")
        and "/" not in first[1:]
        and all("/" in word or "." in word for word in others)
    )
    return not is_command and any(
        not word.isdecimal() and word not in FILLER for word in words(text)
    )


def is_answer(turn: str, said: str) -> bool:
    """Whether a person's turn can only be understood with what the agent had `said` before.

    >>> is_answer("I think 2 is right", ""), is_answer("word " * 20, "Shall I retry?"), is_answer("word " * 20, "")
    (True, True, False)
    """
    first = next(words(turn), "")
    return count_words(turn) <= SHORT_TURN or first in ANSWERS or said.endswith(("?", "\uff1f"))


def last_words(text: str, width: int) -> str:
    """The end of `text` in one line of at most `width` characters, from a word on.

    >>> last_words("never retry a POST without a key", 14)
    '…without a key'
    """
    line = " ".join(text.split())
    tail = line[1 - width :]
    return line if len(line) <= width else "…" + tail[tail.find(" ", 0, width // 2) + 1 :]


def own_words(comment: str) -> str:
    """`comment` without the lines that quote somebody: those are not its author's, and he does not vouch for them."""
    return QUOTED.sub("", "\n".join(unquoted_lines(comment.split("\n")))).strip("\n")


def interrupt_words(text: str) -> str:
    """What a person said when interrupting, mostly nothing.

    >>> interrupt_words("[Request interrupted by user for tool use]")
    ''
    """
    return INTERRUPTED.sub("", text)


def failure_lines(output: str) -> str:
    """At most `FAILURE_LINES` lines of a failed tool's output, those that name the failure, else its last ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    told = [line for line in lines if FAILURE.search(line) and not PASSED.search(line)]
    return "\n".join(shorten(line, LINE_WIDTH) for line in told[:FAILURE_LINES] or lines[-2:])


# `git@host:path` is a clone address, no mailbox.
EMAIL = re.compile(
    r"(?<![\w.+%/${-])(?!git@)[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])"
)
# A home directory with its user's name; `https://host/home/x` is none, so nothing may stand before it.
HOME = re.compile(
    r"(?<![\w.~/-])(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})[^\s/\\:;,'\"`<>()\[\]]+"
)


class Redacted(msgspec.Struct, frozen=True):
    """Text without secrets, how many spans were masked and how many of them were credentials, and the kinds, sorted."""

    text: str
    count: int
    kinds: tuple[str, ...]

    credentials: int = 0


def redact(text: str) -> Redacted:
    """Mask what must not be read or kept. Idempotent: rounds repeat until nothing is found any more. A round only
    shortens the unmasked text, so the rounds end; nearly always the second finds nothing."""
    kinds: list[str] = []
    while found := _find(text):  # spans in order that do not overlap
        pieces, seen = [], 0
        for _, start, end, mask in found:
            pieces += [text[seen:start], mask]
            seen = end
        text = "".join([*pieces, text[seen:]])
        kinds += (kind for kind, *_ in found)
    credentials = sum(kind not in ("email", "home") for kind in kinds)
    return Redacted(text, len(kinds), tuple(sorted(set(kinds))), credentials)


def _find(text: str) -> list[tuple[str, int, int, str]]:
    """Spans to mask of the first kind of finding there is: secrets, else addresses, else homes."""
    secrets = [(kind, start, end, f"[redacted:{kind}]") for kind, start, end in find_secrets(text)]
    emails = [("email", *match.span(), "[redacted:email]") for match in EMAIL.finditer(text)]
    return secrets or emails or [("home", *match.span(), "~") for match in HOME.finditer(text)]
