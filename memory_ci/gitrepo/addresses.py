"""Convert addresses of git remotes: to web pages, and to one spelling by which to compare them."""

from __future__ import annotations

from memory_ci.records.names import SHA_WIDTH
from memory_ci.regex import Regex
from memory_ci.text import plain_host

ADDRESS = Regex(
    r"(?P<scheme>https?://)(?:[^/@]*@)?(?P<page>[^/]+/.+)"
    r"|(?:ssh|git\+ssh|ssh\+git|git)://(?:[^/@]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)"
    r"|(?:[\w.-]+@)?(?P<scp_host>[\w.-]{2,}):(?!//)(?P<scp_path>[^\\].*)"
)
"""An address by HTTP, by another protocol, or in the short form of scp."""

# The page of a repository on GitHub or GitLab, by its host: `github.com/acme/shop`.
ON_FORGE = Regex(r"[\w.-]*(?:github|gitlab)[\w.-]*(?::\d+)?/[\w.~/-]+")


def find_web_address(remote: str) -> str | None:
    """Return the web address of a remote, without a user or password.

    Returns:
        The address; "" for a directory on disk, None for an address of another kind.

    >>> find_web_address("git@github.com:a/b.git")
    'https://github.com/a/b.git'
    >>> find_web_address("https://me:pw@host/a/b"), find_web_address("/srv/a.git")
    ('https://host/a/b', '')
    """
    match = ADDRESS.fullmatch(remote)
    if match is None:
        is_directory = "://" not in remote or remote.startswith("file://")
        return "" if is_directory else None
    if match["scheme"]:
        return f"{match['scheme']}{match['page']}"
    host = match["host"] or match["scp_host"]
    path = match["path"] or match["scp_path"]
    return f"https://{host}/{path.lstrip('/')}"


def normalize_address(remote: str) -> str:
    """Return `host/path` in lower case, which is equal for all addresses of a repository.

    It is "" for a directory on disk.

    >>> normalize_address("git@github.com:Acme/pay.git")
    'github.com/acme/pay'
    >>> normalize_address("https://me@github.com/acme/pay/")
    'github.com/acme/pay'
    """
    web_address = find_web_address(remote.strip().rstrip("/")) or ""
    page = web_address.partition("://")[2].lower().removesuffix(".git")
    host, _, path = page.partition("/")
    return f"{plain_host(host)}/{path}" if path else ""


def find_forge_address(remote: str) -> str:
    """Return the web address of a repository on GitHub or GitLab; "" for another remote.

    >>> find_forge_address("git@github.com:acme/shop.git"), find_forge_address("/shop")
    ('https://github.com/acme/shop', '')
    >>> find_forge_address("https://me:token@gitlab.com/a/b")
    'https://gitlab.com/a/b'
    """
    web_address = find_web_address(remote) or ""
    page = web_address.partition("://")[2].removesuffix("/").removesuffix(".git")
    return f"https://{page}" if ON_FORGE.fullmatch(page) else ""


def is_on_gitlab(remote: str) -> bool:
    """Return whether the host of a remote is one of GitLab, by its name.

    >>> is_on_gitlab("git@gitlab.acme.dev:a/b.git"), is_on_gitlab("https://github.com/a/gitlab")
    (True, False)
    """
    return "gitlab" in _find_host(remote)


def is_on_github(remote: str) -> bool:
    """Return whether the host of a remote is one of GitHub, by its name."""
    return "github" in _find_host(remote)


def _find_host(remote: str) -> str:
    return normalize_address(remote).partition("/")[0]


def link_page(address: str, path: str) -> str:
    """Return the web address of a page of a repository; "" if the repository has none.

    Args:
        address: the web address of the repository, or "".
        path: the path of the page in the repository, such as `commit/3f2ab91`.
    """
    if not address:
        return ""
    return f"{address}/-/{path}" if is_on_gitlab(address) else f"{address}/{path}"


def link_request(address: str, number: int | str) -> str:
    """Return the web address of a pull or merge request; "" if the repository has none.

    >>> link_request("https://gitlab.com/a/b", 5), link_request("https://github.com/a/gitlab", 5)
    ('https://gitlab.com/a/b/-/merge_requests/5', 'https://github.com/a/gitlab/pull/5')
    """
    kind = "merge_requests" if is_on_gitlab(address) else "pull"
    return link_page(address, f"{kind}/{number}")


def link_to(address: str, number: int | None, sha: str) -> str:
    """Return the web address of a pull request, or of a commit if there is no number.

    Args:
        address: the web address of the repository, or "".
        number: the number of the pull or merge request.
        sha: the commit id, or "".
    """
    if number is not None:
        return link_request(address, number)
    if sha:
        return link_page(address, f"commit/{sha[:SHA_WIDTH]}")
    return ""
