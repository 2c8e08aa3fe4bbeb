"""Checks (tests of a change) that memory entries carry, and changes as checks see them.

docs/checks.md describes checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date
from pathlib import Path

from memory_ci.checks.globs import GlobError, Globs, compile_globs
from memory_ci.checks.judge import AddedLine, CheckedChange, Judgement, judge, list_read_globs
from memory_ci.gitrepo.diffs import INDEX, PathFilter, list_changed_files, list_new_files
from memory_ci.gitrepo.diffs import read_additions as read_diff
from memory_ci.gitrepo.log import FILE_OPTIONS, read_commit_time, read_log
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import Snapshot, Workspace, build_memory_test
from memory_ci.records.check import MIN_ID, SKIP_TRAILER, ChangeCheck, RuleCheck
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.history import Commit, FileChange, Staging
from memory_ci.records.names import OWN_TRAILER
from memory_ci.regex import Regex

SESSION = Regex(r"session:([^#\s]+)")
"""The session in a line of evidence."""

TOO_LONG = "the change adds more than 100,000 lines or 16 MB"
UNREAD_NEW = "the text of files that git does not track yet is not read"
NEW = "new"
"""Stands for the id of an entry that is not written yet."""

SKIP = Regex(rf"([0-9A-Fa-f-]{{{MIN_ID},36}})[\s,:]+(\S.*)", re.DOTALL)
"""The value of a `Memory-Skip` trailer: the start of an id, and a reason."""


def list_rules(base: Snapshot) -> list[RuleCheck]:
    """Return the checks of the entries that are in force at a commit, in the order of the files.

    Entries of a session or outside of the repository have no check that counts, nor have entries
    that must not be served. An entry with an end date is in force if it was on the commit's day.
    """
    if all(place.entry.check is None for place in base.memory.located):
        return []
    day = read_commit_time(base.workspace.repo, base.sha).astimezone(UTC).date()
    return collect_rules(base.memory.located, day)


def collect_rules(located: Iterable[Located], day: date) -> list[RuleCheck]:
    """Return the checks of the entries that are in force on a day."""
    places: list[tuple[Located, ChangeCheck]] = []
    for place in located:
        check = place.entry.check
        if check is None or not is_in_force(place.entry, day) or not _is_shared(place):
            continue
        if not any(find_unsafe_entry(place)):
            places.append((place, check))

    ids = [place.entry.id for place, _ in places]
    return [_make_rule(place, check, _shorten_id(place.entry.id, ids)) for place, check in places]


def make_rule(check: ChangeCheck, title: str) -> RuleCheck:
    """Return a check that is of no entry yet."""
    return RuleCheck(id=NEW, name=NEW, title=title, check=check)


def make_rules(entry: Entry) -> list[RuleCheck]:
    """Return the check of an entry that is not in memory yet, if it has one."""
    if entry.check is None:
        return []
    return [_make_rule(Located(entry, "", 1, PROJECT), entry.check, entry.id[:MIN_ID])]


def read_change(
    repo: Repository,
    start: str,
    end: str,
    rules: Sequence[RuleCheck],
    trusted: Workspace | None = None,
) -> CheckedChange:
    """Return the change between two commits, with the messages of its commits.

    Args:
        repo: the repository.
        start: the commit before the change.
        end: its newest commit.
        rules: the checks that are to judge it.
        trusted: the configuration that says what memory is, as for `list_worded_messages`.
    """
    span = ("--end-of-options", end, f"^{start}", "--")
    log = read_log(repo, *FILE_OPTIONS, "--no-merges", *span)
    messages = list_worded_messages((commit for commit, _ in log), trusted)
    change = read_changed_files(repo, start, end, rules)
    return CheckedChange(
        files=change.files,
        added=change.added,
        messages=messages,
        unread=change.unread,
    )


def list_worded_messages(
    commits: Iterable[Commit], trusted: Workspace | None = None
) -> tuple[str, ...]:
    """Return the messages of commits that somebody worded: not of merges, nor of memory-ci.

    Anybody can write the trailer of memory-ci, so a commit counts as its own only if it touches
    nothing but memory.

    Args:
        commits: the commits, with their files.
        trusted: the configuration that says what memory is; with None the authors may not be
            trusted, and no commit counts as one of memory-ci.
    """
    is_memory = build_memory_test(trusted) if trusted else None
    messages = []
    for commit in commits:
        is_merge = len(commit.parents) >= 2
        if is_merge or (is_memory is not None and _is_own(commit, is_memory)):
            continue
        messages.append(commit.message)
    return tuple(messages)


def _is_own(commit: Commit, is_memory: Callable[[str], bool]) -> bool:
    """Return whether memory-ci made a commit: it has its trailer and touches memory files alone."""
    if not re.search(OWN_TRAILER, commit.message):
        return False
    for file in commit.files:
        if not is_memory(file.path) or (file.old_path and not is_memory(file.old_path)):
            return False
    return True


def read_changed_files(
    repo: Repository,
    start: str,
    end: str | None,
    rules: Sequence[RuleCheck],
    index_file: Path | None = None,
    *,
    pathspecs: Sequence[str] = (),
) -> CheckedChange:
    """Return the files that differ between a commit and another, the index or the work tree.

    Added lines are read only if a check needs those of a file that differs.

    Args:
        repo: the repository.
        start: the commit before the change.
        end: the commit after it, `gitrepo.diffs.INDEX`, or None for the work tree.
        rules: the checks that are to judge it.
        index_file: the index, None for that of the work tree.
        pathspecs: the files that are compared, from the top; all with none.
    """
    files = list_changed_files(repo, start, end, index_file, pathspecs=pathspecs)
    is_wanted = build_added_line_filter(rules)
    if not any(file.status != "D" and is_wanted(file.path) for file in files):
        return CheckedChange(files=files)
    additions = read_diff(repo, start, end, is_wanted, index_file, pathspecs=pathspecs)
    added = tuple(AddedLine(*line) for line in additions.lines)
    return CheckedChange(files=files, added=added, unread="" if additions.is_complete else TOO_LONG)


def read_staged(
    repo: Repository,
    start: str,
    rules: Sequence[RuleCheck],
    staging: Staging,
    index_file: Path | None = None,
) -> CheckedChange:
    """Return the changes of the next commit: the index, and the files it takes in addition.

    The text of files that git does not track yet is not read, and `unread` says so.

    Args:
        repo: the repository.
        start: the commit before the change.
        rules: the checks that are to judge it.
        staging: the files that the commit takes in addition to the index, as `git commit -a` or
            `git commit PATH` does, as paths from the top.
        index_file: the index, None for that of the work tree.
    """
    if staging.is_whole_tree:
        change = read_changed_files(repo, start, None, rules)
        return _add_new_files(change, list_new_files(repo), rules)

    named = [f":(top){path}" for path in staging.paths]
    if not named and not staging.has_tracked:
        return read_changed_files(repo, start, INDEX, rules, index_file)
    if staging.has_tracked:
        change = read_changed_files(repo, start, None, rules)
    else:
        not_named = [f":(top,exclude){path}" for path in staging.paths]
        staged = read_changed_files(repo, start, INDEX, rules, index_file, pathspecs=not_named)
        in_addition = read_changed_files(repo, start, None, rules, pathspecs=named)
        change = CheckedChange(
            files=(*staged.files, *in_addition.files),
            added=(*staged.added, *in_addition.added),
            unread=staged.unread or in_addition.unread,
        )
    if not named:
        return change
    return _add_new_files(change, list_new_files(repo, named), rules)


def _add_new_files(
    change: CheckedChange, files: Sequence[FileChange], rules: Sequence[RuleCheck]
) -> CheckedChange:
    """Return a change with files that git does not track yet, whose text is not read."""
    is_wanted = build_added_line_filter(rules)
    unread = UNREAD_NEW if any(is_wanted(file.path) for file in files) else ""
    return CheckedChange(
        files=(*change.files, *files), added=change.added, unread=change.unread or unread
    )


def build_added_line_filter(rules: Iterable[RuleCheck]) -> PathFilter:
    """Return a function that says whether a check reads the lines added to a path."""
    globs_by_rule: list[Globs] = []
    for rule in rules:
        patterns = list_read_globs([rule.check])
        # A check that another program wrote may have an invalid glob, and is not judged then.
        with suppress(GlobError):
            if patterns:
                globs_by_rule.append(compile_globs(patterns))

    def is_wanted(path: str) -> bool:
        return any(globs.matches(path) for globs in globs_by_rule)

    return is_wanted


def find_skips(messages: Iterable[str], rules: Sequence[RuleCheck]) -> dict[str, str]:
    """Return the checks that `Memory-Skip` trailers of messages skip, each with the reason.

    The value of a trailer is the start of an entry's id, and a reason. Without a reason, or with a
    start that several ids have, it skips none.

    Returns:
        The reasons by the id of the entry.
    """
    reasons: dict[str, str] = {}
    for message in messages:
        for _, value in find_trailers(message, (SKIP_TRAILER,)):
            match = SKIP.fullmatch(value.strip())
            if match is None:
                continue
            prefix = match[1].lower()
            reason = " ".join(match[2].split())
            ids = [rule.id for rule in rules if rule.id.startswith(prefix)]
            if len(ids) == 1:
                reasons.setdefault(ids[0], reason)
    return reasons


def judge_all(
    rules: Iterable[RuleCheck], change: CheckedChange
) -> Iterator[tuple[RuleCheck, Judgement]]:
    """Yield each check with its judgement of a change."""
    for rule in rules:
        yield rule, judge(rule.check, change)


def _is_shared(place: Located) -> bool:
    """Return whether an entry is for all work, by its file and by its target in the inbox."""
    if (place.entry.scope or "").partition(":")[0] == "session":
        return False
    return place.scope.name not in ("session", "global")


def _shorten_id(entry_id: str, ids: Sequence[str]) -> str:
    """Return the shortest start of an id that no other id has, at least MIN_ID characters.

    Args:
        entry_id: the id.
        ids: all ids, with this one.
    """
    width = MIN_ID
    while width < len(entry_id):
        same_start = [full_id for full_id in ids if full_id.startswith(entry_id[:width])]
        if len(same_start) <= 1:
            break
        width += 1
    return entry_id[:width].rstrip("-")


def _make_rule(place: Located, check: ChangeCheck, name: str) -> RuleCheck:
    """Return the check of an entry with what a message on a violation says of the entry.

    Args:
        place: the entry and its place.
        check: its check.
        name: its shortened id.
    """
    entry = place.entry
    sessions: set[str] = set()
    for line in entry.evidence:
        sessions.update(f"session:{key}" for key in SESSION.findall(line))
    sessions.update(label for label in entry.occurrences if label.startswith("session:"))
    # The day of the last request in a session, or else the day on which the entry was learned.
    day = entry.occurred_at if sessions else entry.created_at
    return RuleCheck(
        id=entry.id,
        name=name,
        title=entry.title,
        check=check,
        level=entry.level or "remind",
        sessions=len(sessions),
        last=day or entry.last_reinforced,
        path=place.path,
        line=place.line,
    )
