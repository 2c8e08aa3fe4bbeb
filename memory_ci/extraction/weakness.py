"""Weaknesses of a mark: why a statement that its author marked is proposed, and not written.

A mark is a statement such as `Decision: …` in a commit message (`memory_ci.extraction.markers`).
The rules were set by reading: decisions without a reason restate the diff; learnings in the past
tense tell only the history of a bug; marks about tests, the change itself or the moment help nobody
later.
"""

from __future__ import annotations

import re

from memory_ci.extraction.markers import Mark, commit_type, is_fix
from memory_ci.extraction.wording import (
    CHOICES,
    LASTING,
    PIPE,
    REASON,
    fold_space,
    is_title_cut,
    tells_edit,
)
from memory_ci.regex import Regex
from memory_ci.text import count_words

MIN_REJECTION_WORDS = 10
"""Number of words of a rejection that probably says what was wrong, even without `REASON`."""

MIN_TRAILER_WORDS = 2
MIN_MARK_WORDS = 4
"""Number of words of a mark that can be understood alone, in a trailer of ours and elsewhere."""

NOUNS = {"decision": "decision", "rejected": "rejection"}
"""The nouns of messages for markers of choices that need a reason."""

WORK_TYPES = frozenset("test tests refactor style docs chore build".split())
"""Types of conventional commits that do not change the product."""

TEST_SCOPE = Regex(r"(?:.*[-_/ ])?(?:tests?|testing|coverage)", re.IGNORECASE)
"""The scope of a mark about tests: `decision(unit tests): …`."""

NARRATION = Regex(
    r"(?i)^(?:add(?:s|ed)?|write|wrote|covers?|extend|expand|updated?|renamed?|bump(?:ed)?"
    r"|clean up|tidy|removed?|(?:re)?format|refactor(?:ed)?|strengthen|leave|verify)\b"
    r"(?!.*\b(?:because|instead of|rather than|to avoid)\b)"
)
"""The beginning of a sentence that tells what was done: `add a test`. With a reason it may stay."""

THIS_CHANGE = Regex(
    r"(?i)\b(?:this|that|the)"
    r" (?:change|commit|pr|pull request|branch|patch|mr|merge request|refactor)\b"
    r"|\b(?:previous|last|earlier|preceding|prior) (?:\w+ )?(?:fix|commit|change|pr|patch)\b"
    r"|^(?:keep|leave|preserve|retain)\b.*"
    r"\b(?:unchanged|untouched|alone|as before|as[- ]is|intact)\b"
)
"""Words about the change itself: `in this commit`, `the previous fix`, `keep … unchanged`."""

POINTER = Regex(r"(?:these|those|they)\b", re.IGNORECASE)
PRONOUN = Regex(
    r"(?:it|that|this)\b(?! (?:repo|repository|project|codebase|package)\b)", re.IGNORECASE
)
"""The beginning of a statement whose subject is in another sentence; `this repo` is a subject."""

MOMENT = Regex(
    r"(?i)\b(?:currently|for now|right now|at the moment|today|yesterday|tonight"
    r"|this (?:morning|afternoon|week)|last night|temporarily"
    r"|current (?:worktree|branch|checkout|session|task|environment|machine)"
    r"|latest (?:main|master)|already red|wip|todo|out of scope|follow-?up pr)\b|\bnow\W*$"
)
"""Words of what holds for the moment: `for now`, `the current branch`, `WIP`."""

TASK = Regex(
    r"(?i)\b(?:scope|fix|change|patch|diff|edit|pr)s?\b[^.;]{0,25}"
    r"\b(?:scoped|minimal|narrow|tight|small|focused|surgical|limited)\b"
    r"|\b(?:minimal|narrow|surgical|focused|small) (?:scope|fix|change|patch|diff|edit)s?\b"
    r"|\b(?:to|for) (?:issue|ticket|task|pr) #?\d+\b"
    r"|\b(?:owner|user|maintainer|reviewer|requester)s?"
    r" (?:has |have )?(?:requested|asked|wants?)\b"
)
"""How far the work at hand may go, and who requested it."""

UNKNOWN = Regex(
    r"\b(?:not (?:yet )?known|unknown|unclear|not (?:yet )?sure|no idea)\b", re.IGNORECASE
)
"""Words of a cause that is not known."""

PAST = Regex(r"\b(?:was|were|had|wasn't|weren't|hadn't)\b", re.IGNORECASE)
"""A verb in the past; see `LASTING` for verbs of what holds."""


def find_weakness(mark: Mark) -> str | None:
    """Return why a marked statement is only proposed to a person, or None if it is written.

    It is only proposed if it cannot be understood alone, or if it serves no later change.
    """
    min_words = MIN_TRAILER_WORDS if mark.is_trailer else MIN_MARK_WORDS
    if count_words(mark.text) < min_words:
        return "too short to stand alone"
    if POINTER.match(mark.text) or (not mark.scope and PRONOUN.match(mark.text)):
        return "does not say what it speaks of"
    if "[redacted:" in mark.text:
        return "holds something that had to be masked"
    if mark.marker == "root cause" and not mark.fix and not is_fix(mark.subject):
        return "the cause of something that was not fixed here"
    if mark.marker == "root cause" and UNKNOWN.search(mark.text):
        return "the cause is not known"
    if tells_edit(mark.text):
        return "tells an edit, not what holds"
    if is_title_cut(fold_space(mark.text)):
        return "its first sentence is too long for a title"
    if MOMENT.search(mark.text):
        return "holds for the moment only"
    if mark.is_trailer and mark.marker not in CHOICES:
        return None
    return _find_weakness_of_purpose(mark)


def _find_weakness_of_purpose(mark: Mark) -> str | None:
    """Return why a mark was probably not meant to last, or None.

    Only choices (a decision, constraint or rejection) and marks that are no documented trailer
    (`Learning: …` at the start of a line) are examined: a trailer was meant to be kept.
    """
    if THIS_CHANGE.search(mark.text):
        return "speaks of the change itself"
    if mark.marker in CHOICES:
        return _find_weakness_of_choice(mark)
    if mark.marker == "root cause":
        return None
    if PAST.search(mark.text) and not LASTING.search(mark.text):
        return "tells what happened, not what holds"
    return None


def _find_weakness_of_choice(mark: Mark) -> str | None:
    """Return why a decision, constraint or rejection is only proposed, or None.

    A choice needs its reason, without which nobody can tell when it ends. Only a constraint, and a
    decision in a documented trailer (`Decision: …`), need none. A choice about the tests of a
    change is of no use after the change.
    """
    if TASK.search(mark.text):
        return "bounds the task, not the work after it"
    if NARRATION.search(mark.text):
        return "narrates the work"
    if TEST_SCOPE.fullmatch(mark.scope):
        return "about the tests of a change"

    is_decision = mark.marker == "decision"
    is_about_work = is_decision and commit_type(mark.subject) in WORK_TYPES
    has_reason = REASON.search(mark.text) or PIPE.search(mark.text)
    needs_no_reason = mark.marker == "constraint" or (mark.is_trailer and is_decision)
    if has_reason or needs_no_reason:
        return "a decision about the work, not the product" if is_about_work else None
    if mark.marker == "rejected" and len(mark.text.split()) >= MIN_REJECTION_WORDS:
        return None
    return f"a {NOUNS[mark.marker]} without its reason"
