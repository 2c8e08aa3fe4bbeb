"""How forges word the commit that merges a change (pure text)."""

from __future__ import annotations

import re

from memory_ci.records.history import Commit, MergedChange

MAX_SUBJECT = 1000  # Characters of a subject that are looked at.
NUMBER = r"([1-9][0-9]{0,8})"

IN_SUBJECT = (
    re.compile(rf"\AMerge pull request #{NUMBER} from \S"),  # GitHub, merge
    re.compile(rf"\AMerged in .+ \(pull request #{NUMBER}\)"),  # Bitbucket
    re.compile(
        rf"(?<=\S)[ \t]*+\(#{NUMBER}\)[ \t]*+\Z"
    ),  # GitHub, squash; or a merge named after the pull request
)
"""A run of blanks is passed over once and for all (`*+`): otherwise many of them take quadratic time."""

IN_BODY = re.compile(rf"^See merge request \S*!{NUMBER}[ \t]*+$", re.MULTILINE)  # GitLab.
FORGE_SUBJECT = re.compile(
    r"Merge pull request #[0-9]+ from |Merged in .+ \(pull request #|Merge branch '.+' into '"
)
"""Subjects that a forge wrote: what the change is called stands in the body."""

BRANCH = (
    re.compile(r"\AMerge pull request #[0-9]{1,9} from [^/\s]+/(\S+)"),  # GitHub: owner/branch
    re.compile(r"\AMerged in (\S+) \(pull request #"),  # Bitbucket
    re.compile(
        r"\AMerge (?:remote-tracking )?branch '(?:origin/)?([^']+)'"
    ),  # GitLab, and git itself
)

OURS = re.compile(r"Memory(?:-[A-Za-z-]+)?:")
"""A trailer of ours, which a hook puts into a merge message that has no body: nobody's title."""

NUMBER_AT_END = re.compile(r"(?<!\s)\s*+\(#[0-9]{1,9}\)\s*+\Z")


def describe_change(commits: tuple[Commit, ...]) -> MergedChange:
    """The change that one first-parent commit, the last of `commits`, brought with the others."""
    tip = commits[-1]
    number = find_number(tip.message)
    title = find_title(tip.message)
    if len(tip.parents) > 1:
        return MergedChange(kind="merge", tip=tip, commits=commits, number=number, title=title)
    if number is not None:
        return MergedChange(kind="squash", tip=tip, commits=commits, number=number, title=title)
    return MergedChange(kind="direct", tip=tip, commits=commits, title=title)


def find_number(message: str) -> int | None:
    """The number of the pull or merge request that a commit message names as its own.

    >>> find_number("Retry only with a key (#12)"), find_number("Merge branch 'main' into topic")
    (12, None)
    """
    subject = _subject(message)
    found = (*(pattern.search(subject) for pattern in IN_SUBJECT), IN_BODY.search(message))
    return next((int(match[1]) for match in found if match), None)


def find_branch(message: str) -> str:
    """The branch that a merge commit says it merges, or "".

    >>> find_branch("Merge pull request #12 from ann/feat/retry"), find_branch("Merge branch 'retry' into 'main'")
    ('feat/retry', 'retry')
    """
    found = (pattern.search(_subject(message)) for pattern in BRANCH)
    return next((match[1] for match in found if match), "")


def find_title(message: str) -> str:
    """What the change is called: the first line of the body under a forge's subject, else the subject without number.

    >>> find_title("Merge pull request #12 from ann/retry" + chr(10) * 2 + "Retry only with a key")
    'Retry only with a key'
    """
    subject, body = _subject(message), message.partition("\n")[2]
    lines = (line.strip() for line in body.splitlines())
    named = next(
        (line for line in lines if line and not IN_BODY.match(line) and not OURS.match(line)), ""
    )
    title = (
        named
        if named and find_number(message) is not None and FORGE_SUBJECT.match(subject)
        else subject
    )
    return NUMBER_AT_END.sub("", title).strip()


def _subject(message: str) -> str:
    return message.partition("\n")[0][:MAX_SUBJECT]
