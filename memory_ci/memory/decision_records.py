"""Architecture decision records that no longer hold, and the entries learned from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.extraction.decisions import find_withdrawal
from memory_ci.lifecycle.compaction import make_retirement, may_retire
from memory_ci.memory.commit_texts import fold_blanks
from memory_ci.memory.workspace import MAX_FILE_BYTES, Snapshot
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.sources.commits import compile_globs
from memory_ci.text import count_words, shorten

MIN_QUOTED_WORDS = 4
"""Number of words of a quote that identify the record that holds them."""

MAX_WHY = 150
"""Number of characters of the reason for a retirement."""


class WithdrawnRecord(NamedTuple):
    """A decision record that no longer holds.

    Attributes:
        text: its text with single blanks.
        status: what its status says: `superseded by 2. Use B`.
    """

    text: str
    status: str


def plan_withdrawals(tip: Snapshot, located: Sequence[Located]) -> Iterator[Change]:
    """Yield the retirement of each entry that was learned from a record that no longer holds.

    Args:
        tip: the commit with the decision records.
        located: the entries.
    """
    if not any(may_retire(located_entry.entry) for located_entry in located):
        return
    records = _read_withdrawn(tip)
    for located_entry in located:
        if not may_retire(located_entry.entry):
            continue
        path = _find_record(located_entry.entry, records)
        if path:
            yield make_retirement(
                located_entry, shorten(f"{path} is {records[path].status}", MAX_WHY)
            )


def _read_withdrawn(tip: Snapshot) -> Mapping[str, WithdrawnRecord]:
    """Read the decision records of a commit, and return those that no longer hold, by path."""
    globs = compile_globs(tip.workspace.config.extraction.adr_paths)
    paths = [path for path in tip.tree.files if any(glob.fullmatch(path) for glob in globs)]
    records: dict[str, WithdrawnRecord] = {}
    if not paths:
        return records
    for content in tip.tree.read(paths, MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "replace")
        status = find_withdrawal(text)
        if status:
            records[content.file.path] = WithdrawnRecord(fold_blanks(text), status)
    return records


def _find_record(entry: Entry, records: Mapping[str, WithdrawnRecord]) -> str:
    """Return the path of the record that an entry cites or quotes, or "".

    A quote is a line of evidence such as `commit:1a2b3c4 Use one client for all calls`.
    """
    anchors = [parse_anchor(cite) for cite in entry.cites]
    cited_paths = {anchor.path for anchor in anchors if anchor is not None}
    for path in records:
        if path in cited_paths:
            return path
    for line in entry.evidence:
        origin, _, quote = line.partition(" ")
        if not origin.startswith("commit:") or count_words(quote) < MIN_QUOTED_WORDS:
            continue
        for path, record in records.items():
            if fold_blanks(quote) in record.text:
                return path
    return ""
