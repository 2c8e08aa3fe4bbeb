"""History: what each merge brought, what earlier runs wrote, and the commit that a day or a name stands for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, islice

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.forges import describe_change
from memory_ci.gitrepo.log import FILES, SETTINGS, parse_date, read_log
from memory_ci.gitrepo.process import run_git, stream_git
from memory_ci.gitrepo.repo import (
    Repository,
    find_commit,
    find_merge_base,
    is_ancestor,
    is_held,
    is_shallow,
    list_cut,
    resolve_commit,
)
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import FULL_ID, SERVED

STEP = "Memory-CI-Step"
SOURCE = "Memory-CI-Source"
COST = "Memory-CI-Cost"
RANGE = "Memory-CI-Range"
COUNTED = "Memory-CI-Counted"
SURFACE = "Memory-Surface"
MAX_READERS = 5_000  # Commits that are asked for who read memory last.
AGE = re.compile(r"(?P<count>\d{1,4})(?P<unit>[dwmy])")
DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
INBOX = ".memory/inbox/"
"""Where strangers may write notes; a record run only takes them away, and writes elsewhere what they say."""

PLAIN = ("--text", "--no-ext-diff", "--no-textconv")
"""An attribute of the repository (`MEMORY.md -diff`) must not hide what was written."""


class HistoryRange(msgspec.Struct, frozen=True):
    """The commits after `since` (None: from the first) up to `until`, as ids.

    A group is what one first-parent commit brought: its ids oldest first, that commit last. Several groups may turn
    out to be one change when their messages are read (a rebase), so `change_count` is an upper bound.
    """

    since: str | None
    until: str
    groups: tuple[tuple[str, ...], ...]

    @property
    def change_count(self) -> int:
        return len(self.groups)


class Cursor(msgspec.Struct, frozen=True):
    """How far earlier runs came: `source` is the newest commit covered, `commit` the one that says so."""

    source: str
    commit: str


class FileVersion(msgspec.Struct, frozen=True):
    """A file as a commit left it; `oid` is None where the commit deleted it."""

    commit: Commit
    path: str
    oid: str | None


def plan_range(repo: Repository, since: str | None, until: str) -> HistoryRange:
    """The range since..until, grouped along the first parents of `until`; everything that `until` holds is in it once.

    Raises RepositoryError: unknown-revision for `until`, unreachable-cursor when `since` is not in its history,
    shallow-clone when history is cut off inside the range.
    """
    tip = resolve_commit(repo, until)
    start = None if since is None else _find_start(repo, since, tip)
    parents = _list_parents(repo, start, tip)
    if not list_cut(repo).isdisjoint(parents):
        raise _shallow_clone(repo)
    return HistoryRange(start, tip, group_commits(parents, tip))


def group_commits(parents: Mapping[str, tuple[str, ...]], tip: str) -> tuple[tuple[str, ...], ...]:
    """What each first-parent commit brought, oldest first: itself, and for a merge what no older one had brought.
    `parents` maps commits to their parents, children before parents; parents outside of it are outside the range."""
    chain = _first_parents(parents, tip)
    age = {commit: -position for position, commit in enumerate(parents)}
    free = set(parents).difference(chain)
    return tuple(
        (*sorted(_take(parents, commit, free), key=age.__getitem__), commit)
        for commit in reversed(chain)
    )


def iter_merged_changes(repo: Repository, history: HistoryRange) -> Iterator[MergedChange]:
    """The changes of a range, oldest first, read from one stream in constant memory. Neighbouring commits that name the
    same pull request are one change, merged by rebase."""
    wanted = "".join(f"{sha}\n" for group in history.groups for sha in group).encode()
    # With no group git is never started: given no commits it would read HEAD.
    with closing(read_log(repo, *FILES, "--no-walk=unsorted", "--stdin", input=wanted)) as log:
        commits = (commit for commit, _ in log)
        changes = (describe_change(tuple(islice(commits, len(group)))) for group in history.groups)
        for _, run in groupby(
            changes, lambda change: change.number if change.kind == "squash" else change.tip.sha
        ):
            *before, last = run
            joined = tuple(commit for change in (*before, last) for commit in change.commits)
            yield replace(last, kind="rebase", commits=joined) if before else last


def is_markdown(path: str) -> bool:
    """Whether a path may be that of a memory file, wherever memory is configured to live."""
    return path.endswith(".md")


def find_cursor(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> Cursor | None:
    """What the newest record commit of `rev` says; None before the first run.

    A source that is not in the history of its commit is passed over: anyone can write a trailer. A commit beside the
    first parents counts where a merge of memory alone brought it: so a merge commit of the memory pull request does.
    """
    newest = next(_list_cursors(repo, rev, is_memory, "--first-parent"), None)
    beside = _list_cursors(repo, rev, is_memory, *([f"^{newest.commit}"] if newest else []))
    return next(
        (cursor for cursor in beside if _is_further(repo, rev, cursor, newest, is_memory)), newest
    )


def find_lost_cursor(
    repo: Repository,
    rev: str,
    cursor: Cursor | None,
    is_memory: Callable[[str], bool] = is_markdown,
) -> Cursor | None:
    """The newest record commit after `cursor` (what `find_cursor` found) whose source history does not hold."""
    after = [f"^{cursor.commit}"] if cursor else []
    for commit, sources in _list_claims(repo, rev, is_memory, "--first-parent", *after):
        lost = [source for source in sources if not is_held(repo, source, commit.sha)]
        if lost:
            return Cursor(lost[-1], commit.sha)
    return None


def list_counted(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> frozenset[str]:
    """Commits whose trailers have been counted by earlier runs: a range that is replayed reinforces nothing twice. All
    of history is asked: what a merge commit brought of a memory pull request stands on no first parent."""
    commits = _record_commits(repo, rev, COUNTED, is_memory)
    values = (value for commit in commits for _, value in find_trailers(commit.message, (COUNTED,)))
    return frozenset(sha for value in values for sha in split_ids(value))


def read_authorship(repo: Repository, sha: str) -> tuple[str, datetime] | None:
    """Who wrote a commit and when, which a cherry-pick or rebase keeps; None when the commit is not there."""
    if find_commit(repo, sha) is None:
        return None
    ((commit, _),) = read_log(repo, "--no-walk", "--end-of-options", sha)
    return commit.email, commit.authored_at


def find_addition(repo: Repository, rev: str, path: str) -> str | None:
    """The first-parent commit of `rev` that first added `path`."""
    asked = ("--first-parent", *FILES, "--no-renames", "--diff-filter=A", "--end-of-options", rev)
    shas = [commit.sha for commit, _ in read_log(repo, *asked, "--", f":(top,literal){path}")]
    return shas[-1] if shas else None


def list_versions(repo: Repository, rev: str, pathspecs: Sequence[str]) -> Iterator[FileVersion]:
    """Every version of the files along the first parents of `rev`, newest first; a renamed file is two."""
    asked = ("--first-parent", *FILES, "--no-renames", "--end-of-options", rev, "--", *pathspecs)
    for commit, oids in read_log(repo, *asked):
        for file, oid in zip(commit.files, oids, strict=True):
            yield FileVersion(commit, file.path, oid if oid.strip("0") else None)


def find_start(repo: Repository, since: str, tip: str, today: date) -> str | None:
    """The commit after which a range begins, by a revision or by an age in days, weeks, months or years (`90d`), along
    the first parents of `tip`; None for the root, which is younger. Raises RepositoryError: unknown-revision,
    shallow-clone."""
    age = AGE.fullmatch(since)
    if age is None:
        return resolve_commit(repo, since)
    begun = today - timedelta(days=int(age["count"]) * DAYS[age["unit"]])
    return find_commit_until(repo, tip, datetime.combine(begun, time.min, UTC))


def list_reverting(repo: Repository, rev: str) -> list[Commit]:
    """The commits of a history that say that they take another back, oldest first, files left out."""
    grep = (
        "--regexp-ignore-case",
        "--grep=^This reverts",
        "--grep=^Reverts ",
        '--grep=^Revert "',
        '--grep=^Reapply "',
    )
    log = read_log(repo, *grep, "--topo-order", "--reverse", "--end-of-options", rev, "--")
    return [commit for commit, _ in log]


def list_added_lines(
    repo: Repository, rev: str, pathspecs: Sequence[str], start: str
) -> frozenset[str]:
    """Every line beginning with `start` that a first-parent commit of `rev` ever added to the files, gone or not."""
    shown = ("-p", "-U0", "-m", "--format=", "--no-renames", "--no-color")
    asked = ("log", "--first-parent", *shown, *PLAIN, "--end-of-options", rev, "--", *pathspecs)
    wanted = f"+{start}".encode()
    with stream_git(repo.cwd, *asked) as stream:
        return frozenset(
            line[1:].decode("utf-8", "replace").rstrip()
            for line in stream
            if line.startswith(wanted)
        )


def list_mentioning(
    repo: Repository, rev: str, words: Sequence[str], pathspecs: Sequence[str]
) -> list[str]:
    """Return the first-parent commits of `rev`, newest first and without roots, that wrote or removed a line of the
    files with one of `words`."""
    pattern = "|".join(re.sub(r"([^\w-])", r"\\\1", word) for word in words)
    shown = (
        "--first-parent",
        "--diff-merges=first-parent",
        "-s",
        "--min-parents=1",
        "--no-renames",
        *PLAIN,
    )
    asked = (
        "--extended-regexp",
        f"-G{pattern}",
        *shown,
        "--format=%H",
        "--end-of-options",
        rev,
        "--",
        *pathspecs,
    )
    return run_git(repo.cwd, *SETTINGS, "log", *asked).decode().split()


def list_readers(repo: Repository, rev: str) -> dict[str, datetime]:
    """When each agent, local or in the cloud, last made a commit whose work was given memory, the latest first."""
    keys = "".join(
        f"%x00%(trailers:key={key},valueonly,separator=%x2C)" for key in (SURFACE, "Memory-Session")
    )
    asked = (
        "log",
        f"-n{MAX_READERS}",
        f"--grep=^{SERVED}:",
        "--date=raw",
        f"--format=%cd{keys}",
        "--end-of-options",
        rev,
        "--",
    )
    found: dict[str, datetime] = {}
    for line in run_git(repo.cwd, *SETTINGS, *asked).decode("utf-8", "replace").splitlines():
        at, surface, sessions = line.split("\0")
        for name in filter(
            None, {surface or one.strip().partition(":")[0] for one in sessions.split(",") or [""]}
        ):
            moment = parse_date(at)
            found[name] = max(moment, found.get(name, moment))
    return dict(sorted(found.items(), key=lambda item: item[1], reverse=True))


def sum_costs(repo: Repository, since: date, *revs: str) -> float:
    """USD that runs say in trailers of commits since the start of a day, UTC; `revs` and options as for `git log`."""
    asked = (
        "log",
        f"--since={since}T00:00:00Z",
        f"--grep=^{COST}:",
        f"--format=%(trailers:key={COST},valueonly)",
    )
    lines = (
        run_git(repo.cwd, *SETTINGS, *asked, *revs, "--").decode("utf-8", "replace").splitlines()
    )
    amounts = (re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) USD", line.strip()) for line in lines)
    return sum(float(amount[1]) for amount in amounts if amount)


def read_added(repo: Repository, base: str, tip: str, limit: int = 1 << 20) -> str:
    """The lines that one commit has more than another, changes of white space left out; `limit`: bytes of the
    diff that are read."""
    shown = ("-U0", "-w", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv")
    with stream_git(repo.cwd, "diff", *shown, "--end-of-options", base, tip, "--") as stream:
        lines = stream.read(limit).splitlines()
    return "\n".join(
        line[1:].decode("utf-8", "replace")
        for line in lines
        if line[:1] == b"+" and not line.startswith(b"+++ ")
    )


def read_hunks(
    repo: Repository, base: str, tip: str, paths: Sequence[str], limit: int = 1 << 16
) -> dict[str, str]:
    """What one commit changed of these files since another, by file: hunks with a line around each, for people to
    read. `limit`: bytes of the diff that are read."""
    shown = (
        "-U1",
        "-w",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-prefix",
    )
    literal = (f":(top,literal){path}" for path in paths)
    with stream_git(
        repo.cwd, *SETTINGS, "diff", *shown, "--end-of-options", base, tip, "--", *literal
    ) as stream:
        text = "\n" + stream.read(limit).decode("utf-8", "replace")
    files = (part.split("\n@@ ") for part in text.split("\ndiff --git ")[1:])
    found = ((head.partition("\n")[0].split(" ")[-1], hunks) for head, *hunks in files)
    return {
        path: "\n".join(f"@@ {hunk.rstrip()}" for hunk in hunks) for path, hunks in found if hunks
    }


def list_replacing(repo: Repository, rev: str, path: str, text: str) -> list[str]:
    """The commits with one parent, of merged branches too, that made `text` stand more or less often in a file."""
    asked = (
        "--min-parents=1",
        "--max-parents=1",
        f"-S{text}",
        *PLAIN,
        "--format=%H",
        "--end-of-options",
        rev,
    )
    return (
        run_git(repo.cwd, *SETTINGS, "log", *asked, "--", f":(top,literal){path}").decode().split()
    )


def _find_start(repo: Repository, since: str, tip: str) -> str:
    start = find_commit(repo, since)
    if start is not None and is_ancestor(repo, start, tip):
        return start
    if is_shallow(repo):
        raise _shallow_clone(repo)
    message = f"{since} is not in the history of {tip}: the branch was rewritten, or the cursor is of another branch"
    raise RepositoryError(
        message, slug="unreachable-cursor", hint="Name the commit to start from with --since."
    )


def _list_parents(repo: Repository, since: str | None, tip: str) -> dict[str, tuple[str, ...]]:
    asked = ("--topo-order", "--parents", tip, *([f"^{since}"] if since else []), "--")
    lines = run_git(repo.cwd, "rev-list", *asked).decode().splitlines()
    # Interned, for each id comes again as the parent of another: half the memory on a long history.
    rows = (tuple(map(sys.intern, line.split(" "))) for line in lines)
    return {row[0]: row[1:] for row in rows}


def _shallow_clone(repo: Repository) -> RepositoryError:
    message = f"The clone at {repo.cwd} is shallow, and its history ends inside the range"
    hint = "Fetch all of it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout."
    return RepositoryError(message, slug="shallow-clone", hint=hint)


def _first_parents(parents: Mapping[str, tuple[str, ...]], tip: str) -> list[str]:
    chain: list[str] = []
    commit = tip
    while commit in parents:
        chain.append(commit)
        commit = next(iter(parents[commit]), "")
    return chain


def _take(parents: Mapping[str, tuple[str, ...]], merge: str, free: set[str]) -> list[str]:
    """The free commits reachable from the other parents of `merge`; they are free no longer."""
    taken: list[str] = []
    waiting = list(parents[merge][1:])
    while waiting:
        commit = waiting.pop()
        if commit in free:
            free.remove(commit)
            taken.append(commit)
            waiting.extend(parents[commit])
    return taken


def _list_cursors(
    repo: Repository, rev: str, is_memory: Callable[[str], bool], *which: str
) -> Iterator[Cursor]:
    """What the record commits among `which` of `rev` say, newest first."""
    for commit, sources in _list_claims(repo, rev, is_memory, *which):
        held = next(
            (source for source in reversed(sources) if is_held(repo, source, commit.sha)), None
        )
        if held is not None:
            yield Cursor(held, commit.sha)


def _list_claims(
    repo: Repository, rev: str, is_memory: Callable[[str], bool], *which: str
) -> Iterator[tuple[Commit, list[str]]]:
    """The record commits among `which` of `rev`, newest first, and the sources that they name."""
    for commit in _record_commits(repo, rev, SOURCE, is_memory, *which):
        yield (
            commit,
            [
                value
                for _, value in find_trailers(commit.message, (SOURCE,))
                if re.fullmatch(FULL_ID, value)
            ],
        )


def _is_further(
    repo: Repository,
    rev: str,
    cursor: Cursor,
    newest: Cursor | None,
    is_memory: Callable[[str], bool],
) -> bool:
    """Whether a cursor beside the first parents of `rev` is theirs, and further than the newest that stands on them.

    It is theirs where both lines lead back to its source, and what brought it changed memory and nothing else: a
    branch with a cursor of its own is none, and a change of code cannot carry a forged one.
    """
    if newest is not None and is_ancestor(repo, cursor.source, newest.source):
        return False
    parents = _list_parents(repo, cursor.source, rev)
    for start in (next(iter(parents)), cursor.commit):
        chain = _first_parents(parents, start)
        if not chain or parents[chain[-1]][:1] != (cursor.source,):
            return False
    bringing = next(
        group[-1] for group in group_commits(parents, next(iter(parents))) if cursor.commit in group
    )
    ((merge, _),) = read_log(
        repo, *FILES, "--no-renames", "--no-walk", "--end-of-options", bringing
    )
    return bool(merge.files) and all(is_memory(file.path) for file in merge.files)


def _record_commits(
    repo: Repository, rev: str, key: str, is_memory: Callable[[str], bool], *which: str
) -> Iterator[Commit]:
    """Commits of `rev`, newest first, that record made, and that have `key:` in the message.

    A record commit, or a squash of some, says its step and changes memory, and nothing but memory. What a stranger
    may do is none: to write notes into the inbox, or to take some away and do nothing else.
    """
    grep = ("--fixed-strings", "--regexp-ignore-case", f"--grep={key}:")
    for commit, _ in read_log(
        repo, *which, *FILES, "--no-renames", *grep, "--end-of-options", rev, "--"
    ):
        is_step = bool(find_trailers(commit.message, (STEP,)))
        notes = [file for file in commit.files if file.path.startswith(INBOX)]
        is_of_notes = len(notes) == len(commit.files) or any(file.status != "D" for file in notes)
        if is_step and all(is_memory(file.path) for file in commit.files) and not is_of_notes:
            yield commit


EPOCH = date(
    1970, 1, 1
)  # No commit is older; git takes the date of an older day for no date at all, and that for now.


def resolve_past(repo: Repository, rev: str) -> str:
    """The commit that `rev` names. Raises RepositoryError: unknown-revision, or shallow-clone if it may be cut off."""
    commit = find_commit(repo, rev)
    if commit is None and is_shallow(repo):
        raise _cut_off(repo, f"{rev!r} is not in it")
    return commit or resolve_commit(repo, rev)


def find_commit_of_day(repo: Repository, rev: str, day: date) -> str | None:
    """The newest first-parent commit of `rev` that was made on `day` (UTC) or earlier; None before the first. Raises
    RepositoryError (shallow-clone) when history ends before that day is reached."""
    return find_commit_until(repo, rev, datetime.combine(day, time.max, UTC))


def find_commit_until(repo: Repository, rev: str, moment: datetime) -> str | None:
    """The newest first-parent commit of `rev` that was made at `moment` or earlier; None before the first. Raises
    RepositoryError (shallow-clone) when history ends before that moment is reached."""
    tip = find_commit(repo, rev)
    if tip is None or moment.date() < EPOCH:
        return None
    asked = ("--first-parent", "-n1", f"--before=@{int(moment.timestamp())} +0000", tip, "--")
    found = run_git(repo.cwd, "rev-list", *asked).decode().strip() or None
    if found is None and is_shallow(repo):
        raise _cut_off(repo, f"it does not reach back to {moment:%Y-%m-%d}")
    return found


def commit_time(repo: Repository, sha: str) -> datetime:
    """When a commit was made, in UTC."""
    ((commit, _),) = read_log(repo, "--no-walk", "--end-of-options", sha)
    return commit.committed_at.astimezone(UTC)


def resolve_merge_base(repo: Repository, one: str, other: str) -> str:
    """Where two histories met. Raises RepositoryError: unknown-revision, unrelated-histories, shallow-clone."""
    base = find_merge_base(repo, resolve_past(repo, one), resolve_past(repo, other))
    if base is not None:
        return base
    if is_shallow(repo):
        raise _cut_off(repo, f"it does not hold where {one} and {other} met")
    message = f"{one} and {other} have no commit in common"
    raise RepositoryError(
        message, slug="unrelated-histories", hint="Name the branch that the work was started from."
    )


def _cut_off(repo: Repository, why: str) -> RepositoryError:
    hint = "Fetch all of it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout."
    return RepositoryError(
        f"the clone at {repo.cwd} is shallow: {why}", slug="shallow-clone", hint=hint
    )


def find_told(repo: Repository, words: str) -> datetime | None:
    """When the newest commit of another local branch, made on top of HEAD, was made that has these words, if any."""
    beside = ("--branches", "--not", "HEAD", "--ancestry-path")
    asked = (*beside, "--fixed-strings", f"--grep={words}", "--max-count=1", "--format=%ct")
    found = run_git(repo.cwd, "log", *asked, "--").decode().strip()
    return datetime.fromtimestamp(int(found), UTC) if found else None


class LineCount(msgspec.Struct, frozen=True):
    """What one commit did to files: how many of the lines that were asked for it added, less those it took away."""

    sha: str
    at: datetime
    added: dict[str, int]


def count_added_lines(
    repo: Repository, rev: str, since: date, pathspecs: Sequence[str], starts: Sequence[str]
) -> Iterator[LineCount]:
    """How the number of lines that begin with each of `starts` changed along the first parents of `rev`."""
    shown = ("-p", "-U0", "-m", "--no-renames", "--no-color", "--date=raw", "--format=%x00%H %cd")
    asked = (
        "log",
        "--first-parent",
        *shown,
        *PLAIN,
        f"--since={since}T00:00:00Z",
        "--end-of-options",
        rev,
        "--",
    )
    sha, at, added = "", "", dict.fromkeys(starts, 0)
    with stream_git(repo.cwd, *SETTINGS, *asked, *pathspecs) as stream:
        for line in stream:
            if line.startswith(b"\0"):
                if sha:
                    yield LineCount(sha, parse_date(at), added)
                sha, at = line[1:].decode().strip().split(" ", 1)
                added = dict.fromkeys(starts, 0)
            else:
                for start in starts:
                    added[start] += line.startswith(f"+{start}".encode()) - line.startswith(
                        f"-{start}".encode()
                    )
    if sha:
        yield LineCount(sha, parse_date(at), added)


def list_releases(repo: Repository, since: str, rev: str, most: int) -> list[str]:
    """The newest tags between two commits that name a version, oldest first."""
    between = ("--contains", since, "--merged", rev)
    asked = ("tag", *between, "--sort=creatordate", "--list", "[vV][0-9]*", "[0-9]*.[0-9]*")
    return run_git(repo.cwd, *asked).decode("utf-8", "replace").splitlines()[-most:]
