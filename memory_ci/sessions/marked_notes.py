"""Pending notes of agents, kept in the git directory until a commit takes them along.

In the work tree a note would block a stash, a rebase or a pull, and most ways to commit would leave
it behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_commit, find_hooks
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace, work_tree
from memory_ci.records.entry import Located
from memory_ci.sessions.session_note import list_signs
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, fragment_path

# The functions import what reads and writes notes: most hooks find that there are none.

MARK = "session:"  # The beginning of the evidence of a note that quotes a person.
MAX_NOTES = 1_000  # Notes that are read, the oldest first; a session adds three.
OTHER = ("--exclude=refs/stash", "--exclude=refs/memory-ci/*")  # Refs whose commits do not count.


class _Note(NamedTuple):
    """A note in the git directory, and whether a commit has it."""

    path: Path
    is_committed: bool


def keep_note(workspace: Workspace, entry_id: str, data: bytes) -> Path:
    """Keep a note in the git directory, else in the inbox, and return its path.

    Where an agent may not write to the git directory, its next hook takes the note from the inbox.
    Where no git hook would take it along (a cloud agent's clone), it is committed like any file.

    Raises:
        RepositoryError: bare-repository, write-failed.
    """
    root = work_tree(workspace)
    head = find_commit(workspace.repo, "HEAD") or "unborn"
    path = _folder(workspace) / f"{entry_id}.{head}.md"
    try:
        hooks = find_hooks(workspace.repo)
        if not any((hooks / name).exists() for name in ("pre-commit", "prepare-commit-msg")):
            raise FileNotFoundError
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)
    except (OSError, RepositoryError):
        path = root / fragment_path(entry_id)
        write_file(path, data, root)
    return path


def collect_notes(workspace: Workspace, key: str) -> None:
    """Take the untracked notes of a session `<agent>:<id>` out of the inbox.

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
        if keep_note(workspace, path.stem, data) != path:
            path.unlink()


def list_note_ids(workspace: Workspace) -> set[str]:
    """Return the ids of all notes in the inbox and the git directory, without a git process."""
    paths = (*_folder(workspace).glob("*.md"), *_list_inbox(workspace))
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
    from memory_ci.store.document import load_file

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
    return f"{MARK}{key}#".encode() in data


def _list_inbox(workspace: Workspace) -> Iterator[Path]:
    return ((workspace.repo.root or Path()) / INBOX).glob("*.md")


def _find_notes(workspace: Workspace) -> dict[str, _Note]:
    """Return the notes in the git directory by their paths in the inbox."""
    files = sorted(_folder(workspace).glob("*.md"), key=lambda path: path.name)[:MAX_NOTES]
    paths = {fragment_path(path.name.partition(".")[0]): path for path in files}
    if not paths:
        return {}

    repo = workspace.repo
    heads = {path.name.split(".")[1] for path in files}
    if len(heads) > 1:
        base = run_git(repo.cwd, "merge-base", "--octopus", *heads, ok=(0, 1, 128))
        heads = set(base.decode().split())
    starts = [f"^{head}" for head in heads if head != "unborn"]
    options = "log --format= --name-only -z --no-renames --ignore-missing".split()
    pathspecs = [f":(top,literal){path}" for path in paths]
    output = run_git(repo.cwd, *options, *OTHER, "--all", *starts, "--", *pathspecs, ok=(0, 128))
    committed = {path.strip("\n") for path in decode_path(output).split("\0")}
    return {inbox_path: _Note(path, inbox_path in committed) for inbox_path, path in paths.items()}


def stage_notes(workspace: Workspace, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Stage the notes in the inbox whose session's work is in the commit that git makes.

    Notes that a commit has are deleted. Nothing is done for `git commit PATH`: that is to hold this
    path and nothing else, and its index is not that of the work tree.

    Returns:
        The paths of the staged notes.

    Raises:
        RepositoryError: git-failed, write-failed, outside-repository.
    """
    from memory_ci.gitrepo.checkouts import NO_HOOKS, is_under_way
    from memory_ci.sessions.active_session import (
        find_index,
        find_sessions,
        list_staged,
        list_working,
    )

    index = find_index(workspace, environ)
    is_of_git_dir = index.parent.resolve() == workspace.repo.git_dir.resolve()
    is_own = is_of_git_dir and index.name in ("index", "index.lock")
    if not is_own or is_under_way(workspace.repo):
        return ()

    pending: dict[str, bytes] = {}
    for path, note in _find_notes(workspace).items():
        if note.is_committed:
            note.path.unlink(missing_ok=True)
        else:
            pending[path] = _read(note.path)
    if not pending:
        return ()
    staged = list_staged(workspace, index)
    if not staged:
        return ()

    root = work_tree(workspace)
    keys = {*find_sessions(environ), *list_working(workspace, index, now)}
    chosen = []
    for path, data in pending.items():
        if path not in staged and _is_part(workspace, data, keys, staged):
            write_file(root / path, _trim_quotes(workspace, data), root)
            chosen.append(path)
    if chosen:
        names = b"".join(encode_path(path) + b"\0" for path in chosen)
        add = ("update-index", "--add", "-z", "--stdin")
        run_git(root, *NO_HOOKS, *add, input=names, env={"GIT_INDEX_FILE": str(index)})
    return tuple(chosen)


def _trim_quotes(workspace: Workspace, data: bytes) -> bytes:
    """Return a note with as much of its quotes as the configuration lets entries keep."""
    quotes = workspace.config.evidence.quotes
    if quotes == "full":
        return data
    from memory_ci.extraction.entries import trim_evidence
    from memory_ci.store.document import parse_memory_file
    from memory_ci.store.edits import format_entry

    entries = parse_memory_file("", data).entries
    texts = [format_entry(trim_evidence(entry, quotes)) for entry in entries]
    return "".join(texts).encode()


def _is_part(workspace: Workspace, data: bytes, keys: set[str], staged: frozenset[str]) -> bool:
    """Return whether a note belongs to a commit.

    Its session makes the commit, or edited a file of the commit, or the note cites one. A note
    without cites, of a session without edits, belongs to any commit.

    Args:
        workspace: the workspace.
        data: the note.
        keys: the sessions that make the commit or whose work is in it.
        staged: the paths of the commit.
    """
    from memory_ci.anchors.anchors import parse_anchor
    from memory_ci.store.document import parse_memory_file

    entry = next(iter(parse_memory_file("note.md", data).entries), None)
    if entry is None:
        return False
    quote = next((line for line in entry.evidence if line.startswith(MARK)), MARK)
    key = quote[len(MARK) :].partition("#")[0]
    if key in keys:
        return True

    cited: set[str] = set()
    for cite in entry.cites:
        anchor = parse_anchor(cite)
        if anchor:
            cited.add(anchor.path)
    if not cited.isdisjoint(staged):
        return True
    has_edits = any(sign.edited for sign in list_signs(workspace, key.partition(":")[2]))
    return not cited and not has_edits


def _folder(workspace: Workspace) -> Path:
    return workspace.repo.git_dir / "memory-ci" / "notes"


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return read_regular(path, MAX_FILE_BYTES)
    return b""
