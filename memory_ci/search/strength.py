"""Strength of an answer: how much of a task the best entries cover (HIT, WEAK or MISS)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit, Match, Strength
from memory_ci.regex import Regex
from memory_ci.search.query import Corpus, build_terms, extract_prose, idf
from memory_ci.search.rank import EntryPlace, EntryScores, get_entry_place, normalize_scores
from memory_ci.text import (
    STOP_WORDS,
    UNSPACED,
    cited_words,
    content_words,
    identifier_parts,
    words,
)

HIT_COVERAGE = 0.45
"""Coverage from which an answer is a HIT: 4 of 100 tasks of another repository reach it
(benchmarks/results/retrieval.md, the verdict)."""

MISS_COVERAGE = 0.25
"""Coverage below which an answer is a MISS: below it are 6 to 10 of 100 tasks that have an answer,
and 70 of 100 that have none."""

MIN_TOTAL = 100
"""Entries that are assumed at least. Fewer show too little of how rare a word is: among five
entries every second word looks common."""

COMPARED_MATCHES = 3
"""Best matches that are compared with the task: the scores of a handful of entries mean little."""

MIN_NEARNESS = 0.46
MIN_NEARNESS_SMALL = 0.35  # In a small memory.
"""Nearness below which nothing is served: an entry that only shares a word is no answer."""

SMALL_MEMORY = 200  # A memory of fewer entries is small.
GRAM_FACTOR = 0.5  # Weight in nearness of the letters of a line, relative to its words.

# A task that names two subjects is searched for each of them, if it has enough content words.
CLAUSE = Regex(r"[;,.]\s")
MIN_CLAUSE_WORDS = 3

COSINE_SHIFT = 0.5
"""Cosine of all-MiniLM-L6-v2 above which a task is nearer, and below which it is farther."""

CROSSING = 0.5
"""Weight of a pair of letters of a script without blanks that no entry has: every second pair
crosses two words."""

MIN_TOTAL_NEARNESS = 1_000  # As MIN_TOTAL, where nearness is measured.
MAX_HITS = 10  # Entries that are served for a task at most.
MIN_SCORE_SHARE = 0.45  # Share of the best score that each of them has at least.


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
    best_entries = [match.located.entry for match in matches[:COMPARED_MATCHES]]
    coverage = measure_coverage(best_entries, terms, corpus)
    if coverage >= HIT_COVERAGE:
        return "HIT"
    if coverage >= MISS_COVERAGE:
        return "WEAK"
    return "MISS"


def measure_coverage(
    entries: Sequence[Entry], terms: Sequence[str], corpus: Corpus, min_total: int = MIN_TOTAL
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
    """Return the terms of a task that name its subject, without those that most entries have.

    `query.build_terms` repeats the terms of a task's first line, which are taken for its subject.
    Without repeated terms all count. Common terms stay if there are no others.
    """
    counts = Counter(terms)
    repeated_terms = [term for term, count in counts.items() if count > 1]
    subject_terms = repeated_terms or list(counts)
    if corpus.total < 5:  # Too few to say which terms are common.
        return subject_terms
    rare_terms = [term for term in subject_terms if corpus.df(term) <= corpus.total / 2]
    return rare_terms or subject_terms


def measure_margin(
    task: str, matches: Sequence[Match], terms: Sequence[str], corpus: Corpus
) -> float:
    """Return how far the nearness of the best matches to a task is above the least that is served.

    The margin is below 0 if no match is near enough to be served. Nearness is

        coverage of the first line's words + 0.5 x share of its 4-grams that an entry has

    or 0 if no entry has one of these words. A task may name two subjects: each clause of the first
    line is measured as well as the whole line, and the greatest nearness counts.

    Args:
        task: the task.
        matches: the matches of the search by words, best first.
        terms: the terms of the task.
        corpus: frequencies of terms.
    """
    entries = [match.located.entry for match in matches[:COMPARED_MATCHES]]
    first_line = extract_prose(task).partition("\n")[0]
    subjects = [(first_line, terms)]
    for clause in CLAUSE.split(first_line):
        if clause != first_line and len(content_words(clause)) >= MIN_CLAUSE_WORDS:
            subjects.append((clause, build_terms(clause)))

    best_nearness = 0.0
    for text, text_terms in subjects:
        coverage = measure_coverage(entries, text_terms, corpus, MIN_TOTAL_NEARNESS)
        if coverage:
            nearness = coverage + GRAM_FACTOR * measure_gram_share(text, entries)
            best_nearness = max(best_nearness, nearness)
    is_small = corpus.total < SMALL_MEMORY
    return best_nearness - (MIN_NEARNESS_SMALL if is_small else MIN_NEARNESS)


def drop_weak(
    hits: Sequence[Hit],
    *,
    is_near: bool,
    is_exempt: Callable[[Hit], bool] | None = None,
    max_hits: int = MAX_HITS,
) -> list[Hit]:
    """Return the hits that are worth serving, in order.

    If the best matches are near enough to the task, these are the hits with a large enough share of
    the best score. Exempt hits are served in any case.

    Args:
        hits: hits, best first.
        is_near: whether the best matches are near enough to the task.
        is_exempt: returns whether a hit is served in any case; None for no such hit.
        max_hits: how many hits that are not exempt are served at most.
    """
    strong_hits = list_strong(hits)[:max_hits] if is_near else []
    if is_exempt is None:
        return strong_hits
    return [hit for hit in hits if hit in strong_hits or is_exempt(hit)]


def list_strong(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with a large enough share of the best score, in order."""
    scores = [score_alone(hit) for hit in hits]
    least_score = MIN_SCORE_SHARE * max(scores, default=0.0)
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
GRAM_SIZE = 4  # Letters of a gram.
UNSPACED_GRAM_SIZE = 2  # The same in a script without blanks, as Chinese.
NEIGHBOUR_WEIGHT = 0.3  # Share of the score of its best neighbour that a note gets.
LETTERS = Regex(r"[^\W_]+")


def _blank_unless_letter(byte: int) -> int:
    is_letter = byte > 127 or chr(byte).isalnum()
    return byte if is_letter else ord(" ")


BLANKED = bytes(_blank_unless_letter(byte) for byte in range(256))
"""A table for bytes.translate that leaves letters, digits and non-ASCII, and blanks the rest."""


def score_lexically(
    task: str, matches: Sequence[Match], neighbours: Mapping[EntryPlace, Sequence[EntryPlace]]
) -> EntryScores:
    """Return the score of each match by the words and letters that it shares with a task.

    The score of an entry is

        BM25 / best BM25 + 0.4 x share of the 4-grams of the task's first line that the entry has

    A note of a session gets 0.3 of the score of its better neighbour in addition: of the note
    before it or the note after it.

    Args:
        task: the task.
        matches: the matches of the index.
        neighbours: the places of the notes before and after a note, by its place.
    """
    task_grams = _list_grams(extract_prose(task).partition("\n")[0])
    bm25 = {get_entry_place(match.located): match.lexical for match in matches}
    own_scores = dict(normalize_scores(bm25))
    for match in matches:
        gram_share = _measure_gram_share(task_grams, match.located.entry)
        own_scores[get_entry_place(match.located)] += GRAM_WEIGHT * gram_share

    scores: dict[EntryPlace, float] = {}
    for place, own_score in own_scores.items():
        neighbour_scores = [own_scores.get(note, 0.0) for note in neighbours.get(place, ())]
        scores[place] = own_score + NEIGHBOUR_WEIGHT * max(neighbour_scores, default=0.0)
    return scores


def measure_gram_share(line: str, entries: Iterable[Entry]) -> float:
    """Return the largest share of the 4-grams of a line that one of the entries has."""
    grams = _list_grams(line)
    return max((_measure_gram_share(grams, entry) for entry in entries), default=0.0)


def _list_grams(line: str) -> frozenset[str]:
    """Return the 4-grams (four letters in a row) of each word, with a blank before and after it.

    A word of a script without blanks, such as Chinese, has 2-grams, and no blanks around it.
    """
    grams: set[str] = set()
    for word in LETTERS.findall(line.lower()):
        if word in STOP_WORDS:
            continue
        is_unspaced = not word.isascii() and UNSPACED.search(word) is not None
        size = UNSPACED_GRAM_SIZE if is_unspaced else GRAM_SIZE
        text = word if is_unspaced else f" {word} "
        grams.update(text[start : start + size] for start in range(len(text) - size + 1))
    return frozenset(grams)


def _measure_gram_share(grams: frozenset[str], entry: Entry) -> float:
    """Return the share of grams that the title or body of an entry has."""
    if not grams:
        return 0.0
    # The table translates bytes faster than one of characters, and `in` is faster for characters.
    text = f" {entry.title} {entry.body} ".lower().encode().translate(BLANKED).decode()
    return sum(map(text.__contains__, grams)) / len(grams)
