"""Additions: may an entry that a plan says was extracted be one that a record run wrote?

A run proves what it writes by words that were said. A plan can come from another job, so what can be looked up again
is: its commits, and the files that came in with them. What sessions and reviews said cannot be (docs/security.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property

from memory_ci.evidence.content import redact
from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.scopes import MAX_IMPORTANCE
from memory_ci.flows.draft import Draft
from memory_ci.flows.model import trusted_config
from memory_ci.flows.record.gatherer import file_events
from memory_ci.flows.record.learner import EARLIEST
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.records.entry import Entry
from memory_ci.records.history import MergedChange
from memory_ci.records.plan import Change, Plan
from memory_ci.sources.commits import commit_events
from memory_ci.store.layout import classify_scope

COMMIT = re.compile(r"\bcommit:(\S*)")
HEARSAY = ("session:", "review:", "pr:")
"""Where words may stand that no commit holds."""

UNSET = ("supersedes", "promoted_from", "promoted_at", "valid_until", "priority", "scope")
"""Fields that no extraction sets: they outlive, outrank or replace other entries."""


class Additions:
    """Looks at what the plan adds as extracted, on a day. Its range is read once, when it is first needed.

    Reading it raises RepositoryError as `plan_range` does.
    """

    def __init__(self, workspace: Workspace, plan: Plan, today: date) -> None:
        self._workspace, self._plan, self._today = workspace, plan, today

    def objections(self, change: Change, draft: Draft) -> Iterator[str]:
        """Why a record run would not have added this."""
        entry = change.entry
        scope = classify_scope(change.path, self._workspace.config.scopes)
        if scope is None or draft.path_of(scope) != change.path:
            yield "not the file that entries of its scope are written to"
        yield from self._not_new(entry)
        if not entry.evidence:
            yield "no words prove it"
        for sha in COMMIT.findall(entry.source or ""):
            if sha not in self._said:
                yield f"its source {sha} is no commit of the range"
        for quote in entry.evidence:
            if not self._is_said(quote):
                yield f"words that it quotes do not stand in {quote.partition(' ')[0]}"

    def _not_new(self, entry: Entry) -> Iterator[str]:
        if entry.status != "active" or entry.reinforcement_count or any(getattr(entry, name) for name in UNSET):
            yield "not an entry as it is when it is new"
        days = (entry.created_at, entry.last_reinforced)
        if not all(day is not None and EARLIEST <= day <= self._today for day in days):
            yield f"its dates are not between {EARLIEST} and {self._today}"
        if entry.importance > MAX_IMPORTANCE:
            yield f"its importance is over {MAX_IMPORTANCE}"

    def _is_said(self, quote: str) -> bool:
        """Whether words stand where a quote says, white space and masks apart; of hearsay that cannot be known."""
        origin, _, words = quote.partition(" ")
        if not words.strip():
            return False
        texts = self._said.get(origin.removeprefix("commit:"), ())
        return origin.startswith(HEARSAY) or any(fold_blanks(words) in text for text in texts)

    @cached_property
    def _said(self) -> Mapping[str, Sequence[str]]:
        """By the shortened ids of the range's commits what a record run reads there, as far as the plan quotes it."""
        if self._plan.until is None:
            return {}
        history = plan_range(self._workspace.repo, self._plan.since, self._plan.until)
        named = frozenset(_list_quoted(self._plan))
        adr_paths = trusted_config(self._workspace.repo, self._plan.base).extraction.adr_paths
        said: dict[str, list[str]] = {}
        for merged in iter_merged_changes(self._workspace.repo, history):
            for commit in merged.commits:
                said[commit.sha[:SHA_WIDTH]] = []
            if named.isdisjoint(commit.sha[:SHA_WIDTH] for commit in merged.commits):
                continue
            for sha, text in read_said(self._workspace, merged, adr_paths):
                said[sha].append(text)
        return said


def _list_quoted(plan: Plan) -> Iterator[str]:
    """The commits, shortened, whose words the plan quotes."""
    entries = (change.entry for step in plan.steps if step.step == "extract" for change in step.changes)
    return (quote.partition(" ")[0].removeprefix("commit:") for entry in entries for quote in entry.evidence)


def read_said(workspace: Workspace, merged: MergedChange, adr_paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a run reads in the commits of a change and the files that came in with them, by shortened commit."""
    for event in (*commit_events(merged), *file_events(workspace, merged, adr_paths)):
        yield event.origin.id[:SHA_WIDTH], fold_blanks(redact(event.text).text)


def fold_blanks(text: str) -> str:
    return " ".join(text.split())
