"""The search of files, refs and derived data for words to forget, and their contents without them.

The words are known by salted hashes only (tombstones).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from memory_ci.commands.forget.contents import ForgetTarget, mask_text, rewrite_file
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
DERIVED_FILES = (
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

OUR_FOLDER = "memory-ci"
"""Our folder in a git directory."""

WORDLESS_FILES = ("forgotten.txt", "made")  # Files of our folder that have no words.
MAX_BRANCHES = 200  # Branches, tags and stashes that are searched.


class HeldPlace(msgspec.Struct, frozen=True):
    """A place that holds words to forget; it never quotes them.

    Attributes:
        kind: the kind of place.
        location: the path, ref or commit; `where` in JSON.
        action: what is done there, in words; `what` in JSON.
        needs_person: `forget` cannot do it, and a person has to; `is_left` in JSON.
    """

    kind: HeldKind
    location: str = msgspec.field(name="where")
    action: str = msgspec.field(name="what")
    needs_person: bool = msgspec.field(default=False, name="is_left")


class MaskedFile(NamedTuple):
    """The planned change of a file that no commit has.

    Attributes:
        place: the file and the action on it. If a person has to act, the file is left alone.
        path: the file.
        new_data: its new content, None to remove it.
    """

    place: HeldPlace
    path: Path
    new_data: bytes | None


class SessionChange(NamedTuple):
    """The planned change of a captured session.

    Attributes:
        place: the session and the action on it.
        session: the session.
        new_files: the new contents of its files, by name; without files to remove.
    """

    place: HeldPlace
    session: StoredSession
    new_files: dict[str, bytes]


# -- memory files


def plan_tree(
    workspace: Workspace, target: ForgetTarget, tip: str
) -> tuple[dict[str, bytes | None], list[HeldPlace]]:
    """Return the new texts of memory files that hold words to forget, as they are in a commit.

    If one of them changes, the file that memory is exported to, such as AGENTS.md, is built again.
    Nothing is written.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        tip: the commit.

    Returns:
        The new text of each file that changes, None to remove it; and the places of the words.
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
            action = f"{content.problem}: look at it yourself"
            places.append(HeldPlace("memory", path, action, needs_person=True))
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


def plan_untracked_files(workspace: Workspace, target: ForgetTarget) -> Iterator[MaskedFile]:
    """Yield the changes of memory files that git does not track, and that hold words to forget."""
    root = workspace.repo.root
    if root is None:
        return
    output = run_git(workspace.repo.cwd, "ls-files", "-z", "--others", "--", ".")
    paths = output.decode("utf-8", "surrogateescape").split("\0")
    is_memory = build_memory_test(workspace)
    for path in paths:
        if not is_memory(path):
            continue
        data = _read_or_empty(root / path)
        new_data, action = rewrite_file(workspace, target, path, data)
        if action and new_data != data:
            place = HeldPlace("memory", path, f"{action}; no commit holds it")
            yield MaskedFile(place, root / path, new_data)


# -- refs


def plan_sessions(workspace: Workspace, target: ForgetTarget) -> Iterator[SessionChange]:
    """Yield the changes of captured sessions of agents that hold words to forget.

    A session is stored below a ref, as a digest, a transcript and notes. Notes hold entries, so
    they may name the entry to forget by its id. Nothing is written.
    """
    sessions = list_stored(workspace.repo)
    files_by_session: dict[StoredSession, dict[str, bytes]] = {session: {} for session in sessions}
    for name in (DIGEST, TRANSCRIPT, NOTES):
        for session, data in read_stored(workspace.repo, sessions, name=name):
            files_by_session[session][name] = data

    for session, files in files_by_session.items():
        held_names = [name for name, data in files.items() if target.tombstones.holds(data)]
        if NOTES in files and NOTES not in held_names and target.is_named_in(files[NOTES]):
            held_names.append(NOTES)
        if not held_names:
            continue
        rewritten_files = _rewrite_session_files(workspace, target, files)
        new_files = {name: data for name, data in rewritten_files.items() if data}
        place = HeldPlace("session", session.ref, f"masked in its {', '.join(held_names)}")
        yield SessionChange(place, session, new_files)


def _rewrite_session_files(
    workspace: Workspace, target: ForgetTarget, files: Mapping[str, bytes]
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
            new_files[TRANSCRIPT] = mask_text(tombstones, TRANSCRIPT, files[TRANSCRIPT])
    if DIGEST in files:
        new_files[DIGEST] = mask_text(tombstones, DIGEST, files[DIGEST])
    return new_files


def list_publish_refs(repo: Repository) -> tuple[str, ...]:
    """Return the refs of runs that publish; the next run creates them again."""
    output = run_git(repo.cwd, "for-each-ref", "--format=%(refname)", PRIVATE_REFS)
    return tuple(output.decode().split())


# -- derived data

UNREADABLE_PROBLEM = "it cannot be read, or is too large to search"


def plan_derived_files(workspace: Workspace, target: ForgetTarget) -> Iterator[MaskedFile]:
    """Yield the changes of files below .git/memory-ci that hold words to forget, or may hold them.

    The files are derived from git, or notes that wait for a commit. Each linked work tree has a git
    directory of its own, and in it such files.
    """
    repo = workspace.repo
    git_dirs = [repo.common_dir, repo.git_dir, *(repo.common_dir / "worktrees").glob("*")]
    for git_dir in dict.fromkeys(git_dirs):
        our_folder = git_dir / OUR_FOLDER
        for path in sorted(our_folder.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.name in WORDLESS_FILES:
                continue
            location = str(path)
            if path.is_relative_to(repo.common_dir):
                location = path.relative_to(repo.common_dir).as_posix()
            is_note = "notes" in path.relative_to(our_folder).parts
            if is_note and path.name not in DERIVED_FILES:
                change = _plan_waiting_note(workspace, target, path, location)
            else:
                change = _plan_derived_file(target, path, location)
            if change is not None:
                yield change


def _plan_derived_file(target: ForgetTarget, path: Path, location: str) -> MaskedFile | None:
    """Return the deletion of a derived file that holds words to forget, or may hold them.

    Args:
        target: the words to forget.
        path: the file.
        location: its name in the output.

    Returns:
        The deletion; None for a file without the words.
    """
    action = "deleted"
    if path.name in DERIVED_FILES:
        action = "deleted, and built again when it is needed"
    else:
        try:
            data = read_regular(path, MAX_FILE_BYTES)
        except OSError:
            action = f"deleted: {UNREADABLE_PROBLEM}"
        else:
            if not target.is_held_in(data):
                return None
    return MaskedFile(HeldPlace("derived", location, action), path, None)


def _plan_waiting_note(
    workspace: Workspace, target: ForgetTarget, path: Path, location: str
) -> MaskedFile | None:
    """Return the change of a note that waits for a commit, and holds words to forget.

    A note is not derived, so one that cannot be read is left to a person.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        path: the file of the note.
        location: its name in the output.

    Returns:
        The change; None for a note without the words.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError:
        action = f"{UNREADABLE_PROBLEM}: look yourself"
        return MaskedFile(HeldPlace("note", location, action, needs_person=True), path, None)
    if not target.is_held_in(data):
        return None
    new_data, _ = rewrite_file(workspace, target, ".memory/inbox/note.md", data)
    action = "deleted" if new_data is None else "masked"
    return MaskedFile(HeldPlace("note", location, action), path, new_data)


def _read_or_empty(path: Path) -> bytes:
    """Return the bytes of a file; b"" if it is unreadable, as for other commands."""
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError:
        return b""


# -- places that a person has to look at


def find_places_for_person(
    workspace: Workspace,
    target: ForgetTarget,
    tip: str,
    search_words: Sequence[str],
    new_texts: Mapping[str, bytes | None],
) -> Iterator[HeldPlace]:
    """Find places that hold words to forget, and that `forget` does not change.

    These are files that are not memory, other branches, and commit messages.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget. They are hashed, so files cannot be searched for them.
        tip: the commit that is rewritten.
        search_words: one plain word of each text to forget. Only files and messages with one of
            them are compared with the hashes.
        new_texts: the new text of each file that is rewritten.
    """
    is_memory = build_memory_test(workspace)
    for path in _list_files_with_words(workspace.repo, target, tip, search_words):
        new_text = new_texts.get(path) or b""
        is_rewritten = path in new_texts and not target.tombstones.holds(new_text)
        if not is_memory(path) and not is_rewritten:
            yield HeldPlace("file", path, "is not memory: edit it yourself", needs_person=True)
    yield from _find_other_branches(workspace, target, tip, search_words)
    yield from _find_messages(workspace.repo, target, search_words)


def _find_other_branches(
    workspace: Workspace, target: ForgetTarget, tip: str, search_words: Sequence[str]
) -> Iterator[HeldPlace]:
    """Find branches, tags and stashes whose memory holds words to forget.

    Their other files are not searched: there may be many branches.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget, as hashes.
        tip: the commit that is rewritten; a branch at this commit is left out.
        search_words: one plain word of each text to forget.
    """
    repo = workspace.repo
    options = (f"--count={MAX_BRANCHES}", "--format=%(objectname) %(refname)")
    patterns = ("refs/heads", "refs/remotes", "refs/tags", "refs/stash")
    output = run_git(repo.cwd, "for-each-ref", *options, *patterns)
    pathspecs = (*memory_pathspecs(workspace.config.scopes), ".memory")
    for line in output.decode("utf-8", "replace").splitlines():
        oid, ref = line.split(" ", 1)
        if oid != tip and _list_files_with_words(repo, target, oid, search_words, pathspecs):
            action = "holds it at its tip: bring it up to date, or delete it"
            yield HeldPlace("branch", ref, action, needs_person=True)


def _find_messages(
    repo: Repository, target: ForgetTarget, search_words: Sequence[str]
) -> Iterator[HeldPlace]:
    """Find commit messages that hold words to forget.

    The messages are read and searched here. `git log --grep` is not used: other users can see the
    arguments of a process.

    Args:
        repo: the repository.
        target: the words to forget, as hashes, which are slow to search for.
        search_words: one plain word of each text; only messages with one of them are hashed.
    """
    folded_words = [word.casefold() for word in search_words]
    output = run_git(repo.cwd, "log", "-z", "--all", "--format=%h%x09%B")
    for record in output.decode("utf-8", "replace").split("\0"):
        short_id, _, message = record.strip().partition("\t")
        folded_message = message.casefold()
        if not any(word in folded_message for word in folded_words):
            continue
        if target.tombstones.find(message):
            number = find_number(message)
            location = f"{short_id}, pull request {number}" if number else short_id
            action = "its message holds it, and its pull request may hold it"
            yield HeldPlace("message", location, action, needs_person=True)


def find_global_memory(
    target: ForgetTarget, configured_path: str, home: Path
) -> Iterator[HeldPlace]:
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
    if configured_path and file.is_file() and target.tombstones.holds(_read_or_empty(file)):
        action = "is outside of this repository: edit it yourself"
        yield HeldPlace("global", str(file), action, needs_person=True)


def _list_files_with_words(
    repo: Repository,
    target: ForgetTarget,
    rev: str,
    search_words: Sequence[str],
    pathspecs: Iterable[str] = (),
) -> list[str]:
    """Return the files of a commit that hold words to forget.

    `git grep` finds the files with one of the plain words, which go to it by standard input: other
    users can see the arguments of a process. Only these files are compared with the hashes of the
    whole texts, for that is slow.

    Args:
        repo: the repository.
        target: the words to forget, as hashes.
        rev: the commit.
        search_words: one plain word of each text to forget.
        pathspecs: the files to search, none for all.
    """
    if not search_words:
        return []
    patterns = "".join(f"{word}\n" for word in search_words).encode()
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
