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

    Left out are the checks of entries that are for one session or outside of the repository, and of
    entries that must not be served to agents. Whether an entry with an end date is in force is
    decided by the day of the commit.
    """
    if all(located_entry.entry.check is None for located_entry in base.memory.located):
        return []
    day = read_commit_time(base.workspace.repo, base.sha).astimezone(UTC).date()
    return collect_rules(base.memory.located, day)


def collect_rules(located: Iterable[Located], day: date) -> list[RuleCheck]:
    """Return the checks of the entries that are in force on a day.

    Left out are the checks of entries that are for one session or outside of the repository, and of
    entries that must not be served to agents.
    """
    entries_with_check: list[tuple[Located, ChangeCheck]] = []
    for located_entry in located:
        entry = located_entry.entry
        if entry.check is None or not is_in_force(entry, day) or not _is_shared(located_entry):
            continue
        is_unsafe = any(find_unsafe_entry(located_entry))
        if not is_unsafe:
            entries_with_check.append((located_entry, entry.check))

    ids = [located_entry.entry.id for located_entry, _ in entries_with_check]
    rules = []
    for located_entry, check in entries_with_check:
        short_id = _shorten_id(located_entry.entry.id, ids)
        rules.append(_make_rule(located_entry, check, short_id))
    return rules


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
    reviewed_workspace: Workspace | None = None,
) -> CheckedChange:
    """Return the change between two commits, with the messages of its commits.

    Args:
        repo: the repository.
        start: the commit before the change.
        end: its newest commit.
        rules: the checks that are to judge it.
        reviewed_workspace: the repository with a configuration that was reviewed, by which commits
            of memory-ci are recognised; their messages are left out. With None all messages are
            returned.
    """
    commit_range = ("--end-of-options", end, f"^{start}", "--")
    log = read_log(repo, *FILE_OPTIONS, "--no-merges", *commit_range)
    messages = list_messages_by_people((commit for commit, _ in log), reviewed_workspace)
    change = read_changed_files(repo, start, end, rules)
    return CheckedChange(
        files=change.files,
        added=change.added,
        messages=messages,
        unread=change.unread,
    )


def list_messages_by_people(
    commits: Iterable[Commit], reviewed_workspace: Workspace | None = None
) -> tuple[str, ...]:
    """Return the messages of commits that people or agents wrote.

    The messages of merges and of memory-ci are left out. Anybody can write the trailer of
    memory-ci, so a commit counts as its own only if it touches nothing but memory files.

    Args:
        commits: the commits, with their files.
        reviewed_workspace: the repository with a configuration that was reviewed, which says what
            memory files are. With None no commit counts as one of memory-ci.
    """
    is_memory = build_memory_test(reviewed_workspace) if reviewed_workspace else None
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


def _is_shared(located_entry: Located) -> bool:
    """Return whether an entry is for all work, by its file and by its target in the inbox."""
    if (located_entry.entry.scope or "").partition(":")[0] == "session":
        return False
    return located_entry.scope.name not in ("session", "global")


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


def _make_rule(located_entry: Located, check: ChangeCheck, short_id: str) -> RuleCheck:
    """Return the check of an entry, with the facts that a message on a violation states.

    These are the title and place of the entry, in how many sessions people asked for it, and when
    they last did. For an entry that nobody asked for in a session it is the day on which it was
    learned.

    Args:
        located_entry: the entry with its path and line.
        check: its check.
        short_id: its shortened id.
    """
    entry = located_entry.entry
    session_names: set[str] = set()
    for line in entry.evidence:
        session_names.update(f"session:{key}" for key in SESSION.findall(line))
    for occurrence in entry.occurrences:
        if occurrence.startswith("session:"):
            session_names.add(occurrence)
    last_day = entry.occurred_at if session_names else entry.created_at
    return RuleCheck(
        id=entry.id,
        name=short_id,
        title=entry.title,
        check=check,
        level=entry.level or "remind",
        sessions=len(session_names),
        last=last_day or entry.last_reinforced,
        path=located_entry.path,
        line=located_entry.line,
    )
