"""A piece of work that is learned from: a merged change, a declined request or a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import NamedTuple

from memory_ci.evidence.content import redact
from memory_ci.extraction.markers import find_misspelt
from memory_ci.gitrepo.forges import find_branch
from memory_ci.memory.commit_texts import find_start
from memory_ci.memory.eligible import find_merge_day, find_title
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding


class WorkItem(NamedTuple):
    """One piece of work that is learned from.

    Attributes:
        label: its name for people, such as `#128`.
        tip_sha: the last commit of a merged change; "" for a declined request, or for a checkpoint
            that belongs to no change.
        day: when it was merged or closed.
        masked_names: title, branch and labels, with credentials masked.
        base_sha: the commit that it is based on.
        is_declined: whether it was closed without a merge.
    """

    label: str
    tip_sha: str
    day: date
    masked_names: str = ""
    base_sha: str | None = None
    is_declined: bool = False


def describe_change(merged: MergedChange, request: PullRequest | None) -> WorkItem:
    """Return the work item of a merged change, named by its pull request or else its branch."""
    if request:
        names = [find_title(merged), request.title, request.branch, *request.labels]
    else:
        names = [find_title(merged), find_branch(merged.tip.message)]
    words = "\n".join(names).replace("/", " ")
    return WorkItem(
        label=merged.label,
        tip_sha=merged.tip.sha,
        day=find_merge_day(merged),
        masked_names=redact(words).text,
        base_sha=find_start(merged),
    )


def find_misspelt_marks(commits: Iterable[Commit]) -> Iterator[Finding]:
    """Yield a notice for each line of a commit message that looks like a misspelt mark."""
    for commit in commits:
        for label, mark in find_misspelt(commit.message):
            message = (
                f"{commit.sha[:SHA_WIDTH]} has a line `{label}:`, which is ignored: "
                f"it should be `{mark}:`"
            )
            hint = "Keep it with `memory-ci add`."
            yield Finding(".", 1, "misspelt-mark", message, hint, "notice")
