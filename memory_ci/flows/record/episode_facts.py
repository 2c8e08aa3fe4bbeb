"""Facts of a piece of work, as an episode may tell them: bounded, and without what must not be kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from memory_ci.evidence.content import redact
from memory_ci.flows.screening import is_unsafe
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.candidate import Judged
from memory_ci.records.episode import Given, Outcome
from memory_ci.records.event import Event
from memory_ci.records.forge import PullRequest
from memory_ci.records.history import Commit, MergedChange
from memory_ci.text import shorten

GIVEN, USED = "Memory-Retrieved", "Memory-Used"

MAX_IDS = 100
"""Entries that one change is told to have been given; a job is given a fraction of it."""

MAX_FILES = 50
MAX_PATH = 300
MAX_TOOLS = 12
TEXT_WIDTH = 200

SOLVED, ROUTINE = 0.6, 0.4
"""How much an episode matters (the rubric of importance): an error or a detour; everyday work."""

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def list_uses(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the ids that messages say were given, those that they say were used), as they are written, in order."""
    given: dict[str, None] = {}
    used: dict[str, None] = {}
    for text in texts:
        for key, value in find_trailers(text, (GIVEN, USED)):
            (given if key == GIVEN else used).update(dict.fromkeys(split_ids(value)))
    return tuple(given)[:MAX_IDS], tuple(used)[:MAX_IDS]


def list_given(ids: Sequence[str], at: str) -> tuple[Given, ...]:
    """Entries in the order in which they were given to work that stood at the commit `at`."""
    return tuple(Given(id=one, rank=rank, at=at) for rank, one in enumerate(ids, start=1))


def list_paths(merged: MergedChange, own: Sequence[Commit]) -> list[str]:
    """The files that a change touched, the most touched first."""
    commits = (merged.tip,) if merged.kind == "merge" and merged.tip.files else own
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def keep_safe(texts: Iterable[str], limit: int = MAX_FILES) -> list[str]:
    """The first of these names (paths, labels, tools, keys) that may be kept as they are."""
    kept: list[str] = []
    for text in texts:
        if len(kept) == limit:
            break
        if len(text) <= MAX_PATH and safe(text) == text:
            kept.append(text)
    return kept


def list_reviewed(request: PullRequest) -> list[str]:
    """The files that reviews of a request speak of."""
    return sorted({review.path for review in request.reviews if review.path})


def list_tools(events: Iterable[Event]) -> tuple[str, ...]:
    """The tools that sessions called, the most used of them."""
    counts = Counter(event.tool for event in events if event.kind == "tool_call" and event.tool)
    return tuple(sorted(keep_safe((name for name, _ in counts.most_common()), MAX_TOOLS)))


def judge_merged(paths: Sequence[str], events: Iterable[Event]) -> Outcome:
    """How merged work ended: nothing was changed, or changes were requested and made, or it went through."""
    if not paths:
        return "neutral"
    is_detour = any(("outcome", "requested-then-made") in event.labels for event in events)
    return "partial" if is_detour else "success"


def weigh_episode(judged: Iterable[Judged], outcome: Outcome) -> float:
    """The valence of an episode: the importance of what was learned from it."""
    learned = [one.candidate.importance for one in judged if one.verdict in ("written", "restates")]
    return max([*learned, SOLVED if outcome == "partial" else ROUTINE])


def tell_line(title: str, label: str) -> str:
    """The one line of an episode."""
    return shorten(f"{title} ({label})" if title else label, TEXT_WIDTH)


def safe(text: str) -> str:
    """Words that may stand in memory: without credentials, in one line; "" for what an agent must not be given."""
    line = " ".join(redact(text).text.split())
    return "" if CONTROL.search(line) or is_unsafe(line) else line
