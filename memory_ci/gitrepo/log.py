"""`git log` and `git diff` as streams: commits with their trailers and files; files with what became of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import IO

from memory_ci.gitrepo.process import decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.records.history import Commit, FileChange
from memory_ci.secrets import mask_secrets

FIELDS = ("%H", "%P", "%an", "%ae", "%ad", "%cd", "%B", "%(trailers:only,unfold)")
FORMAT = "".join(f"%x00{field}" for field in FIELDS)
"""A record is an empty token, the fields, then a status and one or two paths for each file, all ended by NUL."""

SETTINGS = (
    "-c",
    "log.showSignature=false",
    "-c",
    "log.showRoot=true",
    "-c",
    "core.warnAmbiguousRefs=false",
)
"""Nothing of the user's taste in the output; and no search for a ref of the same name with each commit id."""

OPTIONS = ("-z", f"--format={FORMAT}", "--encoding=UTF-8", "--date=raw", "-O/dev/null")

FILES = ("--raw", "--no-abbrev", "--diff-merges=first-parent", "-M100%")
"""Adds the files of each commit against its first parent. Only exact renames: the others cost a comparison of texts."""

EPOCH = datetime.fromtimestamp(0, UTC)
CHUNK = 1 << 16


def read_log(
    repo: Repository, *args: str, input: bytes | None = None
) -> Generator[tuple[Commit, tuple[str, ...]], None, None]:
    """Commits of `git log <args>`, each with the object ids its files have in it (zeros for a deleted one). Raises
    RepositoryError (git-failed). Constant memory; git is ended when the iterator is closed early."""
    with stream_git(repo.cwd, *SETTINGS, "log", *OPTIONS, *args, input=input) as stream:
        yield from _parse_log(stream)


def list_committers(repo: Repository, base: str, tip: str) -> dict[str, str]:
    """The e-mail address of who committed each commit that `tip` has and `base` has not."""
    listing = run_git(
        repo.cwd, *SETTINGS, "log", "--format=%H %ce", "--end-of-options", tip, f"^{base}", "--"
    )
    return dict(line.split(" ", 1) for line in listing.decode("utf-8", "replace").splitlines())


def is_touched_since(repo: Repository, rev: str, path: str, since: datetime) -> bool:
    """Whether a commit on the way to `rev` touched a path then or later; none did where there is no commit."""
    asked = (
        "log",
        "-1",
        "--format=%H",
        f"--since={int(since.timestamp())}",
        rev,
        "--",
        f":(top,literal){path}",
    )
    return bool(run_git(repo.cwd, *asked, ok=(0, 128)))


def find_last_mention(repo: Repository, rev: str, words: str) -> datetime | None:
    """When the newest commit that `rev` holds and whose message holds these words was made; None if there is none."""
    asked = ("--fixed-strings", f"--grep={words.splitlines()[0]}", "--format=%cd", "--date=raw")
    raw = (
        run_git(repo.cwd, *SETTINGS, "log", "-1", *asked, "--end-of-options", rev)
        if words.strip()
        else b""
    )
    return parse_date(raw.decode().strip()) if raw.strip() else None


def parse_date(raw: str) -> datetime:
    """A date in git's raw form, `<seconds> <zone>`; what no calendar holds is read as the epoch, a mad zone as UTC."""
    seconds, _, zone = raw.partition(" ")
    try:
        offset = timezone(timedelta(hours=int(zone[:3]), minutes=int(zone[:1] + zone[3:])))
    except ValueError:
        offset = UTC
    try:
        return datetime.fromtimestamp(int(seconds), offset)
    except (ValueError, OverflowError, OSError):
        return EPOCH


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


MAX_WALK = 5_000  # Renames are looked for in this many commits along the first parents; older ones are not followed.
SIMILAR = ("-M", "-l400")
"""Renames of files that are half alike or more, but not where 400 new files would be compared with 400 removed ones."""

MAX_WORDS = 100


def list_renames(repo: Repository, since: Iterable[str], until: str) -> dict[str, str]:
    """What files were last renamed to, along the first parents of `until`, after the oldest of the commits `since`.
    Commit by commit: a file that was renamed and then rewritten little by little is followed all the same."""
    met = (
        run_git(repo.cwd, "merge-base", "--octopus", *dict.fromkeys(since), until, ok=(0, 1))
        .decode()
        .split()
    )
    asked = (
        "--first-parent",
        "--raw",
        "--no-abbrev",
        "--diff-merges=first-parent",
        *SIMILAR,
        "--diff-filter=R",
    )
    renames: dict[str, str] = {}
    for commit, _ in read_log(
        repo, *asked, f"-n{MAX_WALK}", until, *(f"^{base}" for base in met), "--"
    ):
        for file in commit.files:
            renames.setdefault(file.old_path or "", file.path)
    return renames


def list_hunk_headings(repo: Repository, rev: str) -> list[tuple[str, str]]:
    """(path, the line that git shows at the head of a hunk) of what the work tree changes since a commit. That line is
    the last one before the hunk that looks like the head of a definition; hunks without one are left out."""
    shown = (
        "-U0",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--dst-prefix=b/",
    )
    found: list[tuple[str, str]] = []
    path = ""
    with stream_git(
        repo.cwd, "-c", "core.quotePath=false", "diff", *shown, "--end-of-options", rev, "--"
    ) as stream:
        for raw in stream:
            line = raw.decode("utf-8", "replace").rstrip()
            path = line[6:] if line.startswith("+++ b/") else path
            heading = line.split("@@", 2)[2].strip() if line.startswith("@@ -") else ""
            found += [(path, heading)] if heading else []
    return found


def list_pending_renames(repo: Repository) -> dict[str, str]:
    """What tracked files of HEAD were renamed to in the work tree."""
    if repo.root is None or find_commit(repo, "HEAD") is None:
        return {}
    shown = ("--name-status", "-z", "--no-ext-diff", "--no-textconv", "--diff-filter=R")
    fields = decode_path(run_git(repo.cwd, "diff", *shown, *SIMILAR, "HEAD", "--")).split("\0")[:-1]
    return dict(zip(fields[1::3], fields[2::3], strict=True))


def follow_renames(path: str, renames: Mapping[str, str], present: Collection[str]) -> str | None:
    """The path of a view that a file came to have, or None when the trail ends elsewhere."""
    seen = {path}
    while (path := renames.get(path, "")) and path not in seen:
        if path in present:
            return path
        seen.add(path)
    return None


def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
    """The files of a commit, or tracked in the work tree (None), that hold one of `words` as a word."""
    found = (
        name
        for names in _grep(repo, words, "-l", *([rev] if rev else []), "--")
        for name in names.split("\0")[:-1]
    )
    return tuple(dict.fromkeys(name.removeprefix(f"{rev}:") if rev else name for name in found))


def find_words(
    repo: Repository, rev: str | None, words: Collection[str], exclude: Sequence[str] = ()
) -> set[tuple[str, str]]:
    """(path, word) for each of `words` in each file of a commit, or of the work tree (None), tracked or not; files that
    the pathspecs `exclude` mean are not read."""
    where = (rev or "--untracked", "--", *(f":(top,exclude){spec}" for spec in exclude))
    lines = (line for told in _grep(repo, words, "-o", *where) for line in told.split("\n") if line)
    pairs = (line.partition("\0") for line in lines)
    return {(path.removeprefix(f"{rev}:") if rev else path, word) for path, _, word in pairs}


def _grep(repo: Repository, words: Collection[str], *options: str) -> Iterator[str]:
    """What `git grep` says of words, by one process for each MAX_WORDS of them.

    One pattern of alternatives is read a thousand times faster than a pattern for each word. Of alternatives the
    longest is taken, also where no word ends behind it: so one that another begins with has a pattern of its own.
    """
    # Arguments are seen by all users of the machine, and no code has a credential for a name.
    wanted = sorted(word for word in words if mask_secrets(word) == word)
    for start in range(0, len(wanted), MAX_WORDS):
        patterns: list[list[str]] = []
        for word in wanted[start : start + MAX_WORDS]:  # in order: after those that it begins with
            fitting = (own for own in patterns if not any(word.startswith(other) for other in own))
            if (own := next(fitting, None)) is None:
                patterns.append(own := [])
            own.append(word)
        parts = (
            re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", "\n".join(own)).replace("\n", "|")
            for own in patterns
        )
        plain = ("-z", "-I", "-w", "-E", "--full-name", "--no-color")
        asked = (*plain, *(f"-e({part})" for part in parts), *options)
        yield decode_path(run_git(repo.cwd, "grep", *asked, ok=(0, 1)))


def find_lines(repo: Repository, rev: str, pattern: str) -> list[tuple[str, str]]:
    """(path, line) for each line in a commit's text files that an extended regular expression matches, in any case."""
    asked = ("grep", "-z", "-I", "-i", "-E", "--full-name", "--no-color", "-e", pattern, rev, "--")
    pairs = (
        line.partition("\0")
        for line in decode_path(run_git(repo.cwd, *asked, ok=(0, 1))).split("\n")
        if line
    )
    return [(path.removeprefix(f"{rev}:"), line) for path, _, line in pairs]


def find_last_touches(repo: Repository, rev: str, paths: Collection[str]) -> dict[str, date]:
    """The day (UTC) of the newest first-parent commit that touched each path: for one that is gone, its removal."""
    if not paths:
        return {}
    touched: dict[str, date] = {}
    literal = [f":(top,literal){path}" for path in sorted(paths)]
    for commit, _ in read_log(
        repo, "--first-parent", *FILES, "--no-renames", "--end-of-options", rev, "--", *literal
    ):
        for file in commit.files:
            touched.setdefault(file.path, commit.committed_at.astimezone(UTC).date())
        if len(touched) == len(paths):
            break
    return touched
