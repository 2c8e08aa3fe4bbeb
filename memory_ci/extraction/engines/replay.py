"""The replay engine: recorded replies, keyed by a hash of the prompt. A prompt that nobody recorded fails the run.

A recording is one JSON object: in a directory the file `<key>.json`, else a line of a JSON Lines file, where the last
of one key counts. Each says its origin, `model <id>` or `hand-written`: the latter proves robustness, never quality.

A reply that a model gave to the same prompt before is kept, not asked and not paid for again: `record` after `record
--dry-run` writes what was shown, and a range from which nothing was learned, which leaves no commit behind, costs once.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

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
NAMELESS = "(unnamed)"  # What a program answered that does not say which model it asked.
MAX_BYTES = 200_000_000  # Of one file of recordings.


class Recording(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One recorded reply; `change` is for people who look for it. `question` is the key of the request without what it
    shows of memory."""

    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    origin: Annotated[str, msgspec.Meta(pattern=r"^(?:hand-written|model \S+)$")]
    change: str = ""
    question: Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{64})?$")] = ""
    text: str
    stop_reason: str = "end_turn"
    usage: Usage = Usage()


class ReplayEngine:
    """Answers with what is recorded in `path`, a directory or a JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recordings: dict[str, Recording] | None = None

    def extract(self, request: Request) -> EngineReply:
        """The recorded reply. Raises EngineError: replay-miss when there is none, replay-unreadable for a bad file."""
        key = request_key(request)
        found = self._load().get(key)
        if found is None:
            told = f"no reply is recorded for {request.change} under the key {key} in {self._path}"
            hint = f"record one as {_place(self._path, key)}, with its key, origin and text"
            raise EngineError(told, slug="replay-miss", hint=hint)
        return _reply_of(found)

    def find_question(self, question: str) -> EngineReply | None:
        """Return the last reply to a request that differs at most in what it showed of memory.

        Raises:
            EngineError: replay-unreadable for a bad file.
        """
        found = [one for one in self._load().values() if one.question == question]
        return _reply_of(found[-1]) if found else None

    def add(self, recording: Recording) -> None:
        """Answer with this recording, too."""
        self._load()[recording.key] = recording

    def _load(self) -> dict[str, Recording]:
        if self._recordings is None:
            self._recordings = _load(self._path)
        return self._recordings


def _reply_of(recording: Recording) -> EngineReply:
    model = recording.origin.removeprefix("model ").removesuffix(NAMELESS)
    return EngineReply(
        text=recording.text, stop_reason=recording.stop_reason, usage=recording.usage, model=model
    )


def record_reply(
    path: Path, request: Request, reply: EngineReply, *, is_hand_written: bool = False
) -> Recording:
    """Keep `reply` where `ReplayEngine(path)` finds it: in a file `*.jsonl` as a line more, else in a directory."""
    recording = Recording(
        key=request_key(request),
        origin=HAND_WRITTEN if is_hand_written else f"model {reply.model or NAMELESS}",
        change=request.change,
        question=_question_of(request),
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
        _place(path, recording.key).write_bytes(line)
    return recording


def _question_of(request: Request) -> str:
    """Return the key of a request without what it shows of memory."""
    return request_key(replace(request, existing=()))


def _place(path: Path, key: str) -> Path:
    return path if path.suffix == ".jsonl" else path / f"{key}.json"


def _load(path: Path) -> dict[str, Recording]:
    recordings: dict[str, Recording] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            lines = read_regular(file, MAX_BYTES).splitlines()
        except OSError as error:
            _refuse(f"{file}: {error.strerror}", error)
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    found = msgspec.json.decode(line, type=Recording)
                    recordings[found.key] = found
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                _refuse(f"{file}:{number}: {error}", error)
    return recordings


def _refuse(told: str, error: Exception) -> NoReturn:
    hint = "MEMORY_CI_REPLAY names a directory of recordings, or a JSON Lines file of them"
    raise EngineError(
        f"recorded replies cannot be read: {told}", slug="replay-unreadable", hint=hint
    ) from error


class KeptReplies:
    """An engine before which a directory is asked. It only holds replies that ended by themselves, of which a
    learning could be read if there was any, and that hold no credentials.

    Args:
        engine: what is asked where no reply is kept.
        directory: where replies are kept.
        is_reusing: answer with what was replied to the same question when memory held other entries.
    """

    def __init__(self, engine: Engine, directory: Path, *, is_reusing: bool = False) -> None:
        self._engine, self._directory, self._is_reusing = engine, directory, is_reusing
        self._kept = ReplayEngine(directory)

    def extract(self, request: Request) -> EngineReply:
        """The reply of before, which took no try and no token, else that of the engine. Raises as the engine."""
        if (kept := self._find(request)) is not None:
            return replace(kept, usage=Usage(), tries=0)
        reply = self._engine.extract(request)
        if reply.stop_reason == "end_turn" and not find_secrets(reply.text):
            with suppress(OSError, EngineError):
                read = parse_reply(reply.text)
                if read.learnings or not read.reasons:
                    self._kept.add(record_reply(self._directory, request, reply))
        return reply

    def _find(self, request: Request) -> EngineReply | None:
        with suppress(EngineError):
            return self._kept.extract(request)
        if self._is_reusing:
            with suppress(EngineError):
                return self._kept.find_question(_question_of(request))
        return None
