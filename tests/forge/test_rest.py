"""Tests of the REST client with a correct server and with every kind of fault."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from threading import Semaphore

import pytest

from memory_ci.errors import EngineError
from memory_ci.forge.http import Transport, find_limit
from memory_ci.forge.rest import MAX_PAGES, Client
from tests.deadlines import give_up_when
from tests.forge.make import TOKEN, FakeTime, make_budget, make_client
from tests.servers import Answer, Handler, HttpRequest, by_path, drip, in_turn, json_answer, serve

GOOD = json_answer({"name": "shop"})
DATE = "Tue, 01 Sep 2026 12:00:00 GMT"
NOON = 1_788_264_000
"""DATE as seconds since 1970."""

SECONDARY = {
    "message": "You have exceeded a secondary rate limit. Please wait a few minutes.",
    "documentation_url": "x",
}


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def find(client: Client, path: str = "/thing") -> dict[str, str] | None:
    return client.find(path, dict[str, str])


def find_failing(handler: Handler, cache: Path, time: FakeTime) -> tuple[EngineError, int]:
    """Return the error of a request and the number of requests; check that it does not contain the token."""
    with serve(handler) as server, pytest.raises(EngineError) as caught:
        find(make_client(server.url, cache, time))
    assert TOKEN not in f"{caught.value!r} {caught.value.hint}"
    return caught.value, len(server.requests)


def test_the_token_is_sent_only_in_a_header(tmp_path: Path) -> None:
    with serve(lambda _: GOOD) as server:
        assert find(make_client(server.url, tmp_path)) == {"name": "shop"}
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert (request.method, request.target) == ("GET", "/thing")


def test_a_missing_resource_is_none_and_not_requested_again(tmp_path: Path) -> None:
    for status in (404, 422):
        with serve(in_turn(json_answer({"message": "Not Found"}, status))) as server:
            assert find(make_client(server.url, tmp_path)) is None
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "slug", "requests", "slept"),
    [
        (json_answer({"message": "Bad credentials"}, 401), "forge-unauthorised", 1, []),
        (
            json_answer({"message": "Resource not accessible by integration"}, 403),
            "forge-failed",
            1,
            [],
        ),
        (json_answer({}, 418), "forge-failed", 1, []),
        (json_answer({}, 304), "forge-failed", 1, []),
        (json_answer({"message": "Server Error"}, 500), "forge-unreachable", 3, [1, 2]),
        (Answer(503, b"<html>down</html>"), "forge-unreachable", 3, [1, 2]),
        (
            Answer(200, b"<html>Sign in</html>", {"content-type": "text/html"}),
            "forge-failed",
            3,
            [1, 2],
        ),
        (Answer(200, b'{"name": "sh', {}), "forge-failed", 3, [1, 2]),
        (Answer(200, b'{"name": "shop"}', {}, cut_at=6), "forge-unreachable", 3, [1, 2]),
        (Answer(200, b"[" * 100_000), "forge-failed", 3, [1, 2]),
        (Answer(0), "forge-unreachable", 3, [1, 2]),
        (json_answer(["not", "an", "object"]), "forge-failed", 1, []),
        (json_answer({}, 429), "forge-rate-limited", 3, [1, 1]),
        (json_answer({}, 429, retry_after="20"), "forge-rate-limited", 3, [20, 20]),
        (json_answer({}, 429, retry_after="3600"), "forge-rate-limited", 1, []),
        (json_answer(SECONDARY, 403, retry_after="30"), "forge-rate-limited", 3, [30, 30]),
        (json_answer(SECONDARY, 403), "forge-rate-limited", 2, [60]),
        (
            json_answer(
                {}, 403, x_ratelimit_remaining="0", x_ratelimit_reset=str(NOON + 25), date=DATE
            ),
            "forge-rate-limited",
            3,
            [25, 25],
        ),
        (
            json_answer(
                {}, 403, x_ratelimit_remaining="0", x_ratelimit_reset=str(NOON + 900), date=DATE
            ),
            "forge-rate-limited",
            1,
            [],
        ),
    ],
)
def test_only_temporary_faults_are_tried_again(
    answer: Answer, slug: str, requests: int, slept: list[float], tmp_path: Path, time: FakeTime
) -> None:
    error, request_count = find_failing(lambda _: answer, tmp_path, time)
    assert (error.slug, request_count, time.slept) == (slug, requests, slept)


@pytest.mark.parametrize(
    "first",
    [
        json_answer({}, 500),
        json_answer({}, 502),
        Answer(0),
        Answer(200, b"<html>"),
        Answer(200, b'{"name": "shop"}', {}, cut_at=3),
        json_answer(SECONDARY, 403, retry_after="5"),
    ],
)
def test_a_temporary_fault_does_not_fail_the_request(
    first: Answer, tmp_path: Path, time: FakeTime
) -> None:
    with serve(in_turn(first, GOOD)) as server:
        assert find(make_client(server.url, tmp_path, time)) == {"name": "shop"}
    assert len(server.requests) == 2


def test_the_wait_after_a_rate_limit_is_the_servers(tmp_path: Path, time: FakeTime) -> None:
    limited = json_answer(
        {}, 403, x_ratelimit_remaining="0", x_ratelimit_reset=str(NOON + 900), date=DATE
    )
    error, _ = find_failing(lambda _: limited, tmp_path, time)
    assert "at 2026-09-01 12:15:00 UTC" in error.message


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "soon"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 5000},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "never"},
    ],
)
def test_a_rate_limit_without_a_time_is_a_short_wait(headers: dict[str, str]) -> None:
    assert find_limit(403, headers, b"") is None
    limit = find_limit(429, headers, b"")
    assert limit is None or limit.seconds == 1


def test_a_retry_date_is_relative_to_the_date_of_the_reply() -> None:
    later = {"retry-after": "Tue, 01 Sep 2026 12:00:45 GMT", "date": DATE}
    limit = find_limit(429, later, b"")
    assert limit is not None
    assert limit.seconds == 45
    undated = find_limit(429, {"retry-after": later["retry-after"]}, b"")
    assert undated is not None
    assert undated.seconds == math.inf


def test_waiting_is_bounded_over_the_whole_run(tmp_path: Path, time: FakeTime) -> None:
    limited = json_answer({}, 429, retry_after="50")
    with serve(in_turn(limited, GOOD, limited)) as server:
        client = make_client(server.url, tmp_path, time)
        find(client)
        with pytest.raises(EngineError, match="in 50 s"):
            find(client, "/other")
    assert time.slept == [50]


def test_no_requests_follow_a_rate_limit_that_persists(tmp_path: Path) -> None:
    with serve(in_turn(json_answer({}, 429, retry_after="900"), GOOD)) as server:
        client = make_client(server.url, tmp_path)
        for path in ("/thing", "/other"):
            with pytest.raises(EngineError, match="in 900 s"):
                find(client, path)
    assert server.paths() == ["/thing"]


def test_a_run_keeps_its_limit_of_requests(tmp_path: Path) -> None:
    with serve(lambda _: GOOD) as server:
        client = make_client(server.url, tmp_path, requests=2)
        find(client)
        find(client)
        with pytest.raises(EngineError) as caught:
            client.list_all("/list", dict[str, str])
    assert caught.value.slug == "forge-budget-spent"
    assert len(server.requests) == 2


def test_half_a_budget_limits_requests_and_time_to_half(time: FakeTime) -> None:
    budget = make_budget(time, requests=5, seconds=100.0)
    with budget.limit_to_half():
        for _ in range(3):
            budget.spend()
        with pytest.raises(EngineError, match="all requests"):
            budget.spend()
        time.now = 50.0
        with pytest.raises(EngineError, match="the time"):
            budget.check_deadline()
    budget.spend()
    budget.spend()
    with pytest.raises(EngineError, match="all requests"):
        budget.spend()


def test_a_slow_reply_is_aborted_at_the_deadline(tmp_path: Path, time: FakeTime) -> None:
    def answer(_: HttpRequest) -> Answer:
        time.now += 400
        return GOOD

    error, _ = find_failing(answer, tmp_path, time)
    assert error.slug == "forge-budget-spent"


def test_a_redirect_on_the_same_host_keeps_the_token(tmp_path: Path) -> None:
    moved = Answer(301, b"", {"location": "/repositories/1/thing"})
    with serve(by_path({"/thing": moved, "/repositories/1/thing": GOOD})) as server:
        assert find(make_client(server.url, tmp_path)) == {"name": "shop"}
    assert [request.headers.get("authorization") for request in server.requests] == [
        f"Bearer {TOKEN}"
    ] * 2


def test_a_redirect_to_another_host_is_followed_without_the_token(tmp_path: Path) -> None:
    with (
        serve(lambda _: GOOD) as other_server,
        serve(lambda _: Answer(302, b"", {"location": other_server.url})) as server,
    ):
        assert find(make_client(server.url, tmp_path)) == {"name": "shop"}
    assert "authorization" not in other_server.requests[0].headers
    assert TOKEN not in str(other_server.requests)


@pytest.mark.parametrize(
    "location", ["/thing", "http://192.0.2.1/", "ftp://127.0.0.1/", "http://[bad/", "file:///x", ""]
)
def test_a_redirect_loop_or_a_redirect_to_http_is_refused(
    location: str, tmp_path: Path, time: FakeTime
) -> None:
    error, request_count = find_failing(
        lambda _: Answer(302, b"", {"location": location}), tmp_path, time
    )
    assert error.slug == "forge-failed"
    assert request_count <= 4


@pytest.mark.parametrize(
    "base", ["http://forge.example/api", "ftp://forge.example", "forge.example", "http://[bad", ""]
)
def test_other_hosts_are_requested_by_https_only(base: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="only https"):
        make_client(base, tmp_path)


@pytest.mark.parametrize("token", ["two\nlines", "schlüssel", "nul\0"])
def test_a_token_that_is_invalid_in_a_header_is_refused_without_printing_it(token: str) -> None:
    secrets = {"authorization": f"Bearer {token}"}
    with pytest.raises(EngineError) as caught:
        Transport("https://forge.example", headers={}, secrets=secrets, budget=make_budget())
    assert caught.value.slug == "forge-unauthorised"
    assert token not in str(caught.value)


# -- pages


def pages(server_url: list[str], count: int) -> Handler:
    """Return a handler with `count` pages of one item; the server's address is filled in once it is known."""

    def answer(request: HttpRequest) -> Answer:
        page = int(request.query.get("page", "1"))
        link = f'<{server_url[0]}/list?page=1>; rel="first", <{server_url[0]}/list?page={page + 1}>; rel="next"'
        answer = json_answer([{"page": page}])
        return answer._replace(headers={"link": link}) if page < count else answer

    return answer


def list_pages(count: int, cache: Path) -> tuple[list[int], str]:
    url: list[str] = []
    with serve(pages(url, count)) as server:
        url.append(server.url)
        listing = make_client(server.url, cache).list_all("/list", dict[str, int])
    return [item["page"] for item in listing.items], listing.problem


def test_all_pages_of_a_list_are_read_in_order(tmp_path: Path) -> None:
    assert list_pages(3, tmp_path) == ([1, 2, 3], "")


def test_pages_beyond_the_limit_are_a_problem(tmp_path: Path) -> None:
    items, problem = list_pages(MAX_PAGES + 5, tmp_path)
    assert len(items) == MAX_PAGES
    assert "more than 20 pages" in problem


def test_a_list_stops_at_the_first_item_that_is_too_old(tmp_path: Path) -> None:
    url: list[str] = []
    with serve(pages(url, 9)) as server:
        url.append(server.url)
        client = make_client(server.url, tmp_path)
        listing = client.list_all("/list", dict[str, int], is_past=lambda item: item["page"] > 2)
    assert listing == (({"page": 1}, {"page": 2}), "", "")
    assert len(server.requests) == 3


def test_a_next_page_on_another_host_is_not_read(tmp_path: Path) -> None:
    with serve(lambda _: json_answer([{"page": 2}])) as other_server:
        first = json_answer([{"page": 1}], link=f'<{other_server.url}/list?page=2>; rel="next"')
        with serve(lambda _: first) as server:
            listing = make_client(server.url, tmp_path).list_all("/list", dict[str, int])
    assert other_server.requests == []
    assert [item["page"] for item in listing.items] == [1]
    assert "another host" in listing.problem


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (json_answer({}, 500), "status 500"),
        (json_answer({}, 404), "not there"),
        (Answer(200, b'[{"page": 2}', {}), "not JSON"),
        (json_answer({"message": "an object"}), "else than a list"),
        (json_answer([{"page": 2}, {"page": "two"}]), "left out"),
    ],
)
def test_pages_before_a_failed_page_are_kept(second: Answer, message: str, tmp_path: Path) -> None:
    def answer(request: HttpRequest) -> Answer:
        return (
            second
            if "page" in request.query
            else json_answer([{"page": 1}], link='</list?page=2>; rel="next"')
        )

    with serve(answer) as server:
        listing = make_client(server.url, tmp_path).list_all("/list", dict[str, int])
    assert listing.items[0] == {"page": 1}
    assert message in listing.problem


# -- the cache


def etagged(request: HttpRequest) -> Answer:
    if request.headers.get("if-none-match") == '"v1"':
        return Answer(304)
    return json_answer({"name": "shop"}, etag='"v1"')


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[tuple[str, list[HttpRequest], Path]]:
    """Yield the address of a server with ETags, its requests, and a cache that contains the reply already."""
    cache = tmp_path / "memory-ci" / "forge-cache"
    with serve(etagged) as server:
        find(make_client(server.url, cache))
        yield server.url, server.requests, cache


def test_an_unchanged_reply_is_taken_from_the_cache(
    cached: tuple[str, list[HttpRequest], Path],
) -> None:
    url, requests, cache = cached
    assert find(make_client(url, cache)) == {"name": "shop"}
    assert requests[1].headers["if-none-match"] == '"v1"'


def test_an_unchanged_reply_does_not_count_in_the_budget(
    cached: tuple[str, list[HttpRequest], Path],
) -> None:
    url, requests, cache = cached
    client = make_client(url, cache, requests=1)
    assert [find(client) for _ in range(3)] == [{"name": "shop"}] * 3
    assert len(requests) == 4


@pytest.mark.parametrize(
    "junk",
    [b"", b"\xff\xfe", b"{}", b'{"url": "x", "etag": "y", "link": "", "data": 1}', b"[" * 99_999],
)
def test_a_corrupt_cache_is_ignored_and_replaced(
    junk: bytes, cached: tuple[str, list[HttpRequest], Path]
) -> None:
    url, requests, cache = cached
    (file,) = cache.iterdir()
    good = file.read_bytes()
    file.write_bytes(junk)
    assert find(make_client(url, cache)) == {"name": "shop"}
    assert "if-none-match" not in requests[1].headers
    assert file.read_bytes() == good


def test_the_cache_has_no_token_and_no_temporary_files(
    cached: tuple[str, list[HttpRequest], Path],
) -> None:
    _, _, cache = cached
    (file,) = cache.iterdir()
    assert TOKEN.encode() not in file.read_bytes()
    assert b"authorization" not in file.read_bytes().lower()


def test_an_unwritable_cache_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with serve(etagged) as server:
        assert find(make_client(server.url, tmp_path / "file" / "cache")) == {"name": "shop"}


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_reply_that_never_ends_is_aborted_long_before_the_budget_ends(
    part: str, tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Semaphore(0)
    give_up_when(stuck, monkeypatch)
    with drip(part, stuck) as url, pytest.raises(EngineError) as raised:
        find(make_client(url, tmp_path, time))
    assert raised.value.slug == "forge-unreachable"
    assert raised.value.message.endswith("did not end its reply within 60 seconds")


def test_an_address_without_a_host_has_its_own_error(tmp_path: Path, time: FakeTime) -> None:
    error, _ = find_failing(
        lambda _: Answer(302, b"", {"location": "file:///etc/passwd"}), tmp_path, time
    )
    assert error.message == "an address without a host was not asked: only https addresses are"
