"""The files, refs and derived data that hold forgotten words, and their new contents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError
from memory_ci.extraction.tombstones import Tombstones
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
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    PRIVATE_REFS,
    Workspace,
    build_memory_test,
    holds_entries,
)
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, load_file, parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.store.episodes import edit_episode_records, is_episode_path
from memory_ci.store.layout import is_fragment, memory_pathspecs
from memory_ci.text import plural

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

KEPT_FILES = ("forgotten.txt", "made")
FIELDS = ("source", "session", "engine", "scope", "promoted_from", "aka", "instead")
LISTS = ("evidence", "occurrences", "cites", "relations", "extra")
MAX_BRANCHES = 200


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


class Target(msgspec.Struct, frozen=True):
    """The hashes of the words to forget, and the id of an entry to remove."""

    tombstones: Tombstones
    entry_id: str = ""

    def names(self, data: bytes) -> bool:
        """Return whether a file holds the id of the entry."""
        return bool(self.entry_id) and self.entry_id.encode() in data


# -- memory files


def forget_in_entry(target: Target, entry: Entry) -> Entry | None:
    """Return an entry without the words, None if its title or body holds them.

    A line of evidence that holds them is removed as a whole.
    """
    tombstones = target.tombstones
    if entry.id == target.entry_id or tombstones.refuses(entry.title, entry.body):
        return None
    changes: dict[str, Any] = {}
    for name in LISTS:
        items = getattr(entry, name)
        changes[name] = tuple(item for item in items if not _is_refused(target, item))
    for name in FIELDS:
        value = getattr(entry, name)
        if value and _is_refused(target, value):
            changes[name] = None
    return tombstones.mask_all(replace(entry, **changes))


def _is_refused(target: Target, item: object) -> bool:
    """Return whether an item of an entry's field holds the words, or the id of the entry."""
    text = " ".join(item) if isinstance(item, tuple) else str(item)
    if target.entry_id and target.entry_id in text:
        return True
    return target.tombstones.refuses(text)


def rewrite_file(
    workspace: Workspace, target: Target, path: str, data: bytes
) -> tuple[bytes | None, str]:
    """Return a memory file without the words.

    Returns:
        The new text, None to remove the file; and the action, "" for none.
    """
    tombstones = target.tombstones
    if path == REJECTED_FILE:
        return _rewrite_rejected(tombstones, data)
    new = data
    actions: list[str] = []
    if is_episode_path(path):
        with suppress(MemoryCIError):
            new = edit_episode_records(path, data, tombstones.mask_all)
        if new != data:
            actions.append("masked in its episodes")
    elif holds_entries(workspace, path):
        with suppress(MemoryCIError):
            file, actions = forget_in_file(target, parse_memory_file(path, data))
            new = render_memory_file(file)
            if is_fragment(path) and not file.entries and actions:
                return None, "the note goes"
    if tombstones.holds(new):
        new = mask_raw(tombstones, path, new)
        actions.append("masked in its text")
    return new, ", ".join(actions)


def _rewrite_rejected(tombstones: Tombstones, data: bytes) -> tuple[bytes, str]:
    """Return the file of tombstones without lines that hold the words; comments stay."""
    lines = data.decode("utf-8", "replace").splitlines()
    kept_lines = [line for line in lines if line[:1] == "#" or not tombstones.find(line)]
    action = "its lines go" if tombstones.holds(data) else ""
    return "".join(f"{line}\n" for line in kept_lines).encode(), action


def forget_in_file(target: Target, file: MemoryFile) -> tuple[MemoryFile, list[str]]:
    """Return a file of entries without the words, and the action."""
    removed: list[Entry] = []
    updated: list[Entry] = []
    replaced: list[Entry] = []
    replacements: list[Entry] = []
    for old in file.entries:
        new = forget_in_entry(target, old)
        if new is None:
            removed.append(old)
        elif new.extra != old.extra:  # `edit_file` does not update keys that are not ours
            replaced.append(old)
            replacements.append(new)
        elif new != old:
            updated.append(new)

    actions: list[str] = []
    if removed:
        actions.append(f"{plural(len(removed), 'entry')} removed")
    if updated or replaced:
        actions.append(f"struck from {plural(len(updated) + len(replaced), 'entry')}")
    edited = edit_file(file, updated=updated, removed=[*removed, *replaced], added=replacements)
    return edited, actions


def mask_raw(tombstones: Tombstones, path: str, data: bytes) -> bytes:
    """Return a file with masked words; in JSON Lines the texts of each line are masked."""
    text = data.decode("utf-8", "surrogateescape")
    if path.endswith((".jsonl", DIGEST)):
        lines = text.splitlines(keepends=True)
        text = "".join(_mask_json(tombstones, line) for line in lines)
    return tombstones.mask(text).encode("utf-8", "surrogateescape")


def _mask_json(tombstones: Tombstones, line: str) -> str:
    """Return a line of JSON with masked texts; a line that is no JSON, or needs no mask, stays."""
    with suppress(ValueError):
        value = json.loads(line)
        masked = tombstones.mask_all(value)
        if masked != value:
            return json.dumps(masked, ensure_ascii=False, separators=(",", ":")) + "\n"
    return line


def rewrite_tree(
    workspace: Workspace, target: Target, tip: str
) -> tuple[dict[str, bytes | None], list[HeldPlace]]:
    """Rewrite the memory files of a commit, and the exported block that is built from them.

    Returns:
        The new text of each file that changes, None to remove it; and the places.
    """
    tree = tree_at(workspace.repo, tip)
    is_memory = build_memory_test(workspace)
    export_path = workspace.config.export.path
    memory_files = [
        file for path, file in tree.files.items() if is_memory(path) and path != export_path
    ]

    files: dict[str, bytes | None] = {}
    places: list[HeldPlace] = []
    entry_texts: dict[str, bytes] = {}
    for content in read_files(workspace.repo, memory_files, MAX_FILE_BYTES):
        path = content.file.path
        if content.data is None:
            what = f"{content.problem}: look at it yourself"
            places.append(HeldPlace("memory", path, what, is_left=True))
            continue
        new, action = rewrite_file(workspace, target, path, content.data)
        if action and new != content.data:
            files[path] = new
            places.append(HeldPlace("memory", path, action))
        if new is not None and holds_entries(workspace, path):
            entry_texts[path] = new

    for content in read_files(workspace.repo, tree.select([export_path]), MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "surrogateescape")
        exported = _rebuild_export(workspace, text, entry_texts)
        if files and exported != text:
            files[export_path] = exported.encode("utf-8", "surrogateescape")
            places.append(HeldPlace("export", export_path, "its block is made again"))
    return files, places


def _rebuild_export(workspace: Workspace, text: str, entry_texts: Mapping[str, bytes]) -> str:
    """Return an exported file with a block of the given memory files; without a block it stays."""
    if not FENCE.find(text):
        return text
    scopes = workspace.config.scopes
    loaded = [load_file(path, data, scopes) for path, data in entry_texts.items()]
    return put_block(text, build_lines(loaded))


def rewrite_loose(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """Rewrite the memory files of the work tree that no commit holds.

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
        new, action = rewrite_file(workspace, target, path, data)
        if action and new != data:
            yield HeldPlace("memory", path, f"{action}; no commit holds it"), root / path, new


# -- refs


def rewrite_sessions(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, StoredSession, dict[str, bytes]]]:
    """Rewrite the captured sessions that hold the words.

    Yields:
        The place, the session, and its new files.
    """
    stored = list_stored(workspace.repo)
    files_of_sessions: dict[StoredSession, dict[str, bytes]] = {session: {} for session in stored}
    for name in (DIGEST, TRANSCRIPT, NOTES):
        for session, data in read_stored(workspace.repo, stored, name=name):
            files_of_sessions[session][name] = data

    tombstones = target.tombstones
    for session, files in files_of_sessions.items():
        holding = [name for name, data in files.items() if tombstones.holds(data)]
        if NOTES in files and NOTES not in holding and target.names(files[NOTES]):
            holding.append(NOTES)
        if not holding:
            continue
        if NOTES in files:
            notes, _ = rewrite_file(workspace, target, "MEMORY.md", files[NOTES])
            files[NOTES] = notes or b""
        if TRANSCRIPT in files and TRANSCRIPT in holding:
            # A transcript has the format of its agent, so it is removed; the digest stays.
            files[TRANSCRIPT] = b""
        elif TRANSCRIPT in files:
            files[TRANSCRIPT] = mask_raw(tombstones, TRANSCRIPT, files[TRANSCRIPT])
        if DIGEST in files:
            files[DIGEST] = mask_raw(tombstones, DIGEST, files[DIGEST])
        place = HeldPlace("session", session.ref, f"masked in its {', '.join(holding)}")
        yield place, session, {name: data for name, data in files.items() if data}


def list_private(repo: Repository) -> tuple[str, ...]:
    """Return the refs of runs that publish; the next run creates them again."""
    output = run_git(repo.cwd, "for-each-ref", "--format=%(refname)", PRIVATE_REFS)
    return tuple(output.decode().split())


# -- derived data


def list_derived(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """Find the files in our folders of git directories that hold the words, or may hold them.

    Yields:
        The place, the file, and its new text, None to remove it.
    """
    repo = workspace.repo
    git_dirs = [repo.common_dir, repo.git_dir, *(repo.common_dir / "worktrees").glob("*")]
    our_folders = [git_dir / OURS for git_dir in dict.fromkeys(git_dirs)]
    paths = [(folder, path) for folder in our_folders for path in sorted(folder.rglob("*"))]
    for folder, path in paths:
        if path.is_symlink() or not path.is_file() or path.name in KEPT_FILES:
            continue
        where = str(path)
        if path.is_relative_to(repo.common_dir):
            where = path.relative_to(repo.common_dir).as_posix()
        is_note = "notes" in path.relative_to(folder).parts
        change = _forget_derived(workspace, target, path, where, is_note)
        if change is not None:
            place, new = change
            yield place, path, new


def _forget_derived(
    workspace: Workspace, target: Target, path: Path, where: str, is_note: bool
) -> tuple[HeldPlace, bytes | None] | None:
    """Return the action on a derived file or a waiting note, None for no action.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        path: the file.
        where: its name in the output.
        is_note: it is a note that waits for a commit.
    """
    if path.name in DERIVED:
        return HeldPlace("derived", where, "deleted, and made again when it is asked for"), None
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
    new, _ = rewrite_file(workspace, target, ".memory/inbox/note.md", data)
    return HeldPlace("note", where, "deleted" if new is None else "masked"), new


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
    """Find files that are not memory, other branches and commit messages; their owners edit them.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        tip: the commit that is rewritten.
        needles: a word of each text.
        changed: the new text of each file that is rewritten.
    """
    is_memory = build_memory_test(workspace)
    for path in _list_holding(workspace.repo, target, tip, needles):
        is_mended = path in changed and not target.tombstones.holds(changed[path] or b"")
        if not is_memory(path) and not is_mended:
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
        oid, name = line.split(" ", 1)
        if oid != tip and _list_holding(repo, target, oid, needles, pathspecs):
            what = "holds it at its tip: bring it up to date, or delete it"
            yield HeldPlace("branch", name, what, is_left=True)


def _find_messages(repo: Repository, target: Target, needles: Sequence[str]) -> Iterator[HeldPlace]:
    """Find commit messages that hold the words.

    git does not search them: the arguments of a process are visible to others.
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
            what = "its message says it, and so may its pull request"
            yield HeldPlace("message", where, what, is_left=True)


def find_global(target: Target, written: str, home: Path) -> Iterator[HeldPlace]:
    """Find the file of global memory if it holds the words.

    Args:
        target: the words to forget.
        written: its path as the configuration has it, "" for none.
        home: the home of the user.
    """
    path = Path(written)
    if written.startswith("~/"):
        path = home / written.removeprefix("~/")
    file = path / "MEMORY.md" if path.is_dir() else path
    if written and file.is_file() and target.tombstones.holds(_read(file)):
        what = "is outside of this repository: edit it yourself"
        yield HeldPlace("global", str(file), what, is_left=True)


def _list_holding(
    repo: Repository,
    target: Target,
    rev: str,
    needles: Sequence[str],
    pathspecs: Iterable[str] = (),
) -> list[str]:
    """Return the files of a commit that hold the words.

    git finds the files with one of the needles, which are read at once. The needles go to git by
    standard input: the arguments of a process are visible to others.
    """
    if not needles:
        return []
    patterns = "".join(f"{needle}\n" for needle in needles).encode()
    command = ("grep", "-l", "-z", "-i", "-I", "-F", "-f", "-", rev, "--", *pathspecs)
    output = run_git(repo.cwd, *command, input=patterns, ok=(0, 1))
    paths = [line.partition(":")[2] for line in decode_path(output).split("\0") if line]
    files = tree_at(repo, rev).files
    contents = read_files(repo, [files[path] for path in paths if path in files], MAX_FILE_BYTES)
    return [
        content.file.path
        for content in contents
        if content.data is not None and target.tombstones.holds(content.data)
    ]
