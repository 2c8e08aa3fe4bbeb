"""Settings in entries: a thing with one value, which a later entry may change.

A team has one prefix of method names and one tool for tickets. A person who later names another
has changed it: the earlier entry holds no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from memory_ci.checks.name_rules import find_name_rules, is_exclusive, is_negated, iter_sentences
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, stem, words

MAX_TEXT = 2_000  # Characters of an entry that are read.

ROLE_CHOICE = Regex(
    r"(?i)\b(?:use|using|adopt|switch to|switching to|prefer)\s+(?:the )?"
    r"(?P<value>\w[\w.+#/-]{0,30}(?: [\w.+#/-]{1,30}){0,2}?) as (?:the|our|your|my)"
    r" (?P<role>\w[\w -]{2,50}?)"
    r"(?=[.,;:!()]|$| (?:for|because|since|from|instead|rather|so|in|on|when|now)\b)"
)
"""The choice of the only thing of a kind: `use Jira as our tool for tickets`."""

WORDS_WITHOUT_ROLE = frozenset("main primary preferred default official standard only new".split())

CHANGE_WORDS = Regex(
    r"(?i)\b(?:from now on|going forward|moving forward|from today|starting (?:today|now)"
    r"|no longer|instead|rather than|(?:switch|chang|updat|replac)(?:e|ed|es|ing)\b)"
    r"|\bnow\b.{0,40}\b(?:want|use|start|end|prefer)"
)
"""Words which say that something is different from before."""


class SetValue(NamedTuple):
    """A thing that an entry sets to a value.

    Attributes:
        key: the thing that has one value: `("method", "start")` is the prefix of method names, and
            `("role", "ticket", "tool")` the tool for tickets.
        value: its value, such as `get_` or `jira`.
    """

    key: tuple[str, ...]
    value: str


def find_set_values(entry: Entry) -> frozenset[SetValue]:
    """Return the things that an entry sets to a value, such as the prefix of method names."""
    return _find_values_in_text(entry.text[:MAX_TEXT])


# Consolidation compares the entries twice, before and after it marks superseded ones.
@lru_cache(maxsize=1 << 14)
def _find_values_in_text(text: str) -> frozenset[SetValue]:
    set_values: set[SetValue] = set()
    for sentence in iter_sentences(text):
        set_values.update(_find_values_in_sentence(sentence))
    return frozenset(set_values)


def says_change(entry: Entry) -> bool:
    """Return whether an entry, or the words that prove it, say that something changes."""
    texts = (entry.title, entry.body[:MAX_TEXT], *entry.evidence)
    return any(CHANGE_WORDS.search(text[:MAX_TEXT]) for text in texts)


def _find_values_in_sentence(sentence: str) -> Iterator[SetValue]:
    """Yield the things that a sentence sets to a value: how names look, and what has a role.

    `Start method names with get_` sets the prefix of method names, `use Jira as our tool for
    tickets` sets the tool for tickets.
    """
    for rule in find_name_rules(sentence):
        if is_exclusive(rule):  # a name can have one prefix, but several parts
            yield SetValue((rule.thing, rule.form), rule.value)
    if " as " not in sentence.casefold():  # which is a part of the slow pattern
        return
    for match in ROLE_CHOICE.finditer(sentence):
        role_stems = []
        for word in words(match["role"]):
            if word not in STOP_WORDS and word not in WORDS_WITHOUT_ROLE:
                role_stems.append(stem(word))
        # `Never use Jira as our tool` chooses nothing.
        is_forbidden = is_negated(sentence[: match.end()])
        if role_stems and not is_forbidden:
            yield SetValue(("role", *sorted(role_stems)), match["value"].casefold())
