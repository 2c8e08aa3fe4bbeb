"""Commits of `git log`, renames of `git diff`, and words that `git grep` finds."""

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
"""A record is an empty token, the fields, then a status and one or two paths for each file.

All of them end with NUL.
"""

LOG_SETTINGS = (
    "-c",
    "log.showSignature=false",
    "-c",
    "log.showRoot=true",
    "-c",
    "core.warnAmbiguousRefs=false",
)
"""No preference of the user changes the output, and git looks up no ref named like a commit id."""

RECORD_OPTIONS = ("-z", f"--format={FORMAT}", "--encoding=UTF-8", "--date=raw", "-O/dev/null")

FILE_OPTIONS = ("--raw", "--no-abbrev", "--diff-merges=first-parent", "-M100%")
"""Adds the files of each commit against its first parent.

Only exact renames are found: others cost a comparison of texts.
"""

EPOCH = datetime.fromtimestamp(0, UTC)
CHUNK = 1 << 16  # Bytes that are read from a stream together.

MAX_WALK = 5_000  # First-parent commits that are searched for renames; older ones are ignored.
SIMILAR = ("-M", "-l400")
"""Finds renames of files that are half alike or more.

Git skips that where it would compare 400 new files with 400 removed ones.
"""

MAX_WORDS = 300  # Words that one `git grep` searches for.


def read_log(
    repo: Repository, *args: str, input: bytes | None = None
) -> Generator[tuple[Commit, tuple[str, ...]], None, None]:
    """Yield the commits of `git log <args>` with the object ids of their files, in constant memory.

    The id of a deleted file is zeros. Git is ended when the iterator is closed early.

    Raises:
        RepositoryError: git-failed.
    """
    args = ("log", *RECORD_OPTIONS, *args)
    with stream_git(repo.cwd, *LOG_SETTINGS, *args, input=input) as stream:
        yield from _parse_log(stream)


def list_committers(repo: Repository, base: str, tip: str) -> dict[str, str]:
    """Return the committer's e-mail address of each commit that `tip` has and `base` has not."""
    args = ("log", "--format=%H %ce", "--end-of-options", tip, f"^{base}", "--")
    listing = run_git(repo.cwd, *LOG_SETTINGS, *args).decode("utf-8", "replace")
    return dict(line.split(" ", 1) for line in listing.splitlines())


def is_touched_since(repo: Repository, rev: str, path: str, since: datetime) -> bool:
    """Return whether a commit in the history of `rev` touched a path at `since` or later.

    False where `rev` names no commit.
    """
    options = ("-1", "--format=%H", f"--since={int(since.timestamp())}", rev)
    return bool(run_git(repo.cwd, "log", *options, "--", f":(top,literal){path}", ok=(0, 128)))


def is_removed(repo: Repository, rev: str, path: str) -> bool:
    """Return whether the history of `rev` removed a file without renaming it.

    Args:
        repo: the repository.
        rev: the newest commit.
        path: the path of the file, or the end of it, without characters of patterns.
    """
    removed = ("--no-renames", "--diff-filter=D", "-1", "--format=%H", "--end-of-options", rev)
    pathspec = f":(top,glob)**/{path}"
    removing = run_git(repo.cwd, *LOG_SETTINGS, "log", *removed, "--", pathspec).decode().strip()
    if not removing:
        return False
    renamed = ("--diff-merges=first-parent", *SIMILAR, "--diff-filter=R", "--raw", "--no-abbrev")
    for commit, _ in read_log(repo, *renamed, "-1", "--end-of-options", removing, "--"):
        old_paths = [file.old_path or "" for file in commit.files]
        return not any(f"/{old}".endswith(f"/{path}") for old in old_paths)
    return True


def find_last_mention(repo: Repository, rev: str, words: str) -> datetime | None:
    """Return when the newest commit that mentions the first line of `words` was made.

    The messages in the history of `rev` are searched. None where no commit mentions it, or where
    `words` is blank.
    """
    if not words.strip():
        return None
    options = ("-1", "--fixed-strings", f"--grep={words.splitlines()[0]}")
    args = ("log", *options, "--format=%cd", "--date=raw", "--end-of-options", rev)
    raw_date = run_git(repo.cwd, *LOG_SETTINGS, *args).decode().strip()
    return parse_date(raw_date) if raw_date else None


def parse_date(raw: str) -> datetime:
    """Parse a date in git's raw form, `<seconds> <zone>`.

    A time out of the calendar's range is read as the epoch, an impossible zone as UTC.
    """
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
    tokens = _iter_tokens(stream)
    token = next(tokens, None)  # The empty token before the fields of a commit.
    while token is not None:
        fields = [next(tokens).decode("utf-8", "replace") for _ in FIELDS]

        files: list[FileChange] = []
        oids: list[str] = []
        token = next(tokens, None)
        while token:
            file, oid = _parse_file(token.decode("ascii").lstrip("\n"), tokens)
            files.append(file)
            oids.append(oid)
            token = next(tokens, None)

        yield _parse_commit(fields, tuple(files)), tuple(oids)


def _parse_file(status: str, tokens: Iterator[bytes]) -> tuple[FileChange, str]:
    """Parse a file of `--raw`, and return it with its object id.

    Args:
        status: `:<mode> <mode> <old id> <new id> <letter and score>`.
        tokens: its path; for a renamed file the old and the new one.
    """
    _, _, _, oid, letter = status.split(" ")
    path = decode_path(next(tokens))
    if letter[0] in "RC":
        return FileChange(letter[0], decode_path(next(tokens)), path), oid
    return FileChange(letter[0], path), oid


def _parse_commit(fields: list[str], files: tuple[FileChange, ...]) -> Commit:
    sha, parents, author, email, authored, committed, message, trailers = fields
    trailer_pairs = (line.partition(":") for line in trailers.splitlines() if ":" in line)
    return Commit(
        sha=sha,
        parents=tuple(parents.split()),
        author=author,
        email=email,
        authored_at=parse_date(authored),
        committed_at=parse_date(committed),
        message=message.strip("\n"),
        trailers=tuple((key.strip(), value.strip()) for key, _, value in trailer_pairs),
        files=files,
    )


def _iter_tokens(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the tokens of a stream, which each end with NUL."""
    pending = b""
    while chunk := stream.read(CHUNK):
        *tokens, pending = (pending + chunk).split(b"\0")
        yield from tokens


# -- renames


def list_renames(repo: Repository, since: Iterable[str], until: str) -> dict[str, str]:
    """Return the last new path of each file that was renamed on the first-parent line of `until`.

    Renames are found commit by commit: a file that was renamed and then rewritten little by little
    is followed, too.

    Args:
        repo: the repository.
        since: commits; renames after the oldest of them are returned.
        until: the newest commit.
    """
    commits = dict.fromkeys(since)
    bases = run_git(repo.cwd, "merge-base", "--octopus", *commits, until, ok=(0, 1))
    exclusions = [f"^{base}" for base in bases.decode().split()]
    files = ("--raw", "--no-abbrev", "--diff-merges=first-parent", *SIMILAR, "--diff-filter=R")
    walk = ("--first-parent", f"-n{MAX_WALK}", until, *exclusions, "--")

    renames: dict[str, str] = {}
    for commit, _ in read_log(repo, *files, *walk):
        for file in commit.files:
            renames.setdefault(file.old_path or "", file.path)
    return renames


def list_pending_renames(repo: Repository) -> dict[str, str]:
    """Return the new path in the work tree of each tracked file of HEAD that was renamed there."""
    if repo.root is None or find_commit(repo, "HEAD") is None:
        return {}
    shown = ("--name-status", "-z", "--no-ext-diff", "--no-textconv", "--diff-filter=R")
    listing = run_git(repo.cwd, "diff", *shown, *SIMILAR, "HEAD", "--")
    fields = decode_path(listing).split("\0")[:-1]
    old_paths, new_paths = fields[1::3], fields[2::3]
    return dict(zip(old_paths, new_paths, strict=True))


def follow_renames(path: str, renames: Mapping[str, str], present: Collection[str]) -> str | None:
    """Return the first path in `present` that a file was renamed to, if it has one."""
    seen = {path}
    path = renames.get(path, "")
    while path and path not in seen:
        if path in present:
            return path
        seen.add(path)
        path = renames.get(path, "")
    return None


# -- content of files


def list_hunk_headings(repo: Repository, rev: str) -> list[tuple[str, str]]:
    """Return (path, hunk heading) of the differences between a commit and the work tree.

    The heading is the last line before the hunk that looks to git like the head of a definition.
    Hunks without a heading are left out.
    """
    shown = ("-U0", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv")
    args = ("diff", *shown, "--dst-prefix=b/", "--end-of-options", rev, "--")

    headings: list[tuple[str, str]] = []
    path = ""
    with stream_git(repo.cwd, "-c", "core.quotePath=false", *args) as stream:
        for raw_line in stream:
            line = raw_line.decode("utf-8", "replace").rstrip()
            if line.startswith("+++ b/"):
                path = line[6:]
            elif line.startswith("@@ -"):
                heading = line.split("@@", 2)[2].strip()
                if heading:
                    headings.append((path, heading))
    return headings


def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
    """Return the files that hold one of `words` as a whole word.

    Args:
        repo: the repository.
        rev: a commit; None for the tracked files of the work tree.
        words: the words.
    """
    revisions = [rev] if rev else []
    paths: dict[str, None] = {}
    for listing in _grep(repo, words, "-l", *revisions, "--"):
        for name in listing.split("\0")[:-1]:
            paths[_strip_revision(name, rev)] = None
    return tuple(paths)


def find_words(
    repo: Repository, rev: str | None, words: Collection[str], exclude: Sequence[str] = ()
) -> set[tuple[str, str]]:
    """Return (path, word) for each of `words` in each file.

    Args:
        repo: the repository.
        rev: a commit; None for the files of the work tree, tracked or not.
        words: the words.
        exclude: pathspecs of files that are not searched.
    """
    exclusions = [f":(top,exclude){spec}" for spec in exclude]
    matches: set[tuple[str, str]] = set()
    for listing in _grep(repo, words, "-o", rev or "--untracked", "--", *exclusions):
        for line in listing.split("\n"):
            if line:
                name, _, word = line.partition("\0")
                matches.add((_strip_revision(name, rev), word))
    return matches


def find_lines(repo: Repository, rev: str, pattern: str) -> list[tuple[str, str]]:
    """Return (path, line) for each line of a commit's text files that matches a pattern.

    The pattern is an extended regular expression, and its case is ignored.
    """
    options = ("-z", "-I", "-i", "-E", "--full-name", "--no-color", "-e", pattern, rev, "--")
    listing = decode_path(run_git(repo.cwd, "grep", *options, ok=(0, 1)))
    matches = (line.partition("\0") for line in listing.split("\n") if line)
    return [(_strip_revision(name, rev), line) for name, _, line in matches]


def _strip_revision(name: str, rev: str | None) -> str:
    """Return the path of a file as `git grep` names it in a commit."""
    return name.removeprefix(f"{rev}:") if rev else name


def _grep(repo: Repository, words: Collection[str], *options: str) -> Iterator[str]:
    """Yield the output of `git grep` for words, by one process for each MAX_WORDS of them."""
    # All users of the machine see arguments of processes, so no secret is among them. A credential
    # is never a name in code.
    searched = sorted(words)
    listed = "\n".join(searched)
    if mask_secrets(listed) != listed:
        searched = [word for word in searched if mask_secrets(word) == word]
    common = ("-z", "-I", "-w", "-E", "--full-name", "--no-color")
    for start in range(0, len(searched), MAX_WORDS):
        groups = _group_without_prefixes(searched[start : start + MAX_WORDS])
        patterns = [f"-e({'|'.join(map(_escape_word, group))})" for group in groups]
        yield decode_path(run_git(repo.cwd, "grep", *common, *patterns, *options, ok=(0, 1)))


def _group_without_prefixes(words: Sequence[str]) -> list[list[str]]:
    """Group sorted words so that in no group a word begins with another.

    Git reads one pattern of alternatives a thousand times faster than a pattern for each word. Of
    alternatives it takes the longest, also where no word ends behind it: the shorter word would not
    be found. Therefore it is in another pattern.
    """
    groups: list[list[str]] = []
    for word in words:
        for group in groups:
            # Of sorted words all between a prefix and its word begin with the prefix. So only the
            # last of a group, whose words have no prefix in it, can be one.
            if not word.startswith(group[-1]):
                group.append(word)
                break
        else:
            groups.append([word])
    return groups


def _escape_word(word: str) -> str:
    return re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", word)


def find_last_changes(repo: Repository, rev: str, paths: Collection[str]) -> dict[str, date]:
    """Return the day (UTC) of the newest first-parent commit that touched each path.

    For a path that is gone that is the day of its removal.
    """
    if not paths:
        return {}
    literal_paths = [f":(top,literal){path}" for path in sorted(paths)]
    options = ("--first-parent", *FILE_OPTIONS, "--no-renames", "--end-of-options", rev, "--")

    touched: dict[str, date] = {}
    for commit, _ in read_log(repo, *options, *literal_paths):
        for file in commit.files:
            touched.setdefault(file.path, commit.committed_at.astimezone(UTC).date())
        if len(touched) == len(paths):
            break
    return touched
