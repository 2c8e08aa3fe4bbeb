"""Rate limits, as forges state them in the headers of a refusal (pure).

GitHub refuses with 403 or 429: over the primary limit `x-ratelimit-remaining` is 0 and `x-ratelimit-reset` says when
it is lifted; over a secondary one there is `retry-after`, or only a sentence, and then a minute is asked for
(docs.github.com, "Rate limits for the REST API"). GitLab refuses with 429 and `retry-after`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

SECONDARY = b"secondary rate limit"
SECONDARY_WAIT = 60.0
UNSTATED_WAIT = 1.0
"""Seconds to wait after a 429 that says nothing."""


class Limit(NamedTuple):
    """How long to wait in seconds, and when that is over, in words."""

    seconds: float
    until: str


def find_limit(status: int, headers: Mapping[str, str], body: bytes) -> Limit | None:
    """The limit that a reply refuses by, or None when it is no such refusal. Header names are in lower case."""
    if status not in (403, 429):
        return None
    if (asked := headers.get("retry-after", "")) and (limit := _after(asked, headers)):
        return limit
    if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdecimal():
        return _reset(headers["x-ratelimit-reset"], headers)
    if SECONDARY in body[:10_000]:
        return Limit(SECONDARY_WAIT, "in a minute")
    return Limit(UNSTATED_WAIT, "later: it did not say when") if status == 429 else None


def _after(asked: str, headers: Mapping[str, str]) -> Limit | None:
    if asked.isdecimal():
        return Limit(float(asked), f"in {asked} s")
    return _at(_date(asked), headers)


def _reset(seconds: str, headers: Mapping[str, str]) -> Limit | None:
    try:
        return _at(datetime.fromtimestamp(int(seconds), UTC), headers)
    except (OverflowError, ValueError, OSError):
        return None


def _at(end: datetime | None, headers: Mapping[str, str]) -> Limit | None:
    """The time until `end` by the forge's own clock; without its Date there is no telling, and so no waiting."""
    if end is None:
        return None
    now = _date(headers.get("date", ""))
    seconds = max((end - now).total_seconds(), UNSTATED_WAIT) if now else math.inf
    return Limit(seconds, f"at {end:%Y-%m-%d %H:%M:%S} UTC")


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
