"""What steers an agent, and what would subvert it, in languages other than English: the tables of languages.toml.

What is forbidden ("never ignore …") is no order, and what a person quotes steers nobody.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from memory_ci.secrets import lower_case

TABLES = Path(__file__).with_name("languages.toml")
END = r"(?=\s*(?:$|[.;!\u3002\uff01]))"
"""What END stands for in a pattern."""

PARTS = (
    "ignor vergiss missacht nichts berspring umgeh activ aktiv desativ olvid descart esque desconsid oubli diga rien"
    " cont cuent inform omit salta saute pule"
).split()
OTHER_LETTERS = "[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff]"
"""Every order of the tables holds one of the parts or letters: texts without cost no more than to look for these."""

QUOTED = re.compile('"[^"]*"|\u201c[^\u201d]*\u201d|\u201e[^\u201c]*\u201c|«[^»]*»|「[^」]*」|`[^`]*`')
STOP = re.compile("[.;!?\u3002\uff01\uff1f\n]")


class Language(msgspec.Struct, frozen=True):
    """`steering` by name and `orders` by reason, as in English, and what forbids an order that it stands before."""

    negation: str
    steering: Mapping[str, str]
    orders: Mapping[str, str]


@cache
def load_languages() -> Mapping[str, Language]:
    """The tables, by language."""
    import tomllib  # 2 ms that English spares

    return msgspec.convert(tomllib.loads(TABLES.read_text(encoding="utf-8")), dict[str, Language])


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("END", END), re.IGNORECASE | re.MULTILINE)


def name_steering(sentence: str) -> str | None:
    """By what a sentence of one of the languages steers, or None."""
    said = QUOTED.sub(" ", unicodedata.normalize("NFKC", sentence))
    rules = (rule for language in load_languages().values() for rule in language.steering.items())
    return next((name for name, rule in rules if _compile(rule).search(said)), None)


def find_orders(text: str) -> Iterator[tuple[str, str]]:
    """(reason, words) of each order of the tables that a text holds and does not forbid."""
    lowered = lower_case(text)
    may_order = any(part in lowered for part in PARTS) or (not text.isascii() and re.search(OTHER_LETTERS, text))
    for language in load_languages().values() if may_order else ():
        for reason, pattern in language.orders.items():
            for found in _compile(pattern).finditer(text):
                before = STOP.split(text[max(found.start() - 40, 0) : found.start()])[-1]
                if not _compile(language.negation).search(before):
                    yield reason, found[0]
                    break
