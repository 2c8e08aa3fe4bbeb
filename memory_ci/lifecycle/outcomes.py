"""Outcomes: what became of a merged change, as far as later changes say so."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from memory_ci.lifecycle.reverts import SHA_WIDTH, Revert
from memory_ci.records.history import MergedChange
from memory_ci.records.retrieval import Outcome

SOON = timedelta(days=14)
"""A change that is mended later than this worked for a while: what came then is new work."""

MENDS = re.compile(
    r"\b(?:fix(?:es|ed|ing)?[ -]?ups?|follow(?:s|ed)?[ -]?ups?|amend(?:s|ed)?|regress(?:ion|ed)|br(?:oken|oke)|missed)"
    r"\s+(?:(?:to|on|for|of|from|in|by|introduced|caused|since|with)\s+){0,2}"
    r"(?:(?:PR|MR|pull request|merge request)\s*)?[#!](?P<number>\d{1,9})\b",
    re.IGNORECASE,
)
"""`fixes up #128`, `follow-up to #128`, `regression from PR #128`: not `fixes #128`, which may be an issue."""


def find_mends(changes: Iterable[MergedChange]) -> Iterator[tuple[int, MergedChange]]:
    """(number of the change that is mended, what mends it), oldest first."""
    for change in changes:
        found = (match for commit in change.commits for match in MENDS.finditer(commit.message))
        numbers = {int(match["number"]) for match in found} - {change.number}
        yield from ((number, change) for number in sorted(numbers))


def list_undone(reverts: Sequence[Revert]) -> Mapping[str, str]:
    """What is taken back after all of `reverts`, as the names of lifecycle.reverts: by the label of what took it."""
    undone: dict[str, str] = {}
    for revert in reverts:
        undone.update(dict.fromkeys(revert.undoes, revert.label))
        for name in revert.restores:
            undone.pop(name, None)
    return undone


def judge_outcome(
    shas: Sequence[str], number: int | None, mended_in: str, undone: Mapping[str, str]
) -> tuple[Outcome, str]:
    """(outcome, why) of a change with these commits, its tip last. Undone: the tip, the request, or all of them."""
    names = (shas[-1][:SHA_WIDTH], f"pr:{number}")
    by = next((undone[name] for name in names if name in undone), "")
    if not by and all(sha[:SHA_WIDTH] in undone for sha in shas):
        by = undone[shas[0][:SHA_WIDTH]]
    if by:
        return "failure", f"reverted in {by}"
    return ("partial", f"fixed up in {mended_in}") if mended_in else ("success", "")


def is_revert(shas: Collection[str], reverting: Collection[str]) -> bool:
    """Whether all that a change did was to take something back; a merge commit itself does nothing."""
    return bool(shas) and all(sha[:SHA_WIDTH] in reverting for sha in shas)
