"""List the files of a git tree, the index or the work tree, and read their content in batches.

Pathspecs here are git's default ones: a glob over the whole path in which `*` also matches `/`, or
a literal directory. No pathspec means every file. Symbolic links and submodules are left out, but
for `Tree.modes`.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO

import msgspec

from memory_ci.gitrepo.process import decode_path, encode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository

REGULAR = ("100644", "100755")
DIRECTORY = "040000"
PREFERRED_STAGES = "0231"  # Of an unmerged file our side is listed, else theirs, else the base.
CHUNK = 1 << 16  # Bytes that are read from a stream together.
MAX_LOADED = 64  # Files whose contents are in memory together.
MAX_TREES = 4  # Listings in memory: each may be of a hundred thousand files.


class TreeFile(msgspec.Struct, frozen=True):
    """A file and the id of its content.

    Attributes:
        path: the path from the root of the tree.
        oid: the object id. Of a file on disk it is that of its bytes, with no filter applied; ""
            when they cannot be read.
        on_disk: whether the content is in the work tree, and perhaps not in git.
    """

    path: str
    oid: str
    on_disk: bool = False


class FileContent(msgspec.Struct, frozen=True):
    """The result of reading a file: its bytes, or a problem that follows its path.

    The problem begins with a verb ("is …", "cannot …").
    """

    file: TreeFile
    data: bytes | None
    problem: str = ""


class Tree:
    """The files of a commit or tree, by its full id; listed once, when needed.

    Raises:
        RepositoryError: git-failed, at the listing.
    """

    def __init__(self, repo: Repository, oid: str) -> None:
        self.repo = repo
        self.oid = oid

    @cached_property
    def modes(self) -> Mapping[str, str]:
        """The modes of files, directories, symbolic links (120000) and submodules (160000)."""
        return {path: mode for mode, _, path in self._entries}

    @cached_property
    def files(self) -> Mapping[str, TreeFile]:
        """The files by path, in git's order."""
        return {path: TreeFile(path, oid) for mode, oid, path in self._entries if mode in REGULAR}

    def select(self, pathspecs: Sequence[str]) -> tuple[TreeFile, ...]:
        """Return the files that match one of the pathspecs, in git's order."""
        files = self.files.items()
        return tuple(file for path, file in files if matches_pathspecs(path, pathspecs))

    def read(self, paths: Iterable[str], limit: int) -> Iterator[FileContent]:
        """Yield the content of files in order of paths, as `read_files`; skip missing ones."""
        files = [self.files[path] for path in sorted(paths) if path in self.files]
        return read_files(self.repo, files, limit)

    @cached_property
    def _entries(self) -> tuple[tuple[str, str, str], ...]:
        """(mode, object id, path) of everything; `ls-tree` has no globs to select by."""
        args = ("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", self.oid)
        entries: list[tuple[str, str, str]] = []
        for line in _split_lines(run_git(self.repo.cwd, *args)):
            fields, _, path = line.partition("\t")
            mode, _, oid = fields.split(" ")
            entries.append((mode, oid, path))
        return tuple(entries)


tree_at = lru_cache(maxsize=MAX_TREES)(Tree)
"""Return the tree of a full id; callers share the newest ones."""


def matches_pathspecs(path: str, pathspecs: Sequence[str]) -> bool:
    """Return whether a path matches one of the pathspecs, as git would decide it.

    >>> matches_pathspecs("src/api/MEMORY.md", ["MEMORY.md", "*/MEMORY.md"])
    True
    """
    if not pathspecs:
        return True
    return _compile_pathspecs(tuple(pathspecs)).match(path) is not None


@lru_cache(maxsize=32)
def _compile_pathspecs(pathspecs: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of the paths that match a pathspec: as a glob, or as a directory."""
    globs = [fnmatch.translate(spec) for spec in pathspecs]
    directories = [rf"{re.escape(spec.rstrip('/'))}/" for spec in pathspecs]
    return re.compile("|".join((*globs, *directories)))


def find_obstacle(path: str, modes: Mapping[str, str]) -> str | None:
    """Return the path that makes it impossible to create a file at `path`; None if nothing does.

    It is `path` itself if it is no regular file, or a parent that is no directory.

    Args:
        path: the path of the file to create.
        modes: the modes of the paths that exist, as `Tree.modes`.

    >>> find_obstacle("docs/MEMORY.md", {"docs": "120000"})
    'docs'
    """
    if path in modes and modes[path] not in REGULAR:
        return path
    names = path.split("/")
    for depth in range(1, len(names)):
        parent = "/".join(names[:depth])
        if parent in modes and modes[parent] != DIRECTORY:
            return parent
    return None


def list_staged(
    repo: Repository, pathspecs: Sequence[str], index_file: Path | None = None
) -> tuple[TreeFile, ...]:
    """Return the files of the index.

    An unmerged file is listed once: our side if there is one, else theirs, else the base.

    Args:
        repo: the repository.
        pathspecs: the files.
        index_file: another index, as git sets for the hook of `commit -a`.
    """
    env = {"GIT_INDEX_FILE": str(index_file)} if index_file else None
    listing = run_git(repo.cwd, "ls-files", "-s", "-z", "--", *pathspecs, env=env)
    oids_by_path: dict[str, dict[str, str]] = {}  # The object id of each stage of a path.
    for line in _split_lines(listing):
        mode, oid, stage, path = _parse_index_line(line)
        if mode in REGULAR:
            oids_by_path.setdefault(path, {})[stage] = oid

    files: list[TreeFile] = []
    for path, oids in oids_by_path.items():
        stage = min(oids, key=PREFERRED_STAGES.index)
        files.append(TreeFile(path, oids[stage]))
    return tuple(files)


def list_worktree(repo: Repository, pathspecs: Sequence[str]) -> tuple[TreeFile, ...]:
    """Return the files of the work tree in order of paths, tracked or not, without ignored ones.

    An unmodified file has the id of the index; content decides, never a time stamp.

    Raises:
        RepositoryError: git-failed, in a bare repository.
    """
    format_options = ("-z", "-t", "-s")
    selection = ("--cached", "--others", "--modified", "--deleted", "--exclude-standard")
    listing = run_git(repo.cwd, "ls-files", *format_options, *selection, "--", *pathspecs)
    unmodified_files, other_paths = _parse_worktree(listing)
    if not other_paths:
        return tuple(unmodified_files)

    files = list(unmodified_files)
    for path in other_paths:
        file = find_on_disk(repo.cwd, path, repo.object_format)
        if file is not None:
            files.append(file)
    return tuple(sorted(files, key=lambda file: encode_path(file.path)))


def _parse_worktree(listing: bytes) -> tuple[list[TreeFile], list[str]]:
    """Parse the output of `git ls-files -t -s` for a work tree.

    A line is a letter (H cached, S not checked out, M unmerged, C modified, R deleted, ? untracked)
    and, but for `?`, the line of the index. A modified path occurs twice, as H and as C.

    Returns:
        The unmodified files, with the ids of the index; and the paths of the modified, deleted,
        unmerged and untracked files, which are to be read from disk.
    """
    oids: dict[str, str] = {}  # Of the index, by path.
    other_paths: dict[str, None] = {}
    for line in _split_lines(listing):
        tag, _, entry = line.partition(" ")
        if tag == "?":
            other_paths[entry] = None
            continue
        mode, oid, _, path = _parse_index_line(entry)
        if tag not in "HS":
            other_paths[path] = None
        elif mode in REGULAR:
            oids[path] = oid
    unmodified = [TreeFile(path, oid) for path, oid in oids.items() if path not in other_paths]
    return unmodified, list(other_paths)


def _parse_index_line(line: str) -> tuple[str, str, str, str]:
    """Return (mode, object id, stage, path) of a line of `git ls-files -s`."""
    fields, _, path = line.partition("\t")
    mode, oid, stage = fields.split(" ")
    return mode, oid, stage, path


def _split_lines(listing: bytes) -> list[str]:
    """Split the output of a git command with the option `-z`, which ends lines with NUL."""
    return decode_path(listing).split("\0")[:-1]


def find_on_disk(root: Path, path: str, algorithm: str) -> TreeFile | None:
    """Return a file of the work tree with the id that git would give its bytes.

    None when there is no regular file. The id is "" when the file cannot be read.
    """
    try:
        if not stat.S_ISREG(os.lstat(root / path).st_mode):
            return None
        with (root / path).open("rb") as file:
            return TreeFile(path, _hash_blob(file, algorithm), on_disk=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return TreeFile(path, "", on_disk=True)


def _hash_blob(file: IO[bytes], algorithm: str) -> str:
    """Return the object id of a file's content.

    It is the hash of `blob <length>`, a NUL and the bytes (gitformat-pack(5), objects).
    """
    import hashlib  # Not at the top: the import takes 4 ms, which a clean work tree saves.

    header = b"blob %d\0" % os.fstat(file.fileno()).st_size
    digest = hashlib.new(algorithm, header, usedforsecurity=False)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


# -- content


def read_files(repo: Repository, files: Iterable[TreeFile], limit: int) -> Iterator[FileContent]:
    """Yield the content of files, in their order.

    One git process reads all objects that were not read before. A file of more than `limit` bytes,
    a missing object and an unreadable file give a problem.
    """
    all_files = tuple(files)
    for start in range(0, len(all_files), MAX_LOADED):
        yield from _read_batch(repo, all_files[start : start + MAX_LOADED], limit)


def _read_batch(repo: Repository, files: Sequence[TreeFile], limit: int) -> Iterator[FileContent]:
    """Yield the content of files, from the cache of the repository, from git or from disk."""
    # Looked up before any is yielded: a content that is read meanwhile may clear the cache.
    cached: dict[str, bytes] = {}
    for file in files:
        data = repo.contents.get(file.oid)
        if data is not None:
            cached[file.oid] = data

    uncached_files = [file for file in files if not file.on_disk and file.oid not in cached]
    contents_from_git = iter(_read_objects(repo, uncached_files, limit))
    for file in files:
        if file.on_disk:
            yield _read_disk(repo.cwd, file, limit)
        elif file.oid not in cached:
            content = next(contents_from_git)
            repo.contents.add(file.oid, content.data)
            yield content
        else:
            data = cached[file.oid]
            is_large = len(data) > limit
            yield _too_large(file, len(data), limit) if is_large else FileContent(file, data)


def _read_objects(repo: Repository, files: Sequence[TreeFile], limit: int) -> list[FileContent]:
    """Read the contents of files from git's objects, in order, with one git process.

    If git ends early, only the contents that it printed are returned.

    Raises:
        RepositoryError: git-failed.
    """
    if not files:
        return []
    # Not at the top: a search in an unchanged index reads no object.
    from memory_ci.gitrepo.objects import ask_objects

    oids = [file.oid for file in files]
    remaining_files = iter(files)

    def read_next(stream: IO[bytes]) -> FileContent:
        return _read_object(stream, next(remaining_files), limit)

    contents = ask_objects(repo.git_dir, "contents", oids, read_next)
    if contents is not None:
        return contents

    contents = []
    lines = "".join(f"{oid}\n" for oid in oids).encode()
    with (
        stream_git(repo.cwd, "cat-file", "--batch", "--buffer", input=lines) as stream,
        suppress(EOFError),
    ):
        contents.extend(_read_object(stream, file, limit) for file in files)
    return contents


def _read_disk(root: Path, file: TreeFile, limit: int) -> FileContent:
    """Read a file of the work tree; a problem if it is unreadable or has over `limit` bytes."""
    try:
        with (root / file.path).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > limit:
                return _too_large(file, size, limit)
            return FileContent(file, stream.read())
    except OSError as error:
        return FileContent(file, None, f"cannot be read: {error.strerror}")


def _read_object(stream: IO[bytes], file: TreeFile, limit: int) -> FileContent:
    """Read the content of a file from an answer of `git cat-file --batch`.

    The answer is `<id> <type> <size>`, the bytes and a line end; or `<id> missing`.

    Raises:
        EOFError: the stream ends before the answer.
    """
    fields = stream.readline().split()
    if not fields:
        raise EOFError
    if len(fields) != 3:
        return FileContent(file, None, f"is missing from the repository (object {file.oid})")

    kind = fields[1].decode()
    size = int(fields[2])
    if kind == "blob" and size <= limit:
        data = stream.read(size + 1)
        if len(data) <= size:
            raise EOFError
        return FileContent(file, data[:-1])

    _skip_bytes(stream, size + 1)
    if kind == "blob":
        return _too_large(file, size, limit)
    return FileContent(file, None, f"is a {kind}, not a file")


def _skip_bytes(stream: IO[bytes], count: int) -> None:
    """Read and drop `count` bytes, or all remaining bytes if the stream has fewer."""
    remaining_bytes = count
    while remaining_bytes > 0:
        chunk = stream.read(min(remaining_bytes, CHUNK))
        if not chunk:
            return
        remaining_bytes -= len(chunk)


def _too_large(file: TreeFile, size: int, limit: int) -> FileContent:
    return FileContent(file, None, f"is {size} bytes, over the limit of {limit}")
