"""Read commits and renames with `git log` and `git diff`, and find words with `git grep`."""

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
"""The output for a commit: an empty token, the fields, then a status and one or two paths per file.

Each of them ends with NUL.
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
    """Yield the commits of `git log <args>`, in constant memory.

    Git is ended when the iterator is closed early.

    Yields:
        A commit, and the object ids of its `files`, in the same order. The id of a deleted file is
        zeros.

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


def read_commit(repo: Repository, sha: str, *options: str) -> Commit:
    """Return one commit; options as for `git log`, for example FILE_OPTIONS."""
    ((commit, _),) = read_log(repo, *options, "--no-walk", "--end-of-options", sha)
    return commit


def read_commit_time(repo: Repository, sha: str) -> datetime:
    """Return when a commit was made, in UTC."""
    return read_commit(repo, sha).committed_at.astimezone(UTC)


def is_touched_since(repo: Repository, rev: str, path: str, since: datetime) -> bool:
    """Return whether a commit in the history of `rev` touched a path at `since` or later.

    False where `rev` names no commit.
    """
    options = ("-1", "--format=%H", f"--since={int(since.timestamp())}", rev)
    return bool(run_git(repo.cwd, "log", *options, "--", f":(top,literal){path}", ok=(0, 128)))


def is_deleted(repo: Repository, rev: str, path: str) -> bool:
    """Return whether the last commit that removed a file deleted it, and did not rename it.

    False if no commit in the history of `rev` removed it.

    Args:
        repo: the repository.
        rev: the newest commit.
        path: the path of the file, or the end of it after a slash, without characters of patterns.
    """
    options = ("--no-renames", "--diff-filter=D", "-1", "--format=%H", "--end-of-options", rev)
    pathspec = f":(top,glob)**/{path}"
    listing = run_git(repo.cwd, *LOG_SETTINGS, "log", *options, "--", pathspec)
    removing_sha = listing.decode().strip()
    if not removing_sha:
        return False

    # The same commit again, now with its renames alone. Without renames git prints nothing.
    renames = ("--diff-merges=first-parent", *SIMILAR, "--diff-filter=R", "--raw", "--no-abbrev")
    revision = ("--end-of-options", removing_sha, "--")
    for commit, _ in read_log(repo, *renames, "-1", *revision):
        for file in commit.files:
            is_same_file = f"/{file.old_path}".endswith(f"/{path}")
            if is_same_file:
                return False
    return True


def find_last_mention(repo: Repository, rev: str, text: str) -> datetime | None:
    """Return when a text was last mentioned in the message of a commit in the history of `rev`.

    Only the first line of the text is searched for. None if no message has it, or if the text is
    blank.
    """
    if not text.strip():
        return None
    options = ("-1", "--fixed-strings", f"--grep={text.splitlines()[0]}")
    args = ("log", *options, "--format=%cd", "--date=raw", "--end-of-options", rev)
    raw_date = run_git(repo.cwd, *LOG_SETTINGS, *args).decode().strip()
    return parse_date(raw_date) if raw_date else None


def parse_date(raw_date: str) -> datetime:
    """Parse a date in git's raw form, `<seconds> <zone>`.

    A time out of the calendar's range is read as the epoch, an impossible zone as UTC.
    """
    seconds, _, zone = raw_date.partition(" ")
    try:
        offset = timezone(timedelta(hours=int(zone[:3]), minutes=int(zone[:1] + zone[3:])))
    except ValueError:
        offset = UTC
    try:
        return datetime.fromtimestamp(int(seconds), offset)
    except (ValueError, OverflowError, OSError):
        return EPOCH


def _parse_log(stream: IO[bytes]) -> Iterator[tuple[Commit, tuple[str, ...]]]:
    """Parse commits that git printed in the form of RECORD_OPTIONS, with the ids of their files.

    For each commit the output has an empty token, a token for each of FIELDS, and two or three
    tokens for each file, which `_parse_file` takes. A token ends with NUL.
    """
    tokens = _iter_tokens(stream)
    token = next(tokens, None)  # The empty token before the fields of the first commit.
    while token is not None:
        fields = [next(tokens).decode("utf-8", "replace") for _ in FIELDS]

        files: list[FileChange] = []
        oids: list[str] = []
        token = next(tokens, None)
        while token:  # Until the empty token before the next commit, or the end.
            status = token.decode("ascii").lstrip("\n")
            file, oid = _parse_file(status, tokens)
            files.append(file)
            oids.append(oid)
            token = next(tokens, None)

        yield _parse_commit(fields, tuple(files)), tuple(oids)


def _parse_file(status: str, tokens: Iterator[bytes]) -> tuple[FileChange, str]:
    """Parse a file that `git log --raw -z` printed.

    Args:
        status: `:<mode> <mode> <old id> <new id> <letter and score>`.
        tokens: its path; for a renamed or copied file the old and the new one.

    Returns:
        The changed file, and its new object id.
    """
    _, _, _, oid, letter_and_score = status.split(" ")
    letter = letter_and_score[0]
    path = decode_path(next(tokens))
    if letter in "RC":  # Renamed or copied.
        new_path = decode_path(next(tokens))
        return FileChange(letter, new_path, path), oid
    return FileChange(letter, path), oid


def _parse_commit(fields: list[str], files: tuple[FileChange, ...]) -> Commit:
    """Return a commit from the values of FIELDS and its files."""
    sha, parents, author, email, authored, committed, message, trailer_lines = fields
    trailers: list[tuple[str, str]] = []
    for line in trailer_lines.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            trailers.append((key.strip(), value.strip()))
    return Commit(
        sha=sha,
        parents=tuple(parents.split()),
        author=author,
        email=email,
        authored_at=parse_date(authored),
        committed_at=parse_date(committed),
        message=message.strip("\n"),
        trailers=tuple(trailers),
        files=files,
    )


def _iter_tokens(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the tokens of a stream, which each end with NUL."""
    incomplete_token = b""
    while chunk := stream.read(CHUNK):
        *tokens, incomplete_token = (incomplete_token + chunk).split(b"\0")
        yield from tokens


# -- renames


def list_renames(repo: Repository, since: Iterable[str], until: str) -> dict[str, str]:
    """Return the renames on the first-parent line of `until`: the new path by the old path.

    Renames are found commit by commit: a file that was renamed and then rewritten little by little
    is followed, too. Where several commits renamed the same old path, the newest one counts.

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
    """Return the uncommitted renames of the work tree and index: new paths by paths in HEAD."""
    if repo.root is None or find_commit(repo, "HEAD") is None:
        return {}
    output_options = ("--name-status", "-z", "--no-ext-diff", "--no-textconv", "--diff-filter=R")
    listing = run_git(repo.cwd, "diff", *output_options, *SIMILAR, "HEAD", "--")
    fields = decode_path(listing).split("\0")[:-1]
    # Three fields for each file: its status, its old and its new path.
    old_paths = fields[1::3]
    new_paths = fields[2::3]
    return dict(zip(old_paths, new_paths, strict=True))


def follow_renames(
    path: str, renames: Mapping[str, str], present_paths: Collection[str]
) -> str | None:
    """Follow a file's renames up to the first path in `present_paths`; None if they lead to none.

    Args:
        path: the old path of the file.
        renames: the new path by the old path.
        present_paths: the paths of files that exist.
    """
    visited = {path}  # A file may have been renamed back.
    next_path = renames.get(path)
    while next_path and next_path not in visited:
        if next_path in present_paths:
            return next_path
        visited.add(next_path)
        next_path = renames.get(next_path)
    return None


# -- content of files


def list_hunk_headings(repo: Repository, rev: str) -> list[tuple[str, str]]:
    """Return (path, heading) of each hunk of the diff between a commit and the work tree.

    The heading is the text after the second `@@`: the last line before the hunk that git takes for
    the head of a definition. Hunks without a heading are left out.
    """
    diff_options = ("-U0", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv")
    args = ("diff", *diff_options, "--dst-prefix=b/", "--end-of-options", rev, "--")

    headings: list[tuple[str, str]] = []
    path = ""
    with stream_git(repo.cwd, "-c", "core.quotePath=false", *args) as stream:
        for raw_line in stream:
            line = raw_line.decode("utf-8", "replace").rstrip()
            if line.startswith("+++ b/"):
                path = line.removeprefix("+++ b/")
            elif line.startswith("@@ -"):
                _, _, heading = line.split("@@", 2)
                heading = heading.strip()
                if heading:
                    headings.append((path, heading))
    return headings


def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
    """Return the paths of the files that have one of `words` as a whole word.

    Args:
        repo: the repository.
        rev: a commit; None for the tracked files of the work tree.
        words: the words.
    """
    revisions = [rev] if rev else []
    paths: dict[str, None] = {}
    for listing in _search_words(repo, words, "-l", *revisions, "--"):
        for name in listing.split("\0")[:-1]:
            paths[_strip_revision(name, rev)] = None
    return tuple(paths)


def find_words(
    repo: Repository, rev: str | None, words: Collection[str], exclude: Sequence[str] = ()
) -> set[tuple[str, str]]:
    """Return (path, word) for each file and each of `words` that it has as a whole word.

    Args:
        repo: the repository.
        rev: a commit; None for the files of the work tree, tracked or not.
        words: the words.
        exclude: pathspecs of files that are not searched.
    """
    exclusions = [f":(top,exclude){spec}" for spec in exclude]
    matches: set[tuple[str, str]] = set()
    for listing in _search_words(repo, words, "-o", rev or "--untracked", "--", *exclusions):
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
    matches: list[tuple[str, str]] = []
    for match in listing.split("\n"):
        if match:
            name, _, line = match.partition("\0")
            matches.append((_strip_revision(name, rev), line))
    return matches


def _strip_revision(name: str, rev: str | None) -> str:
    """Return the path in a name that `git grep` printed: `<rev>:<path>`, or the path alone."""
    return name.removeprefix(f"{rev}:") if rev else name


def _search_words(repo: Repository, words: Collection[str], *options: str) -> Iterator[str]:
    """Search for whole words with `git grep`, MAX_WORDS in one process, and yield each output.

    Words that look like secrets are not searched for.
    """
    # All users of the machine see arguments of processes, so no secret is among them. A credential
    # is never a name in code.
    searched_words = sorted(words)
    joined_words = "\n".join(searched_words)
    if mask_secrets(joined_words) != joined_words:
        searched_words = [word for word in searched_words if mask_secrets(word) == word]
    common = ("-z", "-I", "-w", "-E", "--full-name", "--no-color")
    for start in range(0, len(searched_words), MAX_WORDS):
        patterns: list[str] = []
        for group in group_without_prefixes(searched_words[start : start + MAX_WORDS]):
            alternatives = "|".join(_escape_word(word) for word in group)
            patterns.append(f"-e({alternatives})")
        yield decode_path(run_git(repo.cwd, "grep", *common, *patterns, *options, ok=(0, 1)))


def group_without_prefixes(words: Sequence[str]) -> list[list[str]]:
    """Group words so that no word of a group is the beginning of another word of the group.

    `git grep` searches for a pattern of alternatives (`(a|b|c)`) a thousand times faster than for a
    pattern of each word. But it tries only the longest alternative that matches: with
    `(max|max-line)` it does not find the word `max` in `max-lines`. So a word and its beginning are
    put into different patterns.

    Args:
        words: sorted words, so that a word comes after each of its beginnings.
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
    """Return for each path the day (UTC) of the newest first-parent commit that touched it.

    For a path that is gone that is the day of its removal.
    """
    if not paths:
        return {}
    literal_paths = [f":(top,literal){path}" for path in sorted(paths)]
    options = ("--first-parent", *FILE_OPTIONS, "--no-renames", "--end-of-options", rev, "--")

    last_days: dict[str, date] = {}
    for commit, _ in read_log(repo, *options, *literal_paths):
        for file in commit.files:
            last_days.setdefault(file.path, commit.committed_at.astimezone(UTC).date())
        if len(last_days) == len(paths):
            break
    return last_days
