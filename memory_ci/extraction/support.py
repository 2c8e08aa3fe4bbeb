"""Support: whether the words that a model quotes say what it claims. What they do not carry is proposed, not written.

The rules were set on 47 learnings written by hand (false accepts 14 of 24 before, 4 after; 20 of 23 good ones kept) and
tried on 43 others. They compare words, so what they refuse may still be true: a person decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import NamedTuple

from memory_ci.extraction.reply import Learning, RawQuote
from memory_ci.extraction.wording import SENTENCE
from memory_ci.records.event import Evidence
from memory_ci.text import STOP_WORDS, identifier_parts, stem, words

LEAST = 0.2
"""The share of a title's words that must stand in the pieces quoted."""

DOCUMENT = re.compile(r".*\.(?:mdx?|mdc|rst|adoc)", re.IGNORECASE)
END = re.compile(rf"{SENTENCE.pattern}|\n\s*\n|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s)")
"""Where a sentence, a paragraph or an item of a list ends; a single line break is a wrapped line."""

CLAUSE = re.compile(
    r"[.;:!?](?:\s|$)|,\s|\s[\u2014\u2013-]+\s|\b(?:because|since|so that|but|otherwise)\b", re.IGNORECASE
)
BROAD = re.compile(r"\b(?:every|always)\b", re.IGNORECASE)
NEVER = re.compile(r"\bnever\b", re.IGNORECASE)
BROAD_WORDS = re.compile(
    r"\b(?:every\w*|always|never|all|any(?:one|body|thing|where)?|each|whenever|must"
    r"|from now on|in general|going forward)\b",
    re.IGNORECASE,
)
DENIAL = re.compile(r"\b(?:never|no|not|\w+n't|dont|cannot|none|nobody|any\w*|avoid|stop|forbidden)\b", re.IGNORECASE)
BAN = re.compile(
    r"(?<!\bwas )(?<!\bwere )(?<!\bhad )(?<!\bhas )(?<!\bhave )(?<!\bis )(?<!\bare )(?<!\bbeen )(?<!\bor )"
    r"\b(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|please not|no longer|stop|avoid|without"
    r"|instead of|rather than|not)\b(?! (?:just|only|forget|hesitate|worry)\b)",
    re.IGNORECASE,
)
"""An order to leave something: `was never called` tells what happened, `not just X` does not exclude X."""

CONDITION = re.compile(r"\b(?:only|except|unless|until|before)\b", re.IGNORECASE)
"""By a condition a claim may say what its quote says with `not`."""

GERUND = re.compile(r"\w+ing\b", re.IGNORECASE)  # Begins no order: using npm broke it.
LEAD = frozenset("please always just let's let we you should must to and then i want also".split())
LIGHT = frozenset(map(stem, "use make do keep have get set add take be put try go".split()))
"""Verbs that say little without their object, as stems."""

ARTICLES = frozenset("a an the any our your this that".split())


def find_unsupported(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why the pieces and the sentences quoted do not carry the learning: a slug, or None."""
    quoted = [pieces[quote.evidence] for quote in learning.quotes]
    said = [_sentences_of(quote, pieces[quote.evidence].text) for quote in learning.quotes]
    claimed = stems(learning.title)
    if len(claimed & set().union(*(stems(piece.text) for piece in quoted))) < LEAST * len(claimed):
        return "not-in-the-quotes"
    if all(map(_is_question, said)):
        return "quoted-question"
    if learning.adoption != "rejected" and _is_opposite(learning.title, said):
        return "opposite-of-the-quotes"
    if _is_broader(learning.title, said):
        return "broader-than-the-quotes"
    return "restates-document: what is quoted changed documents alone" if all(map(_is_of_documents, quoted)) else None


def _sentences_of(quote: RawQuote, text: str) -> str:
    """The whole sentences of the piece that a quote stands in: what it leaves out at its ends can turn it around."""
    found = re.search(r"\s+".join(map(re.escape, quote.text.split())), text)
    if found is None:
        return quote.text
    start = max(
        (end.end() for end in END.finditer(text, 0, found.start() + 1) if end.end() <= found.start()), default=0
    )
    last = END.search(text, max(found.end() - 1, 0))
    return " ".join(text[start : last.start() if last else len(text)].split())


def stems(text: str) -> set[str]:
    """The words of `text` that carry meaning, and the parts of its identifiers, without their endings."""
    said = (*words(text), *identifier_parts(text))
    return {stem(word) for word in said if word not in STOP_WORDS and len(word) > 1}


def _is_question(sentences: str) -> bool:
    return sentences.rstrip(" \"'`)*_").endswith(("?", "\uff1f"))


def _is_broader(title: str, said: Sequence[str]) -> bool:
    """Whether the title speaks of all cases and no quote does."""
    for claim, needed in ((BROAD, BROAD_WORDS), (NEVER, DENIAL)):
        if claim.search(title) and not any(map(needed.search, said)):
            return True
    return False


def _is_opposite(title: str, said: Sequence[str]) -> bool:
    """Whether the title tells to do what the quotes ban, or bans what they tell to do."""
    claim, quotes = _stance(title), [_stance(text) for text in said if not _is_question(text)]
    banned: set[str] = set().union(*(one.banned for one in quotes))
    others: set[str] = set().union(*(one.others for one in quotes))
    ordered = {_order(clause) for text in said for clause in CLAUSE.split(text) if not GERUND.match(clause.strip())}
    tells = claim.others & banned - others - claim.banned
    return bool(tells and not CONDITION.search(title)) or bool(claim.banned & ordered - banned - claim.others)


class Stance(NamedTuple):
    """The stems that bans are about; those before a ban or in clauses without. All others may be on either side."""

    banned: set[str]
    others: set[str]


def _stance(text: str) -> Stance:
    banned: set[str] = set()
    others: set[str] = set()
    for clause in CLAUSE.split(text):
        before, *behind = BAN.split(clause)
        others |= stems(before)
        if len(behind) == 1:  # two bans in a clause make an order: never commit without running the tests
            banned.add(_order(behind[0]))
    return Stance(banned - {""}, others)


def _order(clause: str) -> str:
    """The stem of the verb that a clause begins with; of its object, where the verb says little by itself."""
    told = [stem(word) for word in dropwhile(LEAD.__contains__, words(clause)) if word not in ARTICLES]
    return next((word for word in told if word not in LIGHT), "")


def _is_of_documents(piece: Evidence) -> bool:
    """Whether a piece is of a commit that changed documents and nothing else."""
    return piece.kind == "commit" and bool(piece.paths) and all(map(DOCUMENT.fullmatch, piece.paths))
