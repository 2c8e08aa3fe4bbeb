"""Names of git things, and how an entry or a feedback names the work it comes from."""

from __future__ import annotations

from collections.abc import Iterable

HEADS = "refs/heads/"

FULL_ID = (
    "[0-9a-f]{40}(?:[0-9a-f]{24})?"  # A pattern: the whole id of a commit, by SHA-1 or SHA-256.
)
SHORT_ID = "[0-9a-f]{7,64}"  # A pattern: the id of a commit, or so much of it as git shows.
COMMIT_ORIGIN = rf"\bcommit:({SHORT_ID})\b"
ORIGIN = rf"\b(?:pr:(?P<number>\d{{1,9}})|commit:(?P<sha>{SHORT_ID}))\b"
"""Patterns of an origin: `commit:3f2ab91`, `pr:128`."""

SERVED, USED, HOLDOUT = "Memory-Retrieved", "Memory-Used", "Memory-Holdout"
"""Trailers: entries that a job was served; those that its work used; that it was served nothing, as a control."""

OWN = r"(?im)^Memory-CI-(?:Step|Source):"  # A pattern: commits of memory-ci hold it.
MARK = r"(?im)^[ \t]*Memory:[ \t]*(keep|skip)[ \t]*$"
TRAILER = r"[A-Z]\w*+-[\w-]++: .*"
MERGE_LINE = r"Merge (?:pull request|branch|branches|remote-tracking|tag|commit|PR|MR)\b.*|See merge request .*|#.*"
"""Patterns of lines of messages: what says whether a change is learned from, and what says nothing of it."""

LEAST_WIDTH = 7  # So much of a commit id names a commit at least.
SHA_WIDTH = 12  # So much of a commit id is written where an entry or an episode names one.


AUDIENCE = r"public|internal|group-[a-z0-9][a-z0-9._-]{0,60}"  # Anybody, all of the organisation, or one group.


def short_branch(ref: str) -> str:
    """A branch as people name it.

    >>> short_branch("refs/heads/feature/x"), short_branch("main")
    ('feature/x', 'main')
    """
    return ref.removeprefix(HEADS)


def names_of_change(number: int | None, shas: Iterable[str]) -> frozenset[str]:
    """The names by which entries and episodes may speak of a merged change."""
    commits = {f"commit:{sha[:LEAST_WIDTH]}" for sha in shas}
    return frozenset(commits | ({f"pr:{number}"} if number is not None else set()))


def work_ref(number: int | None, commit: str) -> str:
    """How an entry or a feedback names merged work.

    >>> work_ref(128, "9d0c3f2ab915"), work_ref(None, "9d0c3f2ab915e0")
    ('pr:128', 'commit:9d0c3f2ab915')
    """
    return f"pr:{number}" if number is not None else f"commit:{commit[:SHA_WIDTH]}"
