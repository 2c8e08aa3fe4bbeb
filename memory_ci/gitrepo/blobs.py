"""Files of a tree, of the index or of the work tree: their names and object ids first, their content in one batch.

Pathspecs here are git's default ones: a glob over the whole path in which `*` also matches `/`, or a literal directory;
none at all means every file. Symbolic links and submodules are left out, but for `Tree.modes`.
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

from memory_ci.gitrepo.objects import ask_objects
from memory_ci.gitrepo.process import decode_path, encode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository

REGULAR = ("100644", "100755")
DIRECTORY = "040000"
PREFERRED_STAGES = "0231"  # Of an unmerged file our side is listed, else theirs, else the base.
CHUNK = 1 << 16
AT_ONCE = 64  # Files whose contents are in memory together.
MAX_TREES = 4  # Listings that are kept: each may be of a hundred thousand files.


class TreeFile(msgspec.Struct, frozen=True):
    """A file and the id of its content. `on_disk`: that content is the work tree's, and git may not hold it. The id is
    that of the bytes as they stand on disk, with no filter applied; "" when they cannot be read."""

    path: str
    oid: str
    on_disk: bool = False


class FileContent(msgspec.Struct, frozen=True):
    """What reading a file gave: its bytes, or the problem, worded to follow the path ("is …", "cannot …")."""

    file: TreeFile
    data: bytes | None
    problem: str = ""


def matches_pathspecs(path: str, pathspecs: Sequence[str]) -> bool:
    """Whether a path is meant by one of the pathspecs, as git would decide it.

    >>> matches_pathspecs("src/api/MEMORY.md", ["MEMORY.md", "*/MEMORY.md"])
    True
    """
    return not pathspecs or _pattern(tuple(pathspecs)).match(path) is not None


class Tree:
    """What a commit or tree holds, by its full id. It is listed when it is first asked, and once. Raises
    RepositoryError (git-failed) then."""

    def __init__(self, repo: Repository, oid: str) -> None:
        self.repo, self.oid = repo, oid

    @cached_property
    def modes(self) -> Mapping[str, str]:
        """The mode of everything: files, directories, symbolic links (120000), submodules (160000)."""
        return {path: mode for mode, _, path in self._lines}

    @cached_property
    def files(self) -> Mapping[str, TreeFile]:
        """The files by path, in git's order."""
        return {path: TreeFile(path, oid) for mode, oid, path in self._lines if mode in REGULAR}

    def select(self, pathspecs: Sequence[str]) -> tuple[TreeFile, ...]:
        """The files that pathspecs mean, in git's order."""
        return tuple(
            file for path, file in self.files.items() if matches_pathspecs(path, pathspecs)
        )

    def read(self, paths: Iterable[str], limit: int) -> Iterator[FileContent]:
        """The content of those of these files that are there, in order of paths, as `read_files` gives it."""
        return read_files(
            self.repo, [self.files[path] for path in sorted(paths) if path in self.files], limit
        )

    @cached_property
    def _lines(self) -> tuple[tuple[str, str, str], ...]:
        # `ls-tree` knows no globs: all is listed, and chosen here.
        asked = ("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", self.oid)
        rows = (line.partition("\t")[::2] for line in _split(run_git(self.repo.cwd, *asked)))
        return tuple((fields.split(" ")[0], fields.split(" ")[2], path) for fields, path in rows)


tree_at = lru_cache(maxsize=MAX_TREES)(
    Tree
)  # The tree of a full id, which those who ask one after the other share.


def find_obstacle(path: str, modes: Mapping[str, str]) -> str | None:
    """What stops `path` from being written as a file: itself when it is something else, or a parent no directory.

    >>> find_obstacle("docs/MEMORY.md", {"docs": "120000"})
    'docs'
    """
    if modes.get(path, REGULAR[0]) not in REGULAR:
        return path
    parents = (path[:at] for at, char in enumerate(path) if char == "/")
    return next((parent for parent in parents if modes.get(parent, DIRECTORY) != DIRECTORY), None)


def list_staged(
    repo: Repository, pathspecs: Sequence[str], index_file: Path | None = None
) -> tuple[TreeFile, ...]:
    """The files of the index, or of the index in `index_file`: a hook's `commit -a` uses another than the usual one. An
    unmerged file is listed once, with our side if there is one, else theirs, else the base."""
    env = {"GIT_INDEX_FILE": str(index_file)} if index_file else None
    listing = run_git(repo.cwd, "ls-files", "-s", "-z", "--", *pathspecs, env=env)
    best: dict[str, tuple[int, str]] = {}
    for line in _split(listing):
        mode, oid, stage, path = _parse_index_line(line)
        if mode in REGULAR:
            rank = PREFERRED_STAGES.index(stage)
            best[path] = min(best.get(path, (rank, oid)), (rank, oid))
    return tuple(TreeFile(path, oid) for path, (_, oid) in best.items())


def list_worktree(repo: Repository, pathspecs: Sequence[str]) -> tuple[TreeFile, ...]:
    """The files of the work tree, tracked or not but not ignored, in order of paths. An unmodified one keeps the id
    that the index has; content decides, never a time stamp. In a bare repository git refuses (git-failed)."""
    asked = (
        "-z",
        "-t",
        "-s",
        "--cached",
        "--others",
        "--modified",
        "--deleted",
        "--exclude-standard",
    )
    clean, dirty = _sort_worktree(run_git(repo.cwd, "ls-files", *asked, "--", *pathspecs))
    if not dirty:
        return tuple(TreeFile(path, oid) for path, oid in clean.items())
    changed = (_look_at(repo.cwd, path, repo.object_format) for path in dirty)
    files = [
        *(TreeFile(path, oid) for path, oid in clean.items()),
        *(file for file in changed if file),
    ]
    return tuple(sorted(files, key=lambda file: encode_path(file.path)))


def read_files(repo: Repository, files: Iterable[TreeFile], limit: int) -> Iterator[FileContent]:
    """The content of files, in their order, with one git process for all that git holds and was not read before.
    Content of more than `limit` bytes is not loaded; that, a missing object and an unreadable file are problems."""
    wanted = tuple(files)
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        known = {
            file.oid: data for file in part if (data := repo.contents.get(file.oid)) is not None
        }
        asked = [file for file in part if not file.on_disk and file.oid not in known]
        read = iter(_read_objects(repo, asked, limit))
        for file in part:
            if file.on_disk:
                yield _read_disk(repo.cwd, file, limit)
            elif (data := known.get(file.oid)) is not None:
                yield (
                    FileContent(file, data)
                    if len(data) <= limit
                    else _too_large(file, len(data), limit)
                )
            else:
                content = next(read)
                repo.contents.keep(file.oid, content.data)
                yield content


def _read_objects(repo: Repository, files: Sequence[TreeFile], limit: int) -> list[FileContent]:
    """The contents of what git holds, in order. Raises RepositoryError (git-failed)."""
    if not files:
        return []
    names, queue = [file.oid for file in files], iter(files)
    found = ask_objects(
        repo.git_dir, "contents", names, lambda stream: _read_object(stream, next(queue), limit)
    )
    if found is None:
        found, asked = [], "".join(f"{name}\n" for name in names).encode()
        with (
            stream_git(repo.cwd, "cat-file", "--batch", "--buffer", input=asked) as stream,
            suppress(EOFError),
        ):
            found.extend(_read_object(stream, file, limit) for file in files)
    return found


@lru_cache(maxsize=32)
def _pattern(pathspecs: tuple[str, ...]) -> re.Pattern[str]:
    globs = (fnmatch.translate(spec) for spec in pathspecs)
    directories = (rf"{re.escape(spec.rstrip('/'))}/" for spec in pathspecs)
    return re.compile("|".join((*globs, *directories)))


def _split(listing: bytes) -> list[str]:
    return decode_path(listing).split("\0")[:-1]


def _parse_index_line(line: str) -> tuple[str, str, str, str]:
    fields, _, path = line.partition("\t")
    mode, oid, stage = fields.split(" ")
    return mode, oid, stage, path


def _sort_worktree(listing: bytes) -> tuple[dict[str, str], list[str]]:
    """Paths as the index has them with their ids, and those to be looked at on disk.

    A line is a letter (H cached, S not checked out, M unmerged, C modified, R deleted, ? untracked) and, but for `?`,
    what the index has. A modified path comes twice, as H and as C.
    """
    clean: dict[str, str] = {}
    dirty: dict[str, None] = {}
    for tag, _, rest in (line.partition(" ") for line in _split(listing)):
        if tag == "?":
            dirty[rest] = None
            continue
        mode, oid, _, path = _parse_index_line(rest)
        if tag not in "HS":
            dirty[path] = None
        elif mode in REGULAR:
            clean[path] = oid
    return {path: oid for path, oid in clean.items() if path not in dirty}, list(dirty)


def _look_at(root: Path, path: str, algorithm: str) -> TreeFile | None:
    """The file as it stands on disk; None when there is no regular file."""
    try:
        if not stat.S_ISREG(os.lstat(root / path).st_mode):
            return None
        with (root / path).open("rb") as file:
            return TreeFile(path, _object_id(file, algorithm), on_disk=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return TreeFile(path, "", on_disk=True)


def _object_id(file: IO[bytes], algorithm: str) -> str:
    """The id git gives to a blob: the hash of `blob <length>`, a NUL and the bytes (gitformat-pack(5), objects)."""
    import hashlib  # not at the top: 4 ms that a clean work tree need not pay

    digest = hashlib.new(
        algorithm, b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False
    )
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _read_disk(root: Path, file: TreeFile, limit: int) -> FileContent:
    try:
        with (root / file.path).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return (
                _too_large(file, size, limit) if size > limit else FileContent(file, stream.read())
            )
    except OSError as error:
        return FileContent(file, None, f"cannot be read: {error.strerror}")


def _read_object(stream: IO[bytes], file: TreeFile, limit: int) -> FileContent:
    """The next answer of `cat-file --batch`: `<id> <type> <size>`, the bytes and a line end; or `<id> missing`."""
    fields = stream.readline().split()
    if not fields:
        raise EOFError
    if len(fields) != 3:
        return FileContent(file, None, f"is missing from the repository (object {file.oid})")
    kind, size = fields[1].decode(), int(fields[2])
    if kind == "blob" and size <= limit:
        if len(data := stream.read(size + 1)) <= size:
            raise EOFError
        return FileContent(file, data[:-1])
    _skip(stream, size + 1)
    return (
        _too_large(file, size, limit)
        if kind == "blob"
        else FileContent(file, None, f"is a {kind}, not a file")
    )


def _skip(stream: IO[bytes], count: int) -> None:
    while count > 0 and (chunk := stream.read(min(count, CHUNK))):
        count -= len(chunk)


def _too_large(file: TreeFile, size: int, limit: int) -> FileContent:
    return FileContent(file, None, f"is {size} bytes, over the limit of {limit}")
