"""Tests of doctor's checks of the engine, the index and the vectors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta

import pytest

from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.memory.embedding import (
    EmbedderNote,
    build_vectors,
    load_embedder_note,
    save_embedder_state,
)
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import index_path
from tests.commands.doctor.diagnosed_projects import one
from tests.project import NOW, TODAY, Project
from tests.servers import Answer, HttpRequest, json_answer, serve

# -- the engine


def test_an_engine_without_any_call_is_reported_as_unused(healthy: Project) -> None:
    healthy.write(".memory-ci.yaml", "engine:\n  name: anthropic\n")
    environ = {"ANTHROPIC_API_KEY": "sk-" + "x" * 20}
    assert "configured, never called from this clone" in one(healthy, "engine", environ).message
    reply = healthy.write(".git/memory-ci/replies/anthropic-anthropic-model/ab.json", "{}")
    os.utime(reply, (NOW.timestamp(), NOW.timestamp()))
    assert "last answer 2026-11-21 12:00 UTC" in one(healthy, "engine", environ).message


def test_a_key_without_the_package_that_uses_it_is_a_warning(
    healthy: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one(healthy, "engine", {}).state == "ok"
    monkeypatch.setattr("memory_ci.extraction.engines.importlib.util.find_spec", lambda _: None)
    probe = one(healthy, "engine", {"ANTHROPIC_API_KEY": "sk-" + "x" * 20})
    assert (probe.state, probe.remedy) == ("warn", "pip install 'memory-ci[anthropic]'")


# -- the index and the vectors


def test_an_outdated_index_is_updated_and_a_damaged_one_is_reported(
    healthy: Project,
) -> None:
    assert one(healthy, "index").state == "skip"
    build_index(healthy.workspace, None)
    assert one(healthy, "index").message.endswith("equals the files")
    with (healthy.path / "MEMORY.md").open("a") as file:
        file.write("\nA note.\n")
    assert "1 file changed since" in one(healthy, "index").message
    index_path(healthy.workspace).write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    probe = one(healthy, "index")
    assert (probe.state, probe.remedy) == ("warn", "memory-ci index")


def test_a_directory_in_the_place_of_the_index_is_not_built_again_but_named(
    healthy: Project,
) -> None:
    path = index_path(healthy.workspace)
    path.mkdir(parents=True)
    probe = one(healthy, "index")
    assert (probe.state, probe.remedy, "every retrieval builds its own" in probe.message) == (
        "warn",
        f"Remove {path}.",
        True,
    )


def embed(request: HttpRequest) -> Answer:
    return json_answer({"embeddings": [[1.0, float(len(text))] for text in request.json["input"]]})


@pytest.fixture
def named(healthy: Project) -> Project:
    """Return a project whose settings name a service for vectors."""
    healthy.write(".memory-ci.yaml", "retrieve:\n  embedder: ollama\n")
    return healthy


def ask(project: Project, environ: Mapping[str, str]) -> None:
    retrieve(project.workspace, "charge a card", RetrieveOptions(), TODAY, environ)


def test_without_an_embedder_words_are_searched(healthy: Project) -> None:
    healthy.write(".memory-ci.yaml", "retrieve:\n  embedder: none\n")
    assert one(healthy, "vectors", {}).message.startswith(
        "no vectors are asked for; words are searched: "
    )


def test_failing_vectors_are_reported_with_the_reason_and_the_last_good_day(
    named: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the tries of a request
    with serve(embed) as server:
        environ = {"OLLAMA_HOST": server.url}
        assert "not seen working" in one(named, "vectors", environ).message
        build_vectors(named.workspace, environ, lambda done, total: None, TODAY - timedelta(days=2))
        ask(named, environ)
        assert one(named, "vectors", environ).message.endswith("last seen working on 2026-11-21")
        assert one(named, "vectors", environ).state == "ok"
    ask(named, environ)
    probe = one(named, "vectors", environ)
    assert probe.state == "fail"
    assert probe.message.startswith("they fail since 2026-11-21: ")
    assert probe.message.endswith("last seen working on 2026-11-21")


def test_entries_without_vectors_are_reported(named: Project) -> None:
    build_index(named.workspace, None)
    probe = one(named, "vectors", {})
    assert (probe.state, probe.remedy) == ("warn", "memory-ci index --vectors")
    assert f"0 of {len(named.entries())} entries have vectors" in probe.message


def test_an_embedder_that_does_not_answer_is_reported_online(named: Project) -> None:
    with serve(lambda request: Answer(401)) as server:
        assert one(named, "vectors", {"OLLAMA_HOST": server.url}).state == "ok"
        probe = one(named, "vectors", {"OLLAMA_HOST": server.url}, is_online=True)
    assert (probe.state, len(server.requests)) == ("fail", 1)


def test_an_embedder_that_lacks_its_key_is_degraded(healthy: Project) -> None:
    healthy.write(".memory-ci.yaml", "retrieve:\n  embedder: openai\n")
    probe = one(healthy, "vectors", {})
    assert (probe.state, "OPENAI_API_KEY is not set" in probe.message) == ("fail", True)


def test_words_alone_leave_no_note(healthy: Project) -> None:
    ask(healthy, {"MEMORY_CI_EMBEDDER": "none"})
    assert load_embedder_note(healthy.workspace) == EmbedderNote()


def test_a_note_holds_the_first_day_of_a_failure_and_is_written_only_when_it_changes(
    healthy: Project,
) -> None:
    save_embedder_state(healthy.workspace, TODAY - timedelta(days=3))
    save_embedder_state(healthy.workspace, TODAY - timedelta(days=2), "no answer")
    save_embedder_state(healthy.workspace, TODAY, "no answer")
    assert load_embedder_note(healthy.workspace) == EmbedderNote(
        TODAY - timedelta(days=3), TODAY - timedelta(days=2), "no answer"
    )
    path = healthy.path / ".git/memory-ci/vectors.json"
    before = path.stat().st_ino
    save_embedder_state(healthy.workspace, TODAY, "no answer")
    assert path.stat().st_ino == before
