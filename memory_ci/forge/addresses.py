"""Addresses that replies name: another host is told from our own, and nonsense is an address of nowhere (pure)."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit

NEXT = re.compile(r'<([^<>]{1,2000})>\s*;[^,<]{0,500}?\brel="?next\b')


def split_url(url: str) -> SplitResult:
    """The parts of `url`; all are empty where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # checked only when it is read
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def host_of(url: str) -> str:
    """The host of `url`, for a message."""
    return split_url(url).hostname or "the forge"


def is_same_host(url: str, other: str) -> bool:
    """Whether both have one scheme, host and port: what may see the same token."""
    ours, theirs = split_url(url), split_url(other)
    return (ours.scheme, ours.hostname, ours.port) == (theirs.scheme, theirs.hostname, theirs.port)


def is_secure(url: str) -> bool:
    """Whether nobody on the way can read along."""
    return split_url(url).scheme == "https"


def is_loopback(url: str) -> bool:
    """Whether `url` is http on this machine."""
    parts = split_url(url)
    try:
        return parts.scheme == "http" and (
            parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        return False


def join_url(url: str, other: str) -> str:
    """`other` as seen from `url`, or "" where it is no address."""
    try:
        return urljoin(url, other)
    except ValueError:
        return ""


def next_page(url: str, link: str) -> str:
    """Where a `Link` header (RFC 8288) says that the next page is, or "".

    >>> next_page("https://api.example/pulls", '<https://api.example/pulls?page=2>; rel="next"')
    'https://api.example/pulls?page=2'
    """
    match = NEXT.search(link)
    return join_url(url, match[1]) if match else ""
