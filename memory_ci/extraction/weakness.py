"""Weaknesses of a marked statement: why it is only proposed to a person, and not written.

A marked statement is one like `Decision: …` in a commit message (`memory_ci.extraction.markers`).
The rules were set by reading: decisions without a reason restate the diff; learnings in the past
tense tell only the history of a bug; statements about tests, the change itself or the moment help
nobody later.
"""

from __future__ import annotations

import re

from memory_ci.extraction.markers import MarkedStatement, commit_type, is_fix
from memory_ci.extraction.wording import (
    CHOICE_MARKERS,
    LASTING_WORD,
    REASON_SEPARATOR,
    REASON_WORD,
    fold_space,
    is_edit_report,
    is_title_cut,
)
from memory_ci.regex import Regex
from memory_ci.text import count_words

MIN_REJECTION_WORDS = 10
"""Number of words of a rejection that probably says what was wrong, even without `REASON_WORD`."""

MIN_TRAILER_WORDS = 2
MIN_STATEMENT_WORDS = 4
"""Number of words of a statement that can be understood alone, in a trailer and elsewhere."""

NOUN_BY_MARKER = {"decision": "decision", "rejected": "rejection"}
"""The nouns of messages for markers of choices that need a reason."""

WORK_TYPES = frozenset("test tests refactor style docs chore build".split())
"""Types of conventional commits that do not change the product."""

TEST_SCOPE = Regex(r"(?:.*[-_/ ])?(?:tests?|testing|coverage)", re.IGNORECASE)
"""The scope of a statement about tests: `decision(unit tests): …`."""

WORK_REPORT = Regex(
    r"(?i)^(?:add(?:s|ed)?|write|wrote|covers?|extend|expand|updated?|renamed?|bump(?:ed)?"
    r"|clean up|tidy|removed?|(?:re)?format|refactor(?:ed)?|strengthen|leave|verify)\b"
    r"(?!.*\b(?:because|instead of|rather than|to avoid)\b)"
)
"""The beginning of a sentence that tells what was done: `add a test`. With a reason it may stay."""

ABOUT_THIS_CHANGE = Regex(
    r"(?i)\b(?:this|that|the)"
    r" (?:change|commit|pr|pull request|branch|patch|mr|merge request|refactor)\b"
    r"|\b(?:previous|last|earlier|preceding|prior) (?:\w+ )?(?:fix|commit|change|pr|patch)\b"
    r"|^(?:keep|leave|preserve|retain)\b.*"
    r"\b(?:unchanged|untouched|alone|as before|as[- ]is|intact)\b"
)
"""Words about the change itself: `in this commit`, `the previous fix`, `keep … unchanged`."""

PLURAL_PRONOUN = Regex(r"(?:these|those|they)\b", re.IGNORECASE)
PRONOUN_SUBJECT = Regex(
    r"(?:it|that|this)\b(?! (?:repo|repository|project|codebase|package)\b)", re.IGNORECASE
)
"""The beginning of a statement whose subject is in another sentence; `this repo` is a subject."""

MOMENTARY_WORDS = Regex(
    r"(?i)\b(?:currently|for now|right now|at the moment|today|yesterday|tonight"
    r"|this (?:morning|afternoon|week)|last night|temporarily"
    r"|current (?:worktree|branch|checkout|session|task|environment|machine)"
    r"|latest (?:main|master)|already red|wip|todo|out of scope|follow-?up pr)\b|\bnow\W*$"
)
"""Words of what holds for the moment: `for now`, `the current branch`, `WIP`."""

TASK_LIMIT = Regex(
    r"(?i)\b(?:scope|fix|change|patch|diff|edit|pr)s?\b[^.;]{0,25}"
    r"\b(?:scoped|minimal|narrow|tight|small|focused|surgical|limited)\b"
    r"|\b(?:minimal|narrow|surgical|focused|small) (?:scope|fix|change|patch|diff|edit)s?\b"
    r"|\b(?:to|for) (?:issue|ticket|task|pr) #?\d+\b"
    r"|\b(?:owner|user|maintainer|reviewer|requester)s?"
    r" (?:has |have )?(?:requested|asked|wants?)\b"
)
"""How far the work at hand may go, and who requested it."""

UNKNOWN_CAUSE = Regex(
    r"\b(?:not (?:yet )?known|unknown|unclear|not (?:yet )?sure|no idea)\b", re.IGNORECASE
)
"""Words of a cause that is not known."""

PAST_VERB = Regex(r"\b(?:was|were|had|wasn't|weren't|hadn't)\b", re.IGNORECASE)
"""A verb in the past; see `LASTING_WORD` for verbs of what holds."""


def find_weakness(statement: MarkedStatement) -> str | None:
    """Return why a marked statement is only proposed to a person, or None if it is written.

    It is only proposed if it cannot be understood alone, or if it serves no later change.
    """
    min_words = MIN_TRAILER_WORDS if statement.is_trailer else MIN_STATEMENT_WORDS
    if count_words(statement.text) < min_words:
        return "too short to stand alone"
    if PLURAL_PRONOUN.match(statement.text) or (
        not statement.scope and PRONOUN_SUBJECT.match(statement.text)
    ):
        return "does not say what it speaks of"
    if "[redacted:" in statement.text:
        return "holds something that had to be masked"
    if statement.marker == "root cause" and not statement.fix and not is_fix(statement.subject):
        return "the cause of something that was not fixed here"
    if statement.marker == "root cause" and UNKNOWN_CAUSE.search(statement.text):
        return "the cause is not known"
    if is_edit_report(statement.text):
        return "tells an edit, not what holds"
    if is_title_cut(fold_space(statement.text)):
        return "its first sentence is too long for a title"
    if MOMENTARY_WORDS.search(statement.text):
        return "holds for the moment only"
    if statement.is_trailer and statement.marker not in CHOICE_MARKERS:
        return None
    return _find_weakness_of_purpose(statement)


def _find_weakness_of_purpose(statement: MarkedStatement) -> str | None:
    """Return why a marked statement was probably not meant to last, or None.

    `find_weakness` calls this for choices (a decision, constraint or rejection), and for statements
    that are not written as a documented trailer (`Learning: …` at the start of a line). Any other
    trailer was certainly meant to be kept.
    """
    if ABOUT_THIS_CHANGE.search(statement.text):
        return "speaks of the change itself"
    if statement.marker in CHOICE_MARKERS:
        return _find_weakness_of_choice(statement)
    if statement.marker == "root cause":
        return None
    if PAST_VERB.search(statement.text) and not LASTING_WORD.search(statement.text):
        return "tells what happened, not what holds"
    return None


def _find_weakness_of_choice(statement: MarkedStatement) -> str | None:
    """Return why a decision, constraint or rejection is only proposed, or None.

    A choice needs its reason, without which nobody can tell when it ends. Only a constraint, and a
    decision in a documented trailer (`Decision: …`), need none. A choice about the tests of a
    change is of no use after the change.
    """
    if TASK_LIMIT.search(statement.text):
        return "bounds the task, not the work after it"
    if WORK_REPORT.search(statement.text):
        return "narrates the work"
    if TEST_SCOPE.fullmatch(statement.scope):
        return "about the tests of a change"

    is_decision = statement.marker == "decision"
    is_about_work = is_decision and commit_type(statement.subject) in WORK_TYPES
    has_reason = REASON_WORD.search(statement.text) or REASON_SEPARATOR.search(statement.text)
    needs_no_reason = statement.marker == "constraint" or (statement.is_trailer and is_decision)
    if has_reason or needs_no_reason:
        return "a decision about the work, not the product" if is_about_work else None
    if statement.marker == "rejected" and len(statement.text.split()) >= MIN_REJECTION_WORDS:
        return None
    return f"a {NOUN_BY_MARKER[statement.marker]} without its reason"
