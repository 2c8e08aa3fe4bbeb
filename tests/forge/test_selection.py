"""Tests of selecting the forge of a job, and of reading the CI event without a forge."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import EngineError
from memory_ci.forge.github import EVENT_PROBLEM, EventReader
from memory_ci.forge.selection import choose_forge
from memory_ci.records.config import ForgeConfig
from tests.forge.make import MERGE, TOKEN, make_budget, make_comment, make_pull, make_review
from tests.make import examples
from tests.servers import by_path, json_answer, serve

HUB = {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_TOKEN": TOKEN}
LAB = {"CI_PROJECT_ID": "42", "GITLAB_TOKEN": TOKEN}
JOB = {"CI_PROJECT_ID": "42", "CI_JOB_TOKEN": TOKEN}
AUGUST = datetime(2026, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "environ", "kind", "reason"),
    [
        ("auto", HUB, "GitHub", "GITHUB_TOKEN"),
        ("auto", {"GITHUB_REPOSITORY": "acme/shop", "GH_TOKEN": TOKEN}, "GitHub", "GH_TOKEN"),
        ("auto", LAB, "GitLab", "GITLAB_TOKEN"),
        ("auto", JOB, "NoneType", "no token: GITLAB_TOKEN with read_api"),
        ("auto", {**HUB, **JOB}, "GitHub", "GITHUB_TOKEN"),
        ("gitlab", JOB, "NoneType", "no token: GITLAB_TOKEN with read_api"),
        ("github", JOB, "NoneType", "GITHUB_REPOSITORY"),
        ("auto", {**HUB, **LAB}, "GitHub", "GITHUB_TOKEN"),
        ("gitlab", {**HUB, **LAB}, "GitLab", "GITLAB_TOKEN"),
        (
            "auto",
            {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_EVENT_PATH": "/none"},
            "EventReader",
            "GITHUB_EVENT_PATH",
        ),
        (
            "auto",
            {**HUB, "GITHUB_TOKEN": " ", "GITHUB_EVENT_PATH": "/none"},
            "EventReader",
            "no token",
        ),
        ("auto", {"GITHUB_TOKEN": TOKEN}, "NoneType", "GITHUB_REPOSITORY"),
        (
            "auto",
            {**HUB, "GITHUB_REPOSITORY": "acme/shop/../../user"},
            "NoneType",
            "GITHUB_REPOSITORY",
        ),
        ("gitlab", {**HUB, "GITHUB_EVENT_PATH": "/none"}, "NoneType", "CI_PROJECT_ID"),
        ("github", LAB, "NoneType", "GITHUB_REPOSITORY"),
        ("none", HUB, "NoneType", "the configuration"),
        (
            "github",
            {},
            "NoneType",
            "GitHub needs GITHUB_REPOSITORY and GITHUB_TOKEN, or GITHUB_EVENT_PATH (in the env",
        ),
        (
            "auto",
            {},
            "NoneType",
            "GITHUB_EVENT_PATH; GitLab needs CI_PROJECT_ID and GITLAB_TOKEN (in the environment)",
        ),
    ],
)
def test_the_environment_selects_the_forge_with_a_reason(
    name: Any,
    environ: dict[str, str],
    kind: str,
    reason: str,
    tmp_path: Path,
) -> None:
    forge, why = choose_forge(ForgeConfig(name), environ, tmp_path)
    assert type(forge).__name__ == kind
    assert reason in why
    assert TOKEN not in why


@pytest.mark.parametrize(
    ("environ", "header", "value"),
    [
        ({**HUB, "GITHUB_TOKEN": f"{TOKEN}\n"}, "authorization", f"Bearer {TOKEN}"),
        ({**LAB, **JOB}, "private-token", TOKEN),
    ],
)
def test_the_token_is_sent_to_the_configured_address_in_the_forges_header(
    environ: dict[str, str], header: str, value: str, tmp_path: Path
) -> None:
    with serve(by_path({})) as server:
        urls = {"GITHUB_API_URL": f"{server.url}/api/v3/", "CI_API_V4_URL": f"{server.url}/api/v4"}
        forge, _ = choose_forge(ForgeConfig(), environ | urls, tmp_path, make_budget())
        assert forge is not None
        assert forge.find_pull_request(12) is None
    (request,) = server.requests
    assert request.headers[header] == value
    assert request.path.startswith("/api/v")
    assert "//" not in request.path
    assert TOKEN not in request.target


def test_plain_http_to_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="only https"):
        choose_forge(
            ForgeConfig(), {**HUB, "GITHUB_API_URL": "http://github.example/api/v3"}, tmp_path
        )


def test_the_given_budget_is_used(tmp_path: Path) -> None:
    with serve(lambda _: json_answer({})) as server:
        environ = {**HUB, "GITHUB_API_URL": server.url}
        forge, _ = choose_forge(ForgeConfig(), environ, tmp_path, make_budget(requests=0))
        assert forge is not None
        with pytest.raises(EngineError) as caught:
            forge.find_pull_request(1)
    assert caught.value.slug == "forge-budget-spent"
    assert server.requests == []


# -- offline


def read_event(tmp_path: Path, event: object) -> EventReader:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    return EventReader(path)


def test_a_pull_request_is_read_from_the_event(tmp_path: Path) -> None:
    forge = read_event(tmp_path, {"action": "closed", "number": 12, "pull_request": make_pull()})
    request = forge.find_pull_request(12)
    assert request is not None
    assert (request.title, request.permission, request.problems) == (
        "Retry only with a key",
        "unknown",
        (EVENT_PROBLEM,),
    )
    assert forge.find_number(MERGE) == 12
    assert forge.find_pull_request(13) is None
    assert forge.list_closed(AUGUST).items == ()


def test_a_closed_request_is_read_from_the_event(tmp_path: Path) -> None:
    forge = read_event(tmp_path, {"pull_request": make_pull(merged_at=None)})
    listed = forge.list_closed(AUGUST)
    assert [request.number for request in listed.items] == [12]
    assert forge.complete_closed(listed.items) == listed
    assert forge.list_closed(datetime(2026, 10, 1, tzinfo=UTC)).items == ()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"review": make_review(state="changes_requested")}, ("r199", "changes_requested")),
        ({"comment": make_comment()}, ("c17", "commented")),
    ],
)
def test_a_review_is_read_from_the_event(
    part: dict[str, Any], expected: tuple[str, str], tmp_path: Path
) -> None:
    request = read_event(tmp_path, {"pull_request": make_pull(), **part}).find_pull_request(12)
    assert request is not None
    assert [(review.id, review.state) for review in request.reviews] == [expected]


def test_the_branch_of_a_merge_queue_names_the_request(tmp_path: Path) -> None:
    group = {
        "head_sha": MERGE,
        "head_ref": f"refs/heads/gh-readonly-queue/main/pr-104-{'b' * 40}",
        "base_sha": "b" * 40,
    }
    forge = read_event(tmp_path, {"action": "checks_requested", "merge_group": group})
    assert forge.find_number(MERGE) == 104
    assert forge.find_number("0" * 40) is None


def test_a_push_event_has_no_request(tmp_path: Path) -> None:
    forge = read_event(
        tmp_path,
        {"ref": "refs/heads/main", "after": MERGE, "commits": [], "pusher": {"name": "ann"}},
    )
    assert (
        forge.find_number(MERGE),
        forge.find_pull_request(12),
        forge.list_closed(AUGUST).items,
    ) == (None, None, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["number", "user", "head", "state", "labels", "id"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["pull_request", "review", "comment", "merge_group"])
EVENTS = (
    JSON
    | st.dictionaries(KEYS, JSON)
    | st.dictionaries(KEYS, JSON).map(lambda event: make_event(event))
)


def make_event(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a pull request with some parts replaced."""
    pull = parts.get("pull_request")
    return {**parts, "pull_request": {**make_pull(), **(pull if isinstance(pull, dict) else {})}}


def test_a_request_without_a_branch_repository_counts_as_a_fork(
    tmp_path: Path,
) -> None:
    request = read_event(tmp_path, {"pull_request": make_pull(head={}, base={})}).find_pull_request(
        12
    )
    assert request is not None
    assert request.is_fork


def test_a_time_without_a_zone_is_invalid(tmp_path: Path) -> None:
    naive = make_pull(merged_at=None, closed_at="2026-09-02T12:00:00")
    assert read_event(tmp_path, {"pull_request": naive}).list_closed(AUGUST).items == ()


@examples(60)
@given(event=EVENTS)
def test_an_event_of_any_shape_raises_no_error(
    event: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    forge = read_event(tmp_path_factory.mktemp("event"), event)
    forge.find_number(MERGE)
    forge.find_pull_request(12)
    forge.list_closed(AUGUST)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 200_000, b'"text"', None])
def test_a_missing_or_invalid_event_file_gives_no_request(
    data: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "event.json"
    if data is not None:
        path.write_bytes(data)
    assert EventReader(path).find_pull_request(12) is None
