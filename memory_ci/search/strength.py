"""How much of what was asked the best entries speak of: HIT, WEAK or MISS."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Match, Strength
from memory_ci.search.query import Corpus, build_terms, idf, told
from memory_ci.search.rank import Lane, Place, place_of, shares
from memory_ci.text import STOP_WORDS, UNSPACED, cited_words, content_words, identifier_parts, words

# From here 4 of 100 tasks of another repository are taken for answered (docs/ranking.md, calibration).
HIT_COVERAGE = 0.45
MISS_COVERAGE = (
    0.25  # Below it lie 6 to 10 of 100 tasks that have an answer, and 70 of 100 that have none.
)
LEAST_TOTAL = 100  # Fewer entries say too little of how rare a word is: of five entries one in two words looks common.
BEST = 3  # How many of the best matches are looked at: the scores of a handful of entries are next to nothing.
# Nearness below which nothing is given: what shares a word with the task only is no answer to it.
FLOOR, SMALL_FLOOR = 0.46, 0.35
GRAM_SHARE = 0.5  # What all letters of a line count beside all its words.
# Where a task names two things, each is asked for itself, if it has so many words that say something.
CLAUSE, LEAST_WORDS = re.compile(r"[;,.]\s"), 3
COSINE_SHIFT = (
    0.5  # A cosine of all-MiniLM-L6-v2 above this makes a task nearer, one below it farther.
)
# What a pair of letters of a script without blanks weighs that no entry holds: every second one crosses two words.
CROSSING = 0.5
SMALL = 200  # Entries below which the lower floor holds.
FLOOR_TOTAL = 1_000  # What LEAST_TOTAL is to the verdict.
# Entries that a task is given at most, and the share of the best score that each has at least.
MOST, LEAST_SHARE = 10, 0.45


def verdict(matches: Sequence[Match], terms: Sequence[str], corpus: Corpus) -> Strength:
    """What the lexical lane's `matches`, best first, are worth as an answer to `terms` (of query.build_terms).

    It is the weight of those terms that one of the best entries holds, as a share of the weight of all: terms that
    are asked twice, the task's subject, or all of them where none is. Never judged by
    fused scores: they are relative to the best one, so that the best of nothing scores 1.
    """
    covered = coverage([match.located.entry for match in matches[:BEST]], terms, corpus)
    if covered >= HIT_COVERAGE:
        return "HIT"
    return "WEAK" if covered >= MISS_COVERAGE else "MISS"


def coverage(
    entries: Sequence[Entry], terms: Sequence[str], corpus: Corpus, least: int = LEAST_TOTAL
) -> float:
    """The largest share of the subject's weight that one of `entries` holds, in [0, 1]. How rare a term is, is reckoned
    as in a memory of `least` entries at least; beside others, what most entries hold weighs nothing."""
    counts = Counter(terms)
    subject = [term for term, count in counts.items() if count > 1] or list(counts)
    total = max(corpus.total, least)
    telling = [
        term for term in subject if not (corpus.total >= 5 and 2 * corpus.df(term) > corpus.total)
    ] or subject
    weights = {}
    for term in telling:
        df = corpus.df(term)
        is_crossing = not df and not term.isascii() and UNSPACED.match(term)
        weights[term] = (CROSSING if is_crossing else 1.0) * idf(df, total)
    sought = sum(weights.values())
    held = (
        sum(weight for term, weight in weights.items() if _holds(own, term))
        for own in map(_said, entries)
    )
    return max(held, default=0.0) / sought if sought else 0.0


def margin(task: str, matches: Sequence[Match], terms: Sequence[str], corpus: Corpus) -> float:
    """By how much one of the best matches is nearer to the task's first line, or to a clause of it, than the floor.
    Near is the coverage of its words and half the share of its letters, nothing where only words of most entries are
    held: what is below 0 only shares a word with it."""
    entries = [match.located.entry for match in matches[:BEST]]
    line = told(task).partition("\n")[0]
    clauses = [part for part in CLAUSE.split(line) if len(content_words(part)) >= LEAST_WORDS]
    asked = [(line, terms), *((part, build_terms(part)) for part in clauses if part != line)]
    covered = ((part, coverage(entries, own, corpus, FLOOR_TOTAL)) for part, own in asked)
    near = (held and held + GRAM_SHARE * most_letters(part, entries) for part, held in covered)
    return max(near) - (FLOOR if corpus.total >= SMALL else SMALL_FLOOR)


def drop_weak(
    hits: Sequence[Hit], *, is_near: bool, is_exempt: Callable[[Hit], bool], most: int = MOST
) -> list[Hit]:
    """The hits that are worth their room: at most `most` of what is near enough, and those that are exempt; in order.
    What says again what a better one says is as near as that: its novelty is left out."""
    scores = [hit.score / dict(hit.factors).get("novelty", 1.0) for hit in hits]
    least = LEAST_SHARE * max(scores, default=0.0)
    worth = (
        [hit for hit, score in zip(hits, scores, strict=True) if score >= least][:most]
        if is_near
        else []
    )
    return [hit for hit in hits if hit in worth or is_exempt(hit)]


def _said(entry: Entry) -> Set[str]:
    text = _folded(f"{entry.title}\n{entry.body}\n{cited_words(entry.cites, entry.aka)}")
    return {*words(text), *identifier_parts(text)}


def _holds(own: Set[str], term: str) -> bool:
    """Whether a word is `term` or has its stem: equal up to an ending of three letters, of which four stay. The index
    asks Porter's stemmer, which is not at hand here; measured, this tells tasks apart as well."""
    term = _folded(term).lower()
    if term.endswith("*"):
        return any(word.startswith(term[:-1]) for word in own)
    stem = term[: max(4, len(term) - 3)]
    return term in own or any(
        word.startswith(stem) and abs(len(word) - len(term)) <= 3 for word in own
    )


def _folded(text: str) -> str:
    """`text` without accents, as the index sees it."""
    if text.isascii():
        return text
    bare = "".join(
        char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char)
    )
    return unicodedata.normalize("NFC", bare)  # Hangul syllables again


# What the share of the first line's letters in a row counts beside BM25 (docs/ranking.md).
GRAM_WEIGHT, GRAM, PAIR = 0.4, 4, 2
NEIGHBOUR_WEIGHT = 0.3  # What a note gets of the relevance of the better one of those beside it.
LETTERS = re.compile(r"[^\W_]+")
# A table for bytes.translate: letters, digits and what is beyond ASCII as it is; all else is a blank.
BLANKED = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))


def lexical_lane(
    task: str, matches: Sequence[Match], neighbours: Mapping[Place, Sequence[Place]]
) -> Lane:
    """BM25 as a share of the best, and 0.4 x the share of the 4-grams of the task's first line that an entry holds.
    `neighbours` are the notes beside some: a note gets 0.3 of what the better of those beside it has."""
    asked = _grams(told(task).partition("\n")[0])
    lane = dict(shares({place_of(match.located): match.lexical for match in matches}))
    for match in matches:
        lane[place_of(match.located)] += GRAM_WEIGHT * _share(asked, match.located.entry)
    beside = {
        place: max((lane.get(other, 0.0) for other in others), default=0.0)
        for place, others in neighbours.items()
    }
    return {
        place: score + NEIGHBOUR_WEIGHT * beside.get(place, 0.0) for place, score in lane.items()
    }


def most_letters(line: str, entries: Iterable[Entry]) -> float:
    """The largest share of the 4-grams of `line` that one of `entries` holds."""
    asked = _grams(line)
    return max((_share(asked, entry) for entry in entries), default=0.0)


def _grams(line: str) -> frozenset[bytes]:
    """Four letters in a row of each word, its edges counting as one each; two of a script without blanks."""
    found = [word for word in LETTERS.findall(line.lower()) if word not in STOP_WORDS]
    sized = [(word, PAIR) if UNSPACED.search(word) else (f" {word} ", GRAM) for word in found]
    return frozenset(
        word[at : at + size].encode() for word, size in sized for at in range(len(word) - size + 1)
    )


def _share(asked: frozenset[bytes], entry: Entry) -> float:
    text = f" {entry.title} {entry.body} ".lower().encode().translate(BLANKED)
    return sum(gram in text for gram in asked) / len(asked) if asked else 0.0
