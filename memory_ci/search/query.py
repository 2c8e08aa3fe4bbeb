"""The search terms of a task, weighed by how rare they are in memory."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Set

import msgspec

from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, identifier_parts, unfenced_lines, words


class Corpus(msgspec.Struct, frozen=True):
    """Frequencies of terms in memory.

    Attributes:
        total: number of entries.
        df: document frequency: returns how many entries have a term.
    """

    total: int
    df: Callable[[str], int]


def idf(df: int, total: int) -> float:
    """Return the inverse document frequency log(1 + (N - n + 0.5) / (n + 0.5)), as Lucene does.

    It is above zero even for a term that every entry has.
    """
    return math.log1p((max(total, df) - df + 0.5) / (df + 0.5))


# A query takes time for each term, and measured on issue texts more of them change little
# (benchmarks/results/retrieval.md).
MAX_TITLE_TERMS = 32
MAX_BODY_TERMS = 20
MAX_PATH_TERMS = 20
MAX_WEIGHED = 60  # The most frequent terms of a body, whose rarity the index is asked for.
MAX_CHARS = 20_000  # Characters of a task that are searched for, without code and logs.
POSSESSIVE = Regex(r"(?<=\w)['\u2019]s\b")

# Letters and digits at a hyphen, such as `o1` of `o1-preview`: the index has them as one word,
# while identifier_parts returns `o` and `1`.
NUMBERED = Regex(r"(?<=[^\W_]-)[a-z]+\d+|(?<![a-z])[a-z]+\d+(?=-[^\W_])")
COMMENT = Regex(r"<!--.*?(?:-->|\Z)", re.DOTALL)

QUOTED = Regex(
    r"""\s*(?: >                                      # a quotation
             | \[? \d{4}-\d\d-\d\d [T ] \d\d:\d\d     # a log line that starts with its date
             | \[? \d\d:\d\d:\d\d                     # or with its time
             | at \s \S+ \s? \(                       # a frame of a JavaScript or Java stack
             | File \s ".*", \s line \s \d            # a frame of a Python traceback
             | Traceback \s \(most )""",
    re.VERBOSE,
)

# A Greek or Cyrillic word: these languages have a dozen forms of each.
INFLECTED = Regex("[\u0370-\u052f]{5,}")
MIN_STEMMED = 6  # Letters. A shorter word has no ending to lose.

# Stop words of German, Spanish, French, Portuguese and Russian. Without them a question in one of
# these languages would be answered by its small words.
OTHER_STOP_WORDS = tuple(
    frozenset(table.split())
    for table in (
        """aber als am an auch auf aus bei bin bis das dass dem den der des die dies diese doch
        du durch ein eine einem einen einer eines er es für hat ich ihr im in ist kann
        können man mit muss nach nicht noch nur oder sein sich sie sind so über um und uns
        vom von vor wann warum was weil wenn wer werden wie wir wird wo woher wohin wozu zu
        zum zur""",
        """a al como con cuál cual cuando cuándo cuánto cómo de del desde donde dónde el ella
        en es esta este esto ha hay la las lo los más muy ni no o para pero por porque puedo
        que qué quién se ser si sin sobre son su sus también un una unas uno y ya""",
        """au aux avec ce ces cette comment dans de des du elle en est et faut il ils je la le
        les leur mais ne nous on ou où par pas peut plus pour pourquoi puis quand que quel
        quelle qui quoi sa se ses si son sont sur un une vous à""",
        """a ao aos as com como da das de do dos e ela ele em eu isso já mais mas na nas no nos
        não o onde os ou para pela pelo por porque posso quais qual quando quanto que quem
        se sem ser seu sua são também um uma à às é""",
        """а без был в во все вы где да для до его если есть же за зачем и из или как какая
        какой ко когда кто ли можно мы на над не но о об он она они от по под почему при с
        со так также то только у что чтобы это я""",
    )
)


def build_terms(
    task: str, corpus: Corpus | None = None, paths: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the terms by which the index is searched for a task, at most 72 different ones.

    The words of the first line come twice: BM25 gives a repeated term more weight. Of the other
    lines the most frequent words are taken. Fenced code, HTML comments, quotations, log lines and
    stop words are left out, unless there is nothing else. Identifiers are returned whole and in
    parts.

    Args:
        task: the task.
        corpus: in how many entries terms are. With it the terms of the other lines are chosen by
            frequency x rarity, and terms that no entry has are left out.
        paths: the files that the work touches, whose words come once. They count only if the task
            has terms itself.
    """
    title, _, body = extract_prose(task)[:MAX_CHARS].partition("\n")
    title_words, body_words = _drop_stop_words(_list_terms(title), _list_terms(body))
    first_title_words = list(dict.fromkeys(title_words))[:MAX_TITLE_TERMS]
    title_terms = tuple(dict.fromkeys(_truncate_word(word, corpus) for word in first_title_words))

    body_counts = Counter(_truncate_word(word) for word in body_words)
    for term in title_terms:
        del body_counts[term]
    other_terms = _choose_body_terms(body_counts, corpus)
    if title_terms or other_terms:
        other_terms += _list_path_terms(paths, {*title_terms, *other_terms})
    if not other_terms:
        return title_terms  # Repeated or not, they would all have the same weight.
    return title_terms + title_terms + other_terms


def _drop_stop_words(title_words: list[str], body_words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of a title and a body without stop words; all if there are no others."""
    stop_words = _choose_stop_words({*title_words, *body_words})
    title_rest = [word for word in title_words if word not in stop_words]
    body_rest = [word for word in body_words if word not in stop_words]
    if not title_rest and not body_rest:
        return title_words, body_words
    return title_rest, body_rest


def _choose_stop_words(terms: Set[str]) -> frozenset[str]:
    """Return the stop words of English, and of a second language if the task is in it.

    It is if the task has at least two of its stop words, and more than of English: German `die` and
    `bin` are no stop words in an English task.

    Args:
        terms: the words of the task.
    """
    second_stop_words = max(OTHER_STOP_WORDS, key=lambda table: len(table & terms))
    if len(second_stop_words & terms) > max(1, len(STOP_WORDS & terms)):
        return STOP_WORDS | second_stop_words
    return STOP_WORDS


def _choose_body_terms(counts: Counter[str], corpus: Corpus | None) -> tuple[str, ...]:
    """Return the terms of a task's body that are searched for, best first.

    Args:
        counts: how often the body has each term.
        corpus: in how many entries terms are; None: the most frequent terms are taken.
    """
    if corpus is None:
        return tuple(term for term, _ in counts.most_common(MAX_BODY_TERMS))
    weights: dict[str, float] = {}
    for term, count in counts.most_common(MAX_WEIGHED):
        df = corpus.df(term)
        if df:
            weights[term] = count * idf(df, corpus.total)
    by_weight = sorted(weights, key=lambda term: -weights[term])
    return tuple(by_weight[:MAX_BODY_TERMS])


def _list_path_terms(paths: Iterable[str], excluded: Set[str]) -> tuple[str, ...]:
    """Return the words of paths without file extensions, and without short and excluded words."""
    terms: dict[str, None] = {}
    for path in paths:
        stem = re.sub(r"\.\w+$", "", path)
        for word in (*words(stem), *identifier_parts(stem)):
            if len(word) > 2 and word not in excluded:
                terms[word] = None
    return tuple(terms)[:MAX_PATH_TERMS]


def extract_prose(task: str) -> str:
    """Return the prose of a task without code, comments, quotations and logs.

    If nothing remains, the whole task is returned.
    """
    lines = unfenced_lines(COMMENT.sub("", task).splitlines())
    prose = "\n".join(line for line in lines if not QUOTED.match(line))
    return prose.strip() or task.strip()


def _list_terms(text: str) -> list[str]:
    """Return the words of a text, then the parts of its identifiers."""
    text = POSSESSIVE.sub("", text)
    parts = (*identifier_parts(text), *NUMBERED.findall(text.lower()))
    return [*words(text), *(part for part in parts if len(part) > 1)]


def _truncate_word(word: str, corpus: Corpus | None = None) -> str:
    """Return a word without its ending, as a prefix to search for (`deploy*`), or unchanged.

    Two kinds of words lose their ending, because entries may have another form of them and the
    stemmer of the index knows English only: Cyrillic and Greek words, and long words that no entry
    has. On the English sets this costs .001 of nDCG@10.

    Args:
        word: the word.
        corpus: in how many entries terms are; None: only Cyrillic and Greek words are cut.
    """
    if INFLECTED.fullmatch(word):
        stem_length = max(4, len(word) - 3)
        return f"{word[:stem_length]}*"
    if corpus is None or len(word) < MIN_STEMMED or not word.isalpha() or corpus.df(word):
        return word
    stem_length = max(MIN_STEMMED - 1, len(word) - 3)
    return f"{word[:stem_length]}*"
