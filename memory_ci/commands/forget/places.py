"""The search of files, refs and derived data for words to forget, and their contents without them.

The words are known by salted hashes only (tombstones).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.commands.forget.contents import Target, mask_raw, rewrite_file
from memory_ci.files import read_regular
from memory_ci.gitrepo.blobs import read_files, tree_at
from memory_ci.gitrepo.forges import find_number
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.sessionrefs import (
    DIGEST,
    NOTES,
    TRANSCRIPT,
    StoredSession,
    list_stored,
    read_stored,
)
from memory_ci.memory.agents_block import FENCE, build_lines, put_block
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    PRIVATE_REFS,
    Workspace,
    build_memory_test,
    holds_entries,
)
from memory_ci.store.layout import memory_pathspecs
from memory_ci.store.memory_files import load_file

HeldKind = Literal[
    "memory", "export", "session", "note", "derived", "ref", "file", "branch", "message", "global"
]
DERIVED = (
    "index.db",
    "index.db-wal",
    "index.db-shm",
    "tasks.mpk",
    "episodes.mpk",
    "session-archive",
    "repeated.json",
    "moments.json",
    "checks.json",
)
"""Files that are built again from git. Their format hides words, so they are always deleted."""

OURS = "memory-ci"
"""Our folder in a git directory."""

KEPT_FILES = ("forgotten.txt", "made")  # Files of our folder that have no words.
MAX_BRANCHES = 200  # Branches, tags and stashes that are searched.


class HeldPlace(msgspec.Struct, frozen=True):
    """A place that holds forgotten words; it never quotes them.

    Attributes:
        kind: the kind of place.
        where: the path, ref or commit.
        what: the action on it, in words.
        is_left: a person has to do it.
    """

    kind: HeldKind
    where: str
    what: str
    is_left: bool = False


# -- memory files


def rewrite_tree(
    workspace: Workspace, target: Target, tip: str
) -> tuple[dict[str, bytes | None], list[HeldPlace]]:
    """Return the memory files of a commit without the words, and the export that is built of them.

    Nothing is written.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        tip: the commit.

    Returns:
        The new text of each file that changes, None to remove it; and the places.
    """
    tree = tree_at(workspace.repo, tip)
    is_memory = build_memory_test(workspace)
    export_path = workspace.config.export.path
    memory_files = [
        file for path, file in tree.files.items() if is_memory(path) and path != export_path
    ]

    changed_files: dict[str, bytes | None] = {}
    places: list[HeldPlace] = []
    entry_texts: dict[str, bytes] = {}
    for content in read_files(workspace.repo, memory_files, MAX_FILE_BYTES):
        path = content.file.path
        if content.data is None:
            what = f"{content.problem}: look at it yourself"
            places.append(HeldPlace("memory", path, what, is_left=True))
            continue
        new_data, action = rewrite_file(workspace, target, path, content.data)
        if action and new_data != content.data:
            changed_files[path] = new_data
            places.append(HeldPlace("memory", path, action))
        if new_data is not None and holds_entries(workspace, path):
            entry_texts[path] = new_data

    for content in read_files(workspace.repo, tree.select([export_path]), MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "surrogateescape")
        new_text = _rebuild_export(workspace, text, entry_texts)
        if changed_files and new_text != text:
            changed_files[export_path] = new_text.encode("utf-8", "surrogateescape")
            places.append(HeldPlace("export", export_path, "its block is made again"))
    return changed_files, places


def _rebuild_export(workspace: Workspace, text: str, entry_texts: Mapping[str, bytes]) -> str:
    """Return the text of an exported file, such as AGENTS.md, with a new block of memory.

    Args:
        workspace: the repository and its configuration.
        text: the text of the file. Without a block it is returned as it is.
        entry_texts: the memory files that the block is made of, by path.
    """
    if not FENCE.find(text):
        return text
    scopes = workspace.config.scopes
    memory_files = [load_file(path, data, scopes) for path, data in entry_texts.items()]
    return put_block(text, build_lines(memory_files))


def rewrite_loose(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """Yield the memory files with the words that git does not track, for the caller to write.

    Yields:
        The place, the file, and its new text, None to remove it.
    """
    root = workspace.repo.root
    if root is None:
        return
    output = run_git(workspace.repo.cwd, "ls-files", "-z", "--others", "--", ".")
    paths = output.decode("utf-8", "surrogateescape").split("\0")
    is_memory = build_memory_test(workspace)
    for path in paths:
        if not is_memory(path):
            continue
        data = _read(root / path)
        new_data, action = rewrite_file(workspace, target, path, data)
        if action and new_data != data:
            place = HeldPlace("memory", path, f"{action}; no commit holds it")
            yield place, root / path, new_data


# -- refs


def rewrite_sessions(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, StoredSession, dict[str, bytes]]]:
    """Yield the captured sessions of agents that have the words, with their files without these.

    Sessions are stored below refs. Nothing is written.

    Yields:
        The place, the session, and its new files.
    """
    sessions = list_stored(workspace.repo)
    files_by_session: dict[StoredSession, dict[str, bytes]] = {session: {} for session in sessions}
    for name in (DIGEST, TRANSCRIPT, NOTES):
        for session, data in read_stored(workspace.repo, sessions, name=name):
            files_by_session[session][name] = data

    for session, files in files_by_session.items():
        names = [name for name, data in files.items() if target.tombstones.holds(data)]
        if NOTES in files and NOTES not in names and target.names(files[NOTES]):
            names.append(NOTES)
        if not names:
            continue
        new_files = _rewrite_session_files(workspace, target, files)
        place = HeldPlace("session", session.ref, f"masked in its {', '.join(names)}")
        yield place, session, {name: data for name, data in new_files.items() if data}


def _rewrite_session_files(
    workspace: Workspace, target: Target, files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the files of a session without the words, b"" for a file to remove.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        files: the digest, the transcript and the notes of the session, those that exist.
    """
    tombstones = target.tombstones
    new_files = dict(files)
    if NOTES in files:
        notes, _ = rewrite_file(workspace, target, "MEMORY.md", files[NOTES])
        new_files[NOTES] = notes or b""
    if TRANSCRIPT in files:
        if tombstones.holds(files[TRANSCRIPT]):
            # A transcript has the format of its agent, so it is removed; the digest stays.
            new_files[TRANSCRIPT] = b""
        else:
            new_files[TRANSCRIPT] = mask_raw(tombstones, TRANSCRIPT, files[TRANSCRIPT])
    if DIGEST in files:
        new_files[DIGEST] = mask_raw(tombstones, DIGEST, files[DIGEST])
    return new_files


def list_private(repo: Repository) -> tuple[str, ...]:
    """Return the refs of runs that publish; the next run creates them again."""
    output = run_git(repo.cwd, "for-each-ref", "--format=%(refname)", PRIVATE_REFS)
    return tuple(output.decode().split())


# -- derived data


def list_derived(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """Find the files below .git/memory-ci that have the words, or may have them.

    Yields:
        The place, the file, and its new text, None to remove it.
    """
    repo = workspace.repo
    git_dirs = [repo.common_dir, repo.git_dir, *(repo.common_dir / "worktrees").glob("*")]
    for git_dir in dict.fromkeys(git_dirs):
        our_folder = git_dir / OURS
        for path in sorted(our_folder.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.name in KEPT_FILES:
                continue
            where = str(path)
            if path.is_relative_to(repo.common_dir):
                where = path.relative_to(repo.common_dir).as_posix()
            is_note = "notes" in path.relative_to(our_folder).parts
            change = _forget_derived(workspace, target, path, where, is_note)
            if change is not None:
                place, new_data = change
                yield place, path, new_data


def _forget_derived(
    workspace: Workspace, target: Target, path: Path, where: str, is_note: bool
) -> tuple[HeldPlace, bytes | None] | None:
    """Return the action on a derived file or a waiting note.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        path: the file.
        where: its name in the output.
        is_note: it is a note that waits for a commit.

    Returns:
        The place, and the new content of the file, None to remove it; None for no action.
    """
    if path.name in DERIVED:
        return HeldPlace("derived", where, "deleted, and built again when it is needed"), None
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError:
        problem = "it cannot be read, or is too large to search"
        if is_note:
            return HeldPlace("note", where, f"{problem}: look yourself", is_left=True), None
        return HeldPlace("derived", where, f"deleted: {problem}"), None
    if not target.tombstones.holds(data) and not target.names(data):
        return None
    if not is_note:
        return HeldPlace("derived", where, "deleted"), None
    new_data, _ = rewrite_file(workspace, target, ".memory/inbox/note.md", data)
    action = "deleted" if new_data is None else "masked"
    return HeldPlace("note", where, action), new_data


def _read(path: Path) -> bytes:
    """Return the bytes of a file; b"" if it is unreadable, as for other commands."""
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError:
        return b""


# -- places that a person has to look at


def list_left(
    workspace: Workspace,
    target: Target,
    tip: str,
    needles: Sequence[str],
    changed: Mapping[str, bytes | None],
) -> Iterator[HeldPlace]:
    """Find places with the words that `forget` does not change.

    These are files that are not memory, other branches, and commit messages.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        tip: the commit that is rewritten.
        needles: a word of each text.
        changed: the new text of each file that is rewritten.
    """
    is_memory = build_memory_test(workspace)
    for path in _list_holding(workspace.repo, target, tip, needles):
        is_rewritten = path in changed and not target.tombstones.holds(changed[path] or b"")
        if not is_memory(path) and not is_rewritten:
            yield HeldPlace("file", path, "is not memory: edit it yourself", is_left=True)
    yield from _find_branches(workspace, target, tip, needles)
    yield from _find_messages(workspace.repo, target, needles)


def _find_branches(
    workspace: Workspace, target: Target, tip: str, needles: Sequence[str]
) -> Iterator[HeldPlace]:
    """Find branches, tags and stashes whose memory holds the words.

    Their other files are not searched: there may be many branches.
    """
    repo = workspace.repo
    options = (f"--count={MAX_BRANCHES}", "--format=%(objectname) %(refname)")
    patterns = ("refs/heads", "refs/remotes", "refs/tags", "refs/stash")
    output = run_git(repo.cwd, "for-each-ref", *options, *patterns)
    pathspecs = (*memory_pathspecs(workspace.config.scopes), ".memory")
    for line in output.decode("utf-8", "replace").splitlines():
        oid, ref = line.split(" ", 1)
        if oid != tip and _list_holding(repo, target, oid, needles, pathspecs):
            what = "holds it at its tip: bring it up to date, or delete it"
            yield HeldPlace("branch", ref, what, is_left=True)


def _find_messages(repo: Repository, target: Target, needles: Sequence[str]) -> Iterator[HeldPlace]:
    """Find commit messages that have the words.

    `git log --grep` is not used: other users can see the arguments of a process.
    """
    folded_needles = [needle.casefold() for needle in needles]
    output = run_git(repo.cwd, "log", "-z", "--all", "--format=%h%x09%B")
    for record in output.decode("utf-8", "replace").split("\0"):
        short_id, _, message = record.strip().partition("\t")
        folded_message = message.casefold()
        if not any(needle in folded_message for needle in folded_needles):
            continue
        if target.tombstones.find(message):
            number = find_number(message)
            where = f"{short_id}, pull request {number}" if number else short_id
            what = "its message holds it, and its pull request may hold it"
            yield HeldPlace("message", where, what, is_left=True)


def find_global(target: Target, configured_path: str, home: Path) -> Iterator[HeldPlace]:
    """Find the file of global memory, which is outside of the repository, if it has the words.

    Args:
        target: the words to forget.
        configured_path: its path, or that of its directory, in the configuration; "" for none.
        home: the home of the user.
    """
    path = Path(configured_path)
    if configured_path.startswith("~/"):
        path = home / configured_path.removeprefix("~/")
    file = path / "MEMORY.md" if path.is_dir() else path
    if configured_path and file.is_file() and target.tombstones.holds(_read(file)):
        what = "is outside of this repository: edit it yourself"
        yield HeldPlace("global", str(file), what, is_left=True)


def _list_holding(
    repo: Repository,
    target: Target,
    rev: str,
    needles: Sequence[str],
    pathspecs: Iterable[str] = (),
) -> list[str]:
    """Return the files of a commit that have the words.

    `git grep` finds the files with one of the needles, and only these are searched for the hashes.
    The needles go to git by standard input: other users can see the arguments of a process.

    Args:
        repo: the repository.
        target: the words to forget.
        rev: the commit.
        needles: a word of each text.
        pathspecs: the files to search, none for all.
    """
    if not needles:
        return []
    patterns = "".join(f"{needle}\n" for needle in needles).encode()
    command = ("grep", "-l", "-z", "-i", "-I", "-F", "-f", "-", rev, "--", *pathspecs)
    output = run_git(repo.cwd, *command, input=patterns, ok=(0, 1))
    tree_files = tree_at(repo, rev).files
    candidates = []
    for line in decode_path(output).split("\0"):
        _, _, path = line.partition(":")  # `REV:PATH`
        if path in tree_files:
            candidates.append(tree_files[path])

    paths = []
    for content in read_files(repo, candidates, MAX_FILE_BYTES):
        if content.data is not None and target.tombstones.holds(content.data):
            paths.append(content.file.path)
    return paths
