"""Settings in entries: a thing with one value, which a later entry may change.

A team has one prefix of method names and one tool for tickets. A person who later names another
has changed it: the earlier entry holds no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memory_ci.checks.name_rules import find_name_rules, forbids, is_exclusive, iter_sentences
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, stem, words

MAX_TEXT = 2_000  # Characters of an entry that are read.

ROLE = Regex(
    r"(?i)\b(?:use|using|adopt|switch to|switching to|prefer)\s+(?:the )?"
    r"(?P<value>\w[\w.+#/-]{0,30}(?: [\w.+#/-]{1,30}){0,2}?) as (?:the|our|your|my)"
    r" (?P<role>\w[\w -]{2,50}?)"
    r"(?=[.,;:!()]|$| (?:for|because|since|from|instead|rather|so|in|on|when|now)\b)"
)
"""The choice of the only thing of a kind: `use Jira as our tool for tickets`."""

ROLE_WORDS = frozenset("main primary preferred default official standard only new".split())

CHANGE = Regex(
    r"(?i)\b(?:from now on|going forward|moving forward|from today|starting (?:today|now)"
    r"|no longer|instead|rather than|(?:switch|chang|updat|replac)(?:e|ed|es|ing)\b)"
    r"|\bnow\b.{0,40}\b(?:want|use|start|end|prefer)"
)
"""Words which say that something is different from before."""


class SetValue(NamedTuple):
    """A thing that an entry sets to a value.

    Attributes:
        key: the thing that has one value.
        value: its value.
    """

    key: tuple[str, ...]
    value: str


def find_settings(entry: Entry) -> frozenset[SetValue]:
    """Return the things that an entry sets to a value, such as the prefix of method names."""
    settings: set[SetValue] = set()
    for sentence in iter_sentences(entry.text[:MAX_TEXT]):
        settings.update(_read_settings(sentence))
    return frozenset(settings)


def says_change(entry: Entry) -> bool:
    """Return whether an entry, or the words that prove it, say that something changes."""
    texts = (entry.title, entry.body[:MAX_TEXT], *entry.evidence)
    return any(CHANGE.search(text[:MAX_TEXT]) for text in texts)


def _read_settings(sentence: str) -> Iterator[SetValue]:
    """Yield the settings of a sentence: rules for names, and choices for a role.

    `Start method names with get_` sets the prefix of method names, `use Jira as our tool for
    tickets` sets the tool for tickets.
    """
    for rule in find_name_rules(sentence):
        if is_exclusive(rule):
            yield SetValue((rule.thing, rule.form), rule.value)
    if " as " not in sentence.casefold():  # which is a part of the slow pattern
        return
    for match in ROLE.finditer(sentence):
        role = [
            stem(word)
            for word in words(match["role"])
            if word not in STOP_WORDS and word not in ROLE_WORDS
        ]
        if role and not forbids(sentence[: match.end()]):
            yield SetValue(("role", *sorted(role)), match["value"].casefold())
