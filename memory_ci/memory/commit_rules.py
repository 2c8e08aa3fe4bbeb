"""The checks of the default branch, judged on the content of the next commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.checks.judge import ChangeFault, CheckedChange
from memory_ci.gitrepo.repo import (
    Repository,
    find_comment_prefixes,
    find_commit,
    find_merge_base,
    find_setting,
    read_tips,
)
from memory_ci.gitrepo.trailers import SCISSORS
from memory_ci.memory.rules import (
    find_skips,
    judge_all,
    list_rules,
    read_change,
    read_staged,
)
from memory_ci.memory.workspace import workspace_at
from memory_ci.records.check import RuleCheck
from memory_ci.records.history import Staging


class Violation(NamedTuple):
    """A check that the next commit would break.

    Attributes:
        reason: why the message skips it, "" if it does not.
    """

    rule: RuleCheck
    fault: ChangeFault
    reason: str = ""


class NextCommit(NamedTuple):
    """The message and the files of the next commit.

    Attributes:
        message: its message, "" if it is not written yet.
        index_file: its index, None for that of the work tree.
        staging: the files that it takes in addition to the index, as paths from the top.
        base: the tip of the default branch, None to look it up when it is needed.
    """

    message: str = ""
    index_file: Path | None = None
    staging: Staging = Staging()
    base: str | None = None


def find_base(repo: Repository) -> str | None:
    """Return the tip of the default branch, else HEAD, or None without a commit."""
    tips = read_tips(repo)
    return find_commit(repo, tips.default) if tips.default else find_commit(repo, "HEAD")


def judge_message_file(repo: Repository, path: Path, environ: Mapping[str, str]) -> list[Violation]:
    """Return the violations of the commit that git makes with the message in a file.

    Args:
        repo: the repository.
        path: the file, which a hook of git is given.
        environ: the environment of the hook, which may name another index.
    """
    base = find_base(repo)
    if base is None or (repo.git_dir / "MERGE_HEAD").exists():
        return []
    rules = list_rules(workspace_at(repo, base).at(base))
    if not rules:
        return []
    index_file = environ.get("GIT_INDEX_FILE")
    message = _clean_message(repo, path.read_text("utf-8", "replace"), environ)
    staged = NextCommit(message, Path(repo.cwd, index_file) if index_file else None)
    return judge_commit(repo, rules, staged._replace(base=base))


def judge_commit(
    repo: Repository, rules: Sequence[RuleCheck], commit: NextCommit
) -> list[Violation]:
    """Return the checks that the next commit breaks, and that its branch as a whole breaks, too.

    A branch satisfies a check by any of its commits, as its request will.
    """
    head = find_commit(repo, "HEAD")
    if head is None:
        return []
    change = _read_commit(repo, head, rules, commit)
    broken = _list_broken(rules, change)
    if not broken:
        return []
    broken = _drop_satisfied(repo, head, broken, commit)
    skips = find_skips([commit.message], rules)
    return [violation._replace(reason=skips.get(violation.rule.id, "")) for violation in broken]


def judge_last_commit(
    repo: Repository, rules: Sequence[RuleCheck], message: str
) -> list[Violation]:
    """Return the checks that HEAD breaks, and that its branch as a whole breaks, too.

    It is for commits that were made without git's hooks. A check that the message skips is left
    out, and merges are not judged.

    Args:
        repo: the repository.
        rules: the checks.
        message: the message of the commit, "" if unknown; HEAD is not judged if it has another one.
    """
    head, parent = find_commit(repo, "HEAD"), find_commit(repo, "HEAD^1")
    if head is None or parent is None or find_commit(repo, "HEAD^2"):
        return []
    base = find_base(repo)
    trusted = workspace_at(repo, base) if base else None
    change = read_change(repo, parent, head, rules, trusted)
    if message and not any(text.startswith(message) for text in change.messages):
        return []
    broken = _list_broken(rules, change)
    skips = find_skips(change.messages, rules)
    broken = [violation for violation in broken if violation.rule.id not in skips]
    start = find_merge_base(repo, head, base) if broken and base else None
    if start is None or start in (head, parent):
        return broken
    branch = read_change(repo, start, head, [violation.rule for violation in broken], trusted)
    return _list_still_broken(broken, branch)


def _list_broken(rules: Sequence[RuleCheck], change: CheckedChange) -> list[Violation]:
    return [
        Violation(rule, judgement.fault)
        for rule, judgement in judge_all(rules, change)
        if judgement.fault is not None
    ]


def _list_still_broken(broken: Sequence[Violation], branch: CheckedChange) -> list[Violation]:
    """Return the violations of checks that a branch as a whole breaks."""
    remaining = {rule.id for rule, *_ in _list_broken([item.rule for item in broken], branch)}
    return [violation for violation in broken if violation.rule.id in remaining]


def _read_commit(
    repo: Repository, start: str, rules: Sequence[RuleCheck], commit: NextCommit
) -> CheckedChange:
    change = read_staged(repo, start, rules, commit.staging, commit.index_file)
    messages = (commit.message,) if commit.message else ()
    return msgspec.structs.replace(change, messages=messages)


def _drop_satisfied(
    repo: Repository, head: str, broken: Sequence[Violation], commit: NextCommit
) -> list[Violation]:
    """Return the violations without those that earlier commits of the branch mend."""
    base = commit.base or find_base(repo)
    start = find_merge_base(repo, head, base) if base else None
    if start is None or start == head:
        return list(broken)
    rules = [violation.rule for violation in broken]
    return _list_still_broken(broken, _read_commit(repo, start, rules, commit))


def _clean_message(repo: Repository, message: str, environ: Mapping[str, str]) -> str:
    """Return a message as git will commit it, by git-commit(1), "--cleanup".

    Where git runs no editor it tells its hooks so by `GIT_EDITOR=:`, and keeps lines that look like
    comments, such as `#123`. The option `--cleanup` reaches no hook, the setting does.
    """
    cleanup = find_setting(repo, "commit.cleanup") or "default"
    has_editor = environ.get("GIT_EDITOR") != ":"
    prefixes = find_comment_prefixes(repo)
    lines = message.splitlines()
    if has_editor:
        lines = list(takewhile(lambda line: not _is_scissors(line, prefixes), lines))
    if cleanup == "strip" or (cleanup == "default" and has_editor):
        lines = [line for line in lines if not line.startswith(prefixes)]
    return "\n".join(lines).strip()


def _is_scissors(line: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether the diff that `commit --verbose` adds begins below a line."""
    return SCISSORS in line and line.startswith(prefixes)
