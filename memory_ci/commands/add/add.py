"""Add: a learning of a person or an agent, put into the inbox as a file of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import FindingsError, UsageError
from memory_ci.gitrepo.blobs import read_files
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.fold import is_kept
from memory_ci.memory.forgotten import find_forgotten, tombstones_here
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.stage import current_phase
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    list_memory_files,
    readable_path,
    work_tree,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.store.document import find_long, load_file
from memory_ci.store.edits import format_entry
from memory_ci.store.files import write_file
from memory_ci.store.layout import fragment_path, parse_target
from memory_ci.store.manual_notes import demote_headings

# What may stand before a title that was written as a heading; the # of `C#` is none.
HEADING_MARK = re.compile(r"^#{1,6}(?:[ \t]+|$)")
NOTES = "memory-ci/notes"  # Where notes wait for a commit, in the git directory.


class Added(msgspec.Struct, frozen=True):
    """What became of an entry: the file it is in, and whether it was written there now. One that `is_pending` lies in
    the git directory until a commit takes it along."""

    path: str
    entry: Entry
    is_new: bool
    is_pending: bool = False


def add_entry(workspace: Workspace, entry: Entry, *, dry_run: bool = False) -> Added:
    """Write the entry to `.memory/inbox/`, unless memory has the same learning already where it is for. What quotes a
    person in a session is kept in the git directory (`sessions.marked_notes`).

    Raises FindingsError (refused-text) for what must not be in memory, UsageError (bad-scope, entry-not-writable),
    RepositoryError (bare-repository, write-failed).
    """
    root = work_tree(workspace)
    target = parse_target(entry.scope or "project")
    head = find_commit(workspace.repo, "HEAD")
    if entry.phase is None and head:
        entry = replace(entry, phase=current_phase(workspace, head, target.where))
    if target.name == "global":
        hint = "Write it into the MEMORY.md that `global.path` of the configuration names."
        raise UsageError(
            "global memory lies outside of this repository", slug="bad-scope", hint=hint
        )
    entry = replace(entry, scope=target.target)
    (entry,) = cite_named(workspace, [entry], head) if head else (entry,)
    text = format_entry(entry)
    new = Located(entry, "", 1, target)
    for finding in find_long(new):
        raise FindingsError(f"not added: {finding.message}", slug="refused-text", hint=finding.hint)
    for finding in (*find_unsafe(new), *find_forgotten(tombstones_here(workspace), new)):
        slug = "forgotten" if finding.code == "forgotten" else "refused-text"
        raise FindingsError(f"not added: the text {finding.message}", slug=slug, hint=finding.hint)
    if known := _find_known(workspace, new):
        return Added(known.path, known.entry, is_new=False)
    path = fragment_path(entry.id)
    is_accepted = any(
        line.startswith("accepted ") for line in entry.evidence
    )  # by a person, who commits it
    if any(line.startswith("session:") for line in entry.evidence) and not (is_accepted or dry_run):
        from memory_ci.sessions.marked_notes import keep_note

        place = keep_note(workspace, entry.id, text.encode())
        name = place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
        return Added(name, entry, is_new=True, is_pending=name != path)
    if entry.evidence and (quotes := workspace.config.evidence.quotes) != "full":
        from memory_ci.extraction.entries import (
            trim_evidence,
        )  # modules that most notes need not wait for

        entry = trim_evidence(entry, quotes)
    if not dry_run:
        write_file(root / path, format_entry(entry).encode(), root)
    return Added(path, entry, is_new=True)


def quote_person(
    workspace: Workspace,
    entry: Entry,
    quoted: str | int,
    keys: Sequence[str],
    home: Path,
    now: datetime,
) -> Entry:
    """The entry with a person's words as its evidence, or what steers in a turn of that number, and cites of what was
    edited because of them. `keys` name the session.

    Raises UsageError: bad-scope, too-many-marks, opposite-of-the-quotes, and what `read_session`, `find_quote` and
    `find_turn` raise.
    """
    from memory_ci.memory.named_code import read_cite
    from memory_ci.memory.quotes import MAX_MARKS, check_title, find_quote, find_turn
    from memory_ci.sessions.quote import read_session

    if parse_target(entry.scope or "project").name == "institutional":
        hint = "Leave --scope out: people promote what always holds."
        raise UsageError("no quote makes a learning institutional", slug="bad-scope", hint=hint)
    session = read_session(workspace, keys, home, now)
    evidence, edited = (
        find_turn(session, quoted) if isinstance(quoted, int) else find_quote(session, quoted)
    )
    if entry.adoption != "rejected":
        check_title(session, entry.title, evidence)
    mark = f"session:{session.key}#".encode()
    if sum(data.count(mark) for data in _read_kept(workspace).values()) >= MAX_MARKS:
        message = f"the session {session.key} added {MAX_MARKS} quotes already"
        raise UsageError(
            message,
            slug="too-many-marks",
            hint="Tell the person; anybody adds a note without a quote.",
        )
    cites = list(entry.cites)
    for path in edited if not cites else ():
        with suppress(UsageError):  # what HEAD does not have yet
            cites.append(read_cite(workspace, path))
    return replace(entry, evidence=(evidence,), cites=tuple(cites))


def _find_known(workspace: Workspace, new: Located) -> Located | None:
    """An entry that says the same where it is for; few files hold its words, but for case and blanks."""
    words = " ".join(new.entry.body.lower().split())
    for path, data in _read_kept(workspace).items():
        if words in " ".join(data.decode("utf-8", "replace").lower().split()):
            for known in load_file(path, data, workspace.config.scopes).entries:
                if is_kept(new, known):
                    return known
    return None


def _read_kept(workspace: Workspace) -> dict[str, bytes]:
    """The memory files of the work tree, and the notes that wait for a commit, by path."""
    kept = read_files(workspace.repo, list_memory_files(workspace, None), MAX_FILE_BYTES)
    found = {readable_path(content.file): content.data or b"" for content in kept}
    if not (workspace.repo.git_dir / NOTES).is_dir():
        return found
    from memory_ci.sessions.marked_notes import (
        read_pending,
    )  # modules that most notes need not wait for

    return read_pending(workspace) | found


def split_text(text: str) -> tuple[str, str]:
    """Title and body of a learning written as free text: its first line, and the rest. Raises UsageError (empty-entry)
    when there is no text."""
    first, _, body = text.strip().partition("\n")
    title = HEADING_MARK.sub("", first).strip()
    if not title:
        raise UsageError(
            "there is nothing to add", slug="empty-entry", hint="Write a title line, then the body."
        )
    return title, body.strip()


def draft_entry(entry_id: str, today: date, text: tuple[str, str], **fields: object) -> Entry:
    """A new active entry; raises UsageError (bad-value) for a field out of its range."""
    title, body = text
    values = {
        "id": entry_id,
        "reinforcement_count": 0,
        "last_reinforced": today,
        "status": "active",
        "created_at": today,
        "title": " ".join(title.split()),
        "body": demote_headings(body.strip()),
    }
    return msgspec.convert(values | fields, Entry, strict=False)
