"""Checks that the next commit, or the last one, breaks: those in force on the default branch."""

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
    """A check that a commit breaks.

    Attributes:
        rule: the check, with the entry that it belongs to.
        fault: what breaks it.
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
    """Return the checks that the next commit breaks, from git's hook `commit-msg`.

    Merges are not judged.

    Args:
        repo: the repository.
        path: the file with the commit message, which git passes to the hook.
        environ: the environment of the hook, which may name another index.
    """
    base = find_base(repo)
    if base is None or (repo.git_dir / "MERGE_HEAD").exists():
        return []
    rules = list_rules(workspace_at(repo, base).at(base))
    if not rules:
        return []
    message = _clean_message(repo, path.read_text("utf-8", "replace"), environ)
    index_file = None
    if environ.get("GIT_INDEX_FILE"):
        index_file = Path(repo.cwd, environ["GIT_INDEX_FILE"])
    return judge_commit(repo, rules, NextCommit(message, index_file, base=base))


def judge_commit(
    repo: Repository, rules: Sequence[RuleCheck], commit: NextCommit
) -> list[Violation]:
    """Return the checks that both the next commit and its branch as a whole break.

    CI judges the pull request as a whole. So if a check asks for a changelog entry, for example,
    and an earlier commit of the branch has one, the next commit needs none.

    Args:
        repo: the repository.
        rules: the checks.
        commit: the next commit.

    Returns:
        The violations. Those that the message skips have the reason for it.
    """
    head = find_commit(repo, "HEAD")
    if head is None:
        return []
    change = _read_commit(repo, head, rules, commit)
    violations = _list_violations(rules, change)
    if not violations:
        return []
    violations = _drop_satisfied(repo, head, violations, commit)
    skip_reasons = find_skips([commit.message], rules)
    return [
        violation._replace(reason=skip_reasons.get(violation.rule.id, ""))
        for violation in violations
    ]


def judge_last_commit(
    repo: Repository, rules: Sequence[RuleCheck], message: str
) -> list[Violation]:
    """Return the checks that both HEAD and its branch as a whole break.

    It is for commits that were made without git's hooks. A check that the message skips is left
    out, and merges are not judged.

    Args:
        repo: the repository.
        rules: the checks.
        message: the message of the commit that is to be judged, "" if unknown. If HEAD has another
            message, it is another commit, and is not judged.
    """
    head = find_commit(repo, "HEAD")
    parent = find_commit(repo, "HEAD^1")
    is_merge = find_commit(repo, "HEAD^2") is not None
    if head is None or parent is None or is_merge:
        return []
    base = find_base(repo)
    # The configuration that was reviewed says which files are memory.
    reviewed_workspace = workspace_at(repo, base) if base else None
    change = read_change(repo, parent, head, rules, reviewed_workspace)
    if message and not any(text.startswith(message) for text in change.messages):
        return []

    skip_reasons = find_skips(change.messages, rules)
    violations = []
    for violation in _list_violations(rules, change):
        if violation.rule.id not in skip_reasons:
            violations.append(violation)
    branch_start = find_merge_base(repo, head, base) if violations and base else None
    if branch_start is None or branch_start in (head, parent):
        return violations  # the branch has no other commits
    broken_rules = [violation.rule for violation in violations]
    branch = read_change(repo, branch_start, head, broken_rules, reviewed_workspace)
    return _keep_violations_of_branch(violations, branch)


def _list_violations(rules: Sequence[RuleCheck], change: CheckedChange) -> list[Violation]:
    """Return the checks that a change breaks."""
    violations = []
    for rule, judgement in judge_all(rules, change):
        if judgement.fault is not None:
            violations.append(Violation(rule, judgement.fault))
    return violations


def _keep_violations_of_branch(
    violations: Sequence[Violation], branch: CheckedChange
) -> list[Violation]:
    """Return the violations of one commit whose checks the branch as a whole breaks, too."""
    rules = [violation.rule for violation in violations]
    broken_ids = {violation.rule.id for violation in _list_violations(rules, branch)}
    return [violation for violation in violations if violation.rule.id in broken_ids]


def _read_commit(
    repo: Repository, start: str, rules: Sequence[RuleCheck], commit: NextCommit
) -> CheckedChange:
    """Return the change from a commit to the next commit, with the files that the checks need."""
    change = read_staged(repo, start, rules, commit.staging, commit.index_file)
    messages = (commit.message,) if commit.message else ()
    return msgspec.structs.replace(change, messages=messages)


def _drop_satisfied(
    repo: Repository, head: str, violations: Sequence[Violation], commit: NextCommit
) -> list[Violation]:
    """Leave out violations of the next commit whose checks earlier commits of the branch satisfy.

    Args:
        repo: the repository.
        head: the last commit of the branch.
        violations: the violations.
        commit: the next commit.
    """
    base = commit.base or find_base(repo)
    branch_start = find_merge_base(repo, head, base) if base else None
    if branch_start is None or branch_start == head:
        return list(violations)  # the branch has no commits yet
    rules = [violation.rule for violation in violations]
    branch = _read_commit(repo, branch_start, rules, commit)
    return _keep_violations_of_branch(violations, branch)


def _clean_message(repo: Repository, message: str, environ: Mapping[str, str]) -> str:
    """Return a message as git will commit it (git-commit(1), "--cleanup"): without comments.

    By default, git removes comments only from a message that was edited. If it runs no editor, it
    sets `GIT_EDITOR=:` for its hooks. The setting `commit.cleanup` may differ from the default:
    `strip` always removes comments, `whitespace`, `verbatim` and `scissors` never do. A hook does
    not see the option `--cleanup`.

    Args:
        repo: the repository.
        message: the message in the file that the hook gets.
        environ: the environment of the hook.
    """
    cleanup_mode = find_setting(repo, "commit.cleanup") or "default"
    is_edited = environ.get("GIT_EDITOR") != ":"
    comment_prefixes = find_comment_prefixes(repo)
    lines = message.splitlines()
    if is_edited:
        # The diff that `commit --verbose` shows in the editor is not part of the message.
        lines = list(takewhile(lambda line: not _is_scissors(line, comment_prefixes), lines))
    if cleanup_mode == "strip" or (cleanup_mode == "default" and is_edited):
        lines = [line for line in lines if not line.startswith(comment_prefixes)]
    return "\n".join(lines).strip()


def _is_scissors(line: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether the diff that `commit --verbose` adds begins below a line."""
    return SCISSORS in line and line.startswith(prefixes)
