"""The words of a task that are worth searching for, and how rare words are in the entries at hand."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from memory_ci.text import STOP_WORDS, identifier_parts, unfenced_lines, words


class Corpus(NamedTuple):
    """`total` entries, and how many of them hold a term."""

    total: int
    df: Callable[[str], int]


def idf(df: int, total: int) -> float:
    """log(1 + (N - n + 0.5) / (n + 0.5)), as Lucene has it: above zero also for what every entry says."""
    return math.log1p((max(total, df) - df + 0.5) / (df + 0.5))


MAX_TITLE_TERMS = 32
# A query costs time with each term, and measured on issue texts more of them move little (docs/ranking.md).
MAX_BODY_TERMS = 20
MAX_PATH_TERMS = 20
MAX_WEIGHED = (
    60  # Of so many terms of a body, the most frequent, the index is asked how rare they are.
)
MAX_CHARS = 20_000  # How much of a task is read once code and logs are out; people write less.
POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b")
# `o1` of `o1-preview`: the index has it whole, identifier_parts gives `o` and `1`.
NUMBERED = re.compile(r"(?<=[^\W_]-)[a-z]+\d+|(?<![a-z])[a-z]+\d+(?=-[^\W_])")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)

QUOTED = re.compile(
    r"""\s*(?: >                                      # a quotation
             | \[? \d{4}-\d\d-\d\d [T ] \d\d:\d\d     # a log line that starts with its date
             | \[? \d\d:\d\d:\d\d                     # or with its time
             | at \s \S+ \s? \(                       # a frame of a JavaScript or Java stack
             | File \s ".*", \s line \s \d            # a frame of a Python traceback
             | Traceback \s \(most )""",
    re.VERBOSE,
)

INFLECTED = re.compile(
    "[\u0370-\u052f]{5,}"
)  # A Greek or Cyrillic word, of which a language has a dozen forms.
LONG = 6  # Letters from which on a word has an ending to lose.

# Stop words of German, Spanish, French, Portuguese, Russian: else a question is answered by its small words.
OTHERS = tuple(
    frozenset(table.split())
    for table in (
        """aber als am an auch auf aus bei bin bis das dass dem den der des die dies diese doch du durch ein eine einem
        einen einer eines er es für hat ich ihr im in ist kann können man mit muss nach nicht noch nur oder
        sein sich sie sind so über um und uns vom von vor wann warum was weil wenn wer werden wie wir wird
        wo woher wohin wozu zu zum zur""",
        """a al como con cuál cual cuando cuándo cuánto cómo de del desde donde dónde el ella en es esta este esto ha
        hay la las lo los más muy ni no o para pero por porque puedo que qué quién se ser si sin sobre son
        su sus también un una unas uno y ya""",
        """au aux avec ce ces cette comment dans de des du elle en est et faut il ils je la le les leur mais ne nous on
        ou où par pas peut plus pour pourquoi puis quand que quel quelle qui quoi sa se ses si son sont sur
        un une vous à""",
        """a ao aos as com como da das de do dos e ela ele em eu isso já mais mas na nas no nos não o onde os ou para
        pela pelo por porque posso quais qual quando quanto que quem se sem ser seu sua são também um uma à
        às é""",
        """а без был в во все вы где да для до его если есть же за зачем и из или как какая какой ко когда кто ли можно
        мы на над не но о об он она они от по под почему при с со так также то только у что чтобы это я""",
    )
)


def build_terms(
    task: str, corpus: Corpus | None = None, paths: Iterable[str] = ()
) -> tuple[str, ...]:
    """Search terms for `task`, the words of its first line twice: repeating a term weighs it in BM25.

    Of the other lines the most frequent words are taken; with `corpus` those of the highest frequency x
    rarity there, and none that no entry holds. The words of `paths`, what the work touches, are asked once.

    Fenced code, HTML comments, quotations and log lines are left out, and so are stop words, each unless nothing else
    is there. Identifiers are given whole and in parts. At most 72 different terms.
    """
    title, _, body = told(task)[:MAX_CHARS].partition("\n")
    in_title, in_body = Counter(_terms(title)), Counter(_terms(body))
    asked = in_title.keys() | in_body.keys()
    other = max(OTHERS, key=lambda table: len(table & asked))
    # Another language counts of which a task says two and more than of English: `die` and `bin` mean something there.
    stop_words = (
        STOP_WORDS | other if len(other & asked) > max(1, len(STOP_WORDS & asked)) else STOP_WORDS
    )
    if not all(term in stop_words for term in in_title | in_body):
        in_title, in_body = _without(stop_words, in_title), _without(stop_words, in_body)
    first = tuple(dict.fromkeys(_stem(term, corpus) for term in tuple(in_title)[:MAX_TITLE_TERMS]))
    rest = _telling(_without(first, Counter(map(_stem, in_body.elements()))), corpus)
    if first or rest:
        bare = [re.sub(r"\.\w+$", "", path) for path in paths]
        parts = (
            part
            for path in bare
            for part in (*words(path), *identifier_parts(path))
            if len(part) > 2
        )
        fresh = dict.fromkeys(part for part in parts if part not in {*first, *rest})
        rest += tuple(fresh)[:MAX_PATH_TERMS]
    return first + first + rest if rest else first


def _telling(counts: Counter[str], corpus: Corpus | None) -> tuple[str, ...]:
    """The terms of a body that are asked, best first."""
    if corpus is None:
        return tuple(term for term, _ in counts.most_common(MAX_BODY_TERMS))
    entries = {term: corpus.df(term) for term, _ in counts.most_common(MAX_WEIGHED)}
    weights = {term: counts[term] * idf(n, corpus.total) for term, n in entries.items() if n}
    return tuple(sorted(weights, key=lambda term: -weights[term])[:MAX_BODY_TERMS])


def told(task: str) -> str:
    """What the author of `task` says in their own words; all of it if that is nothing."""
    lines = unfenced_lines(COMMENT.sub("", task).splitlines())
    return "\n".join(line for line in lines if not QUOTED.match(line)).strip() or task.strip()


def _terms(text: str) -> Iterator[str]:
    text = POSSESSIVE.sub("", text)
    yield from words(text)
    yield from (
        part for part in (*identifier_parts(text), *NUMBERED.findall(text.lower())) if len(part) > 1
    )


def _stem(word: str, corpus: Corpus | None = None) -> str:
    """A word as a prefix, without its ending, if it is Cyrillic or Greek, or a long one that nothing in `corpus` holds.
    Porter stems English alone; another form or a compound may be held. On the English sets it costs .001 of nDCG@10."""
    if INFLECTED.fullmatch(word):
        return f"{word[: max(4, len(word) - 3)]}*"
    if corpus is None or len(word) < LONG or not word.isalpha() or corpus.df(word):
        return word
    return f"{word[: max(LONG - 1, len(word) - 3)]}*"


def _without(terms: Iterable[str], counts: Counter[str]) -> Counter[str]:
    left_out = frozenset(terms)
    return Counter({term: count for term, count in counts.items() if term not in left_out})
