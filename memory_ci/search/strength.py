"""Strength of an answer: how much of a task the best entries cover (HIT, WEAK or MISS)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Match, Strength
from memory_ci.regex import Regex
from memory_ci.search.query import Corpus, build_terms, extract_prose, idf
from memory_ci.search.rank import Lane, Place, get_place, normalize_lane
from memory_ci.text import (
    STOP_WORDS,
    UNSPACED,
    cited_words,
    content_words,
    identifier_parts,
    words,
)

HIT_COVERAGE = 0.45
"""From here 4 of 100 tasks of another repository are taken for answered
(benchmarks/results/retrieval.md, the verdict)."""

MISS_COVERAGE = 0.25
"""Below it are 6 to 10 of 100 tasks that have an answer, and 70 of 100 that have none."""

LEAST_TOTAL = 100
"""Entries that the verdict assumes at least. Fewer show too little of how rare a word is: among
five entries every second word looks common."""

BEST = 3
"""Best matches that are compared with the task: the scores of a handful of entries mean little."""

FLOOR = 0.46
SMALL_FLOOR = 0.35
"""Nearness below which nothing is served: an entry that only shares a word is no answer.

The lower floor is that of a small memory."""

SMALL_MEMORY = 200  # Entries below which the lower floor holds.
GRAM_SHARE = 0.5  # Weight of all letters of a line, relative to all its words.

# A task that names two subjects is searched for each of them, if it has enough content words.
CLAUSE = Regex(r"[;,.]\s")
LEAST_WORDS = 3

COSINE_SHIFT = 0.5
"""Cosine of all-MiniLM-L6-v2 above which a task is nearer, and below which it is farther."""

CROSSING = 0.5
"""Weight of a pair of letters of a script without blanks that no entry has: every second pair
crosses two words."""

FLOOR_TOTAL = 1_000  # The same as LEAST_TOTAL, for the floor.
MAX_HITS = 10  # Entries that are served for a task at most.
LEAST_SHARE = 0.45  # Share of the best score that each of them has at least.


def measure_strength(matches: Sequence[Match], terms: Sequence[str], corpus: Corpus) -> Strength:
    """Return how well the best matches answer a task: HIT, WEAK or MISS.

    It is decided by the weight of those terms of the task that one of the best entries has, as a
    share of the weight of all. Scores of hits do not count: they are relative to the best hit,
    which always scores 1.

    Args:
        matches: the matches of the search by words, best first.
        terms: the terms of `query.build_terms`. Terms that occur twice, the subject of the task,
            count, or all terms if no term does.
        corpus: frequencies of terms.
    """
    best_entries = [match.located.entry for match in matches[:BEST]]
    coverage = measure_coverage(best_entries, terms, corpus)
    if coverage >= HIT_COVERAGE:
        return "HIT"
    if coverage >= MISS_COVERAGE:
        return "WEAK"
    return "MISS"


def measure_coverage(
    entries: Sequence[Entry], terms: Sequence[str], corpus: Corpus, min_total: int = LEAST_TOTAL
) -> float:
    """Return the largest share of a task's subject that any entry contains, in [0, 1].

    The subject consists of the terms that occur twice, or of all terms if none does. The rarer a
    term is in memory, the more it weighs. A term that most entries have weighs nothing, unless the
    subject has no other term.

    Args:
        entries: the entries to compare.
        terms: the terms of the task.
        corpus: frequencies of terms.
        min_total: how many entries the memory is assumed to have at least.
    """
    total = max(corpus.total, min_total)
    weights: dict[str, float] = {}
    for term in _choose_subject_terms(terms, corpus):
        df = corpus.df(term)
        # In a script without blanks a term is two letters, which may belong to two words.
        may_cross_words = not df and not term.isascii() and UNSPACED.match(term) is not None
        factor = CROSSING if may_cross_words else 1.0
        weights[term] = factor * idf(df, total)

    total_weight = sum(weights.values())
    if not total_weight:
        return 0.0
    best_weight = 0.0
    for entry in entries:
        entry_words = _list_words(entry)
        weight = sum(weights[term] for term in weights if _has_term(entry_words, term))
        best_weight = max(best_weight, weight)
    return best_weight / total_weight


def _choose_subject_terms(terms: Sequence[str], corpus: Corpus) -> list[str]:
    """Return the terms of a task that name its subject, without those that most entries have."""
    counts = Counter(terms)
    subject_terms = [term for term, count in counts.items() if count > 1] or list(counts)
    if corpus.total < 5:  # Too few to say which terms are common.
        return subject_terms
    rare_terms = [term for term in subject_terms if corpus.df(term) <= corpus.total / 2]
    return rare_terms or subject_terms


def measure_margin(
    task: str, matches: Sequence[Match], terms: Sequence[str], corpus: Corpus
) -> float:
    """Return how far the nearness of the best matches to a task is above the least that is served.

    The result is negative if no match is near enough to be served. The nearness of an entry is 0
    if it has none of the words in the first line of the task. Otherwise it is the coverage of
    these words, plus half the share of 4-grams. Each clause of the line is tried as well as the
    whole line, for a task may name two subjects; the greatest nearness counts.

    Args:
        task: the task.
        matches: the matches of the search by words, best first.
        terms: the terms of the task.
        corpus: frequencies of terms.
    """
    entries = [match.located.entry for match in matches[:BEST]]
    line = extract_prose(task).partition("\n")[0]
    queries = [(line, terms)]
    for clause in CLAUSE.split(line):
        if clause != line and len(content_words(clause)) >= LEAST_WORDS:
            queries.append((clause, build_terms(clause)))

    best_nearness = 0.0
    for text, text_terms in queries:
        coverage = measure_coverage(entries, text_terms, corpus, FLOOR_TOTAL)
        if coverage:
            nearness = coverage + GRAM_SHARE * measure_gram_share(text, entries)
            best_nearness = max(best_nearness, nearness)
    floor = FLOOR if corpus.total >= SMALL_MEMORY else SMALL_FLOOR
    return best_nearness - floor


def drop_weak(
    hits: Sequence[Hit],
    *,
    is_near: bool,
    is_exempt: Callable[[Hit], bool],
    max_hits: int = MAX_HITS,
) -> list[Hit]:
    """Return the hits that are worth serving, in order.

    Args:
        hits: hits, best first.
        is_near: whether the best matches are near enough to the task.
        is_exempt: whether a hit is served in any case.
        max_hits: how many hits that are not exempt are served at most.
    """
    strong_hits = list_near(hits)[:max_hits] if is_near else []
    return [hit for hit in hits if hit in strong_hits or is_exempt(hit)]


def list_near(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with a large enough share of the best score, in order."""
    scores = [score_alone(hit) for hit in hits]
    least_score = LEAST_SHARE * max(scores, default=0.0)
    return [hit for hit, score in zip(hits, scores, strict=True) if score >= least_score]


def score_alone(hit: Hit) -> float:
    """Return the score of a hit without its novelty, the factor that lowers near duplicates.

    A near duplicate of a better hit is as near to the task as that.
    """
    return hit.score / dict(hit.factors).get("novelty", 1.0)


def _list_words(entry: Entry) -> Set[str]:
    """Return the words of an entry and of its cites, with the parts of identifiers."""
    text = _strip_accents(f"{entry.title}\n{entry.body}\n{cited_words(entry.cites, entry.aka)}")
    return {*words(text), *identifier_parts(text)}


def _has_term(entry_words: Set[str], term: str) -> bool:
    """Return whether one of an entry's words is a term of the task or has its stem.

    Words have one stem if they are equal up to an ending of three letters, and at least in the
    first four. The index uses Porter's stemmer, which is not available here; measured, this rule
    separates tasks as well. A term that ends with `*` is a prefix.
    """
    term = _strip_accents(term).lower()
    if term.endswith("*"):
        return any(word.startswith(term[:-1]) for word in entry_words)
    if term in entry_words:
        return True
    stem = term[: max(4, len(term) - 3)]
    return any(word.startswith(stem) and abs(len(word) - len(term)) <= 3 for word in entry_words)


def _strip_accents(text: str) -> str:
    """Return a text without accents, as the index reads it."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    base_characters = [char for char in decomposed if not unicodedata.combining(char)]
    # NFC composes the syllables of Hangul again.
    return unicodedata.normalize("NFC", "".join(base_characters))


# Weight of the share of the first line's letters in a row that an entry has
# (benchmarks/results/retrieval.md).
GRAM_WEIGHT = 0.4
GRAM = 4  # Letters.
PAIR = 2  # Letters of a script without blanks.
NEIGHBOUR_WEIGHT = 0.3  # Share of the relevance of its best neighbour that a note gets.
LETTERS = Regex(r"[^\W_]+")


def _blank_unless_letter(byte: int) -> int:
    is_letter = byte > 127 or chr(byte).isalnum()
    return byte if is_letter else ord(" ")


BLANKED = bytes(_blank_unless_letter(byte) for byte in range(256))
"""A table for bytes.translate that leaves letters, digits and non-ASCII, and blanks the rest."""


def score_lexically(
    task: str, matches: Sequence[Match], neighbours: Mapping[Place, Sequence[Place]]
) -> Lane:
    """Return the score of each match by the words and letters that it shares with a task.

    The score of an entry is BM25 as a share of the best, and 0.4 x the share of the 4-grams of the
    task's first line that it has. A note of a session gets 0.3 of the score of the better of the
    notes before and after it in addition.

    Args:
        task: the task.
        matches: the matches of the index.
        neighbours: the notes before and after a note, by the place of that.
    """
    task_grams = _list_grams(extract_prose(task).partition("\n")[0])
    bm25 = {get_place(match.located): match.lexical for match in matches}
    own_scores = dict(normalize_lane(bm25))
    for match in matches:
        gram_share = _share_of_grams(task_grams, match.located.entry)
        own_scores[get_place(match.located)] += GRAM_WEIGHT * gram_share

    scores: dict[Place, float] = {}
    for place, own_score in own_scores.items():
        neighbour_scores = [own_scores.get(note, 0.0) for note in neighbours.get(place, ())]
        scores[place] = own_score + NEIGHBOUR_WEIGHT * max(neighbour_scores, default=0.0)
    return scores


def measure_gram_share(line: str, entries: Iterable[Entry]) -> float:
    """Return the largest share of the 4-grams of a line that one of the entries has."""
    grams = _list_grams(line)
    return max((_share_of_grams(grams, entry) for entry in entries), default=0.0)


def _list_grams(line: str) -> frozenset[str]:
    """Return the 4-grams (four letters in a row) of each word, with a blank before and after it.

    Of a script without blanks the pairs of letters are returned instead.
    """
    grams: set[str] = set()
    for word in LETTERS.findall(line.lower()):
        if word in STOP_WORDS:
            continue
        is_unspaced = not word.isascii() and UNSPACED.search(word) is not None
        size = PAIR if is_unspaced else GRAM
        text = word if is_unspaced else f" {word} "
        grams.update(text[start : start + size] for start in range(len(text) - size + 1))
    return frozenset(grams)


def _share_of_grams(grams: frozenset[str], entry: Entry) -> float:
    """Return the share of some 4-grams that the title and body of an entry contain."""
    if not grams:
        return 0.0
    # The table translates bytes faster than one of characters, and `in` is faster for characters.
    text = f" {entry.title} {entry.body} ".lower().encode().translate(BLANKED).decode()
    return sum(map(text.__contains__, grams)) / len(grams)
