"""Feeding the index with feedback: what episode files say of entries, without a text that must not be served."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec.structs import replace

from memory_ci.flows.episodes import read_episode_files
from memory_ci.flows.screening import CREDENTIAL_HINT, find_unsafe_text, is_unsafe
from memory_ci.flows.workspace import Workspace, readable_path
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.records.entry import PROJECT
from memory_ci.records.episode import Feedback
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.episodes import ParsedEpisodes, is_episode_path

LinedFeedback = tuple[int, Feedback]


def load_feedback(workspace: Workspace, files: Sequence[TreeFile]) -> Iterator[LoadedFile]:
    """What each file says of entries; one that is no episode file says nothing."""
    for file in files:
        if not is_episode_path(file.path):
            yield LoadedFile(path=readable_path(file), scope=PROJECT)
    for _, read in read_episode_files(workspace, [file for file in files if is_episode_path(file.path)]):
        said = [(line, one) for line, told in zip(read.lines, read.tellings, strict=True) for one in told.feedback]
        feedback = tuple((line, mask_feedback(one)) for line, one in said)
        found = tuple(_find_unsafe(read, said))
        yield LoadedFile(path=read.path, scope=PROJECT, feedback=feedback, findings=(*read.findings, *found))


def mask_feedback(said: Feedback) -> Feedback:
    """The same event, its unsafe texts by a digest: it still counts, once and beside those of the same job."""
    return replace(said, id=_mask(said.id), by=_mask(said.by), ref=_mask(said.ref))


@lru_cache(maxsize=8192)  # the same names and ids come again and again
def _mask(text: str) -> str:
    if not text or not is_unsafe(text):
        return text
    return f"[withheld:{hashlib.sha256(text.encode()).hexdigest()[:8]}]"


def _find_unsafe(read: ParsedEpisodes, said: Sequence[LinedFeedback]) -> Iterator[Finding]:
    for line, one in said:
        text = "\n".join((one.id, one.by, one.ref))
        if mask_feedback(one) == one:
            continue
        found = tuple(find_unsafe_text(read.path, line, text))
        message = "feedback holds what looks like a credential"
        yield from found or (Finding(read.path, line, "credential", message, CREDENTIAL_HINT),)
