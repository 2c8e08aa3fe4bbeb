"""Addresses of remotes: where strangers would read one over the web, and whether two are one."""

from __future__ import annotations

import re

from memory_ci.text import plain_host

ADDRESS = re.compile(
    r"(?P<web>https?://)(?:[^/@]*@)?(?P<at>[^/]+/.+)"
    r"|(?:ssh|git\+ssh|ssh\+git|git)://(?:[^/@]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)"
    r"|(?:[\w.-]+@)?(?P<short>[\w.-]{2,}):(?!//)(?P<scp>[^\\].*)"
)


def find_web_address(remote: str) -> str | None:
    """Where strangers would read a remote over the web; "" for a directory, None for an address of another kind.

    >>> [find_web_address(one) for one in ("git@github.com:a/b.git", "https://me:pw@host/a/b", "/srv/a.git")]
    ['https://github.com/a/b.git', 'https://host/a/b', '']
    """
    match = ADDRESS.fullmatch(remote)
    if match is None:
        return None if "://" in remote and not remote.startswith("file://") else ""
    if match["web"]:
        return f"{match['web']}{match['at']}"
    return (
        f"https://{match['host'] or match['short']}/{(match['path'] or match['scp']).lstrip('/')}"
    )


def address_of(remote: str) -> str:
    """One spelling of the addresses of a repository, to tell whether two are one; "" for a directory.

    >>> {address_of(one) for one in ("git@github.com:Acme/pay.git", "https://me@github.com/acme/pay/")}
    {'github.com/acme/pay'}
    """
    web = find_web_address(remote.strip().rstrip("/")) or ""
    host, _, path = web.partition("://")[2].lower().removesuffix(".git").partition("/")
    return f"{plain_host(host)}/{path}" if path else ""


def find_address(remote: str) -> str:
    """The web address of a repository on GitHub or GitLab; "" for a remote of another kind.

    >>> [find_address(one) for one in ("git@github.com:acme/shop.git", "https://me:token@gitlab.com/a/b", "/shop")]
    ['https://github.com/acme/shop', 'https://gitlab.com/a/b', '']
    """
    place = (
        (find_web_address(remote) or "").partition("://")[2].removesuffix("/").removesuffix(".git")
    )
    is_known = re.fullmatch(r"[\w.-]*(?:github|gitlab)[\w.-]*(?::\d+)?/[\w.~/-]+", place)
    return f"https://{place}" if is_known else ""
