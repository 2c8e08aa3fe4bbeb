"""Read number, title and branch of a pull request from the message of the commit that merged it."""

from __future__ import annotations

import re

from memory_ci.records.history import Commit, MergedChange
from memory_ci.regex import Regex

MAX_SUBJECT = 1000  # Characters of a subject that are searched.
NUMBER = r"([1-9][0-9]{0,8})"

NUMBER_IN_SUBJECT = (
    Regex(rf"\AMerge pull request #{NUMBER} from \S"),  # GitHub, merge.
    Regex(rf"\AMerged in .+ \(pull request #{NUMBER}\)"),  # Bitbucket.
    # GitHub, squash; or a merge that is named after the pull request.
    Regex(rf"(?<=\S)[ \t]*+\(#{NUMBER}\)[ \t]*+\Z"),
)
"""A run of blanks is matched possessively (`*+`): otherwise many of them take quadratic time."""

NUMBER_IN_BODY = Regex(rf"^See merge request \S*!{NUMBER}[ \t]*+$", re.MULTILINE)  # GitLab.
FORGE_SUBJECT = Regex(
    r"Merge pull request #[0-9]+ from |Merged in .+ \(pull request #|Merge branch '.+' into '"
)
"""Subjects that a forge wrote: the title of the change is in the body."""

BRANCH = (
    Regex(r"\AMerge pull request #[0-9]{1,9} from [^/\s]+/(\S+)"),  # GitHub: owner/branch.
    Regex(r"\AMerged in (\S+) \(pull request #"),  # Bitbucket.
    # GitLab, and git itself.
    Regex(r"\AMerge (?:remote-tracking )?branch '(?:origin/)?([^']+)'"),
)

MEMORY_TRAILER = Regex(r"Memory(?:-[A-Za-z-]+)?:")
"""A trailer that our hook puts into a merge message without a body: it is no title."""

# The number at the end of a title: ` (#12)`.
NUMBER_AT_END = Regex(r"(?<!\s)\s*+\(#[0-9]{1,9}\)\s*+\Z")


def describe_change(commits: tuple[Commit, ...]) -> MergedChange:
    """Return the merged change of a first-parent commit: a merge, a squash or a direct push.

    Args:
        commits: the commits that it merged, oldest first, then the first-parent commit itself.
    """
    tip = commits[-1]
    number = find_number(tip.message)
    title = find_title(tip.message)
    if len(tip.parents) > 1:
        return MergedChange(kind="merge", tip=tip, commits=commits, number=number, title=title)
    if number is not None:
        return MergedChange(kind="squash", tip=tip, commits=commits, number=number, title=title)
    return MergedChange(kind="direct", tip=tip, commits=commits, title=title)


def find_number(message: str) -> int | None:
    """Return the number of the pull or merge request that a commit message names as its own.

    >>> find_number("Retry only with a key (#12)"), find_number("Merge branch 'main' into topic")
    (12, None)
    """
    subject = _read_subject(message)
    for pattern in NUMBER_IN_SUBJECT:
        match = pattern.search(subject)
        if match:
            return int(match[1])
    match = NUMBER_IN_BODY.search(message)
    return int(match[1]) if match else None


def find_branch(message: str) -> str:
    """Return the branch that a merge commit says it merges, or "".

    >>> find_branch("Merge pull request #12 from ann/feat/retry")
    'feat/retry'
    >>> find_branch("Merge branch 'retry' into 'main'")
    'retry'
    """
    subject = _read_subject(message)
    for pattern in BRANCH:
        match = pattern.search(subject)
        if match:
            return match[1]
    return ""


def find_title(message: str) -> str:
    """Return the title of a merged change, without the number of its pull request.

    Where a forge wrote the subject of the message, that is the first line of the body, else the
    subject.

    >>> find_title("Merge pull request #12 from ann/retry" + chr(10) * 2 + "Retry only with a key")
    'Retry only with a key'
    """
    title = _read_subject(message)
    if find_number(message) is not None and FORGE_SUBJECT.match(title):
        title = _find_body_title(message) or title
    return NUMBER_AT_END.sub("", title).strip()


def _read_subject(message: str) -> str:
    return message.partition("\n")[0][:MAX_SUBJECT]


def _find_body_title(message: str) -> str:
    """Return the first line of text in a message's body; "" if the body has no text.

    Blank lines, references to a merge request and trailers of memory-ci do not count as text.
    """
    _, _, body = message.partition("\n")
    for line in body.splitlines():
        text = line.strip()
        if text and not NUMBER_IN_BODY.match(text) and not MEMORY_TRAILER.match(text):
            return text
    return ""
