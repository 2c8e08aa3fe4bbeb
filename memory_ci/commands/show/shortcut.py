"""`memory-ci list` with or without click: the table of its options, and its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from memory_ci.cli.plain import (
    Option,
    echo,
    echo_json,
    open_current_workspace,
    say,
    terminal_width,
    warn,
)
from memory_ci.records.entry import EntryType, Located

if TYPE_CHECKING:
    from memory_ci.commands.show.entry_list import EntryList

COLUMNS = (
    "id title type scope status prominence served used importance last_reinforced path line".split()
)
"""The columns of `list --format csv`, each a key of its JSON."""

NO_ENTRIES = "No entries yet: `memory-ci record` learns from merged work, `memory-ci add` by hand."

OPTIONS = (
    Option("--type types", "Only this type.", choices=get_args(EntryType), is_multiple=True),
    Option("--at view", "Look at this revision instead of the work tree.", metavar="REV"),
    Option(
        "--format form",
        "Text for people, JSON (as --json), CSV, or the ids alone, one a line.",
        choices=("table", "json", "csv", "ids"),
        default="table",
    ),
    Option("--json as_json", "Print JSON instead of text.", kind=bool),
)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run`, None if click has to report an error."""
    return None if words else values


def run(types: tuple[str, ...], view: str | None, form: str, as_json: bool) -> None:
    """Print the entries of memory, the most prominent first.

    Args:
        types: print only entries of these types; () prints all.
        view: a revision; None is the work tree.
        form: the format: `table`, `json`, `csv` or `ids`.
        as_json: print JSON whatever the format.
    """
    from memory_ci.api import Memory

    listing = Memory(open_current_workspace(), view).list()
    warn(listing.findings)
    ranked = [
        (listed.prominence, listed.located)
        for listed in listing.entries
        if not types or listed.located.entry.type in types
    ]
    if not ranked and not listing.findings:
        say("No entry of this type." if listing.entries else NO_ENTRIES, err=True)
    if as_json or form == "json":
        echo_json(_make_records(ranked, listing))
    elif form == "csv":
        from memory_ci.cli.terminal import render_csv
        from memory_ci.secrets import mask_secrets

        records = _make_records(ranked, listing)
        rows = [[record[name] for name in COLUMNS] for record in records]
        echo(mask_secrets(render_csv(COLUMNS, rows)))
    elif form == "ids":
        echo("".join(f"{located.entry.id}\n" for _, located in ranked))
    else:
        from memory_ci.cli.terminal import render_entries

        say(render_entries(ranked, listing.usage, terminal_width(sys.stdout, os.environ)))


def _make_records(
    ranked: Sequence[tuple[float, Located]], listing: EntryList
) -> list[dict[str, Any]]:
    """Return each entry as a JSON object, with its place, its prominence and its use."""
    from msgspec import to_builtins

    from memory_ci.records.episode import UseCount

    records = []
    for prominence, located in ranked:
        use_count = listing.usage.get(located.entry.id, UseCount())
        record = to_builtins(located.entry)
        record["scope"] = located.scope.target
        record["path"] = located.path
        record["line"] = located.line
        record["prominence"] = prominence
        record["served"] = use_count.served_count
        record["used"] = use_count.used_count
        records.append(record)
    return records
