"""The one way `git log` is read: a stream of commits with their messages, trailers and files."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import IO

from memory_ci.gitrepo.process import decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.records.history import Commit, FileChange

FIELDS = ("%H", "%P", "%an", "%ae", "%ad", "%cd", "%B", "%(trailers:only,unfold)")
FORMAT = "".join(f"%x00{field}" for field in FIELDS)
"""A record is an empty token, the fields, then a status and one or two paths for each file, all ended by NUL."""

SETTINGS = ("-c", "log.showSignature=false", "-c", "log.showRoot=true", "-c", "core.warnAmbiguousRefs=false")
"""Nothing of the user's taste in the output; and no search for a ref of the same name with each commit id."""

OPTIONS = ("-z", f"--format={FORMAT}", "--encoding=UTF-8", "--date=raw", "-O/dev/null")

FILES = ("--raw", "--no-abbrev", "--diff-merges=first-parent", "-M100%")
"""Adds the files of each commit against its first parent. Only exact renames: the others cost a comparison of texts."""

EPOCH = datetime.fromtimestamp(0, UTC)
CHUNK = 1 << 16


def read_log(
    repo: Repository, *args: str, input: bytes | None = None
) -> Generator[tuple[Commit, tuple[str, ...]], None, None]:
    """Commits of `git log <args>`, each with the object ids its files have in it (zeros for a deleted one).

    Raises RepositoryError (git-failed). Constant memory; git is ended when the iterator is closed early.
    """
    with stream_git(repo.cwd, *SETTINGS, "log", *OPTIONS, *args, input=input) as stream:
        yield from _parse_log(stream)


def list_committers(repo: Repository, base: str, tip: str) -> dict[str, str]:
    """The e-mail address of who committed each commit that `tip` has and `base` has not."""
    listing = run_git(repo.cwd, *SETTINGS, "log", "--format=%H %ce", "--end-of-options", tip, f"^{base}", "--")
    return dict(line.split(" ", 1) for line in listing.decode("utf-8", "replace").splitlines())


def find_last_mention(repo: Repository, rev: str, words: str) -> datetime | None:
    """When the newest commit that `rev` holds and whose message holds these words was made; None if there is none."""
    asked = ("--fixed-strings", f"--grep={words.splitlines()[0]}", "--format=%cd", "--date=raw")
    raw = run_git(repo.cwd, *SETTINGS, "log", "-1", *asked, "--end-of-options", rev) if words.strip() else b""
    return parse_date(raw.decode().strip()) if raw.strip() else None


def parse_date(raw: str) -> datetime:
    """A date in git's raw form, `<seconds> <zone>`; what no calendar holds is read as the epoch, a mad zone as UTC."""
    seconds, _, zone = raw.partition(" ")
    try:
        return datetime.fromtimestamp(int(seconds), _parse_zone(zone))
    except (ValueError, OverflowError, OSError):
        return EPOCH


def _parse_zone(zone: str) -> timezone:
    try:
        return timezone(timedelta(hours=int(zone[:3]), minutes=int(zone[:1] + zone[3:])))
    except ValueError:
        return UTC


def _parse_log(stream: IO[bytes]) -> Iterator[tuple[Commit, tuple[str, ...]]]:
    tokens = _tokens(stream)
    opening = next(tokens, None)
    while opening is not None:
        fields = [next(tokens).decode("utf-8", "replace") for _ in FIELDS]
        files: list[FileChange] = []
        oids: list[str] = []
        while status := next(tokens, None):
            change, oid = _parse_file(status.decode("ascii").lstrip("\n"), tokens)
            files.append(change)
            oids.append(oid)
        yield _parse_commit(fields, tuple(files)), tuple(oids)
        opening = status


def _parse_file(status: str, tokens: Iterator[bytes]) -> tuple[FileChange, str]:
    """A file of `--raw`: `:<mode> <mode> <old id> <new id> <letter and score>`, a path, and a second one if renamed."""
    _, _, _, oid, letter = status.split(" ")
    path = decode_path(next(tokens))
    if letter[0] in "RC":
        return FileChange(letter[0], decode_path(next(tokens)), path), oid
    return FileChange(letter[0], path), oid


def _parse_commit(fields: list[str], files: tuple[FileChange, ...]) -> Commit:
    sha, parents, author, email, authored, committed, message, trailers = fields
    pairs = (line.partition(":") for line in trailers.splitlines() if ":" in line)
    return Commit(
        sha=sha,
        parents=tuple(parents.split()),
        author=author,
        email=email,
        authored_at=parse_date(authored),
        committed_at=parse_date(committed),
        message=message.strip("\n"),
        trailers=tuple((key.strip(), value.strip()) for key, _, value in pairs),
        files=files,
    )


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
