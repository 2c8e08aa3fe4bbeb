"""The resources: institutional memory, and single entries, each in the wrapper of untrusted hints."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.serve.retrieve import retrieve
from memory_ci.flows.serve.visibility import show_visible
from memory_ci.mcp.caller import Caller
from memory_ci.mcp.tools import MAX_CHARS
from memory_ci.records.retrieval import Hit
from memory_ci.rendering.context import render_context

INSTITUTIONAL = "memory://institutional"
ENTRY = "memory://entry/"


def read_resource(caller: Caller, uri: str) -> str:
    """The text of a resource. Raises UsageError (unknown-resource, unknown-entry, ambiguous-entry)."""
    if uri == INSTITUTIONAL:
        return _institutional(caller)
    if uri.startswith(ENTRY):
        return _entry(caller, unquote(uri.removeprefix(ENTRY)))
    hint = f"There are {INSTITUTIONAL} and {ENTRY}<id>."
    raise UsageError("there is no such resource", slug="unknown-resource", hint=hint)


def _institutional(caller: Caller) -> str:
    """What always applies, alone, for no word is asked for; "" where nothing does."""
    return render_context(retrieve(caller.workspace(), "", caller.options(total_chars=MAX_CHARS), caller.today))


def _entry(caller: Caller, prefix: str) -> str:
    answer = show_visible(caller.workspace(), prefix, caller.options(), caller.today)
    return render_context(msgspec.structs.replace(answer, hits=tuple(map(_bounded, answer.hits))))


def _bounded(hit: Hit) -> Hit:
    """The hit with the first part of a body that is too long."""
    entry = hit.located.entry
    if len(entry.body) <= MAX_CHARS // 2:
        return hit
    shortened = msgspec.structs.replace(entry, body=f"{entry.body[: MAX_CHARS // 2]}\n[the rest is left out]")
    return msgspec.structs.replace(hit, located=msgspec.structs.replace(hit.located, entry=shortened))
