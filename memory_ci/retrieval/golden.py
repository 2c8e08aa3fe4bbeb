"""Golden queries of a repository's own memory: derived from its entries, to be mended and extended by people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from memory_ci.records.entry import Entry
from memory_ci.records.quality import Golden
from memory_ci.text import STOP_WORDS, content_words, words

FOREIGN_TASKS = (
    "Bake shadow maps for directional lights in the renderer",
    "Tune the PID gains of the quadcopter's yaw loop",
    "Segment lung nodules in the DICOM series before registration",
    "Quantise the tokenizer's logits on the wafer tester",
    "Let the tram timetable import GTFS stop headways",
    "Score a chess endgame with a seven-piece tablebase",
    "Model soil moisture drift in the irrigation planner",
    "Transpose the MIDI score when the oboe part is muted",
)
"""Tasks of other trades: a memory about software work has nothing on them."""

LEAST_BODY_WORDS = 4
"""A body with fewer words of its own gives no paraphrase."""

PARAPHRASE_WORDS = 6


def derive_golden(entries: Sequence[Entry], paths_of: Callable[[Entry], Iterable[str]]) -> tuple[Golden, ...]:
    """Up to three queries for each entry (its title, a paraphrase, the files it cites, given by `paths_of`), then
    tasks of other trades, most of whose words no entry has."""
    df = Counter(word for entry in entries for word in content_words(f"{entry.title}\n{entry.body}"))
    own = [golden for entry in entries for golden in _queries(entry, df, paths_of(entry))]
    return (*own, *(Golden(query=task, kind="foreign") for task in FOREIGN_TASKS if _is_foreign(task, df)))


def _is_foreign(task: str, df: Counter[str]) -> bool:
    asked = content_words(task)
    return 2 * len(asked & df.keys()) < len(asked)


def _queries(entry: Entry, df: Counter[str], cited: Iterable[str]) -> Iterator[Golden]:
    yield Golden(query=entry.title, relevant=(entry.id,), kind="title")
    paraphrase = _paraphrase(entry, df)
    if paraphrase:
        yield Golden(query=paraphrase, relevant=(entry.id,), kind="paraphrase")
    text = f"{entry.title}\n{entry.body}".lower()
    paths = [path for path in dict.fromkeys(cited) if path.lower() in text]  # only title and body are searched
    if paths:
        yield Golden(query=f"Change {' and '.join(paths)}", relevant=(entry.id,), kind="path")


def _paraphrase(entry: Entry, df: Counter[str]) -> str:
    """The title without its rarest word, and words that only the body has; "" where the body adds too little."""
    title = list(_telling(words(entry.title)))
    body = sorted(_telling(words(entry.body), title), key=lambda word: (df[word], word))
    if len(title) < 2 or len(body) < LEAST_BODY_WORDS:
        return ""
    rarest = min(title, key=lambda word: (df[word], word))
    return " ".join([*(word for word in title if word != rarest), *body[:PARAPHRASE_WORDS]])


def _telling(found: Iterable[str], known: Iterable[str] = ()) -> Iterator[str]:
    left_out = {*STOP_WORDS, *known}
    return (word for word in dict.fromkeys(found) if word not in left_out)
