"""New entries of people and agents, written into the inbox as files of their own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress
from datetime import date, datetime
from itertools import chain
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import FindingsError, UsageError
from memory_ci.gitrepo.blobs import read_files
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.forgotten import find_forgotten_here
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    list_memory_files,
    readable_path,
    work_tree,
)
from memory_ci.records.entry import Entry, Located
from memory_ci.regex import Regex
from memory_ci.store.edits import format_entry
from memory_ci.store.files import write_file
from memory_ci.store.layout import INTENT_FILE, fragment_path, parse_target
from memory_ci.store.memory_files import check_length, load_file
from memory_ci.text import content_words

HEADING_MARK = Regex(r"^#{1,6}(?:[ \t]+|$)")
"""The mark of a title that was written as a heading; the # of `C#` is not a mark."""

CODE_SIGN = Regex(r"[`_(/#$]|::|\.\w|[a-z\d][A-Z]")
"""A sign without which a text writes no name as code (`anchors.symbols.list_mentions`)."""

LEVEL_TWO_HEADING = Regex(r"##|---")  # Without one a text has no heading of level 2.

NOTES_FOLDER = "memory-ci/notes"
"""In the git directory: the folder of notes that wait for a commit."""


class Added(msgspec.Struct, frozen=True):
    """The result for an entry.

    Attributes:
        path: the file of the entry.
        entry: the entry.
        is_new: it was written there now.
        is_pending: it lies in the git directory until a commit takes it along.
    """

    path: str
    entry: Entry
    is_new: bool
    is_pending: bool = False


def add_entry(workspace: Workspace, entry: Entry, *, dry_run: bool = False) -> Added:
    """Write a new entry to `.memory/inbox/`, unless memory has the same entry already.

    An entry that quotes a person in a session is written to the git directory instead; the next
    commit of the session's work includes it (`sessions.marked_notes`).

    Args:
        workspace: the repository and its configuration.
        entry: the entry.
        dry_run: write nothing.

    Raises:
        FindingsError: the text must not be in memory (refused-text, forgotten).
        UsageError: bad-scope, entry-not-writable.
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    new_entry = _complete_fields(workspace, entry)
    entry = new_entry.entry
    text = format_entry(entry)  # raises for an entry that cannot be written
    _refuse_forbidden_text(workspace, new_entry)

    existing = _find_equal_entry(workspace, new_entry)
    if existing is not None:
        return Added(existing.path, existing.entry, is_new=False)
    if _waits_for_commit(entry) and not dry_run:
        return _write_pending_note(workspace, entry, text)

    # Modules that few entries need are imported only where one does: agents wait for this command.
    quotes = workspace.config.evidence.quotes
    if entry.evidence and quotes != "full":
        from memory_ci.extraction.entries import trim_evidence

        entry = trim_evidence(entry, quotes)
    inbox_path = fragment_path(entry.id)
    if not dry_run:
        write_file(root / inbox_path, format_entry(entry).encode(), root)
    return Added(inbox_path, entry, is_new=True)


def _write_pending_note(workspace: Workspace, entry: Entry, text: str) -> Added:
    """Write an entry where it waits for the next commit of the session's work.

    That is in the git directory; or in the inbox, where the git directory cannot be written.

    Args:
        workspace: the repository.
        entry: the entry.
        text: the text of its file.
    """
    from memory_ci.sessions.marked_notes import write_note

    root = work_tree(workspace)
    note_path = write_note(workspace, entry.id, text.encode())
    path = str(note_path)
    if note_path.is_relative_to(root):
        path = note_path.relative_to(root).as_posix()
    is_in_inbox = path == fragment_path(entry.id)
    return Added(path, entry, is_new=True, is_pending=not is_in_inbox)


def _complete_fields(workspace: Workspace, entry: Entry) -> Located:
    """Return a new entry with its phase, its scope and cites of the code that its text names.

    The phase is the stage of the project, by its INTENT.md. The path is "" and the line 1, for the
    entry is in no file yet.

    Raises:
        UsageError: bad-scope.
    """
    scope = parse_target(entry.scope or "project")
    if scope.name == "global":
        message = "global memory lies outside of this repository"
        hint = "Write it into the MEMORY.md that `global.path` of the configuration names."
        raise UsageError(message, slug="bad-scope", hint=hint)
    entry = replace(entry, scope=scope.target)

    head = find_commit(workspace.repo, "HEAD")
    file_names = _list_file_names(workspace, head) if head else frozenset[str]()
    # Modules that few entries need are imported only where one does: agents wait for this command.
    if entry.phase is None and head and INTENT_FILE in file_names:
        from memory_ci.memory.stage import read_current_phase

        entry = replace(entry, phase=read_current_phase(workspace, head, scope.where))
    if head and _may_have_cites(entry, file_names):
        from memory_ci.memory.named_code import cite_named

        (entry,) = cite_named(workspace, [entry], head)
    return Located(entry, path="", line=1, scope=scope)


def _list_file_names(workspace: Workspace, commit: str) -> frozenset[str]:
    """Return the names of the files of a commit, without their directories."""
    paths = workspace.at(commit).tree.files
    return frozenset(path.rpartition("/")[2] for path in paths)


def _may_have_cites(entry: Entry, file_names: Set[str]) -> bool:
    """Return whether an entry has cites, or seems to name code or a file."""
    if entry.cites or CODE_SIGN.search(entry.text):
        return True
    return any(name in entry.text for name in file_names)


def _refuse_forbidden_text(workspace: Workspace, new_entry: Located) -> None:
    """Refuse an entry that is too long, unsafe for agents, or was forgotten on demand.

    The first of several reasons is reported.

    Raises:
        FindingsError: refused-text, forgotten.
    """
    length_finding = next(iter(check_length(new_entry)), None)
    if length_finding is not None:
        message = f"not added: {length_finding.message}"
        raise FindingsError(message, slug="refused-text", hint=length_finding.hint)

    text_findings = chain(find_unsafe_entry(new_entry), find_forgotten_here(workspace, new_entry))
    text_finding = next(text_findings, None)
    if text_finding is not None:
        slug = "forgotten" if text_finding.code == "forgotten" else "refused-text"
        message = f"not added: the text {text_finding.message}"
        raise FindingsError(message, slug=slug, hint=text_finding.hint)


def _waits_for_commit(entry: Entry) -> bool:
    """Return whether an entry waits for the next commit of a session: it quotes the session.

    An entry that a person accepted does not wait: the person commits it.
    """
    is_accepted = any(line.startswith("accepted ") for line in entry.evidence)
    quotes_session = any(line.startswith("session:") for line in entry.evidence)
    return quotes_session and not is_accepted


def quote_person(
    workspace: Workspace,
    entry: Entry,
    quoted: str | int,
    *,
    session_keys: Sequence[str],
    home: Path,
    now: datetime,
) -> Entry:
    """Return an entry with the words of a person as its evidence.

    Files that were edited because of these words become its cites, if it has none.

    Args:
        workspace: the repository and its configuration.
        entry: the entry.
        quoted: the words, or the number of a turn (one exchange of the session), whose words by
            which the person corrects the agent are quoted.
        session_keys: the session, as `<agent>:<id>` or an id; empty for the one at work in this
            work tree.
        home: the home of the user, where agents store transcripts.
        now: the time.

    Raises:
        UsageError: bad-scope, too-many-marks, opposite-of-the-quotes, and the errors of
            `read_session`, `find_quote` and `quote_turn`.
    """
    from memory_ci.memory.named_code import read_cite
    from memory_ci.memory.quotes import check_title, find_quote, quote_turn
    from memory_ci.sessions.quote import read_session

    if parse_target(entry.scope or "project").name == "institutional":
        message = "no quote makes a learning institutional"
        hint = "Leave --scope out: people promote what always holds."
        raise UsageError(message, slug="bad-scope", hint=hint)
    session = read_session(workspace, session_keys, home, now)
    if isinstance(quoted, int):
        evidence, edited_paths = quote_turn(session, quoted)
    else:
        evidence, edited_paths = find_quote(session, quoted)
    if entry.adoption != "rejected":
        check_title(session, entry.title, evidence)
    _refuse_quote_over_limit(workspace, session.key)

    cites = list(entry.cites)
    if not cites:
        for path in edited_paths:
            with suppress(UsageError):  # HEAD does not have the file yet.
                cites.append(read_cite(workspace, path))
    return replace(entry, evidence=(evidence,), cites=tuple(cites))


def _refuse_quote_over_limit(workspace: Workspace, session_key: str) -> None:
    """Refuse another quote of a session that added as many entries with a quote as it may.

    Such an entry is a mark of its session: it has `session:KEY#TURN` in its evidence.

    Raises:
        UsageError: too-many-marks.
    """
    from memory_ci.memory.quotes import MAX_QUOTES_PER_SESSION

    mark = f"session:{session_key}#".encode()
    count = sum(data.count(mark) for data in _read_memory_texts(workspace).values())
    if count >= MAX_QUOTES_PER_SESSION:
        message = f"the session {session_key} added {MAX_QUOTES_PER_SESSION} quotes already"
        hint = "Tell the person; anybody adds a note without a quote."
        raise UsageError(message, slug="too-many-marks", hint=hint)


def _find_equal_entry(workspace: Workspace, new_entry: Located) -> Located | None:
    """Return an entry of the same scope that says the same as a new one, or None.

    Only files that contain the new body, whatever its case and line breaks, and the words of the
    new title are parsed: few do.
    """
    needed_texts = (_normalise_words(new_entry.entry.body), *content_words(new_entry.entry.title))
    for path, data in _read_memory_texts(workspace).items():
        text = _normalise_words(data.decode("utf-8", "replace"))
        if not all(needed_text in text for needed_text in needed_texts):
            continue
        for located in load_file(path, data, workspace.config.scopes).entries:
            from memory_ci.lifecycle.fold import is_restated_by  # few notes are known in part

            if is_restated_by(new_entry, located):
                return located
    return None


def _normalise_words(text: str) -> str:
    """Return a text in lower case, with one blank between words."""
    return " ".join(text.lower().split())


def _read_memory_texts(workspace: Workspace) -> dict[str, bytes]:
    """Return the memory files of the work tree, and the notes that wait for a commit, by path."""
    contents = read_files(workspace.repo, list_memory_files(workspace, None), MAX_FILE_BYTES)
    texts = {readable_path(content.file): content.data or b"" for content in contents}
    if not (workspace.repo.git_dir / NOTES_FOLDER).is_dir():
        return texts
    from memory_ci.sessions.marked_notes import read_pending  # Here, for few entries need it.

    return read_pending(workspace) | texts


def split_text(text: str) -> tuple[str, str]:
    """Return the title and body of free text: its first line and the others.

    Raises:
        UsageError: there is no text (empty-entry).
    """
    first_line, _, body = text.strip().partition("\n")
    title = HEADING_MARK.sub("", first_line).strip()
    if not title:
        hint = "Write a title line, then the body."
        raise UsageError("there is nothing to add", slug="empty-entry", hint=hint)
    return title, body.strip()


def draft_entry(entry_id: str, today: date, text: tuple[str, str], **fields: object) -> Entry:
    """Return a new active entry.

    Args:
        entry_id: its id.
        today: the day of its creation.
        text: its title and body.
        **fields: its other fields.

    Raises:
        UsageError: a field is out of its range (bad-value).
    """
    title, body = text
    body = body.strip()
    if LEVEL_TWO_HEADING.search(body):
        from memory_ci.store.manual_notes import demote_headings  # few notes have headings

        body = demote_headings(body)
    values = {
        "id": entry_id,
        "reinforcement_count": 0,
        "last_reinforced": today,
        "status": "active",
        "created_at": today,
        "title": " ".join(title.split()),
        "body": body,
    }
    return msgspec.convert(values | fields, Entry, strict=False)
