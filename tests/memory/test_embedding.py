"""Tests of building vectors ahead of queries, with a double of the embedding service."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.memory.embedding import VectorsReport, build_vectors
from memory_ci.memory.index import synced_index
from memory_ci.memory.workspace import index_path
from memory_ci.search.vectors import list_missing_texts
from tests.project import Project
from tests.servers import Answer, HttpRequest, json_answer, serve

MODEL = "ollama:nomic-embed-text"


def embed(request: HttpRequest) -> Answer:
    return json_answer({"embeddings": [[1.0, float(len(text))] for text in request.json["input"]]})


def refuse(_: HttpRequest) -> Answer:
    return Answer(401)


@pytest.fixture
def named(project: Project) -> Project:
    """Return a project with entries whose configuration names an embedding service."""
    project.record()
    project.commit("Name an embedder", {".memory-ci.yaml": "retrieve:\n  embedder: ollama\n"})
    return project


def build(
    project: Project, environ: Mapping[str, str]
) -> tuple[VectorsReport, list[tuple[int, int]]]:
    """Build vectors, and return the report and the calls of the progress callback."""
    progress: list[tuple[int, int]] = []
    return build_vectors(
        project.workspace, environ, lambda done, total: progress.append((done, total))
    ), progress


def test_every_entry_gets_its_vector_once(named: Project) -> None:
    count = len(named.entries())
    with serve(embed) as server:
        environ = {"OLLAMA_HOST": server.url}
        assert build(named, environ) == (VectorsReport(MODEL, count), [(0, count), (count, count)])
        assert build(named, environ) == (VectorsReport(MODEL, 0), [(0, 0)])
        assert sum(len(request.json["input"]) for request in server.requests) == count > 0
    with synced_index(named.workspace) as index:
        assert list_missing_texts(index, MODEL) == {}


def test_vectors_of_a_batch_stay_when_the_next_batch_fails(
    named: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.memory.embedding.STEP", 1)
    answers = [embed, refuse]
    with (
        serve(lambda request: answers.pop(0)(request)) as server,
        pytest.raises(EngineError, match="not accept the key"),
    ):
        build(named, {"OLLAMA_HOST": server.url})
    with synced_index(named.workspace) as index:
        assert len(list_missing_texts(index, MODEL)) == len(named.entries()) - 1


def test_building_without_an_embedder_is_an_error(project: Project) -> None:
    project.commit("Want none", {".memory-ci.yaml": "retrieve:\n  embedder: none\n"})
    with pytest.raises(UsageError) as caught:
        build(project, {})
    assert caught.value.slug == "no-embedder"


def test_no_vectors_are_computed_if_they_cannot_be_stored(named: Project) -> None:
    path = index_path(named.workspace)
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    with serve(embed) as server:
        with pytest.raises(RepositoryError, match="could not be kept"):
            build(named, {"OLLAMA_HOST": server.url})
        assert server.requests == []
