"""Where a job finds the organisation's index: said by its environment alone, and fetched from there once."""

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

INDEX, AUDIENCES, TOKEN = "MEMORY_CI_ORG_INDEX", "MEMORY_CI_ORG_AUDIENCES", "MEMORY_CI_ORG_TOKEN"
"""Variables: a directory, or the addresses of files with their digests; who is asked for; what the host is shown."""

USUAL = ("public", "internal")
MAX_BYTES, SECONDS = (
    2_000_000_000,
    20.0,
)  # Of one file that is fetched: an agent waits for it, once.
AGAIN = 600.0  # Seconds until one that could not be fetched is asked for again.
FILE = re.compile(rf"(https?://[^\s#]+/((?:{AUDIENCE})\.db)(?:\?[^\s#]*)?)#sha256=([0-9a-f]{{64}})")


def choose_audiences(environ: Mapping[str, str], asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The audiences that the environment names (public and internal by default), of those `asked` if any are. Raises
    UsageError (bad-audience)."""
    named = (
        tuple(re.split(r"[\s,]+", environ.get(AUDIENCES, "").strip()))
        if environ.get(AUDIENCES)
        else USUAL
    )
    check_audiences(named)
    return tuple(one for one in named if not asked or one in asked)


def check_audiences(names: tuple[str, ...]) -> None:
    """Raises UsageError (bad-audience) for what is no name of one."""
    for name in names:
        if not re.fullmatch(AUDIENCE, name):
            hint = "An audience is public, internal or group-NAME, in small letters, digits, `.`, `_` and `-`."
            raise UsageError(f"{name!r} is no audience", slug="bad-audience", hint=hint)


def find_index(address: str, environ: Mapping[str, str]) -> str:
    """What the engine opens for an address; files are fetched into the cache, where they stay under their digest.
    Raises UsageError (bad-org-index); EngineError: org-digest, `forge-…` where one cannot be fetched."""
    if "://" not in address or address.startswith("postgres"):
        return address
    wanted = [FILE.fullmatch(word) for word in address.split()]
    if not all(wanted) or len({match[2] for match in wanted if match}) < len(wanted):
        hint = "Name a directory, or https://…/internal.db#sha256=DIGEST, several with blanks between them."
        raise UsageError(f"{INDEX} names no index", slug="bad-org-index", hint=hint)
    found = [(match[1], match[2], match[3]) for match in wanted if match]
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-ci" / "org"
    place = (
        cache / hashlib.sha256("".join(digest for *_, digest in found).encode()).hexdigest()[:32]
    )
    for url, name, digest in found:
        if not (place / name).is_file():
            _fetch(url, digest, place / name, environ)
    return str(place)


def _fetch(url: str, digest: str, target: Path, environ: Mapping[str, str]) -> None:
    """Fetch, unless that failed in the last AGAIN seconds: each prompt of an agent would wait for it anew."""
    parts, failed = urlsplit(url), target.with_name(f"{target.name}.failed")

    def unfetched(what: str) -> EngineError:
        hint = (
            f"Compare {INDEX} with the manifest beside the file; for a private store set {TOKEN}."
        )
        return EngineError(
            f"the organisation's index at {parts.hostname} {what}", slug="org-digest", hint=hint
        )

    if failed.is_file() and time.time() - failed.stat().st_mtime < AGAIN:
        raise unfetched("could not be fetched, and is asked again in ten minutes")
    target.parent.mkdir(parents=True, exist_ok=True)
    from memory_ci.forge.http import Budget, Transport  # others spare these

    token = environ.get(TOKEN, "").strip()
    try:
        transport = Transport(
            f"{parts.scheme}://{parts.netloc}",
            headers={"accept": "application/octet-stream"},
            secrets={"authorization": f"Bearer {token}"} if token else {},
            budget=Budget(requests=10, seconds=SECONDS),
            max_bytes=MAX_BYTES,
        )
        reply = transport.send(url)
        if reply.status != 200:
            raise unfetched(f"cannot be fetched: status {reply.status}")
        if hashlib.sha256(reply.body).hexdigest() != digest:
            raise unfetched("is not the one that was asked for: its digest differs")
    except ConnectionError as error:
        failed.touch()
        raise unfetched(f"cannot be fetched: {error}") from error
    except MemoryCIError:
        failed.touch()
        raise
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_bytes(reply.body)
    temporary.replace(target)
    failed.unlink(missing_ok=True)
