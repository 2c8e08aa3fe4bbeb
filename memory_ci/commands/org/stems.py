"""Stems of words and BM25 scores as SQLite's FTS5 computes them, for an index on PostgreSQL."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from memory_ci.search.database import TOKENIZER
from memory_ci.search.search import CITED_WEIGHT, COLUMN_WEIGHT, quote_term

# The parameters of FTS5's bm25().
K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6  # The IDF that FTS5 gives a term of more than half of the texts.

COLUMNS = ("title", "body", "parts", "cited")
# In `Stemmed.text`: between two columns, and before the last one, which has a weight of its own.
COLUMN_SEPARATOR = "\n"
CITED_SEPARATOR = "\f"
MAX_LEXEME_CHARS = (
    200  # Letters of a stem that are looked up; texts with longer stems are compared whole.
)


class Stemmed(NamedTuple):
    """The stems of an entry.

    Attributes:
        text: the stems of all columns in one text.
        size: their number.
        lexemes: the distinct stems, each cut to `MAX_LEXEME_CHARS` letters, sorted.
    """

    text: str
    size: int
    lexemes: tuple[str, ...]


class StemPattern(NamedTuple):
    """A term of a query as stems.

    Attributes:
        text: the term as it occurs in `Stemmed.text`.
        lexemes: the lexemes of each entry with the term; the last one of a prefix is a prefix.
        is_prefix: whether the term is a prefix.
    """

    text: str
    lexemes: tuple[str, ...]
    is_prefix: bool

    @property
    def is_plain(self) -> bool:
        """Whether the term is one lexeme, so that each entry with the lexeme has the term."""
        return len(self.lexemes) == 1 and len(self.lexemes[0]) < MAX_LEXEME_CHARS


class Stemmer:
    """Stems words by FTS5: indexes texts in a table in memory, and reads the index back."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        columns = f"{', '.join(COLUMNS)}, content = '', tokenize = '{TOKENIZER}'"
        self._connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5 ({columns})")
        self._connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")

    def stem(self, rows: Iterable[Sequence[object]]) -> list[Stemmed]:
        """Return the stems of the texts of entries.

        Args:
            rows: for each entry a row of `builder.text_row`: its number, from 0, and a text for
                each of COLUMNS. The words in the last column, `cited`, weigh less.
        """
        row_count, stems_by_column = self._stem_columns(rows)
        stemmed_rows = []
        for row_number in range(row_count):
            *columns, cited = (stems_by_column[row_number, name] for name in COLUMNS)
            text = COLUMN_SEPARATOR.join(_join_words(column) for column in columns)
            text += CITED_SEPARATOR + _join_words(cited)
            stems = [*chain.from_iterable(columns), *cited]
            lexemes = sorted({stem[:MAX_LEXEME_CHARS] for stem in stems})
            stemmed_rows.append(Stemmed(text, len(stems), tuple(lexemes)))
        return stemmed_rows

    def build_patterns(self, terms: Iterable[str]) -> dict[str, StemPattern]:
        """Return a pattern for each term; a term without a word (such as `--`) has none.

        A term that ends with `*` is a prefix.
        """
        unique_terms = list(dict.fromkeys(terms))
        # Each term is stemmed as if it were the title of an entry without other texts.
        rows = []
        for number, term in enumerate(unique_terms):
            quoted = quote_term(term).removesuffix("*")
            title = quoted[1:-1]  # without the quotes
            rows.append((number, title, "", "", ""))
        _, stems_by_column = self._stem_columns(rows)

        pattern_by_term: dict[str, StemPattern] = {}
        for number, term in enumerate(unique_terms):
            stems = stems_by_column[number, "title"]
            if not stems:
                continue
            text = _join_words(stems)
            is_prefix = term.endswith("*")
            if is_prefix:
                text = text.removesuffix(" ")  # More letters may follow.
            lexemes = tuple(stem[:MAX_LEXEME_CHARS] for stem in stems)
            pattern_by_term[term] = StemPattern(text, lexemes, is_prefix)
        return pattern_by_term

    def _stem_columns(
        self, rows: Iterable[Sequence[object]]
    ) -> tuple[int, dict[tuple[int, str], list[str]]]:
        """Return the number of rows, and their stemmed words by row number and column name.

        Only FTS5 itself knows how it stems: the rows are put into a table of FTS5, its index is
        read by the table `words`, and then the rows are taken back.
        """
        self._connection.execute("BEGIN")
        insert = "INSERT INTO texts (rowid, title, body, parts, cited) VALUES (?, ?, ?, ?, ?)"
        row_count = max(0, self._connection.executemany(insert, rows).rowcount)
        stems_by_column: dict[tuple[int, str], list[str]] = defaultdict(list)
        query = "SELECT doc, col, term FROM words ORDER BY doc, col, offset"
        for row_number, column, stem in self._connection.execute(query):
            stems_by_column[row_number, column].append(stem)
        self._connection.execute("ROLLBACK")
        return row_count, stems_by_column


def _join_words(words: Iterable[str]) -> str:
    """Join words with a blank on both sides of each, so that a word is found whole."""
    return "".join(f" {word} " for word in words)


def quote_lexeme(lexeme: str) -> str:
    """Quote a lexeme for tsvector and tsquery; FTS5 makes words of letters and digits only."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def build_tsquery(
    wanted_patterns: Sequence[StemPattern], excluded_patterns: Sequence[StemPattern]
) -> str:
    """Return a tsquery for entries that may have a wanted pattern, and have no excluded one."""
    wanted_query = " | ".join(_build_conjunction(pattern) for pattern in wanted_patterns)
    if not excluded_patterns:
        return wanted_query
    excluded_query = " | ".join(_build_conjunction(pattern) for pattern in excluded_patterns)
    return f"({wanted_query}) & !({excluded_query})"


def _build_conjunction(pattern: StemPattern) -> str:
    """Return a tsquery for entries with all lexemes of a pattern: `('retri' & 'charg':*)`."""
    lexemes = [quote_lexeme(lexeme) for lexeme in pattern.lexemes]
    if pattern.is_prefix or len(pattern.lexemes[-1]) >= MAX_LEXEME_CHARS:
        lexemes[-1] += ":*"
    return f"({' & '.join(lexemes)})"


def idf(entries_with_term: int, entries: int) -> float:
    """Return the inverse document frequency as FTS5 computes it; it is never zero."""
    entries_without_term = entries - entries_with_term
    return max(LEAST_IDF, math.log((entries_without_term + 0.5) / (entries_with_term + 0.5)))


def score(
    text: str, size: int, mean_size: float, weighted_patterns: Sequence[tuple[str, float]]
) -> float:
    """Return the BM25 score of one entry.

    Args:
        text: `Stemmed.text` of the entry.
        size: the number of its stems.
        mean_size: the mean number of stems of all entries.
        weighted_patterns: the text of each pattern of the query, and its weight: its IDF times how
            often the query has it.
    """
    main_text, _, cited_text = text.partition(CITED_SEPARATOR)
    length_norm = K1 * (1 - B + B * size / mean_size)
    bm25 = 0.0
    for pattern, weight in weighted_patterns:
        if pattern in text:
            frequency = COLUMN_WEIGHT * main_text.count(pattern)
            frequency += CITED_WEIGHT * cited_text.count(pattern)
            bm25 += weight * frequency * (K1 + 1) / (frequency + length_norm)
    return bm25
