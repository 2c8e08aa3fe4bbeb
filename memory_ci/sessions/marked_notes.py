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
from memory_ci.sessions.session_note import list_signs
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, fragment_path

# The functions import what reads and writes notes: most hooks find that there are none.

MARK = "session:"  # The beginning of a line of evidence that quotes a person in a session.
MAX_NOTES = 1_000  # Notes that are read, the oldest first; a session adds three.
EXCLUDED_REFS = ("--exclude=refs/stash", "--exclude=refs/memory-ci/*")


class _Note(msgspec.Struct, frozen=True):
    """A note in the git directory.

    Attributes:
        path: the file of the note in the git directory.
        is_committed: whether a commit has already added the note to the inbox.
    """

    path: Path
    is_committed: bool


def keep_note(workspace: Workspace, entry_id: str, data: bytes) -> Path:
    """Write a note into the git directory, else into the inbox, and return its path.

    The inbox is a directory of the work tree. If an agent may not write to the git directory, its
    next hook moves the note there from the inbox. Without the git hook that adds notes to a commit
    (in a cloud agent's clone), the note is committed from the inbox like any file.

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
    return f"{MARK}{key}#".encode() in data


def _list_inbox(workspace: Workspace) -> Iterator[Path]:
    return ((workspace.repo.root or Path()) / INBOX).glob("*.md")


def _find_notes(workspace: Workspace) -> dict[str, _Note]:
    """Return the notes in the git directory by the paths that they will have in the inbox."""
    files = sorted(_folder(workspace).glob("*.md"), key=lambda path: path.name)[:MAX_NOTES]
    paths: dict[str, Path] = {}
    heads: set[str] = set()
    for path in files:
        entry_id, _, rest = path.name.partition(".")  # `<entry>.<commit>.md`
        paths[fragment_path(entry_id)] = path
        heads.add(rest.removesuffix(".md"))
    if not paths:
        return {}
    committed = _list_committed_paths(workspace, paths, heads)
    return {inbox_path: _Note(path, inbox_path in committed) for inbox_path, path in paths.items()}


def _list_committed_paths(workspace: Workspace, paths: Iterable[str], heads: set[str]) -> set[str]:
    """Return those of some paths that a commit of any branch has touched.

    Args:
        workspace: the workspace.
        paths: paths relative to the root of the work tree.
        heads: the commits that were HEAD when the notes were made, "unborn" for none; only later
            commits are searched.
    """
    cwd = workspace.repo.cwd
    if len(heads) > 1:
        base = run_git(cwd, "merge-base", "--octopus", *heads, ok=(0, 1, 128))
        heads = set(base.decode().split())
    starts = [f"^{head}" for head in heads if head != "unborn"]
    options = "log --format= --name-only -z --no-renames --ignore-missing".split()
    pathspecs = [f":(top,literal){path}" for path in paths]
    refs = (*EXCLUDED_REFS, "--all")
    output = run_git(cwd, *options, *refs, *starts, "--", *pathspecs, ok=(0, 128))
    return {path.strip("\n") for path in decode_path(output).split("\0")}


def stage_notes(workspace: Workspace, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Copy to the inbox and stage the notes of sessions whose work is in the commit being made.

    Notes that are already in a commit are deleted from the git directory. Nothing is done for `git
    commit PATH`, which must commit this path and nothing else; it uses another index.

    Returns:
        The paths of the staged notes, in the inbox.

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
    is_in_git_dir = index.parent.resolve() == workspace.repo.git_dir.resolve()
    is_of_work_tree = is_in_git_dir and index.name in ("index", "index.lock")
    if not is_of_work_tree or is_under_way(workspace.repo):
        return ()

    texts: dict[str, bytes] = {}  # Of pending notes, by their path in the inbox.
    for inbox_path, note in _find_notes(workspace).items():
        if note.is_committed:
            note.path.unlink(missing_ok=True)
        else:
            texts[inbox_path] = _read(note.path)
    if not texts:
        return ()
    staged_paths = list_staged(workspace, index)
    if not staged_paths:
        return ()

    root = work_tree(workspace)
    session_keys = {*find_sessions(environ), *list_working(workspace, index, now)}
    added_paths = []
    for inbox_path, text in texts.items():
        if inbox_path in staged_paths:
            continue
        if _belongs_to_commit(workspace, text, session_keys, staged_paths):
            write_file(root / inbox_path, _trim_evidence(workspace, text), root)
            added_paths.append(inbox_path)
    if added_paths:
        names = b"".join(encode_path(path) + b"\0" for path in added_paths)
        add = ("update-index", "--add", "-z", "--stdin")
        run_git(root, *NO_HOOKS, *add, input=names, env={"GIT_INDEX_FILE": str(index)})
    return tuple(added_paths)


def _trim_evidence(workspace: Workspace, data: bytes) -> bytes:
    """Return the text of a note with the quotations that the setting `evidence.quotes` allows."""
    quotes = workspace.config.evidence.quotes
    if quotes == "full":
        return data
    from memory_ci.extraction.entries import trim_evidence
    from memory_ci.store.document import parse_memory_file
    from memory_ci.store.edits import format_entry

    entries = parse_memory_file("", data).entries
    texts = [format_entry(trim_evidence(entry, quotes)) for entry in entries]
    return "".join(texts).encode()


def _belongs_to_commit(
    workspace: Workspace, data: bytes, session_keys: set[str], staged_paths: frozenset[str]
) -> bool:
    """Return whether a note should be added to the commit that is being made.

    It should if its session makes the commit or edited a file of the commit, or if the note cites
    such a file. A note without cites, of a session without edits, is added to any commit.

    Args:
        workspace: the workspace.
        data: the text of the note.
        session_keys: the sessions (`<agent>:<id>`) that make the commit or whose work is in it.
        staged_paths: the paths of the commit's files.
    """
    from memory_ci.anchors.anchors import parse_anchor
    from memory_ci.store.document import parse_memory_file

    entries = parse_memory_file("note.md", data).entries
    if not entries:
        return False
    entry = entries[0]
    # A quote is `session:<agent>:<id>#…`.
    quotes = [line.removeprefix(MARK) for line in entry.evidence if line.startswith(MARK)]
    session_key = quotes[0].partition("#")[0] if quotes else ""
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
    return not any(sign.edited for sign in list_signs(workspace, session_id))


def _folder(workspace: Workspace) -> Path:
    return workspace.repo.git_dir / "memory-ci" / "notes"


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return read_regular(path, MAX_FILE_BYTES)
    return b""
