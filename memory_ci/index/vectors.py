"""The vector lane: vectors of entries, kept in the index by the hash of their text, and the entries nearest to a task.

All vectors of one model stand in one row of the table `vectors`, so a search reads two blobs and compares with all
(10,000 entries: below a millisecond with numpy). There is no vector database, and numpy is loaded only here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple, Unpack

from memory_ci.errors import EngineError
from memory_ci.index.database import Index
from memory_ci.index.embedders import Embedder, Vectors
from memory_ci.index.search import RANKED_SCOPES, SHOWN_STATUSES, Filters, list_entries
from memory_ci.records.entry import Located

HASH_BYTES = 16
FLOAT_BYTES = 4

MAX_AT_QUERY = 32
"""Entries that a query embeds itself, half a second of work; `memory-ci index --vectors` does the rest."""

READ = "SELECT dim, hashes, data FROM vectors WHERE model_id = ?"
WRITE = "INSERT OR REPLACE INTO vectors (model_id, dim, hashes, data) VALUES (?, ?, ?, ?)"

Place = tuple[str, int]
"""Path and line of an entry: its id may stand in two files."""

Rows = Mapping[bytes, bytes]
"""The hash of a text -> its vector, float32 in little-endian order."""


class Kept(NamedTuple):
    """The vectors of one model as they are stored: row n of `data` is of the text with hash n of `hashes`."""

    dim: int
    hashes: bytes
    data: bytes


class Near(NamedTuple):
    """An entry and the cosine of its vector with that of the task, in [-1, 1]; 0 for a vector of zeros."""

    located: Located
    cosine: float


class VectorAnswer(NamedTuple):
    """What the lane found: cosines by place, best first, and the entries themselves.

    `reason` says why the lane is off (nothing matches) or what it could not see; "" when nothing is amiss.
    """

    matches: Mapping[Place, float]
    located: Mapping[Place, Located]
    reason: str


def vector_matches(
    index: Index, embedder: Embedder, text: str, *, depth: int = 200, **filters: Unpack[Filters]
) -> VectorAnswer:
    """The `depth` entries nearest to `text` in meaning, of those that `search` would look at with the same filters.

    Entries without a vector are embedded first, at most 32 of them. Never raises for what an embedder does.
    """
    if not text.strip():
        return VectorAnswer({}, {}, "")
    try:
        query = embedder.embed([text], "query")
    except EngineError as error:
        return VectorAnswer({}, {}, error.message)
    if not any(query.data):
        return VectorAnswer({}, {}, f"{embedder.model_id} gave the task a vector of zeros")
    entries = _list_shown(index, filters)
    trouble = _embed_some(index, embedder, entries)
    found, seen = nearest(index, query, embedder.model_id, entries)
    if seen < len(entries):
        trouble = f"{seen} of {len(entries)} entries have vectors" + (f"; {trouble}" if trouble else "")
    best = found[: max(1, depth)]
    places = [(near.located.path, near.located.line) for near in best]
    return VectorAnswer(
        dict(zip(places, (near.cosine for near in best), strict=True)),
        dict(zip(places, (near.located for near in best), strict=True)),
        trouble,
    )


def nearest(index: Index, query: Vectors, model_id: str, entries: Sequence[Located]) -> tuple[list[Near], int]:
    """Those of `entries` that have a vector, nearest first, and how many these are.

    Vectors of another model or dimension are never compared: such an entry has none. Ties: by id, path and line.
    """
    kept = _read(index, model_id)
    if kept.dim != query.dim:
        return [], 0
    rows = {kept.hashes[at : at + HASH_BYTES]: at // HASH_BYTES for at in range(0, len(kept.hashes), HASH_BYTES)}
    known = [(located, row) for located in entries if (row := rows.get(text_hash(located))) is not None]
    cosines = _cosines(kept, query)
    found = [Near(located, cosines[row]) for located, row in known]
    return sorted(found, key=_order), len(known)


def missing(index: Index, model_id: str) -> dict[bytes, str]:
    """The hash and the text of every entry that could be served and has no vector of this model, in order of place."""
    return _without_vector(index, model_id, _list_shown(index, {}))


def store(index: Index, model_id: str, hashes: Sequence[bytes], vectors: Vectors) -> None:
    """Keep `vectors`, one for each of `hashes`, beside those that are there; those of texts that are gone go.

    Vectors of another dimension than the new ones are dropped: the model is not what it was.
    """
    data = _little_endian(vectors.data)
    width = vectors.dim * FLOAT_BYTES
    rows = dict(_rows(_read(index, model_id), vectors.dim))
    rows |= {key: data[place * width : (place + 1) * width] for place, key in enumerate(hashes)}
    current = {text_hash(located) for located in list_entries(index)}
    order = sorted(rows.keys() & current)
    values = (model_id, vectors.dim, b"".join(order), b"".join(rows[key] for key in order))
    index.connection.execute(WRITE, values)


def text_of(located: Located) -> str:
    """What an entry is embedded by."""
    return f"{located.entry.title}\n{located.entry.body}"


def text_hash(located: Located) -> bytes:
    """The name of an entry's text in the table: 128 bits of BLAKE2b."""
    return hashlib.blake2b(text_of(located).encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


def _list_shown(index: Index, filters: Filters) -> list[Located]:
    """What the lexical lane would look at."""
    shown = Filters(scopes=RANKED_SCOPES, statuses=SHOWN_STATUSES)
    shown.update(filters)
    return list_entries(index, **shown)


def _embed_some(index: Index, embedder: Embedder, entries: Iterable[Located]) -> str:
    """Give some entries without a vector one; why that could not be done, or ""."""
    chosen = dict(list(_without_vector(index, embedder.model_id, entries).items())[:MAX_AT_QUERY])
    if not chosen:
        return ""
    try:
        store(index, embedder.model_id, tuple(chosen), embedder.embed(tuple(chosen.values())))
    except EngineError as error:
        return error.message
    return ""


def _without_vector(index: Index, model_id: str, entries: Iterable[Located]) -> dict[bytes, str]:
    kept = _read(index, model_id).hashes
    known = {kept[at : at + HASH_BYTES] for at in range(0, len(kept), HASH_BYTES)}
    texts = {text_hash(located): text_of(located) for located in entries}
    return {key: text for key, text in texts.items() if key not in known}


def _read(index: Index, model_id: str) -> Kept:
    """What is kept of a model; nothing when the lengths do not agree, as in a file that was tampered with."""
    for kept in index.read(READ, (model_id,), lambda row: Kept(*row)):
        count, rest = divmod(len(kept.hashes), HASH_BYTES)
        if not rest and kept.dim > 0 and len(kept.data) == count * kept.dim * FLOAT_BYTES:
            return kept
    return Kept(0, b"", b"")


def _rows(kept: Kept, dim: int) -> Iterable[tuple[bytes, bytes]]:
    if kept.dim != dim:
        return
    width = dim * FLOAT_BYTES
    for place in range(len(kept.hashes) // HASH_BYTES):
        at = place * HASH_BYTES
        yield kept.hashes[at : at + HASH_BYTES], kept.data[place * width : (place + 1) * width]


def _cosines(kept: Kept, query: Vectors) -> list[float]:
    """The cosine of every kept vector with the query; all have length one, or none at all. No number counts as 0."""
    if importlib.util.find_spec("numpy") is None:
        products = _products(kept, query)
    else:
        from memory_ci.index.embedders.minilm import load_numpy

        np: Any = load_numpy()
        matrix = np.frombuffer(kept.data, dtype="<f4").reshape(-1, kept.dim)
        products = (matrix @ np.asarray(query.data, dtype="<f4")).tolist()
    return [value if math.isfinite(value) else 0.0 for value in products]


def _products(kept: Kept, query: Vectors) -> list[float]:
    """The same without numpy, some hundred times slower."""
    data = array("f", kept.data)
    if sys.byteorder == "big":
        data.byteswap()
    starts = range(0, len(data), kept.dim)
    return [sum(map(mul, data[start : start + kept.dim], query.data)) for start in starts]


def _little_endian(data: array[float]) -> bytes:
    copy = data[:]
    if sys.byteorder == "big":
        copy.byteswap()
    return copy.tobytes()


def _order(near: Near) -> tuple[float, str, str, int]:
    located = near.located
    return -near.cosine, located.entry.id, located.path, located.line
