"""The address of the organisation's index, which the environment of a job has.

Files on the web are fetched once into a cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.records.names import AUDIENCE
from memory_ci.regex import Regex

# Environment variables.
INDEX = "MEMORY_CI_ORG_INDEX"  # A directory, a server, or URLs of files with their digests.
AUDIENCES = "MEMORY_CI_ORG_AUDIENCES"  # The audiences of the job.
# The credential for the host of the files.
TOKEN = "MEMORY_CI_ORG_TOKEN"  # noqa: S105 - the name of a variable

DEFAULT_AUDIENCES = ("public", "internal")
MAX_BYTES = 2_000_000_000  # Bytes of one file that is fetched.
SECONDS = 20.0  # Seconds in which a file is fetched: an agent waits for it, once.
RETRY_SECONDS = 600.0  # Time until a fetch that failed is tried again.
FILE = Regex(rf"(https?://[^\s#]+/((?:{AUDIENCE})\.db)(?:\?[^\s#]*)?)#sha256=([0-9a-f]{{64}})")


def choose_audiences(environ: Mapping[str, str], asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the audiences of the environment (by default public and internal).

    Args:
        environ: the environment.
        asked: return only those among these, if there are any.

    Raises:
        UsageError: bad-audience.
    """
    audiences: tuple[str, ...] = DEFAULT_AUDIENCES
    if environ.get(AUDIENCES):
        audiences = tuple(re.split(r"[\s,]+", environ[AUDIENCES].strip()))
    check_audiences(audiences)
    return tuple(audience for audience in audiences if not asked or audience in asked)


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

    The cache keeps fetched files by their digests.

    Raises:
        UsageError: bad-org-index.
        EngineError: org-digest, `forge-…` where a file cannot be fetched.
    """
    if "://" not in address or address.startswith("postgres"):
        return address

    files: list[tuple[str, str, str]] = []
    words = address.split()
    for word in words:
        match = FILE.fullmatch(word)
        if match:
            files.append((match[1], match[2], match[3]))
    names = {name for _, name, _ in files}
    if len(names) < len(words):
        hint = (
            "Name a directory, or https://…/internal.db#sha256=DIGEST,"
            " several with blanks between them."
        )
        raise UsageError(f"{INDEX} names no index", slug="bad-org-index", hint=hint)

    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-ci" / "org"
    digests = "".join(digest for _, _, digest in files)
    directory = cache / hashlib.sha256(digests.encode()).hexdigest()[:32]
    for url, name, digest in files:
        if not (directory / name).is_file():
            _fetch(url, digest, directory / name, environ)
    return str(directory)


def _fetch(url: str, digest: str, target: Path, environ: Mapping[str, str]) -> None:
    """Fetch a file, unless that failed in the last ten minutes.

    Otherwise each prompt of an agent would wait for it again.
    """
    failure_mark = target.with_name(f"{target.name}.failed")
    if failure_mark.is_file() and time.time() - failure_mark.stat().st_mtime < RETRY_SECONDS:
        raise _make_error(url, "could not be fetched, and is asked again in ten minutes")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        data = _download(url, environ)
        if hashlib.sha256(data).hexdigest() != digest:
            raise _make_error(url, "is not the one that was asked for: its digest differs")
    except ConnectionError as error:
        failure_mark.touch()
        raise _make_error(url, f"cannot be fetched: {error}") from error
    except MemoryCIError:
        failure_mark.touch()
        raise

    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(target)
    failure_mark.unlink(missing_ok=True)


def _download(url: str, environ: Mapping[str, str]) -> bytes:
    from memory_ci.forge.http import Budget, Transport  # Other addresses need no client.

    parts = urlsplit(url)
    token = environ.get(TOKEN, "").strip()
    transport = Transport(
        f"{parts.scheme}://{parts.netloc}",
        headers={"accept": "application/octet-stream"},
        secrets={"authorization": f"Bearer {token}"} if token else {},
        budget=Budget(requests=10, seconds=SECONDS),
        max_bytes=MAX_BYTES,
    )
    reply = transport.send(url)
    if reply.status != 200:
        raise _make_error(url, f"cannot be fetched: status {reply.status}")
    return reply.body


def _make_error(url: str, problem: str) -> EngineError:
    message = f"the organisation's index at {urlsplit(url).hostname} {problem}"
    hint = f"Compare {INDEX} with the manifest beside the file; for a private store set {TOKEN}."
    return EngineError(message, slug="org-digest", hint=hint)
