"""Replies of the forge on disk, with their ETags: asked again, an unchanged one is a 304, which costs no request.

A file holds the address and the reply, never a header of ours. All of it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec


class Cached(msgspec.Struct, frozen=True):
    """A reply as it came: `data` is its JSON, `link` the header that leads to the next page."""

    url: str
    etag: str
    link: str
    data: Any


class ReplyCache:
    """The replies under one directory, a file each; one that cannot be read is not there, or not kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, url: str) -> Cached | None:
        """The reply kept for `url`, or None."""
        try:
            found = msgspec.json.decode(self._path(url).read_bytes(), type=Cached)
        except (OSError, ValueError, RecursionError):
            return None
        return found if found.url == url else None

    def save(self, reply: Cached) -> None:
        """Keep `reply`, in place of what was kept for its address: a reader sees the old file or the new."""
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write(self._path(reply.url), msgspec.json.encode(reply))

    def _write(self, path: Path, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self._directory, prefix=".")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _path(self, url: str) -> Path:
        return self._directory / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
