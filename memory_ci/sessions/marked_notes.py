"""Pending notes: what agents marked, kept in the git directory until a commit takes it along.

A note that lay in the work tree would stand in the way of a stash, a rebase or a pull, and most ways to commit would
leave it behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import trim_evidence
from memory_ci.files import read_regular
from memory_ci.gitrepo.checkouts import NO_HOOKS, is_under_way
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_commit, find_hooks
from memory_ci.memory.workspace import MAX_FILE_BYTES, Workspace, work_tree
from memory_ci.records.entry import Located
from memory_ci.sessions.active_session import find_index, find_sessions, list_staged, list_working
from memory_ci.sessions.session_note import list_signs
from memory_ci.store.document import load_file, parse_memory_file
from memory_ci.store.edits import format_entry
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, fragment_path

MARK = "session:"  # How the evidence of a note begins that quotes a person.
MAX_NOTES = 1_000  # Notes that are looked at, the oldest first; a session adds three.
OTHER = ("--exclude=refs/stash", "--exclude=refs/memory-ci/*")  # Commits that bring a note nowhere.


def keep_note(workspace: Workspace, entry_id: str, data: bytes) -> Path:
    """Keep a note in the git directory, or in the inbox: where an agent may not write there its next hook takes it, and
    where no git hook would take it along (a cloud agent's clone) it is committed like any file.

    Raises RepositoryError (bare-repository, write-failed).
    """
    root, head = work_tree(workspace), find_commit(workspace.repo, "HEAD") or "unborn"
    path = _folder(workspace) / f"{entry_id}.{head}.md"
    try:
        if not any(
            (find_hooks(workspace.repo) / hook).exists()
            for hook in ("pre-commit", "prepare-commit-msg")
        ):
            raise FileNotFoundError
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)
    except (OSError, RepositoryError):
        path = root / fragment_path(entry_id)
        write_file(path, data, root)
    return path


def collect_notes(workspace: Workspace, key: str) -> None:
    """Take the notes of a session `<agent>:<id>` out of the inbox that lie there untracked. Raises RepositoryError
    (git-failed, write-failed)."""
    root = workspace.repo.root
    if root is None or not any((root / INBOX).glob("*.md")):
        return
    listing = run_git(root, "ls-files", "-z", "--others", "--", f":(top,literal){INBOX}")
    for path in map(Path, decode_path(listing).split("\0")[:-1]):
        data = _read(root / path)
        if (
            f"{MARK}{key}#".encode() in data
            and keep_note(workspace, path.stem, data) != root / path
        ):
            (root / path).unlink()


def list_note_ids(workspace: Workspace) -> set[str]:
    """The ids of all notes in the inbox of the work tree and in the git directory; no git is asked."""
    places = (
        *_folder(workspace).glob("*.md"),
        *((workspace.repo.root or Path()) / INBOX).glob("*.md"),
    )
    return {path.name.partition(".")[0] for path in places}


def read_pending(workspace: Workspace) -> dict[str, bytes]:
    """The texts of the notes that no commit of this repository has yet, by their path in the inbox."""
    return {
        path: _read(note)
        for path, (note, is_brought) in _find_notes(workspace).items()
        if not is_brought
    }


def load_pending(workspace: Workspace) -> list[Located]:
    """The pending notes as entries, where they lie."""
    found = [
        (path, note)
        for path, (note, is_brought) in _find_notes(workspace).items()
        if not is_brought
    ]
    files = ((load_file(path, _read(note), workspace.config.scopes), note) for path, note in found)
    return [
        replace(place, path=str(note), line=1) for file, note in files for place in file.entries
    ]


def read_notes(workspace: Workspace, key: str) -> list[bytes]:
    """The texts of the pending notes of a session `<agent>:<id>`."""
    lying = (_read(path) for path in ((workspace.repo.root or Path()) / INBOX).glob("*.md"))
    notes = dict.fromkeys((*read_pending(workspace).values(), *lying))
    return [data for data in notes if f"{MARK}{key}#".encode() in data]


def _find_notes(workspace: Workspace) -> dict[str, tuple[Path, bool]]:
    """By its path in the inbox where a note lies, and whether a commit brought it."""
    files = sorted(_folder(workspace).glob("*.md"), key=lambda path: path.name)[:MAX_NOTES]
    notes = {fragment_path(path.name.partition(".")[0]): path for path in files}
    if not notes:
        return {}
    repo, heads = workspace.repo, {path.name.split(".")[1] for path in files}
    if len(heads) > 1:
        heads = set(
            run_git(repo.cwd, "merge-base", "--octopus", *heads, ok=(0, 1, 128)).decode().split()
        )
    starts = (f"^{head}" for head in heads if head != "unborn")
    asked = (
        "log",
        "--format=",
        "--name-only",
        "-z",
        "--no-renames",
        "--ignore-missing",
        *OTHER,
        "--all",
        *starts,
    )
    found = run_git(
        repo.cwd, *asked, "--", *(f":(top,literal){path}" for path in notes), ok=(0, 128)
    )
    brought = {path.strip("\n") for path in decode_path(found).split("\0")}
    return {path: (note, path in brought) for path, note in notes.items()}


def stage_notes(workspace: Workspace, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Write the notes into the inbox, and stage them, whose session's work is in the commit that git makes.

    Not for `git commit PATH`: that is to hold this path and nothing else, and its index is not that of the work tree.
    Raises RepositoryError (git-failed, write-failed, outside-repository).
    """
    index = find_index(workspace, environ)
    is_own = index.parent.resolve() == workspace.repo.git_dir.resolve() and index.name in (
        "index",
        "index.lock",
    )
    if not is_own or is_under_way(workspace.repo):
        return ()
    pending: dict[str, bytes] = {}
    for path, (note, is_brought) in _find_notes(workspace).items():
        if is_brought:
            note.unlink(missing_ok=True)
        else:
            pending[path] = _read(note)
    staged = list_staged(workspace, index) if pending else frozenset[str]()
    keys = {*find_sessions(environ), *list_working(workspace, index, now)} if staged else set[str]()
    root, quotes, chosen = work_tree(workspace), workspace.config.evidence.quotes, []
    for path, data in pending.items():
        if staged and path not in staged and _is_part(workspace, data, keys, staged):
            if quotes != "full":
                entries = parse_memory_file("", data).entries
                data = "".join(
                    format_entry(trim_evidence(entry, quotes)) for entry in entries
                ).encode()
            write_file(root / path, data, root)
            chosen.append(path)
    if chosen:
        names = b"".join(encode_path(path) + b"\0" for path in chosen)
        add = ("update-index", "--add", "-z", "--stdin")
        run_git(root, *NO_HOOKS, *add, input=names, env={"GIT_INDEX_FILE": str(index)})
    return tuple(chosen)


def _is_part(workspace: Workspace, data: bytes, keys: set[str], staged: frozenset[str]) -> bool:
    """Whether a note's session makes the commit or edited what is in it, or the note cites that; one that is about no
    file, of a session that edited none, goes with any."""
    entry = next(iter(parse_memory_file("note.md", data).entries), None)
    if entry is None:
        return False
    key = next(line for line in (*entry.evidence, MARK) if line.startswith(MARK))[
        len(MARK) :
    ].partition("#")[0]
    cited = {anchor.path for anchor in map(parse_anchor, entry.cites) if anchor}
    edited = {path for sign in list_signs(workspace, key.partition(":")[2]) for path in sign.edited}
    return key in keys or not cited.isdisjoint(staged) or not (cited or edited)


def _folder(workspace: Workspace) -> Path:
    return workspace.repo.git_dir / "memory-ci" / "notes"


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return read_regular(path, MAX_FILE_BYTES)
    return b""
