"""Notes of agents (entries they propose), kept in the git directory until a commit has them.

In the work tree a note would block a stash, a rebase or a pull, and most ways to commit would leave
it behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_commit, find_hooks
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace, work_tree
from memory_ci.records.entry import Located
from memory_ci.sessions.session_note import list_activities
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, fragment_path

# The functions import what reads and writes notes: most hooks find that there are none.

SESSION_PREFIX = (
    "session:"  # The beginning of a line of evidence that quotes a person in a session.
)
MAX_NOTES = 1_000  # Notes that are read, the oldest first; a session adds three.
NOTE_NAME = "note.md"  # The path for the parser of entries, which no message shows.
EXCLUDED_REFS = ("--exclude=refs/stash", "--exclude=refs/memory-ci/*")
NOTE_HOOKS = ("pre-commit", "prepare-commit-msg")
"""The hooks of git that add notes to a commit."""


class _Note(msgspec.Struct, frozen=True):
    """A note in the git directory.

    Attributes:
        path: the file of the note in the git directory.
        is_committed: whether a commit has already added the note to the inbox.
    """

    path: Path
    is_committed: bool


def write_note(workspace: Workspace, entry_id: str, data: bytes) -> Path:
    """Write a note into the git directory, else into the inbox, and return its path.

    The inbox is a directory of the work tree. It gets the note in two cases. An agent may not be
    allowed to write to the git directory: then its next hook moves the note there. Or no hook of
    git that adds notes to a commit is installed (in a cloud agent's clone): then the note is
    committed from the inbox like any file.

    Raises:
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    head = find_commit(workspace.repo, "HEAD") or "unborn"
    note_path = _get_notes_directory(workspace) / f"{entry_id}.{head}.md"
    inbox_path = root / fragment_path(entry_id)
    try:
        hooks = find_hooks(workspace.repo)
        if any((hooks / name).exists() for name in NOTE_HOOKS):
            note_path.parent.mkdir(parents=True, exist_ok=True)
            write_file(note_path, data)
            return note_path
    except (OSError, RepositoryError):
        pass  # the inbox gets the note
    write_file(inbox_path, data, root)
    return inbox_path


def collect_notes(workspace: Workspace, key: str) -> None:
    """Move the untracked notes of a session `<agent>:<id>` from the inbox to the git directory.

    Raises:
        RepositoryError: git-failed, write-failed.
    """
    root = workspace.repo.root
    if root is None or not any((root / INBOX).glob("*.md")):
        return
    listing = run_git(root, "ls-files", "-z", "--others", "--", f":(top,literal){INBOX}")
    for name in decode_path(listing).split("\0")[:-1]:
        path = root / name
        data = _read(path)
        if not _is_of_session(data, key):
            continue
        if write_note(workspace, path.stem, data) != path:
            path.unlink()


def list_note_ids(workspace: Workspace) -> set[str]:
    """Return the ids of all notes in the inbox and the git directory, without a git process."""
    paths = (*_get_notes_directory(workspace).glob("*.md"), *_list_inbox(workspace))
    return {path.name.partition(".")[0] for path in paths}


def read_pending(workspace: Workspace) -> dict[str, bytes]:
    """Return the texts of the notes that no commit of this repository has, by inbox path."""
    return {
        inbox_path: _read(note.path)
        for inbox_path, note in _find_notes(workspace).items()
        if not note.is_committed
    }


def load_pending(workspace: Workspace) -> list[Located]:
    """Return the pending notes as entries, with the paths of the notes."""
    from memory_ci.store.memory_files import load_file

    entries: list[Located] = []
    for inbox_path, note in _find_notes(workspace).items():
        if note.is_committed:
            continue
        file = load_file(inbox_path, _read(note.path), workspace.config.scopes)
        path = str(note.path)
        entries += [replace(located, path=path, line=1) for located in file.entries]
    return entries


def read_notes(workspace: Workspace, key: str) -> list[bytes]:
    """Return the texts of the pending notes of a session `<agent>:<id>`, each once."""
    in_inbox = [_read(path) for path in _list_inbox(workspace)]
    texts = dict.fromkeys([*read_pending(workspace).values(), *in_inbox])
    return [data for data in texts if _is_of_session(data, key)]


def _is_of_session(data: bytes, key: str) -> bool:
    return f"{SESSION_PREFIX}{key}#".encode() in data


def _list_inbox(workspace: Workspace) -> Iterator[Path]:
    return ((workspace.repo.root or Path()) / INBOX).glob("*.md")


def _find_notes(workspace: Workspace) -> dict[str, _Note]:
    """Return the notes in the git directory by the paths that they will have in the inbox."""
    directory = _get_notes_directory(workspace)
    note_paths = sorted(directory.glob("*.md"), key=lambda path: path.name)[:MAX_NOTES]
    note_by_inbox_path: dict[str, Path] = {}
    head_shas: set[str] = set()
    for note_path in note_paths:
        # `<entry>.<commit>.md`, with the commit of HEAD when the note was made.
        entry_id, _, head_and_suffix = note_path.name.partition(".")
        note_by_inbox_path[fragment_path(entry_id)] = note_path
        head_shas.add(head_and_suffix.removesuffix(".md"))
    if not note_by_inbox_path:
        return {}
    committed_paths = _list_committed_paths(workspace, note_by_inbox_path, head_shas)
    return {
        inbox_path: _Note(note_path, inbox_path in committed_paths)
        for inbox_path, note_path in note_by_inbox_path.items()
    }


def _list_committed_paths(
    workspace: Workspace, paths: Iterable[str], head_shas: set[str]
) -> set[str]:
    """Return those of some paths that a commit of any branch has touched.

    Only commits after those at which the notes were made are searched: that is, all but the
    ancestors of the common ancestor of these.

    Args:
        workspace: the workspace.
        paths: paths relative to the root of the work tree.
        head_shas: the commits that were HEAD when the notes were made; "unborn" for none.
    """
    cwd = workspace.repo.cwd
    if len(head_shas) > 1:
        # git exits with 1 without a common ancestor, with 128 if a commit is gone.
        base = run_git(cwd, "merge-base", "--octopus", *head_shas, ok=(0, 1, 128))
        head_shas = set(base.decode().split())
    exclusions = [f"^{sha}" for sha in head_shas if sha != "unborn"]
    options = "log --format= --name-only -z --no-renames --ignore-missing".split()
    pathspecs = [f":(top,literal){path}" for path in paths]
    refs = (*EXCLUDED_REFS, "--all")
    output = run_git(cwd, *options, *refs, *exclusions, "--", *pathspecs, ok=(0, 128))
    return {path.strip("\n") for path in decode_path(output).split("\0")}


def stage_notes(workspace: Workspace, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Copy to the inbox and stage the notes of sessions whose work is in the commit being made.

    Notes that are already in a commit are deleted from the git directory. Nothing is done for `git
    commit PATH`, which must commit this path and nothing else; it uses another index. Neither is
    anything done during a merge or rebase, which commits older work.

    Returns:
        The paths of the staged notes, in the inbox.

    Raises:
        RepositoryError: git-failed, write-failed, outside-repository.
    """
    from memory_ci.gitrepo.checkouts import NO_HOOKS, is_under_way
    from memory_ci.sessions.active_session import (
        find_index,
        find_sessions,
        list_committing_sessions,
        list_staged_paths,
    )

    index = find_index(workspace, environ)
    is_in_git_dir = index.parent.resolve() == workspace.repo.git_dir.resolve()
    is_of_work_tree = is_in_git_dir and index.name in ("index", "index.lock")
    if not is_of_work_tree or is_under_way(workspace.repo):
        return ()

    pending_texts = _take_pending_texts(workspace)
    if not pending_texts:
        return ()
    staged_paths = list_staged_paths(workspace, index)
    if not staged_paths:
        return ()

    root = work_tree(workspace)
    session_keys = {*find_sessions(environ), *list_committing_sessions(workspace, index, now)}
    added_paths = []
    for inbox_path, text in pending_texts.items():
        if inbox_path in staged_paths:
            continue
        if _belongs_to_commit(workspace, text, session_keys, staged_paths):
            write_file(root / inbox_path, _remove_private_quotes(workspace, text), root)
            added_paths.append(inbox_path)
    if added_paths:
        names = b"".join(encode_path(path) + b"\0" for path in added_paths)
        add = ("update-index", "--add", "-z", "--stdin")
        run_git(root, *NO_HOOKS, *add, input=names, env={"GIT_INDEX_FILE": str(index)})
    return tuple(added_paths)


def _take_pending_texts(workspace: Workspace) -> dict[str, bytes]:
    """Return the texts of the notes that no commit has, by inbox path, and delete all others."""
    texts: dict[str, bytes] = {}
    for inbox_path, note in _find_notes(workspace).items():
        if note.is_committed:
            note.path.unlink(missing_ok=True)
        else:
            texts[inbox_path] = _read(note.path)
    return texts


def _remove_private_quotes(workspace: Workspace, note_text: bytes) -> bytes:
    """Return the text of a note with the quotations that the setting `evidence.quotes` allows."""
    quotes = workspace.config.evidence.quotes
    if quotes == "full":
        return note_text
    from memory_ci.extraction.entries import trim_evidence
    from memory_ci.store.document import parse_memory_file
    from memory_ci.store.edits import format_entry

    entries = parse_memory_file(NOTE_NAME, note_text).entries
    texts = [format_entry(trim_evidence(entry, quotes)) for entry in entries]
    return "".join(texts).encode()


def _belongs_to_commit(
    workspace: Workspace, note_text: bytes, session_keys: set[str], staged_paths: frozenset[str]
) -> bool:
    """Return whether a note should be added to the commit that is being made.

    It should if its session makes the commit or edited a file of the commit, or if the note cites
    such a file. A note without cites, of a session without edits, is added to any commit.

    Args:
        workspace: the workspace.
        note_text: the text of the note, an entry of memory.
        session_keys: the sessions (`<agent>:<id>`) that make the commit or whose work is in it.
        staged_paths: the paths of the commit's files.
    """
    from memory_ci.anchors.anchors import parse_anchor
    from memory_ci.store.document import parse_memory_file

    entries = parse_memory_file(NOTE_NAME, note_text).entries
    if not entries:
        return False
    entry = entries[0]
    session_key = ""
    for line in entry.evidence:
        if line.startswith(SESSION_PREFIX):  # `session:<agent>:<id>#…`
            session_key = line.removeprefix(SESSION_PREFIX).partition("#")[0]
            break
    if session_key in session_keys:
        return True

    cited_paths: set[str] = set()
    for cite in entry.cites:
        anchor = parse_anchor(cite)
        if anchor:
            cited_paths.add(anchor.path)
    if cited_paths:
        return not cited_paths.isdisjoint(staged_paths)
    session_id = session_key.partition(":")[2]
    return not any(activity.edited for activity in list_activities(workspace, session_id))


def _get_notes_directory(workspace: Workspace) -> Path:
    return workspace.repo.git_dir / "memory-ci" / "notes"


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return read_regular(path, MAX_FILE_BYTES)
    return b""
