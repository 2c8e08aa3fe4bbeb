"""Texts and paths of an episode (the record of merged work), safe to be read by agents."""

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


def list_paths(merged: MergedChange, work_commits: Sequence[Commit]) -> list[str]:
    """Return the files that a change touched, the most touched first.

    Args:
        merged: the change.
        work_commits: the commits that did its work, without merges.
    """
    commits = work_commits
    if merged.kind == "merge" and merged.tip.files:
        commits = (merged.tip,)  # the files of a merge are those of all its work
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def list_safe_names(names: Iterable[str], limit: int = MAX_FILES) -> list[str]:
    """Return the first names (paths, labels, tools, keys) that agents may read unchanged."""
    safe_names = (name for name in names if len(name) <= MAX_PATH and make_safe(name) == name)
    return list(islice(safe_names, limit))


def name_branch(branch: str) -> str:
    """Return a branch as an episode names it; "" if agents must not be served its name."""
    return make_safe(shorten(branch, BRANCH_WIDTH))


def render_episode_text(
    title: str, commit_texts: Iterable[str], request: PullRequest | None, ended: str
) -> str:
    """Render the text of an episode in one line: why the change was made, and how it ended.

    Args:
        title: the title of the change; a paragraph that repeats it is left out.
        commit_texts: the texts of its commit messages.
        request: its pull request, if any; the body counts only if a member wrote it.
        ended: the sentence that says how it ended.
    """
    commit_texts = list(commit_texts)
    paragraphs: list[str] = []
    if request is not None and not is_outside(request, request.permission):
        paragraphs += list_paragraphs([request.body])
    paragraphs += list_paragraphs(commit_texts)
    safe_paragraphs = [make_safe(paragraph) for paragraph in paragraphs]
    distinct = dict.fromkeys(text for text in safe_paragraphs if text and text != title)
    description = " ".join(distinct)

    review = _render_requested_changes(request) if request else ""
    free_chars = MAX_TEXT - len(f" {review}. {ended}.")
    sentences: list[str] = []
    for part in (shorten(description, free_chars), review):
        if part:
            sentences.append(part if part[-1] in ".!?…" else f"{part}.")
    text = " ".join([*sentences, ended])
    return ended if is_unsafe(text) else text


def _render_requested_changes(request: PullRequest) -> str:
    """Render in one line what members asked to be changed in review, "" if nothing.

    These are reviews that request changes, and comments that begin a thread at a line.
    """
    requested: dict[str, None] = {}
    for review in request.reviews:
        is_member = review.permission == "write" and not review.is_bot
        begins_thread = bool(review.path) and not review.in_reply_to
        is_request = review.state == "changes_requested" or begins_thread
        if not is_member or not is_request or review.author == request.author:
            continue
        paragraphs = [make_safe(paragraph) for paragraph in list_paragraphs([review.body])]
        safe_paragraphs = [paragraph for paragraph in paragraphs if paragraph]
        if safe_paragraphs:
            requested[safe_paragraphs[0]] = None
    if not requested:
        return ""
    return shorten(f"Asked in review: {'; '.join(requested)}", MAX_REVIEW)


def make_safe(text: str) -> str:
    """Return a text in one line, credentials masked, or "" if agents must not be served it."""
    line = " ".join(redact(text).text.split())
    return "" if CONTROL.search(line) or is_unsafe(line) else line
