"""Read and write JSON objects of a forge's REST API, with retries, pages and a cache of replies.

An unchanged reply is a 304, which costs no request. A file of the cache holds the address and the
reply, never a header of ours. The cache may be deleted at any time.
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
    find_limit,
    forge_failed,
    forge_refused,
    forge_unauthorised,
    forge_unreachable,
    host_of,
    is_same_host,
    next_page,
    split_url,
    try_again,
)
from memory_ci.records.history import Check, Permission, PullRequest
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

T = TypeVar("T")
Payload = TypeVar("Payload")
PAUSES = (1.0, 2.0)  # Seconds before the second and the third attempt; there is no fourth.
MAX_PAGES = 20  # Pages of 100 items of one list that are read.
TRANSIENT = frozenset({500, 502, 503, 504})
ABSENT = frozenset({404, 422})
"""Statuses for a missing object: GitHub answers 422 for a commit that it does not know."""

REASON_WIDTH = 300  # Characters of a forge's words.
WRITTEN = frozenset({200, 201})
REFUSALS = frozenset({403, 404, 405, 422})
"""Statuses for a write without the right to it, to a missing object, or against a rule."""

UNEXPECTED = "answered with something else than was asked for"
UNEXPECTED_ITEM = "has an item that is not what the API says; it was left out"


class Page(msgspec.Struct, frozen=True):
    """A cached reply: `data` is its JSON, `link` the header that leads to the next page."""

    url: str
    etag: str
    link: str
    data: Any


class Listing(NamedTuple, Generic[T]):
    """The items of a list that could be read.

    Attributes:
        items: the items.
        problem: the unreadable part, in words.
        slug: the slug of the error.
    """

    items: tuple[T, ...]
    problem: str = ""
    slug: str = ""


class Client:
    """Reads and writes objects of given shapes through an API, and caches replies as files.

    A cache file that cannot be read or written is ignored.
    """

    def __init__(self, transport: Transport, cache_dir: Path) -> None:
        self._transport = transport
        self._cache_dir = cache_dir
        self._lasting_error: EngineError | None = None

    @property
    def budget(self) -> Budget:
        """The budget of requests."""
        return self._transport.budget

    def find(self, path: str, shape: type[T]) -> T | None:
        """Read the object at `path`; None if it does not exist.

        Args:
            path: the path in the API.
            shape: the type of the object.

        Raises:
            EngineError: `forge-…`.
        """
        url = self._transport.base + path
        page = self._read_page(url)
        if page is None:
            return None
        try:
            return msgspec.convert(page.data, shape)
        except (ValueError, RecursionError) as error:
            raise forge_failed(url, UNEXPECTED) from error

    def list_all(
        self,
        path: str,
        shape: type[T],
        *,
        query: Mapping[str, str] | None = None,
        key: str = "",
        is_past: Callable[[T], bool] | None = None,
        pages: int = MAX_PAGES,
    ) -> Listing[T]:
        """Read the list at `path`, page by page; the listing has a problem for unreadable parts.

        Args:
            path: the path.
            shape: the type of an item; others are left out.
            query: parameters of the address.
            key: the key of the list in each page; "" where the page is the list.
            is_past: whether the list ends before an item.
            pages: the maximum of pages.

        Raises:
            EngineError: forge-rate-limited or forge-budget-spent, when no more request succeeds.
        """
        parameters = urlencode({"per_page": "100", **(query or {})})
        url = f"{self._transport.base}{path}?{parameters}"
        items: list[T] = []
        problem = ""
        slug = ""
        try:
            for data in self._iter_items(url, key, pages):
                try:
                    item = msgspec.convert(data, shape)
                except (ValueError, RecursionError):
                    problem = forge_failed(url, UNEXPECTED_ITEM).message
                    slug = "forge-failed"
                    continue
                if is_past is not None and is_past(item):
                    break
                items.append(item)
        except EngineError as error:
            if error.slug in LASTING:
                raise
            problem = error.message
            slug = error.slug
        return Listing(tuple(items), problem, slug)

    def write(self, method: str, path: str, data: object, shape: type[T]) -> T:
        """Send JSON to the API and return the reply.

        The request is not repeated, for a failed attempt may still have had its effect.

        Args:
            method: POST, PATCH and so on.
            path: the path in the API, or an address of the API's host.
            data: the value that is sent as JSON.
            shape: the type of the reply.

        Raises:
            EngineError: forge-refused for rights and rules, else `forge-…`.
        """
        url = path if path.startswith("http") else self._transport.base + path
        try:
            reply = self._transport.write(method, url, msgspec.json.encode(data))
        except ConnectionError as error:
            raise forge_failed(url, f"could not be written to: {error}") from error
        if reply.status in REFUSALS and not find_limit(reply.status, reply.headers, reply.body):
            action = f" what was to be written, with status {reply.status}"
            address = f"{host_of(url)}{split_url(url).path}"
            raise forge_refused(address, action, _find_reason(reply.body))
        if reply.status not in WRITTEN:
            raise _describe_failure(url, reply).error
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (ValueError, RecursionError) as error:
            raise forge_failed(url, UNEXPECTED) from error

    def _iter_items(self, first_url: str, key: str, pages: int) -> Iterator[Any]:
        """Yield the items of all pages of a list, not yet converted.

        Args:
            first_url: the URL of the first page.
            key: the key of the list in each page; "" where the page is the list.
            pages: the maximum of pages.

        Raises:
            EngineError: forge-failed, after all items that could be read.
        """
        url = first_url
        for _ in range(pages):
            page = self._read_page(url)
            if page is None:
                raise forge_failed(first_url, "is not there, or not shown to this token")
            items = page.data
            if key and isinstance(page.data, dict):
                items = page.data.get(key)
            if not isinstance(items, list):
                raise forge_failed(first_url, "answered with something else than a list")
            yield from items
            url = next_page(url, page.link)
            if not url:
                return
            if not is_same_host(url, self._transport.base):
                problem = "names a next page on another host, which was not read"
                raise forge_failed(first_url, problem)
        raise forge_failed(first_url, f"has more than {pages} pages; the rest was not read")

    def _read_page(self, url: str) -> Page | None:
        """Read a page, with several attempts if needed; None if it does not exist.

        After an error that lasts for the rest of the run, no more request is sent.

        Raises:
            EngineError: `forge-…`.
        """
        if self._lasting_error:
            raise self._lasting_error
        outcome = try_again(partial(self._read_once, url), PAUSES, self.budget.wait)
        if isinstance(outcome, FailedTry):
            if outcome.error.slug in LASTING:
                self._lasting_error = outcome.error
            raise outcome.error
        return outcome

    def _read_once(self, url: str) -> Page | FailedTry | None:
        """Read a page once, from the cache if it is unchanged; None if it does not exist."""
        cache_file = self._cache_dir / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
        cached = _read_cached(cache_file, url)
        try:
            reply = self._transport.send(url, cached.etag if cached else "")
        except ConnectionError as error:
            return FailedTry(forge_unreachable(url, f"could not be read: {error}"))
        if reply.status == HTTPStatus.NOT_MODIFIED and cached:
            self.budget.refund()
            return cached
        if reply.status in ABSENT:
            return None
        if reply.status != HTTPStatus.OK:
            return _describe_failure(url, reply)
        try:
            data = msgspec.json.decode(reply.body)
        except (ValueError, RecursionError):
            return FailedTry(forge_failed(url, "answered with something that is not JSON"))
        page = Page(url, reply.headers.get("etag", ""), reply.headers.get("link", ""), data)
        if page.etag:
            with suppress(OSError):
                self._write_cached(cache_file, page)
        return page

    def _write_cached(self, cache_file: Path, page: Page) -> None:
        """Write a file of the cache by a rename, so that readers see the old or the new file."""
        self._cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._cache_dir, prefix=".") as scratch:
            new_file = Path(scratch, "reply")
            new_file.write_bytes(msgspec.json.encode(page))
            new_file.replace(cache_file)


def _read_cached(cache_file: Path, url: str) -> Page | None:
    """Return the cached reply of a URL; None if the cache lacks it or cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        page = msgspec.json.decode(cache_file.read_bytes(), type=Page)
        return page if page.url == url else None
    return None


class _Refusal(msgspec.Struct, frozen=True):
    """The body of a reply that refuses; the types of its fields differ."""

    message: Any = ""
    errors: Any = ()


def _find_reason(body: bytes) -> str:
    """Return the forge's own words on a refusal in one line: its `message` and its `errors`.

    Args:
        body: the JSON of the reply.
    """
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except (ValueError, RecursionError):
        return ""
    parts = [refusal.message]
    if isinstance(refusal.errors, list):
        for error in refusal.errors:
            if isinstance(error, dict):
                parts.append(error.get("message", ""))
            else:
                parts.append(error)
    words = [" ".join(str(part).split()) for part in parts if part]
    reason = "; ".join(words)
    return shorten(mask_secrets(reason), REASON_WIDTH)


def _describe_failure(url: str, reply: HttpReply) -> FailedTry:
    """Return the error of a reply that is no success, and whether to try again."""
    if reply.status == HTTPStatus.UNAUTHORIZED:
        return FailedTry(forge_unauthorised(url), is_final=True)
    limit = find_limit(reply.status, reply.headers, reply.body)
    if limit:
        message = (
            f"the rate limit of {host_of(url)} is reached; it answers requests again {limit.until}"
        )
        hint = "Run again at that time: that run reads what this one could not."
        return FailedTry(EngineError(message, slug="forge-rate-limited", hint=hint), limit.seconds)
    problem = f"answered with status {reply.status}"
    if reply.status in TRANSIENT:
        return FailedTry(forge_unreachable(url, problem))
    return FailedTry(forge_failed(url, problem), is_final=True)


def require_items(listing: Listing[T]) -> Listing[T]:
    """Return a listing, but raise its error if it has no items because of it.

    A listing with a problem and some items is returned: these items could be read.

    Raises:
        EngineError: the error of the listing.
    """
    if listing.problem and not listing.items:
        hint = "Check the token and its rights, or try again later (`memory-ci help ci`)."
        raise EngineError(listing.problem, slug=listing.slug, hint=hint)
    return listing


# -- requests


class Problems(dict[str, None]):
    """The problems of one pull request, each once, in the order of their occurrence."""

    def add(self, problem: str) -> None:
        """Add a problem in words."""
        self[problem] = None

    def take_items(self, listing: Listing[T]) -> tuple[T, ...]:
        """Return the items of a listing, and add its problem to these, if it has one."""
        if listing.problem:
            self.add(listing.problem)
        return listing.items


class RequestReader(ABC, Generic[Payload]):
    """Reader of pull or merge requests; `Payload` is a request in the shape of the forge.

    Closed requests are listed together, then completed one by one with no more than half of the
    budget of a run. Thus many closed requests, which anyone can make, leave enough to read the
    merged ones.
    """

    def __init__(self, client: Client, root: str) -> None:
        """`root` is the path of the repository in the API."""
        self._client = client
        self._root = root
        self._closed: dict[int, Payload] = {}
        self._permissions: dict[str, Permission | None] = {}

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """Read the permission, the reviews and, for members, the commits of closed requests.

        Args:
            requests: pull requests that `list_closed` returned.

        Returns:
            The same requests with these parts, in order. If the forge refuses further requests (an
            error of LASTING), or half of the budget is spent, the listing has the requests that
            were completed before, and the problem.
        """
        completed: list[PullRequest] = []
        try:
            with self._client.budget.limit_to_half():
                for request in requests:
                    payload = self._closed[request.number]
                    completed.append(self._complete_closed(payload))
        except EngineError as error:
            if error.slug not in LASTING:
                raise
            return Listing(tuple(completed), error.message, error.slug)
        return Listing(tuple(completed))

    def _complete_closed(self, payload: Payload) -> PullRequest:
        """Read the reviews and commits of a request that was closed without a merge.

        The commits of the record show how much work was declined. If the author may not write to
        the repository, they are not read: anyone may open a request with any commits.

        Args:
            payload: the request as the forge has it.
        """
        problems = Problems()
        request = self._with_reviews(payload, problems)
        if request.permission != "read":
            request = self._with_commits(request, problems)
        return replace(request, problems=tuple(problems))

    def _complete(self, payload: Payload) -> PullRequest:
        """Read reviews, commits and checks of a request, and return its record.

        Each part costs one request to the forge or more.
        """
        problems = Problems()
        request = self._with_reviews(payload, problems)
        request = self._with_commits(request, problems)
        checks = self._read_checks(request, problems)
        return replace(request, checks=checks, problems=tuple(problems))

    def _find_permission_once(
        self,
        path: str,
        shape: type[T],
        problems: Problems,
        to_permission: Callable[[T | None], Permission | None],
    ) -> Permission | None:
        """Return a permission, read once per path; None where it cannot be read.

        Args:
            path: where the forge has the permission.
            shape: the type of the object there.
            problems: the problems of the request that is read; an unreadable permission is noted in
                those of the first request only.
            to_permission: converts the object, or None for a missing one.
        """
        if path not in self._permissions:
            try:
                self._permissions[path] = to_permission(self._client.find(path, shape))
            except EngineError as error:
                if error.slug in LASTING:
                    raise
                problems.add(error.message)
                self._permissions[path] = None
        return self._permissions[path]

    @abstractmethod
    def _with_reviews(self, payload: Payload, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _read_checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]: ...
