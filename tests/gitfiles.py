"""Writes commits directly into the files of a repository, where git would need several processes.

Tests make thousands of commits, nearly all of one kind: a few files change in a repository without hooks,
attributes or special settings. `RepoBuilder` writes these with this module, and lets git make all others.
tests/test_gitfiles.py compares the results. Formats: gitrepository-layout(5), gitformat-index(5).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from configparser import ConfigParser, Error
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

NO_COMMIT = "0" * 40
"""The id in a reflog for the commit before the first."""

PLAIN_SETTINGS = {
    ("core", "repositoryformatversion", "0"),
    ("core", "filemode", "true"),
    ("core", "bare", "false"),
    ("core", "logallrefupdates", "true"),
}
"""Settings that `git init` writes."""

PLAIN_SECTIONS = ("remote ", "branch ", "user", "receive")
"""Sections without effect on commits: identities of tests come from the environment."""

UNFINISHED = {
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "MERGE_MSG"),
    *("rebase-merge", "rebase-apply"),
}
"""Files and folders of an unfinished merge or rebase, which a commit would continue."""

ATTRIBUTES = (".gitattributes", ".git/info/attributes")

IDENTITY = re.compile(r"[^\s.,:;<>\"\\'](?:[^<>\n]*[^\s.,:;<>\"\\'])? <[^\s.,:;<>\"\\'][^<>\s]*>")
"""Matches "Ann Author <ann@example.com>"; git would strip other characters at the ends of a name."""

BARE_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[remote "origin"]
\turl = {origin}
"""

INDEX_HEAD = struct.Struct(">4sII")
INDEX_ENTRY = struct.Struct(">10I20sH")
CHECKSUM_SIZE = 20
WORD = 0xFFFFFFFF
"""The index keeps the lower 32 bits of each number."""

LONGEST_NAME = 0xFFF
"""An entry's flags hold the length of its path, at most this; higher bits are for merges and rare states."""


class NotPlain(Exception):
    """Raised for a commit that only git can make."""


class IndexEntry(NamedTuple):
    """A file of the index: its stat data when it was staged, and the blob with its content."""

    ctime: int
    ctime_ns: int
    mtime: int
    mtime_ns: int
    device: int
    inode: int
    mode: int
    owner: int
    group: int
    size: int
    blob: bytes
    flags: int


Index = dict[bytes, IndexEntry]


class Signatures(NamedTuple):
    """The author and the committer of a commit, as "Ann Author <ann@example.com>", and its time."""

    author: str
    committer: str
    when: datetime

    def sign(self, identity: str) -> str:
        if not IDENTITY.fullmatch(identity):
            raise NotPlain(f"git would write {identity} differently")
        return f"{identity} {int(self.when.timestamp())} {self.when:%z}"


class GitFiles:
    """The repository at `root`, which must have its own `.git`.

    Raises:
        NotPlain: something in it could change how git makes a commit.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = root / ".git"
        try:
            names = {path.name for path in self.git.iterdir()}
            config = (self.git / "config").read_text()
        except OSError as error:
            raise NotPlain("a linked work tree, a bare repository, or none") from error
        if names & UNFINISHED:
            raise NotPlain("a merge or rebase is not finished")
        if "hooks" in names and any(hook.suffix != ".sample" for hook in self.git.glob("hooks/*")):
            raise NotPlain("a hook")
        if any((root / name).exists() for name in ATTRIBUTES):
            raise NotPlain("attributes")
        if not is_plain_config(config):
            raise NotPlain("settings that a commit may depend on")

    def commit(self, message: bytes, paths: Iterable[str], signatures: Signatures) -> str:
        """Commit the index and the files at `paths`, and return the id of the commit.

        Raises:
            NotPlain: as for the class. Nothing was changed then, except that blobs may have been written.
        """
        index = self._refresh(self._read_index())
        for path in paths:
            self._stage(index, path)
        if any(path.endswith(b".gitattributes") for path in index):
            raise NotPlain("attributes")
        branch, parent = self._read_head()
        parents = [parent] if parent else []
        commit, subject = self._write_commit(index, parents, message, signatures)
        self._write_index(index)
        action = "commit" if parent else "commit (initial)"
        self._move(branch, parent, commit, f"{action}: {subject}", signatures)
        return commit

    def create_branch(self, name: str, signatures: Signatures) -> None:
        """Make a branch at HEAD and check it out."""
        start, commit = self._read_head()
        ref = f"refs/heads/{name}"
        if not commit or (self.git / ref).exists() or self._read_ref(ref):
            raise NotPlain("git refuses, or makes a branch without commits")
        self._log(ref, NO_COMMIT, commit, "branch: Created from HEAD", signatures)
        write_file(self.git / ref, f"{commit}\n".encode())
        self._check_out(start, ref, commit, commit, signatures)

    def merge_back(
        self, branch: str, target_name: str, message: bytes, signatures: Signatures
    ) -> str:
        """Check out another branch, and merge the present one into it; return the id of the merge commit.

        Raises:
            NotPlain: the branch does not descend from the other one, or has something staged.
        """
        index = self._read_index()
        merged, tip = self._read_head()
        if merged != f"refs/heads/{branch}":
            raise NotPlain("another branch is checked out")
        ref = f"refs/heads/{target_name}"
        target = self._read_ref(ref)
        tree, parents = self._read_commit(tip)
        if tree != self._write_index_tree(index):
            raise NotPlain("something is staged")
        while parents != [target]:
            if len(parents) != 1:
                raise NotPlain("HEAD does not descend from the branch alone")
            _, parents = self._read_commit(parents[0])
        commit, _ = self._write_commit(index, [target, tip], message, signatures)
        self._check_out(merged, ref, tip, target, signatures)
        action = f"merge {branch}: Merge made by the 'ort' strategy."
        self._move(ref, target, commit, action, signatures)
        return commit

    def _write_commit(
        self, index: Index, parents: Sequence[str], message: bytes, signatures: Signatures
    ) -> tuple[str, str]:
        """Write a commit of what is staged; return its id and its subject."""
        text = clean_message(message)
        lines = [
            f"tree {self._write_index_tree(index)}",
            *[f"parent {parent}" for parent in parents],
            f"author {signatures.sign(signatures.author)}",
            f"committer {signatures.sign(signatures.committer)}",
        ]
        commit = self.write_object("commit", "\n".join([*lines, "", text]).encode())
        return commit.hex(), " ".join(text.partition("\n")[0].split())

    def _write_index_tree(self, index: Index) -> str:
        tree = self.write_tree({path: (entry.mode, entry.blob) for path, entry in index.items()})
        return tree.hex()

    def _read_commit(self, commit: str) -> tuple[str, list[str]]:
        """The tree and the parents of a commit."""
        try:
            data = zlib.decompress((self.git / "objects" / commit[:2] / commit[2:]).read_bytes())
        except OSError as error:
            raise NotPlain("a packed commit, or none") from error
        head = data.partition(b"\0")[2].decode("utf-8", "replace").partition("\n\n")[0]
        fields = [line.partition(" ") for line in head.splitlines()]
        return fields[0][2], [value for key, _, value in fields if key == "parent"]

    def _check_out(self, old: str, new: str, old_tip: str, tip: str, by: Signatures) -> None:
        """Point HEAD at another branch, whose files the work tree has."""
        action = f"checkout: moving from {shorten(old, old_tip)} to {shorten(new, tip)}"
        self._log("HEAD", old_tip, tip, action, by)
        write_file(self.git / "HEAD", f"ref: {new}\n".encode())

    def _move(self, branch: str, old: str, new: str, action: str, by: Signatures) -> None:
        """Move HEAD with its branch to a commit."""
        for name in {"HEAD", branch}:
            self._log(name, old or NO_COMMIT, new, action, by)
        write_file(self.git / branch, f"{new}\n".encode())

    def _log(self, name: str, old: str, new: str, action: str, by: Signatures) -> None:
        line = f"{old} {new} {by.sign(by.committer)}\t{action}\n"
        write_file(self.git / "logs" / name, line.encode(), mode="ab")

    def copy_bare(self, path: Path) -> None:
        """Make a bare repository with the branches and tags of this one, as `git clone --bare` does.

        Raises:
            NotPlain: there are refs in one file, or objects at another place.
        """
        if (self.git / "packed-refs").exists() or (self.git / "objects/info/alternates").exists():
            raise NotPlain("refs or objects at another place")
        path.mkdir(parents=True)
        for name in ("objects", "refs/heads", "refs/tags"):
            shutil.copytree(self.git / name, path / name)
        shutil.copy(self.git / "HEAD", path)
        write_file(path / "config", BARE_CONFIG.format(origin=self.root).encode())

    def write_object(self, kind: str, content: bytes) -> bytes:
        """Write a loose object, unless there is one; return its id."""
        data = f"{kind} {len(content)}\0".encode() + content
        sha = hashlib.sha1(data, usedforsecurity=False)
        name = sha.hexdigest()
        file = self.git / "objects" / name[:2] / name[2:]
        if not file.exists():
            write_file(file, zlib.compress(data, 1))
            file.chmod(0o444)
        return sha.digest()

    def write_tree(self, blobs: Mapping[bytes, tuple[int, bytes]]) -> bytes:
        """Write a tree with its subtrees; return its id.

        Args:
            blobs: the mode and the id of the object at each path, which is relative to the tree.
        """
        lines = {}  # git sorts a folder as if its name ended with a slash
        folders: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}
        for path, (mode, blob) in blobs.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                folders.setdefault(name, {})[rest] = (mode, blob)
            else:
                lines[name] = b"%o %s\0%s" % (mode, name, blob)
        for name, content in folders.items():
            lines[name + b"/"] = b"40000 %s\0%s" % (name, self.write_tree(content))
        return self.write_object("tree", b"".join(lines[name] for name in sorted(lines)))

    def _read_head(self) -> tuple[str, str]:
        """Return the ref of the checked-out branch (HEAD if detached) and its commit ("" before the first)."""
        head = (self.git / "HEAD").read_text().strip()
        branch = head.removeprefix("ref: ")
        return ("HEAD", head) if branch == head else (branch, self._read_ref(branch))

    def _read_ref(self, name: str) -> str:
        """Return the commit of a ref from its file or the list of packed refs; "" if there is none."""
        file, packed = self.git / name, self.git / "packed-refs"
        if file.exists():
            return file.read_text().strip()
        lines = packed.read_text().splitlines() if packed.exists() else []
        return next((line[:40] for line in lines if line[40:] == f" {name}"), "")

    def _read_index(self) -> Index:
        try:
            data = (self.git / "index").read_bytes()
        except FileNotFoundError:
            return {}
        signature, version, count = INDEX_HEAD.unpack_from(data)
        if (signature, version) != (b"DIRC", 2):
            raise NotPlain(f"version {version} of the index")
        index = {}
        start = INDEX_HEAD.size
        for _ in range(count):
            entry = IndexEntry(*INDEX_ENTRY.unpack_from(data, start))
            end = data.index(b"\0", start + INDEX_ENTRY.size)
            path = data[start + INDEX_ENTRY.size : end]
            if entry.flags > LONGEST_NAME:
                raise NotPlain("a path that is not merged, or in a rare state")
            index[path] = entry
            start += padded_length(path)
        extensions = data[start:-CHECKSUM_SIZE]
        if extensions and not extensions.startswith(b"TREE"):  # that one is a cache
            raise NotPlain("an extension of the index")
        return index

    def _refresh(self, index: Index) -> Index:
        """Return the index with the current stat data of files whose content is that of the index.

        A file that was written twice within a second may look unchanged. If its content differs from the staged one,
        the size 0 makes git read it.
        """
        file = self.git / "index"
        index_time = int(file.stat().st_mtime) if file.exists() else 0
        refreshed = {}
        for path, entry in index.items():
            current = stat_entry(self.root / os.fsdecode(path))
            if current is None:  # deleted, or no regular file
                refreshed[path] = entry
                continue
            is_unchanged = current[:10] == entry[:10] and entry.mtime < index_time
            if is_unchanged:
                refreshed[path] = entry
            elif (current.mode, read_blob(self.root / os.fsdecode(path))) == (
                entry.mode,
                entry.blob,
            ):
                refreshed[path] = current._replace(blob=entry.blob, flags=entry.flags)
            else:
                refreshed[path] = entry._replace(size=0)
        return refreshed

    def _stage(self, index: Index, path: str) -> None:
        """Write the blob of a file, and add it to `index`."""
        name = os.fsencode(path)
        folders = {os.fsencode(folder) for folder in Path(path).parents}
        is_in_the_way = (
            any(other.startswith(name + b"/") for other in index) or folders & index.keys()
        )
        if path != str(Path(path)) or ".." in Path(path).parts or is_in_the_way:
            raise NotPlain(f"{path} takes the place of another")
        entry = stat_entry(self.root / path)
        if entry is None:
            raise NotPlain(f"{path} is no regular file")
        blob = self.write_object("blob", (self.root / path).read_bytes())
        index[name] = entry._replace(blob=blob, flags=min(len(name), LONGEST_NAME))

    def _write_index(self, index: Index) -> None:
        data = bytearray(INDEX_HEAD.pack(b"DIRC", 2, len(index)))
        for path in sorted(index):
            data += (INDEX_ENTRY.pack(*index[path]) + path).ljust(padded_length(path), b"\0")
        checksum = hashlib.sha1(data, usedforsecurity=False).digest()
        write_file(self.git / "index", bytes(data) + checksum)


@cache
def is_plain_config(text: str) -> bool:
    """Return whether a repository's configuration has only settings of `git init`, `git clone` and identities."""
    config = ConfigParser(strict=False, interpolation=None)
    try:
        config.read_string(text)
    except Error:
        return False
    for section in config.sections():
        settings = {(section, *setting) for setting in config.items(section)}
        if not section.startswith(PLAIN_SECTIONS) and not settings <= PLAIN_SETTINGS:
            return False
    return True


def shorten(ref: str, commit: str) -> str:
    """The name by which a reflog calls a branch; a commit where none is checked out."""
    return commit if ref == "HEAD" else ref.removeprefix("refs/heads/")


def clean_message(message: bytes) -> str:
    """Return a message as `git commit --file` cleans it: no trailing blanks, and no two empty lines in a row."""
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise NotPlain("git guesses the encoding of a message") from error
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    cleaned = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"
    if "\0" in cleaned or not cleaned.strip():
        raise NotPlain("git refuses such a message")
    return cleaned


def stat_entry(file: Path) -> IndexEntry | None:
    """Return the stat data of a regular file, without a blob; None for anything else."""
    try:
        data = file.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(data.st_mode):
        return None
    return IndexEntry(
        *divmod(data.st_ctime_ns, 10**9),
        *divmod(data.st_mtime_ns, 10**9),
        data.st_dev & WORD,
        data.st_ino & WORD,
        0o100755 if data.st_mode & 0o100 else 0o100644,
        data.st_uid & WORD,
        data.st_gid & WORD,
        data.st_size & WORD,
        blob=b"",
        flags=0,
    )


def read_blob(file: Path) -> bytes:
    """Return the id of the blob with a file's content."""
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()


def padded_length(path: bytes) -> int:
    """Return the length of an index entry: 1 to 8 zero bytes fill it up to a multiple of 8."""
    return (INDEX_ENTRY.size + len(path) + 8) & ~7


def write_file(file: Path, data: bytes, mode: str = "wb") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open(mode) as stream:
        stream.write(data)
