"""Names in git: refs, commits and trailers, and the names of work in entries and feedback."""

from __future__ import annotations

from collections.abc import Iterable

HEADS = "refs/heads/"

FULL_ID = "[0-9a-f]{40}(?:[0-9a-f]{24})?"
"""A pattern of the whole id of a commit, by SHA-1 or SHA-256."""

SHORT_ID = "[0-9a-f]{7,64}"
"""A pattern of the id of a commit, whole or abbreviated by git."""

COMMIT_ORIGIN = rf"\bcommit:({SHORT_ID})\b"
"""A pattern of an origin that is a commit: `commit:3f2ab91`."""

ORIGIN = rf"\b(?:pr:(?P<number>\d{{1,9}})|commit:(?P<sha>{SHORT_ID}))\b"
"""A pattern of an origin: `commit:3f2ab91`, `pr:128`."""

SERVED_TRAILER = "Memory-Retrieved"
"""The trailer with the entries that a job was served."""

USED_TRAILER = "Memory-Used"
"""The trailer with the entries that the work of a job used."""

HOLDOUT_TRAILER = "Memory-Holdout"
"""The trailer of a job that was served nothing, as a control."""

OWN_TRAILER = r"(?im)^Memory-CI-(?:Step|Source):"
"""A pattern of a trailer that all commits of memory-ci have."""

LEARNING_MARK = r"(?im)^[ \t]*Memory:[ \t]*(keep|skip)[ \t]*$"
"""A pattern of the line by which a message says whether its change is learned from."""

TRAILER_LINE = r"[A-Z]\w*+-[\w-]++: .*"
"""A pattern of a trailer, a line of a message without anything to learn."""

MERGE_LINE = (
    r"Merge (?:pull request|branch|branches|remote-tracking|tag|commit|PR|MR)\b.*"
    r"|See merge request .*|#.*"
)
"""A pattern of lines that git and forges write into messages: nothing to learn from either."""

MIN_SHA_WIDTH = 7  # Characters of a commit id that name a commit, at least.
SHA_WIDTH = 12  # Characters of a commit id in entries and episodes.

AUDIENCE = r"public|internal|group-[a-z0-9][a-z0-9._-]{0,60}"
"""A pattern of the readers of an entry: anybody, all of the organisation, or one group."""


def short_branch(ref: str) -> str:
    """Return the name of a branch without `refs/heads/`.

    >>> short_branch("refs/heads/feature/x"), short_branch("main")
    ('feature/x', 'main')
    """
    return ref.removeprefix(HEADS)


def list_change_names(number: int | None, shas: Iterable[str]) -> frozenset[str]:
    """Return the names that a merged change may have in entries and episodes.

    Args:
        number: the number of its pull request.
        shas: the ids of its commits.
    """
    names = {f"commit:{sha[:MIN_SHA_WIDTH]}" for sha in shas}
    if number is not None:
        names.add(f"pr:{number}")
    return frozenset(names)


def format_work_ref(number: int | None, commit: str) -> str:
    """Return the name of merged work in entries and feedback.

    >>> format_work_ref(128, "9d0c3f2ab915"), format_work_ref(None, "9d0c3f2ab915e0")
    ('pr:128', 'commit:9d0c3f2ab915')
    """
    return f"pr:{number}" if number is not None else f"commit:{commit[:SHA_WIDTH]}"
