"""Health by the definitions of Crewship, a memory for agents: cosines of vectors of entries.

Vectors are made for it. docs/report.md compares its metrics with those of the profile `git`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import msgspec

from memory_ci.commands.health import crewship_metrics, metrics
from memory_ci.commands.health.inputs import NO_QUESTION, HealthInputs
from memory_ci.commands.health.metrics import Measurement
from memory_ci.commands.health.records import MetricName
from memory_ci.errors import EngineError
from memory_ci.evidence.content import redact
from memory_ci.lifecycle.similarity import list_entry_words
from memory_ci.memory import eligible
from memory_ci.search.database import Index
from memory_ci.search.embedders import Embedder, Vectors, choose_embedder
from memory_ci.search.embedders.remote import INDEX_LIMITS
from memory_ci.search.neighbours import MIN_JACCARD, find_similar
from memory_ci.search.vectors import (
    Nearest,
    find_nearest,
    find_nearest_to_texts,
    list_missing_texts,
    store_vectors,
)

MAX_EMBEDDED = 1_000  # Texts; to embed more takes minutes.


class CosineLists(msgspec.Struct, frozen=True):
    """Cosines of entries with their nearest others and with questions, best first.

    Attributes:
        neighbour_cosines: for each text of an entry the cosines of its nearest others.
        hit_cosines: for each question (the title of a merged change) those of its best hits.
        no_data_reason: the reason if one of them is empty.
    """

    neighbour_cosines: tuple[tuple[float, ...], ...] = ()
    hit_cosines: tuple[tuple[float, ...], ...] = ()
    no_data_reason: str = ""


def measure_crewship(
    inputs: HealthInputs, environ: Mapping[str, str] | None
) -> dict[MetricName, Measurement]:
    """Return the measurement of each metric as Crewship, a memory for agents, defines it.

    Args:
        inputs: the memory and history.
        environ: the environment that the embedder is configured by; None: none is used.
    """
    cosines = _measure_cosines(inputs, environ)
    coverage = crewship_metrics.score_indexed(len(inputs.active), len(inputs.unserved_places))
    linked_ids = metrics.find_related(inputs.entries, inputs.known_ids)
    if cosines.neighbour_cosines:
        linked_ids |= _find_similar_ids(inputs)
    else:
        # Without vectors, entries are compared by their words.
        linked_ids |= metrics.find_similar_entries(inputs.entries, MIN_JACCARD)
    missing_ids = inputs.list_unreached_ids(linked_ids)
    total = len(inputs.active)
    reachability = crewship_metrics.score_linked(total - len(missing_ids), total)
    return {
        "freshness": crewship_metrics.score_age(inputs.entries, inputs.today),
        "coverage": coverage._replace(basis=coverage.basis + inputs.describe_unserved_places()),
        "coherence": crewship_metrics.score_neighbour_cosines(
            cosines.neighbour_cosines, cosines.no_data_reason
        ),
        "efficiency": crewship_metrics.score_hits(cosines.hit_cosines, cosines.no_data_reason),
        "reachability": reachability._replace(missing=missing_ids),
    }


def _find_similar_ids(inputs: HealthInputs) -> set[str]:
    """Return the ids of entries that are similar to another entry by their vectors."""
    linked_ids: set[str] = set()
    similar_entries = find_similar(
        inputs.index, inputs.active, list_entry_words, statuses=("active",)
    )
    for located, similar in zip(inputs.active, similar_entries, strict=True):
        if similar.neighbours:
            linked_ids.add(located.entry.id)
            linked_ids.update(neighbour.located.entry.id for neighbour in similar.neighbours)
    return linked_ids


def _measure_cosines(inputs: HealthInputs, environ: Mapping[str, str] | None) -> CosineLists:
    """Embed the active entries and the titles of merged changes, and compare their vectors.

    The vectors of the entries are stored in the index. A failure of the embedder is not raised:
    the result is empty then, with the reason.
    """
    if environ is None:
        return CosineLists(no_data_reason="there are no vectors: no embedder was asked")
    # The embedder may be a service, which must not be sent secrets.
    questions = [redact(eligible.find_title(change)).text for change in inputs.list_questions()]
    choice = choose_embedder(inputs.workspace.config.retrieve, environ, INDEX_LIMITS)
    if choice.embedder is None:
        return CosineLists(no_data_reason=f"there are no vectors: {choice.reason}")
    texts = list_missing_texts(inputs.index, choice.embedder.model_id, statuses=("active",))
    if not texts:
        return CosineLists(no_data_reason="there is no entry with a vector")
    if len(texts) > MAX_EMBEDDED:
        return CosineLists(
            no_data_reason=f"more than {MAX_EMBEDDED} texts are not embedded for this"
        )
    try:
        return _embed_and_compare(inputs.index, choice.embedder, texts, questions)
    except EngineError as error:
        return CosineLists(no_data_reason=f"there are no vectors: {error.message}")


def _embed_and_compare(
    index: Index, embedder: Embedder, texts: Mapping[bytes, str], questions: list[str]
) -> CosineLists:
    """Embed entries and questions, and return the cosines of each with the nearest entries.

    The vectors of the entries are stored in the index.

    Args:
        index: the index, which stores the vectors of the entries.
        embedder: makes the vectors.
        texts: the texts of the entries, by their hashes.
        questions: the titles of merged changes.

    Raises:
        EngineError: the embedder fails.
    """
    model_id = embedder.model_id
    store_vectors(index, model_id, tuple(texts), embedder.embed(list(texts.values())))
    question_vectors = Vectors(0, array("f"))
    if questions:
        question_vectors = embedder.embed(questions, "query")

    neighbour_cosines = []
    if len(texts) > 1:
        # One more than is needed: the nearest of a text is the text itself.
        nearest_by_text = find_nearest_to_texts(
            index, list(texts), crewship_metrics.MAX_LINKS + 1, statuses=("active",)
        )
        for text_hash in texts:
            if text_hash in nearest_by_text:
                _itself, *other_cosines = _list_cosines(nearest_by_text[text_hash])
                neighbour_cosines.append(tuple(other_cosines))

    hit_cosines = []
    for question_vector in _split_vectors(question_vectors):
        nearest = find_nearest(
            index, question_vector, model_id, crewship_metrics.TOP_K, statuses=("active",)
        )
        hit_cosines.append(_list_cosines(nearest))

    # With questions there are hits, so only the list of neighbours can be empty.
    no_data_reason = "there is one text alone" if questions else NO_QUESTION
    return CosineLists(tuple(neighbour_cosines), tuple(hit_cosines), no_data_reason)


def _split_vectors(vectors: Vectors) -> Iterator[Vectors]:
    """Yield each of several vectors by itself."""
    dim = vectors.dim
    for start in range(0, len(vectors.data), max(1, dim)):
        yield Vectors(dim, array("f", vectors.data[start : start + dim]))


def _list_cosines(nearest: Nearest) -> tuple[float, ...]:
    return tuple(entry.cosine for entry in nearest.entries)
