"""Tests of words and vectors together: the effect of an embedder, and its failures."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.records.retrieval import Retrieval
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import TODAY, Project
from tests.servers import Answer, HttpRequest, Server, json_answer, serve

MONEY = ("charge", "refund", "payment")


def embed(request: HttpRequest) -> Answer:
    """Return vectors of two dimensions: texts about money, and other texts."""
    texts = [text.casefold() for text in json.loads(request.body)["input"]]
    rows = [[1.0, 0.1] if any(word in text for word in MONEY) else [0.1, 1.0] for text in texts]
    return json_answer({"embeddings": rows})


@pytest.fixture
def memory(project: Project) -> Project:
    entries = [
        make_entry(1, title="Send a key with each charge"),
        make_entry(2, title="Retry the nightly import"),
        make_entry(3, title="A refund needs two people"),
    ]
    settings = "retrieve:\n  embedder: ollama\nglobal:\n  path: ''\n"
    text = "\n".join(["# Memory\n", *map(format_entry, entries)])
    project.commit("Remember", {"MEMORY.md": text, ".memory-ci.yaml": settings})
    return project


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(embed) as running:
        yield running


def ask(project: Project, environ: dict[str, str] | None, **options: object) -> Retrieval:
    return retrieve(
        project.workspace,
        "retry a payment",
        RetrieveOptions(**options),  # type: ignore[arg-type] # named by the test
        TODAY,
        environ,
    )


def titles(answer: Retrieval) -> list[str]:
    return [hit.located.entry.title for hit in answer.hits]


def test_vectors_find_entries_without_common_words_and_change_the_order(
    memory: Project, server: Server
) -> None:
    assert titles(ask(memory, None)) == ["Retry the nightly import"]
    answer = ask(memory, {"OLLAMA_HOST": server.url})
    assert answer.mode == "hybrid"
    assert set(titles(answer)) == {
        "Retry the nightly import",
        "Send a key with each charge",
        "A refund needs two people",
    }
    lanes = {hit.located.entry.title: dict(hit.lanes) for hit in answer.hits}
    assert lanes["A refund needs two people"]["vectors"] == pytest.approx(1.0, abs=0.01)
    assert lanes["Retry the nightly import"]["vectors"] < 0.5


def test_the_best_cosine_counts_for_the_floor(memory: Project, server: Server) -> None:
    def list_served(task: str) -> list[str]:
        return titles(
            retrieve(memory.workspace, task, RetrieveOptions(), TODAY, {"OLLAMA_HOST": server.url})
        )

    assert list_served("a payment bounced") == [
        "Send a key with each charge",
        "A refund needs two people",
    ]
    memory.commit(
        "Forget", {"MEMORY.md": format_entry(make_entry(2, title="Retry the nightly import"))}
    )
    assert list_served("each payment of the yearly tax bounces on retry") == []


def test_embedded_texts_are_not_embedded_again(memory: Project, server: Server) -> None:
    ask(memory, {"OLLAMA_HOST": server.url})
    before = len(server.requests)
    ask(memory, {"OLLAMA_HOST": server.url})
    assert len(server.requests) == before + 1, "the task alone"


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"error": "no such model"}, 404),
        json_answer({"embeddings": [[float("nan"), 1.0]]}),
        json_answer({"embeddings": []}),
        Answer(200, b"<html>"),
    ],
)
def test_an_embedder_that_fails_leaves_the_answer_of_the_words_and_says_so(
    memory: Project, answer: Answer
) -> None:
    with serve(lambda request: answer) as running:
        found_answer = ask(memory, {"OLLAMA_HOST": running.url})
    assert (found_answer.mode, titles(found_answer)) == ("degraded", ["Retry the nightly import"])
    assert [note for note in found_answer.notes if note.startswith("Searched by words only")]


def test_the_past_and_a_switched_off_lane_ask_nobody(memory: Project, server: Server) -> None:
    assert ask(memory, {"OLLAMA_HOST": server.url}, at="HEAD").mode == "lexical"
    assert ask(memory, {"OLLAMA_HOST": server.url, "MEMORY_CI_EMBEDDER": "none"}).mode == "lexical"
    assert server.requests == []


def test_a_credential_in_the_task_is_not_sent(memory: Project, server: Server) -> None:
    key = "ghp_" + "a1B2" * 9
    retrieve(
        memory.workspace, f"retry with {key}", RetrieveOptions(), TODAY, {"OLLAMA_HOST": server.url}
    )
    assert server.requests
    assert not any(key.encode() in request.body for request in server.requests)
