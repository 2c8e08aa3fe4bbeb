"""The texts and paths of an episode, without what agents must not be served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from memory_ci.evidence.content import redact
from memory_ci.memory.eligible import list_paragraphs
from memory_ci.memory.screening import is_unsafe
from memory_ci.records.episode import Outcome
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.regex import Regex
from memory_ci.sources.reviews import is_outside
from memory_ci.text import shorten

MAX_FILES = 50
"""Files that an episode names."""

MAX_PATH = 300
BRANCH_WIDTH = 100
"""Characters of a path, and of a branch, that an episode holds."""

MAX_TEXT = 600
MAX_REVIEW = 200
"""Characters of an episode's text, and of the part of it that reviewers wrote."""

MERGED_AS: Mapping[Outcome, str] = MappingProxyType(
    {
        "success": "Merged.",
        "partial": "Merged after requested changes.",
        "neutral": "Merged; no file was changed.",
    }
)

CONTROL = Regex("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def list_paths(merged: MergedChange, own: Sequence[Commit]) -> list[str]:
    """Return the files that a change touched, the most touched first."""
    commits = (merged.tip,) if merged.kind == "merge" and merged.tip.files else own
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def keep_safe(texts: Iterable[str], limit: int = MAX_FILES) -> list[str]:
    """Return the first names (paths, labels, tools, keys) that may be written unchanged."""
    safe_texts = (text for text in texts if len(text) <= MAX_PATH and safe(text) == text)
    return list(islice(safe_texts, limit))


def name_branch(branch: str) -> str:
    """Return a branch as an episode names it; "" if agents must not be served its name."""
    return safe(shorten(branch, BRANCH_WIDTH))


def tell(title: str, said: Iterable[str], request: PullRequest | None, ended: str) -> str:
    """Return the text of an episode in one line.

    Args:
        title: the title of the change.
        said: texts of its commits.
        request: its request.
        ended: the sentence that says how it ended.
    """
    texts = list(said)
    is_by_member = request is not None and not is_outside(request, request.permission)
    paragraphs = list_paragraphs([request.body]) if request and is_by_member else ()
    lines = [safe(line) for line in (*paragraphs, *list_paragraphs(texts))]
    words = " ".join(dict.fromkeys(line for line in lines if line and line != title))
    review_words = _render_requested_changes(request) if request else ""
    room = MAX_TEXT - len(f" {review_words}. {ended}.")
    sentences: list[str] = []
    for part in (shorten(words, room), review_words):
        if part:
            sentences.append(part if part[-1] in ".!?…" else f"{part}.")
    text = " ".join([*sentences, ended])
    return ended if is_unsafe(text) else text


def _render_requested_changes(request: PullRequest) -> str:
    """Return what members asked to be changed in review, or "" if nothing.

    These are reviews that request changes, and comments that begin a thread at a line.
    """
    requested: dict[str, None] = {}
    for review in request.reviews:
        is_member = review.permission == "write" and not review.is_bot
        is_request = review.state == "changes_requested" or (review.path and not review.in_reply_to)
        if is_member and is_request and review.author != request.author:
            lines = [safe(line) for line in list_paragraphs([review.body])]
            first_line = next(filter(None, lines), "")
            if first_line:
                requested[first_line] = None
    if not requested:
        return ""
    return shorten(f"Asked in review: {'; '.join(requested)}", MAX_REVIEW)


def safe(text: str) -> str:
    """Return a text in one line without credentials, or "" if agents must not be served it."""
    line = " ".join(redact(text).text.split())
    return "" if CONTROL.search(line) or is_unsafe(line) else line
