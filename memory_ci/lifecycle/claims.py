"""Claims: what an entry says, sentence by sentence, in a form in which its opposite differs in the stance alone.

Precision comes first: a sentence that tells of the past, asks, quotes, gives an example or speaks of "it" makes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory_ci.lifecycle.opposites import COMPLEMENTS, CONDITIONS, PREPOSITIONS, SPELLED
from memory_ci.lifecycle.stance import Claim, Token, read_claim
from memory_ci.records.entry import Entry
from memory_ci.text import unfenced_lines

NO_PROSE = re.compile(r"^[ \t]*(?:[>|#]|[-*+•] |\d+[.)] ).*$", re.MULTILINE)
"""Quotations, tables, headings, and list items: those hang on the line above them, and are often examples."""

BLANKS = re.compile(r"[^\S\n]+")
BLANK_LINES = re.compile(r"\n\s*\n")
"""Long runs of blanks would make the patterns below slow: they are shortened first."""

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
)
"""Two that disagree give different reasons: only what they say is compared."""

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
MIN_BODY_WORDS = 3  # A sentence of the body leans on those around it: it must say more to stand alone.


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
    if len(phrases) > 1 and _is_circumstance(phrases[0]):
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
        is_free = is_free and not (word in CONDITIONS and not (word == "that" and last in COMPLEMENTS))
        phrase.append(Token(SPELLED.get(word, word), is_free))
        last = word
    yield phrase


def _is_circumstance(phrase: list[Token]) -> bool:
    """Whether what stands first only says when or where: it is the same wherever it stands."""
    return bool(phrase) and (not phrase[0].is_free or phrase[0].word in PREPOSITIONS)
