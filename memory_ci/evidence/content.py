"""Redaction of texts, and the parts of a text that are kept as evidence."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from memory_ci.regex import Regex
from memory_ci.secrets import find_secrets
from memory_ci.text import count_words, shorten, unquoted_lines, words

FILLER_WORDS = frozenset(
    """a again ahead alright also and approve approved awesome commit continue cool
    danke do done excellent fine fixed for go going good gracias great hi hello
    i is it ja job k keep let's lets lgtm looks me merci merge nice nit now oh
    ok okay on oui perfect please pls proceed push resolved resume right si
    sounds sure sí thank thanks that that's the then this to try ty weiter well
    work works yeah yep yes you да дальше спасибо 好 好的 继续 谢谢 はい 続けて 네""".split()
)
"""Words that assent, thank or tell an agent to go on; `no`, `stop`, `undo`, `not` correct."""

SHORT_TURN_WORDS = 12  # Words of a turn that says little without the turn before it.
ANSWER_WORDS = frozenset(
    "yes yeah yep no nope ok okay sure right not ja nein oui non s\u00ed \u0434\u0430 "
    "\u043d\u0435\u0442".split()
)
"""First words of a turn that answers the agent, however long it is."""

QUOTED_LINE = Regex(r"^[ \t]*>.*(?:\n|\Z)", re.MULTILINE)
"""A line of a comment that repeats the words of another person."""

INTERRUPT_NOTICE = Regex(r"\A\[[^\]\n]{0,80}\binterrupted\b[^\]\n]{0,80}\]\s*", re.IGNORECASE)
"""The wording of an agent's program for an interrupt; no words of a person."""

FAILURE_WORD = Regex(
    r"error|exception|fail|fatal|panic|denied|refused|assert|not found|cannot|can't|invalid", re.I
)
"""A word of a line that names a failure."""

SUCCESS_WORD = Regex(r"\b(?:PASS(?:ED)?|RUN|ok)\b")
"""A word of a line that names a success."""

MAX_FAILURE_LINES = 6
LINE_WIDTH = 200

EMAIL = Regex(
    r"(?<![\w.+%/${-])(?!git@)[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])"
)
"""An e-mail address; `git@host:path` is the address of a clone."""

HOME_DIRECTORY = Regex(
    r"(?<![\w.~/-])(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})[^\s/\\:;,'\"`<>()\[\]]+"
)
"""A home directory with its user's name; not the path of an address as `https://host/home/x`."""


def says_something(text: str) -> bool:
    """Return whether a text has a word that is neither filler nor a number, and is no bare command.

    >>> [says_something(text) for text in ("ok, go on", "👍 +1", "/compact", "no, retry once")]
    [False, False, False, True]
    """
    if _is_bare_command(text):
        return False
    return any(not word.isdecimal() and word not in FILLER_WORDS for word in words(text))


def _is_bare_command(text: str) -> bool:
    """Return whether a text is a command to an agent's program: `/compact`, `/add src/a.py`."""
    first, *arguments = text.split() or [""]
    if not first.startswith("/") or "/" in first[1:]:
        return False
    return all("/" in argument or "." in argument for argument in arguments)


def needs_agent_text(turn: str, agent_text: str) -> bool:
    """Return whether a person's turn can only be understood with the agent's text before it.

    That is a short turn, one that begins like an answer, and any turn after a question.

    >>> needs_agent_text("I think 2 is right", ""), needs_agent_text("word " * 20, "Shall I retry?")
    (True, True)
    >>> needs_agent_text("word " * 20, "")
    False
    """
    first_word = next(words(turn), "")
    is_short = count_words(turn) <= SHORT_TURN_WORDS
    follows_question = agent_text.endswith(("?", "\N{FULLWIDTH QUESTION MARK}"))
    return is_short or first_word in ANSWER_WORDS or follows_question


def cut_to_end(text: str, width: int) -> str:
    """Return the end of a text in one line of at most `width` characters, cut before a word.

    >>> cut_to_end("never retry a POST without a key", 14)
    '…without a key'
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    tail = line[1 - width :]
    start = tail.find(" ", 0, width // 2) + 1
    return "…" + tail[start:]


def extract_own_words(comment: str) -> str:
    """Return a comment without quoted lines, for which its author does not vouch."""
    return QUOTED_LINE.sub("", "\n".join(unquoted_lines(comment.split("\n")))).strip("\n")


def extract_interrupt_words(text: str) -> str:
    """Return the words that a person typed when interrupting, mostly none.

    >>> extract_interrupt_words("[Request interrupted by user for tool use]")
    ''
    """
    return INTERRUPT_NOTICE.sub("", text)


def extract_failure_lines(output: str) -> str:
    """Return the lines of a failed tool's output that name the failure, else its last two.

    At most `MAX_FAILURE_LINES` are returned.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    failures = [
        line for line in lines if FAILURE_WORD.search(line) and not SUCCESS_WORD.search(line)
    ]
    chosen = failures[:MAX_FAILURE_LINES] or lines[-2:]
    return "\n".join(shorten(line, LINE_WIDTH) for line in chosen)


class Redacted(msgspec.Struct, frozen=True):
    """A text without secrets.

    Attributes:
        text: the text, with a mask in place of each secret.
        count: how many spans were masked.
        kinds: the kinds of the spans, sorted, each once.
        credentials: how many of the spans were credentials.
    """

    text: str
    count: int
    kinds: tuple[str, ...]
    credentials: int = 0


class _Span(NamedTuple):
    """A part of a text to be masked."""

    kind: str
    start: int
    end: int
    mask: str


def redact(text: str) -> Redacted:
    """Return a text with masks in place of secrets, e-mail addresses and home directories.

    It is idempotent: rounds repeat until nothing is found any more. A round only shortens the
    unmasked text, so the rounds end; nearly always the second finds nothing.
    """
    kinds: list[str] = []
    while spans := _find_spans(text):
        pieces: list[str] = []
        end = 0
        for span in spans:
            pieces += [text[end : span.start], span.mask]
            end = span.end
            kinds.append(span.kind)
        pieces.append(text[end:])
        text = "".join(pieces)
    credentials = sum(kind not in ("email", "home") for kind in kinds)
    return Redacted(text, len(kinds), tuple(sorted(set(kinds))), credentials)


def _find_spans(text: str) -> list[_Span]:
    """Return the parts of a text to be masked in one round, in order and without overlaps.

    They are all of one kind: secrets, else e-mail addresses, else home directories.
    """
    secrets = [
        _Span(secret.kind, secret.start, secret.end, f"[redacted:{secret.kind}]")
        for secret in find_secrets(text)
    ]
    if secrets:
        return secrets
    emails = [_Span("email", *match.span(), "[redacted:email]") for match in EMAIL.finditer(text)]
    if emails:
        return emails
    return [_Span("home", *match.span(), "~") for match in HOME_DIRECTORY.finditer(text)]
