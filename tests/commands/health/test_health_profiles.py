"""Tests of the `crewship` profile of health, and its vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.health.measured_projects import measure, metric, put
from tests.make import make_entry
from tests.project import Project, copy_project
from tests.servers import Answer, HttpRequest, json_answer, serve


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def test_the_crewship_profile_measures_age_and_links_without_vectors(project: Project) -> None:
    health = measure(project, profile="crewship")
    assert (metric(health, "coherence").value, metric(health, "efficiency").value) == (None, None)
    assert metric(health, "reachability").value == 0
    assert health.is_partial


def embed(request: HttpRequest) -> Answer:
    """Return vectors of two dimensions: texts about a charge, and other texts."""
    texts = [text.casefold() for text in json.loads(request.body)["input"]]
    return json_answer(
        {"embeddings": [[1.0, 0.0] if "charge" in text else [0.6, 0.8] for text in texts]}
    )


def test_the_crewship_profile_measures_cosines_with_vectors(project: Project) -> None:
    put(project, make_entry(1, title="A charge needs a key"), make_entry(2, title="Charge once"))
    project.write(".memory-ci.yaml", "retrieve:\n  embedder: ollama\n")
    with serve(embed) as server:
        health = measure(project, profile="crewship", environ={"OLLAMA_HOST": server.url})
    # Three speak of a charge (1, 1, 0.6 to the others), one does not (0.6 each); the title does: 1, 1, 1, 0.6.
    assert metric(health, "coherence").value == pytest.approx(
        100 * (3 * 2.6 / 3 + 0.6) / 4, abs=0.1
    )
    assert metric(health, "efficiency").value == pytest.approx(100 * 3.6 / 4, abs=0.1)
    assert metric(health, "reachability").value == 75


def test_an_embedder_that_fails_leaves_metrics_without_data(project: Project) -> None:
    project.write(".memory-ci.yaml", "retrieve:\n  embedder: ollama\n")
    with serve(lambda request: Answer(404, b"no")) as server:
        health = measure(project, profile="crewship", environ={"OLLAMA_HOST": server.url})
    assert metric(health, "coherence").value is None
    assert metric(health, "coherence").basis.startswith("there are no vectors: ")
