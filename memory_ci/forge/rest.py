"""REST: JSON things and lists of a forge, with retries, pages, and a cache of what did not change.

An unchanged reply is a 304, which costs no request. A file of the cache holds the address and the reply, never a header
of ours. All of it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.forge.http import (
    LASTING,
    Budget,
    FailedTry,
    HttpReply,
    Transport,
    failed,
    find_limit,
    host_of,
    is_same_host,
    next_page,
    refused,
    split_url,
    try_again,
    unauthorised,
    unreachable,
)
from memory_ci.records.history import Check, Permission, PullRequest
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten


class Page(msgspec.Struct, frozen=True):
    """A reply as it came: `data` is its JSON, `link` the header that leads to the next page."""

    url: str
    etag: str
    link: str
    data: Any


T = TypeVar("T")
PAUSES = (1.0, 2.0)  # Seconds before the second and the third try; there is no fourth.
MAX_PAGES = 20
TRANSIENT = frozenset({500, 502, 503, 504})
ABSENT = frozenset(
    {404, 422}
)  # There is no such thing: GitHub says 422 of a commit that it does not know.
SAID_WIDTH = 300
WRITTEN = frozenset({200, 201})
# To what is written: no right to, no such thing for this token, or a rule against it.
REFUSALS = frozenset({403, 404, 405, 422})
MISSHAPEN = "has an item that is not what the API says; it was left out"


class Listing(NamedTuple, Generic[T]):
    """All that could be read of a list, and what could not, in words; `slug` is that of the error it was."""

    items: tuple[T, ...]
    problem: str = ""
    slug: str = ""


class Client:
    """Reads and writes things of given shapes through the API that `transport` leads to. Replies are kept in
    `cache_dir`, a file each; one that cannot be read is not there, or not kept."""

    def __init__(self, transport: Transport, cache_dir: Path) -> None:
        self._transport, self._cache_dir = transport, cache_dir
        self._limited: EngineError | None = None

    @property
    def budget(self) -> Budget:
        """What may be spent on asking."""
        return self._transport.budget

    def find(self, path: str, shape: type[T]) -> T | None:
        """The thing at `path`, or None when there is none. Raises EngineError (`forge-…`)."""
        url = self._transport.base + path
        page = self._get(url)
        if page is None:
            return None
        try:
            return msgspec.convert(page.data, shape)
        except (ValueError, RecursionError) as error:
            raise failed(url, "answered with something else than was asked for") from error

    def list_all(
        self,
        path: str,
        shape: type[T],
        *,
        query: Mapping[str, str] | None = None,
        key: str = "",
        is_past: Callable[[T], bool] = lambda _: False,
        pages: int = MAX_PAGES,
    ) -> Listing[T]:
        """The list at `path` (under `key` of each page), up to the first item that `is_past`. What cannot be read is
        the problem of the listing. Raises EngineError (forge-rate-limited, forge-budget-spent) when nothing more can be
        asked at all."""
        url = f"{self._transport.base}{path}?{urlencode({'per_page': '100', **(query or {})})}"
        items: list[T] = []
        problem = slug = ""
        try:
            for data in self._items(url, key, pages):
                try:
                    item = msgspec.convert(data, shape)
                except (ValueError, RecursionError):
                    problem, slug = failed(url, MISSHAPEN).message, "forge-failed"
                    continue
                if is_past(item):
                    break
                items.append(item)
        except EngineError as error:
            if error.slug in LASTING:
                raise
            problem, slug = error.message, error.slug
        return Listing(tuple(items), problem, slug)

    def write(self, method: str, path: str, data: object, shape: type[T]) -> T:
        """What the API says of `data` sent to `path` (or an address of its host). Sent once, for it may have been done.
        Raises EngineError: forge-refused for rights and rules, else `forge-…`."""
        url = path if path.startswith("http") else self._transport.base + path
        try:
            reply = self._transport.write(method, url, msgspec.json.encode(data))
        except ConnectionError as error:
            raise failed(url, f"could not be written to: {error}") from error
        if reply.status in REFUSALS and not find_limit(reply.status, reply.headers, reply.body):
            what = f" what was to be written, with status {reply.status}"
            raise refused(f"{host_of(url)}{split_url(url).path}", what, _say(reply.body))
        if reply.status not in WRITTEN:
            raise _trouble(url, reply).error
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (ValueError, RecursionError) as error:
            raise failed(url, "answered with something else than was asked for") from error

    def _items(self, url: str, key: str, pages: int) -> Iterator[Any]:
        """Raises EngineError (forge-failed) where the list breaks off, after all that could be read."""
        first = url
        for _ in range(pages):
            page = self._get(url)
            if page is None:
                raise failed(first, "is not there, or not shown to this token")
            data = page.data.get(key) if key and isinstance(page.data, dict) else page.data
            if not isinstance(data, list):
                raise failed(first, "answered with something else than a list")
            yield from data
            url = next_page(url, page.link)
            if not url:
                return
            if not is_same_host(url, self._transport.base):
                raise failed(first, "names a next page on another host, which was not read")
        raise failed(first, f"has more than {pages} pages; the rest was not read")

    def _get(self, url: str) -> Page | None:
        """After several tries. A limit that is longer than a run waits holds for all that follows: no more is asked."""
        if self._limited:
            raise self._limited
        outcome = try_again(partial(self._try, url), PAUSES, self.budget.wait)
        if isinstance(outcome, FailedTry):
            self._limited = outcome.error if outcome.error.slug in LASTING else None
            raise outcome.error
        return outcome

    def _try(self, url: str) -> Page | FailedTry | None:
        place = self._cache_dir / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
        cached = None
        with suppress(OSError, ValueError, RecursionError):
            found = msgspec.json.decode(place.read_bytes(), type=Page)
            cached = found if found.url == url else None
        try:
            reply = self._transport.send(url, cached.etag if cached else "")
        except ConnectionError as error:
            return FailedTry(unreachable(url, f"could not be read: {error}"))
        if reply.status == HTTPStatus.NOT_MODIFIED and cached:
            self.budget.refund()
            return cached
        if reply.status != HTTPStatus.OK:
            return None if reply.status in ABSENT else _trouble(url, reply)
        try:
            data = msgspec.json.decode(reply.body)
        except (ValueError, RecursionError):
            return FailedTry(failed(url, "answered with something that is not JSON"))
        page = Page(url, reply.headers.get("etag", ""), reply.headers.get("link", ""), data)
        if page.etag:
            with suppress(OSError):
                self._cache_dir.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self._cache_dir, prefix=".") as beside:
                    new = Path(beside, "reply")
                    new.write_bytes(msgspec.json.encode(page))
                    new.replace(place)  # a reader sees the old file or the new
        return page


class _Said(msgspec.Struct, frozen=True):
    message: Any = ""
    errors: Any = ()


def _say(body: bytes) -> str:
    """The forge's own words on a refusal, in one line: `message`, and those of `errors`."""
    try:
        said = msgspec.json.decode(body, type=_Said)
    except (ValueError, RecursionError):
        return ""
    errors = said.errors if isinstance(said.errors, list) else []
    parts = [
        said.message,
        *(one.get("message", "") if isinstance(one, dict) else one for one in errors),
    ]
    words = "; ".join(" ".join(str(part).split()) for part in parts if part)
    return shorten(mask_secrets(words), SAID_WIDTH)


def _trouble(url: str, reply: HttpReply) -> FailedTry:
    if reply.status == HTTPStatus.UNAUTHORIZED:
        return FailedTry(unauthorised(url), is_final=True)
    if limit := find_limit(reply.status, reply.headers, reply.body):
        message = (
            f"{host_of(url)} limits how often it is asked; it may be asked again {limit.until}"
        )
        hint = "Run again then; what was not read is read by that run."
        return FailedTry(EngineError(message, slug="forge-rate-limited", hint=hint), limit.seconds)
    if reply.status in TRANSIENT:
        return FailedTry(unreachable(url, f"answered with status {reply.status}"))
    return FailedTry(failed(url, f"answered with status {reply.status}"), is_final=True)


Found = TypeVar("Found")


class Problems(dict[str, None]):
    """The problems of one pull request, each once, in the order of their finding."""

    def add(self, text: str) -> None:
        """Note a problem in words."""
        self[text] = None

    def note(self, listing: Listing[T]) -> tuple[T, ...]:
        """The items of `listing`; its problem is noted."""
        if listing.problem:
            self.add(listing.problem)
        return listing.items


def require(listing: Listing[T]) -> Listing[T]:
    """The listing. Raises EngineError, as the list was refused, when there is a problem and nothing else."""
    if listing.problem and not listing.items:
        hint = "Check the token and its rights, or try again later (`memory-ci help forge`)."
        raise EngineError(listing.problem, slug=listing.slug, hint=hint)
    return listing


class RequestReader(ABC, Generic[Found]):
    """What is read of requests alike from every forge, under `root`. `Found` is a request as the forge tells of it.
    Closed ones are listed in one go, and completed one by one with no more than half of what a run may spend: so a heap
    of them, which anyone can make, leaves enough to read what was merged."""

    def __init__(self, client: Client, root: str) -> None:
        self._client, self._root = client, root
        self._closed: dict[int, Found] = {}
        self._levels: dict[str, Permission | None] = {}

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """Those of `list_closed` with their permission, their reviews and, of people of the house, their commits; in
        order. Where nothing more can be asked, or half of the budget is spent: what came before, and why."""
        done: list[PullRequest] = []
        try:
            with self._client.budget.half():
                for request in requests:
                    # What was said of it and, unless a stranger asked, whether there was any work: it brought nothing.
                    problems = Problems()
                    one = self._with_reviews(self._closed[request.number], problems)
                    if one.permission != "read":
                        one = self._with_commits(one, problems)
                    done.append(replace(one, problems=tuple(problems)))
        except EngineError as error:
            if error.slug not in LASTING:
                raise
            return Listing(tuple(done), error.message, error.slug)
        return Listing(tuple(done))

    def _complete(self, found: Found) -> PullRequest:
        """The record with all parts; each costs one request or more."""
        problems = Problems()
        request = self._with_commits(self._with_reviews(found, problems), problems)
        checks = self._checks(request, problems)
        return replace(request, checks=checks, problems=tuple(problems))

    def _ask_once(
        self,
        path: str,
        shape: type[T],
        problems: Problems,
        level: Callable[[T | None], Permission | None],
    ) -> Permission | None:
        """The `level` of what stands at `path`, None where it cannot be read: a problem of the first to ask."""
        if path not in self._levels:
            try:
                self._levels[path] = level(self._client.find(path, shape))
            except EngineError as error:
                if error.slug in LASTING:
                    raise
                problems.add(error.message)
                self._levels[path] = None
        return self._levels[path]

    @abstractmethod
    def _with_reviews(self, found: Found, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]: ...
