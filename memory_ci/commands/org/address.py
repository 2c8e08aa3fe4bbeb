"""The address of the organisation's search index, which an environment variable of a job has.

Files on the web are fetched once into a cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.records.names import AUDIENCE
from memory_ci.regex import Regex

# Environment variables.
INDEX_VARIABLE = (
    "MEMORY_CI_ORG_INDEX"  # A directory, a server, or URLs of files with their digests.
)
AUDIENCES_VARIABLE = "MEMORY_CI_ORG_AUDIENCES"  # The audiences of the job.
# The credential for the host of the files.
TOKEN_VARIABLE = "MEMORY_CI_ORG_TOKEN"  # noqa: S105 - the name of a variable

DEFAULT_AUDIENCES = ("public", "internal")
MAX_BYTES = 2_000_000_000  # Bytes of one file that is fetched.
FETCH_SECONDS = 20.0  # Seconds in which a file is fetched: an agent waits for it, once.
RETRY_SECONDS = 600.0  # Time until a fetch that failed is tried again.
FILE_ADDRESS = Regex(
    rf"(?P<url>https?://[^\s#]+/(?P<name>(?:{AUDIENCE})\.db)(?:\?[^\s#]*)?)"
    r"#sha256=(?P<digest>[0-9a-f]{64})"
)
"""The URL of a file with its digest, such as `https://host/internal.db#sha256=0a1b…`."""


class RemoteFile(NamedTuple):
    """A file of the index on the web: its URL, its name and its SHA-256 digest."""

    url: str
    name: str
    digest: str


def choose_audiences(
    environ: Mapping[str, str], configured: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the audiences, such as `internal`, whose entries a job may read.

    Args:
        environ: the environment, which names them; without the variable, public and internal.
        configured: the audiences of the configuration, to which the result is limited; () does not
            limit it.

    Raises:
        UsageError: bad-audience.
    """
    audiences: tuple[str, ...] = DEFAULT_AUDIENCES
    if environ.get(AUDIENCES_VARIABLE):
        audiences = tuple(re.split(r"[\s,]+", environ[AUDIENCES_VARIABLE].strip()))
    check_audiences(audiences)
    if not configured:
        return audiences
    return tuple(audience for audience in audiences if audience in configured)


def check_audiences(names: tuple[str, ...]) -> None:
    """Check that names are names of audiences.

    Raises:
        UsageError: bad-audience.
    """
    for name in names:
        if not re.fullmatch(AUDIENCE, name):
            hint = (
                "An audience is public, internal or group-NAME,"
                " in small letters, digits, `.`, `_` and `-`."
            )
            raise UsageError(f"{name!r} is no audience", slug="bad-audience", hint=hint)


def find_index(address: str, environ: Mapping[str, str]) -> str:
    """Return the directory or server of an index; fetch its files if they are on the web.

    The cache has a directory for each combination of digests.

    Args:
        address: a directory, a server, or URLs of files with their digests.
        environ: the environment, which may have a token for the files.

    Raises:
        UsageError: bad-org-index.
        EngineError: org-digest, `forge-…` where a file cannot be fetched.
    """
    if "://" not in address or address.startswith("postgres"):
        return address

    files = _parse_files(address)
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-ci" / "org"
    digests = "".join(file.digest for file in files)
    directory = cache / hashlib.sha256(digests.encode()).hexdigest()[:32]
    for file in files:
        if not (directory / file.name).is_file():
            _fetch_file(file.url, file.digest, directory / file.name, environ)
    return str(directory)


def _parse_files(address: str) -> list[RemoteFile]:
    """Return the files of an address. Raises UsageError (bad-org-index)."""
    files: list[RemoteFile] = []
    words = address.split()
    for word in words:
        match = FILE_ADDRESS.fullmatch(word)
        if match:
            files.append(RemoteFile(match["url"], match["name"], match["digest"]))
    names = {file.name for file in files}
    if len(names) < len(words):  # a word is no such URL, or two files have one name
        hint = (
            "Name a directory, or https://…/internal.db#sha256=DIGEST,"
            " several with blanks between them."
        )
        raise UsageError(f"{INDEX_VARIABLE} names no index", slug="bad-org-index", hint=hint)
    return files


def _fetch_file(url: str, digest: str, target: Path, environ: Mapping[str, str]) -> None:
    """Fetch a file and check its digest.

    After a failure nothing is tried for ten minutes: each prompt of an agent would wait for it.

    Raises:
        EngineError: org-digest, `forge-…`.
    """
    failure_mark = target.with_name(f"{target.name}.failed")
    if failure_mark.is_file() and time.time() - failure_mark.stat().st_mtime < RETRY_SECONDS:
        raise _make_index_error(url, "could not be fetched; the next attempt is in ten minutes")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        data = _download(url, environ)
        if hashlib.sha256(data).hexdigest() != digest:
            raise _make_index_error(url, "is not the requested file: its digest differs")
    except ConnectionError as error:
        failure_mark.touch()
        raise _make_index_error(url, f"cannot be fetched: {error}") from error
    except MemoryCIError:
        failure_mark.touch()
        raise

    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(target)
    failure_mark.unlink(missing_ok=True)


def _download(url: str, environ: Mapping[str, str]) -> bytes:
    """Return the content of a URL, requested with the token of the environment if there is one."""
    from memory_ci.forge.http import Budget, Transport  # Other addresses need no client.

    parts = urlsplit(url)
    token = environ.get(TOKEN_VARIABLE, "").strip()
    secret_headers = {"authorization": f"Bearer {token}"} if token else {}
    transport = Transport(
        f"{parts.scheme}://{parts.netloc}",
        headers={"accept": "application/octet-stream"},
        secrets=secret_headers,
        budget=Budget(requests=10, seconds=FETCH_SECONDS),
        max_bytes=MAX_BYTES,
    )
    reply = transport.send(url)
    if reply.status != 200:
        raise _make_index_error(url, f"cannot be fetched: status {reply.status}")
    return reply.body


def _make_index_error(url: str, problem: str) -> EngineError:
    message = f"the organisation's index at {urlsplit(url).hostname} {problem}"
    hint = (
        f"Compare {INDEX_VARIABLE} with the manifest beside the file; "
        f"for a private store set {TOKEN_VARIABLE}."
    )
    return EngineError(message, slug="org-digest", hint=hint)
