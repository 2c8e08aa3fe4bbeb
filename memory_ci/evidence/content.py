"""What of a text is worth reading: whether words say anything, and which lines of a failure tell what failed."""

from __future__ import annotations

import re

from memory_ci.text import shorten, words

FILLER = frozenset(
    """a again ahead alright also and approve approved awesome commit continue cool danke do done excellent fine fixed
    for go going good gracias great hi hello i is it ja job k keep let's lets lgtm looks me merci merge nice nit now oh
    ok okay on oui perfect please pls proceed push resolved resume right si sounds sure sí thank thanks that that's the
    then this to try ty weiter well work works yeah yep yes you да дальше спасибо 好 好的 继续 谢谢 はい 続けて
    네""".split()
)
"""Words that assent, thank or tell an agent to go on. `no`, `stop`, `undo`, `not` are no filler: they correct."""

QUOTED = re.compile(r"^[ \t]*>.*(?:\n|\Z)", re.MULTILINE)
"""A line of a comment that repeats the words of another person."""

INTERRUPTED = re.compile(r"\A\[[^\]\n]{0,80}\binterrupted\b[^\]\n]{0,80}\]\s*", re.IGNORECASE)
"""How an agent's program tells of an interrupt: its own words, no person's."""

FAILURE = re.compile(r"error|exception|fail|fatal|panic|denied|refused|assert|not found|cannot|can't|invalid", re.I)
PASSED = re.compile(r"\b(?:PASS(?:ED)?|RUN|ok)\b")
FAILURE_LINES = 6
LINE_WIDTH = 200


def says_something(text: str) -> bool:
    """Whether `text` has a word that is neither filler nor a number, and is no bare command.

    >>> [says_something(text) for text in ("ok, go on", "👍 +1", "/compact", "no, retry once")]
    [False, False, False, True]
    """
    return not _is_command(text) and any(not word.isdecimal() and word not in FILLER for word in words(text))


def _is_command(text: str) -> bool:
    """A command to the agent's own program, with nothing but paths: `/compact`, `/add src/a.py`."""
    first, *others = text.split() or [""]
    return first.startswith("/") and "/" not in first[1:] and all("/" in word or "." in word for word in others)


def own_words(comment: str) -> str:
    """`comment` without the lines that quote somebody: those are not its author's, and he does not vouch for them."""
    return QUOTED.sub("", comment).strip("\n")


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
