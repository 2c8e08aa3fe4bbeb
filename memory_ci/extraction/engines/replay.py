"""Recorded replies: an engine that only replays them, and a cache of replies before another engine.

A recording is one JSON object: a file `<key>.json` in a directory, or a line of a JSON Lines file,
where the last line of a key counts. The key is a hash of the prompt. Each recording states its
origin, `model <id>` or `hand-written`: a hand-written reply can test robustness, but says nothing
about the quality of a model.

The cache stores the replies of models, so that the same prompt is not paid for twice. So `record`
after `record --dry-run` writes exactly the shown entries. And a range of commits that teaches
nothing is paid for once, although no commit says that it was read.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.prompt import request_key
from memory_ci.extraction.reply import parse_reply
from memory_ci.files import read_regular
from memory_ci.records.candidate import EngineReply, Request, Usage
from memory_ci.secrets import find_secrets

HAND_WRITTEN = "hand-written"
NAMELESS = "(unnamed)"
"""The model of a reply by a program that does not say which model it called."""

MAX_BYTES = 200_000_000
"""Number of bytes of a file of recordings that is read."""


class Recording(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One recorded reply.

    Attributes:
        key: the key of the request.
        origin: `model <id>` or `hand-written`.
        change: the name of the change, for people who search for it.
        question: the key of the request without the known entries of memory.
        text: the reply.
        stop_reason: why the model stopped.
        usage: the tokens that it took.
    """

    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    origin: Annotated[str, msgspec.Meta(pattern=r"^(?:hand-written|model \S+)$")]
    change: str = ""
    question: Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{64})?$")] = ""
    text: str
    stop_reason: str = "end_turn"
    usage: Usage = Usage()


class ReplayEngine:
    """Answers with the replies that are recorded in a directory or a JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recordings: dict[str, Recording] | None = None

    def extract(self, request: Request) -> EngineReply:
        """Return the recorded reply.

        Raises:
            EngineError: replay-miss, if the request has no recording; replay-unreadable for a bad
                file.
        """
        key = request_key(request)
        recording = self._load().get(key)
        if recording is None:
            message = (
                f"no reply is recorded for {request.change} under the key {key} in {self._path}"
            )
            file = _find_file(self._path, key)
            hint = f"record one as {file}, with its key, origin and text"
            raise EngineError(message, slug="replay-miss", hint=hint)
        return _make_reply(recording)

    def find_reply_without_entries(self, key_without_entries: str) -> EngineReply | None:
        """Return the last reply to a request that differs only in the entries that memory had.

        Args:
            key_without_entries: the key of the request, computed as if memory were empty
                (`Recording.question`).

        Raises:
            EngineError: replay-unreadable, for a bad file.
        """
        matching = [
            recording
            for recording in self._load().values()
            if recording.question == key_without_entries
        ]
        return _make_reply(matching[-1]) if matching else None

    def add(self, recording: Recording) -> None:
        """Add a recording to those that are replayed, without writing it."""
        self._load()[recording.key] = recording

    def _load(self) -> dict[str, Recording]:
        if self._recordings is None:
            self._recordings = _read_recordings(self._path)
        return self._recordings


def _make_reply(recording: Recording) -> EngineReply:
    model = recording.origin.removeprefix("model ").removesuffix(NAMELESS)
    return EngineReply(
        text=recording.text, stop_reason=recording.stop_reason, usage=recording.usage, model=model
    )


def record_reply(
    path: Path, request: Request, reply: EngineReply, *, is_hand_written: bool = False
) -> Recording:
    """Write a reply as a recording and return the recording.

    Args:
        path: a file `*.jsonl`, to which it is appended, or a directory, in which it gets a file.
        request: the request.
        reply: the reply to it.
        is_hand_written: whether a person wrote the reply, and no model.
    """
    recording = Recording(
        key=request_key(request),
        origin=HAND_WRITTEN if is_hand_written else f"model {reply.model or NAMELESS}",
        change=request.change,
        question=_compute_key_without_entries(request),
        text=reply.text,
        stop_reason=reply.stop_reason,
        usage=reply.usage,
    )
    line = msgspec.json.encode(recording) + b"\n"
    if path.suffix == ".jsonl":
        with path.open("ab") as stream:
            stream.write(line)
    else:
        path.mkdir(parents=True, exist_ok=True)
        _find_file(path, recording.key).write_bytes(line)
    return recording


def _compute_key_without_entries(request: Request) -> str:
    """Return the key of a request without the known entries of memory."""
    return request_key(replace(request, existing=()))


def _find_file(path: Path, key: str) -> Path:
    return path if path.suffix == ".jsonl" else path / f"{key}.json"


def _read_recordings(path: Path) -> dict[str, Recording]:
    """Return the recordings of a JSON Lines file or of a directory of JSON files, by their keys.

    Raises:
        EngineError: replay-unreadable, for a bad file.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    recordings: dict[str, Recording] = {}
    for file in files:
        try:
            lines = read_regular(file, MAX_BYTES).splitlines()
        except OSError as error:
            raise _unreadable(f"{file}: {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                recording = msgspec.json.decode(line, type=Recording)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _unreadable(f"{file}:{number}: {error}") from error
            recordings[recording.key] = recording
    return recordings


def _unreadable(reason: str) -> EngineError:
    hint = "MEMORY_CI_REPLAY names a directory of recordings, or a JSON Lines file of them"
    message = f"recorded replies cannot be read: {reason}"
    return EngineError(message, slug="replay-unreadable", hint=hint)


class CachingEngine:
    """An engine with a cache of replies.

    The cache only has complete replies that contain no credentials and can be parsed.
    """

    def __init__(self, engine: Engine, directory: Path, *, is_reusing: bool = False) -> None:
        """Create an engine with a cache.

        Args:
            engine: the engine that is called if there is no cached reply.
            directory: the directory of the cache.
            is_reusing: whether a cached reply also counts if memory had other entries when the
                request was made. The request tells the engine these entries.
        """
        self._engine = engine
        self._directory = directory
        self._is_reusing = is_reusing
        self._cache = ReplayEngine(directory)

    def extract(self, request: Request) -> EngineReply:
        """Return the cached reply with a usage of zero, or else the reply of the engine.

        Raises:
            EngineError: as the engine.
        """
        cached_reply = self._find_cached(request)
        if cached_reply is not None:
            return replace(cached_reply, usage=Usage(), tries=0)
        reply = self._engine.extract(request)
        # A cache that cannot be written is no failure.
        with suppress(OSError, EngineError):
            if _is_cacheable(reply):
                self._cache.add(record_reply(self._directory, request, reply))
        return reply

    def _find_cached(self, request: Request) -> EngineReply | None:
        """Return the cached reply to a request; None if the cache has no reply or is broken."""
        with suppress(EngineError):
            return self._cache.extract(request)
        if self._is_reusing:
            with suppress(EngineError):
                key = _compute_key_without_entries(request)
                return self._cache.find_reply_without_entries(key)
        return None


def _is_cacheable(reply: EngineReply) -> bool:
    """Return whether a reply is complete, has no credentials, and can be parsed.

    A reply without learnings counts only if it has no invalid items either.
    """
    if reply.stop_reason != "end_turn" or find_secrets(reply.text):
        return False
    parsed = parse_reply(reply.text)
    return bool(parsed.learnings) or not parsed.reasons
