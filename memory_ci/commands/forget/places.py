"""Places: every file, ref and derived datum that holds what is to be forgotten, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

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
    FULL,
    NOTES,
    StoredSession,
    list_stored,
    read_stored,
)
from memory_ci.memory.agents_block import FENCE, build_lines, put_block
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    PRIVATE,
    Workspace,
    holds_entries,
    memory_test,
)
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, load_file, parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.store.episodes import edit_tellings, is_episode_path
from memory_ci.store.layout import is_fragment, memory_pathspecs
from memory_ci.text import plural

HeldKind = Literal[
    "memory", "export", "session", "note", "derived", "ref", "file", "branch", "message", "global"
]
DERIVED = ("index.db", "index.db-wal", "index.db-shm", "tasks.mpk")
"""Files that are made again from git whenever they are missing. Their form hides words, so they always go."""

OURS = "memory-ci"  # the directory in the git directory that is ours
KEPT = ("forgotten.txt", "made")
FIELDS = ("source", "session", "engine", "scope", "promoted_from", "aka", "instead")
LISTS = ("evidence", "occurrences", "cites", "relations", "extra")
MAX_BRANCHES = 200


class HeldPlace(msgspec.Struct, frozen=True):
    """Where it stands, and what is done about it; `is_left`: a person has to do it. It never says what stands there."""

    kind: HeldKind
    where: str
    what: str
    is_left: bool = False


class Target(msgspec.Struct, frozen=True):
    """What is to be forgotten: the hashes of its words, and the id of the entry that goes away."""

    tombstones: Tombstones
    entry_id: str = ""

    def names(self, data: bytes) -> bool:
        return bool(self.entry_id) and self.entry_id.encode() in data


# -- files of memory


def forget_in_entry(target: Target, entry: Entry) -> Entry | None:
    """The entry without it; None where its own words say it. Evidence that says it goes as a whole line."""
    gone = target.tombstones
    if entry.id == target.entry_id or gone.refuses(entry.title, entry.body):
        return None

    def keeps(item: object) -> bool:
        text = " ".join(item) if isinstance(item, tuple) else str(item)
        return not gone.refuses(text) and not (target.entry_id and target.entry_id in text)

    lists = {name: tuple(filter(keeps, getattr(entry, name))) for name in LISTS}
    fields = dict.fromkeys(
        name for name in FIELDS if (value := getattr(entry, name)) and not keeps(value)
    )
    return gone.mask_all(replace(entry, **lists, **fields))


def rewrite_file(
    workspace: Workspace, target: Target, path: str, data: bytes
) -> tuple[bytes | None, str]:
    """A memory file without it (None: the file goes away), and what is done, "" for nothing."""
    gone, new, done = target.tombstones, data, []
    if path == REJECTED_FILE:
        told = data.decode("utf-8", "replace").splitlines()
        lines = [line for line in told if line[:1] == "#" or not gone.find(line)]
        return "".join(f"{line}\n" for line in lines).encode(), "its lines go" if gone.holds(
            data
        ) else ""
    if is_episode_path(path):
        with suppress(MemoryCIError):
            new = edit_tellings(path, data, gone.mask_all)
        done += ["masked in its episodes"] if new != data else []
    elif holds_entries(workspace, path):
        with suppress(MemoryCIError):
            file, done = forget_in_file(target, parse_memory_file(path, data))
            new = render_memory_file(file)
            if is_fragment(path) and not file.entries and done:
                return None, "the note goes"
    if gone.holds(new):
        new = mask_raw(gone, path, new)
        done += ["masked in its text"]
    return new, ", ".join(done)


def forget_in_file(target: Target, file: MemoryFile) -> tuple[MemoryFile, list[str]]:
    """A file of entries without it, and what is done."""
    pairs = [(entry, forget_in_entry(target, entry)) for entry in file.entries]
    removed = [entry for entry, new in pairs if new is None]
    updated = [new for entry, new in pairs if new is not None and new != entry]
    done = [f"{plural(len(removed), 'entry')} removed"] if removed else []
    done += [f"struck from {plural(len(updated), 'entry')}"] if updated else []
    anew = [
        (old, new) for old, new in pairs if new is not None and new.extra != old.extra
    ]  # no key there is ours
    edited = edit_file(
        file,
        updated=[new for new in updated if all(new is not other for _, other in anew)],
        removed=[*removed, *(old for old, _ in anew)],
        added=[new for _, new in anew],
    )
    return edited, done


def mask_raw(gone: Tombstones, path: str, data: bytes) -> bytes:
    """A file with masks: of JSON Lines each line's texts, else the text as it stands."""
    text = data.decode("utf-8", "surrogateescape")
    lines = text.splitlines(keepends=True) if path.endswith((".jsonl", DIGEST)) else []
    for number, line in enumerate(lines):
        with suppress(ValueError):
            masked = gone.mask_all(value := json.loads(line))
            if masked != value:
                lines[number] = json.dumps(masked, ensure_ascii=False, separators=(",", ":")) + "\n"
    return gone.mask("".join(lines) or text).encode("utf-8", "surrogateescape")


def rewrite_tree(
    workspace: Workspace, target: Target, tip: str
) -> tuple[dict[str, bytes | None], list[HeldPlace]]:
    """The memory files of a commit that change, with the exported block that follows from them, and their places."""
    tree, is_memory = tree_at(workspace.repo, tip), memory_test(workspace)
    files: dict[str, bytes | None] = {}
    places: list[HeldPlace] = []
    listed = [
        file
        for path, file in tree.files.items()
        if is_memory(path) and path != workspace.config.export.path
    ]
    kept: dict[str, bytes] = {}
    for content in read_files(workspace.repo, listed, MAX_FILE_BYTES):
        path = content.file.path
        if content.data is None:
            places.append(
                HeldPlace("memory", path, f"{content.problem}: look at it yourself", is_left=True)
            )
            continue
        new, done = rewrite_file(workspace, target, path, content.data)
        if done and new != content.data:
            files[path] = new
            places.append(HeldPlace("memory", path, done))
        if new is not None and holds_entries(workspace, path):
            kept[path] = new
    path = workspace.config.export.path
    for content in read_files(workspace.repo, tree.select([path]), MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "surrogateescape")
        loaded = [load_file(name, data, workspace.config.scopes) for name, data in kept.items()]
        if FENCE.find(text) and (after := put_block(text, build_lines(loaded))) != text and files:
            files[path] = after.encode("utf-8", "surrogateescape")
            places.append(HeldPlace("export", path, "its block is made again"))
    return files, places


def rewrite_loose(
    workspace: Workspace, target: Target, tip: str
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """Memory files of the work tree that no commit holds, with what becomes of them."""
    root = workspace.repo.root
    if root is None:
        return
    said = run_git(workspace.repo.cwd, "ls-files", "-z", "--others", "--", ".").decode(
        "utf-8", "surrogateescape"
    )
    is_memory = memory_test(workspace)
    for path in filter(is_memory, said.split("\0")):
        data = _read(root / path)
        new, done = rewrite_file(workspace, target, path, data)
        if done and new != data:
            yield HeldPlace("memory", path, f"{done}; no commit holds it"), root / path, new


# -- refs


def rewrite_sessions(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, StoredSession, dict[str, bytes]]]:
    """The captured sessions that hold it, with their files as they will be."""
    stored = list_stored(workspace.repo)
    files: dict[StoredSession, dict[str, bytes]] = {one: {} for one in stored}
    for name in (DIGEST, FULL, NOTES):
        for one, data in read_stored(workspace.repo, stored, name=name):
            files[one][name] = data
    for one, own in files.items():
        holds = target.tombstones.holds
        held = [
            name
            for name, data in own.items()
            if holds(data) or (name == NOTES and target.names(data))
        ]
        if not held:
            continue
        if NOTES in own:
            own[NOTES] = rewrite_file(workspace, target, "MEMORY.md", own[NOTES])[0] or b""
        if (
            FULL in own
        ):  # a whole transcript goes: its form is the agent's, and the digest has the rest
            own[FULL] = b"" if holds(own[FULL]) else mask_raw(target.tombstones, FULL, own[FULL])
        if DIGEST in own:
            own[DIGEST] = mask_raw(target.tombstones, DIGEST, own[DIGEST])
        place = HeldPlace("session", one.ref, f"masked in its {', '.join(held)}")
        yield place, one, {name: data for name, data in own.items() if data}


def list_private(repo: Repository) -> tuple[str, ...]:
    """The refs of runs that publish; the next run makes them anew."""
    return tuple(run_git(repo.cwd, "for-each-ref", "--format=%(refname)", PRIVATE).decode().split())


# -- derived data


def list_derived(
    workspace: Workspace, target: Target
) -> Iterator[tuple[HeldPlace, Path, bytes | None]]:
    """The files beside the index and in the git directories of work trees that hold it, or may."""
    repo, found = workspace.repo, list[tuple[Path, Path]]()
    for folder in dict.fromkeys(
        [repo.common_dir, repo.git_dir, *(repo.common_dir / "worktrees").glob("*")]
    ):
        found += [(folder / OURS, path) for path in sorted((folder / OURS).rglob("*"))]
    for ours, path in found:
        if path.is_symlink() or not path.is_file() or path.name in KEPT:
            continue
        where = (
            path.relative_to(repo.common_dir).as_posix()
            if path.is_relative_to(repo.common_dir)
            else str(path)
        )
        if path.name in DERIVED:
            yield (
                HeldPlace("derived", where, "deleted, and made again when it is asked for"),
                path,
                None,
            )
            continue
        is_note = "notes" in path.relative_to(ours).parts
        try:
            data = read_regular(path, MAX_FILE_BYTES)
        except OSError:
            unread = "it cannot be read, or is too large to search"
            if is_note:
                yield HeldPlace("note", where, f"{unread}: look yourself", is_left=True), path, None
            else:
                yield HeldPlace("derived", where, f"deleted: {unread}"), path, None
            continue
        if target.tombstones.holds(data) or target.names(data):
            new = (
                rewrite_file(workspace, target, ".memory/inbox/note.md", data)[0]
                if is_note
                else None
            )
            done = "deleted" if new is None else "masked"
            yield HeldPlace("note" if is_note else "derived", where, done), path, new


def _read(path: Path) -> bytes:
    """Return the bytes of a file; none of one that no command reads."""
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError:
        return b""


# -- what a person has to look at


def list_left(
    workspace: Workspace,
    target: Target,
    tip: str,
    needles: Sequence[str],
    changed: Mapping[str, bytes | None],
) -> Iterator[HeldPlace]:
    """Files of the commit that are not memory, and other branches: named, and left to their owners. Of the files that
    are `changed` the new content counts."""
    repo, is_memory = workspace.repo, memory_test(workspace)
    for path in _list_holding(repo, target, tip, needles):
        is_mended = path in changed and not target.tombstones.holds(changed[path] or b"")
        if not is_memory(path) and not is_mended:
            yield HeldPlace("file", path, "is not memory: edit it yourself", is_left=True)
    refs = run_git(
        repo.cwd, "for-each-ref", f"--count={MAX_BRANCHES}", "--format=%(objectname) %(refname)", "refs/heads",
        "refs/remotes", "refs/tags", "refs/stash",
    ).decode("utf-8", "replace")  # fmt: skip
    where = (
        *memory_pathspecs(workspace.config.scopes),
        ".memory",
    )  # of a branch only memory: there may be many
    for oid, name in (line.split(" ", 1) for line in refs.splitlines()):
        if oid != tip and _list_holding(repo, target, oid, needles, where):
            yield HeldPlace(
                "branch",
                name,
                "holds it at its tip: bring it up to date, or delete it",
                is_left=True,
            )
    folded = [
        word.casefold() for word in needles
    ]  # sought here: arguments of a process are seen by others
    for one in (
        run_git(repo.cwd, "log", "-z", "--all", "--format=%h%x09%B")
        .decode("utf-8", "replace")
        .split("\0")
    ):
        short, _, message = one.strip().partition("\t")
        if any(word in message.casefold() for word in folded) and target.tombstones.find(message):
            number = find_number(message)
            named = f"{short}, pull request {number}" if number else short
            yield HeldPlace(
                "message", named, "its message says it, and so may its pull request", is_left=True
            )


def find_global(target: Target, written: str, home: Path) -> Iterator[HeldPlace]:
    """The file of global memory as the configuration names it, "" for none, where it holds it."""
    path = home / written.removeprefix("~/") if written.startswith("~/") else Path(written)
    file = path / "MEMORY.md" if path.is_dir() else path
    if written and file.is_file() and target.tombstones.holds(_read(file)):
        yield HeldPlace(
            "global", str(file), "is outside of this repository: edit it yourself", is_left=True
        )


def _list_holding(
    repo: Repository, target: Target, rev: str, needles: Sequence[str], where: Iterable[str] = ()
) -> list[str]:
    """The files of a commit that hold it: git finds those with one of the words, and they are read in one go. The words
    go to git by standard input: arguments of a process are seen by others."""
    if not needles:
        return []
    words = "".join(f"{word}\n" for word in needles).encode()
    said = run_git(
        repo.cwd,
        "grep",
        "-l",
        "-z",
        "-i",
        "-I",
        "-F",
        "-f",
        "-",
        rev,
        "--",
        *where,
        input=words,
        ok=(0, 1),
    )
    paths = (path.partition(":")[2] for path in decode_path(said).split("\0") if path)
    files = tree_at(repo, rev).files
    contents = read_files(repo, [files[path] for path in paths if path in files], MAX_FILE_BYTES)
    return [
        one.file.path
        for one in contents
        if one.data is not None and target.tombstones.holds(one.data)
    ]
