"""What other tools of the field are asked with, and in what form each is given the same learnings.

The formats and commands are those that each tool's README and `--help` show, and what its own commands write.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry

Placed = tuple[str, str]
"""(the file an entry goes to, the text to append to it)."""


class Peer(NamedTuple):
    """A tool: what pip installs, where it keeps an entry, and its commands; the query is the last argument of `ask`.

    `refresh` is what must run before `ask` sees a change, where `ask` does not see to that itself. `mark` is how an
    entry shows in the answer. `derived` is its index file. `place_aside` is another place for new entries, which is
    measured too.
    """

    name: str
    requirement: str
    place: Callable[[Entry], Placed]
    derived: str
    build: tuple[str, ...]
    ask: tuple[str, ...]
    init: tuple[str, ...] = ()
    refresh: tuple[str, ...] = ()
    mark: Callable[[Entry], str] = lambda entry: entry.id
    place_aside: Callable[[Entry], Placed] | None = None


def place_ours(entry: Entry) -> Placed:
    """All entries in the project's one file, as `record` leaves them."""
    return "MEMORY.md", format_entry(entry) + "\n"


def place_in_inbox(entry: Entry) -> Placed:
    """A file for the entry, as `add` leaves it."""
    return f".memory/inbox/{entry.id}.md", format_entry(entry)


def place_agentlore(entry: Entry) -> Placed:
    """A heading with its data in a comment, as `agentlore add --type convention` writes it."""
    data = f"id: {entry.id}\ntype: convention\nstatus: accepted\nauthor: Ada\ncreated: {entry.created_at}\n"
    stamps = "verified_at: \nanchor_hash: \nanchor_norm: \n"
    return (
        ".memory/conventions.md",
        f"\n## {entry.title}\n<!-- agentlore\n{data}{stamps}-->\n\n{entry.body}\n",
    )


def place_ctxmem(entry: Entry) -> Placed:
    """A line of JSON, as `ctxmem remember` writes it."""
    record = {
        "id": entry.id.replace("-", "")[:12],
        "ts": f"{entry.created_at}T00:00:00+00:00",
        "type": "note",
        "branch": "main",
        "commit": "none",
        "path": "",
        "file_hash": "",
        "title": entry.title,
        "content": entry.body,
        "tags": [],
        "supersedes": "",
    }
    return ".ctxmem/memory.jsonl", json.dumps(record) + "\n"


def place_oldhand(entry: Entry) -> Placed:
    """A file for each record, as `oldhand new` writes it; the text is in the summary, which it ranks highest."""
    when = f"{entry.created_at}T00:00:00+00:00"
    data = (
        f"schema_version: 1\nid: {entry.id}\ntype: lesson\nstatus: current\nimportance: normal\nscope: subsystem\n"
        "risk: low\ndurability: situational\nevidence: documented\ntopics:\n- work\n"
        f"created_at: {when}\nupdated_at: {when}\nexpires_at: null\nrelations: {{}}\n"
    )
    text = f"# {entry.title}\n\n## Summary\n\n{entry.body}\n\n## Knowledge\n\nSee above.\n"
    rest = "\n## Verification\n\nSeen.\n\n## References\n\n-\n"
    return f"memory/lessons/{entry.id}.md", f"---\n{data}---\n\n{text}{rest}"


OURS = Peer(
    "memory-ci",
    "memory-ci",
    place_ours,
    ".git/memory-ci/index.db",
    build=("index",),
    ask=("retrieve", "--ids", "--limit", "10", "--max-chars", "100000"),
    place_aside=place_in_inbox,
)
PEERS = (
    OURS,
    Peer(
        "agentlore 0.9.1",
        "agentlore==0.9.1",
        place_agentlore,
        ".memory/index.db",
        build=("index",),
        ask=("recall", "--limit", "10", "--budget", "100000"),
        init=("init",),
    ),
    Peer(
        "ctxmem 2.2.0",
        "ctxmem==2.2.0",
        place_ctxmem,
        ".ctxmem/index.db",
        build=("sync",),
        ask=("recall", "--limit", "10"),
        init=("init",),
        refresh=("sync",),
        mark=lambda entry: f"[note] {entry.title}",
    ),
    Peer(
        "oldhand 0.6.0b1",
        "oldhand==0.6.0b1",
        place_oldhand,
        ".oldhand/oldhand.db",
        build=("rebuild",),
        ask=("search", "--json", "--limit", "10"),
        init=("init", "."),
    ),
)
