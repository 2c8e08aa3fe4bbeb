"""The referee: may a plan do what it says? A plan can come from another job, so it is input like any other.

A run proves what it adds by words that were said. What can be looked up again is: the commits of its range, and the
files that came in with them. What sessions and reviews said cannot be (docs/security.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import chain

from msgspec.structs import replace

from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.entries import MAX_IMPORTANCE, check_entry, list_texts
from memory_ci.extraction.gate import check_words
from memory_ci.flows.draft import Draft
from memory_ci.flows.forgotten import find_forgotten, tombstones_at
from memory_ci.flows.model import trusted_config
from memory_ci.flows.record.gatherer import fold_blanks, read_said
from memory_ci.flows.record.inbox_notes import prove
from memory_ci.flows.record.learner import EARLIEST
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.repo import list_foreign
from memory_ci.lifecycle.anchors import parse_anchor
from memory_ci.lifecycle.fold import CLAIMED, is_kept, strip_claims
from memory_ci.records.candidate import ACCEPTED_IN
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.names import FULL_ID
from memory_ci.records.plan import STEPS, Change, Plan, PlannedStep, Step
from memory_ci.store.layout import classify_scope, is_canonical_path

KINDS: Mapping[Step, tuple[str, ...]] = {
    "fold": ("move", "drop"),
    "extract": ("add",),
    "reinforce": ("update",),
    "consolidate": ("update",),
    "promote": ("remove", "add", "update"),
    "compact": ("remove", "update"),
    "retire": ("update",),
}
"""Which kinds of change each step may make."""

COUNTERS = ("reinforcement_count", "last_reinforced")
MERGED = (
    *COUNTERS, "importance", "priority", "created_at", "occurred_at", "supersedes", "evidence", "occurrences", "cites",
    "aka", "relations", "source", "title", "body", "instead", "adoption", "status", "valid_until", "phase", "session",
    "engine", "domain",
)  # fmt: skip
FREE: Mapping[Step, tuple[str, ...]] = {
    "reinforce": (*COUNTERS, "occurrences"),
    "consolidate": ("relations", "importance", "valid_until", "adoption", "instead", "evidence", "cites"),
    "promote": (*MERGED, "promoted_from", "promoted_at"),
    "compact": MERGED,
    "retire": ("status",),
}
"""Which fields of an entry the updates of each step may change; never its id or its type."""

NAMES = re.compile(r"(?:#\d+|[0-9a-f][0-9a-f-]{6,63})(?:, (?:#\d+|[0-9a-f][0-9a-f-]{6,63}))*")
"""A list of merged changes or ids: a reason may name as many as there are."""

MAX_REASON = 200
"""Characters of one clause of a reason, lists of names left out."""

SHA = re.compile(FULL_ID)

COMMIT = re.compile(r"\bcommit:(\S*)")
HEARSAY = ("session:", "review:", "pr:")
"""Where words may stand that no commit holds."""

UNSET = ("supersedes", "promoted_from", "promoted_at", "valid_until", "priority", "scope")
"""Fields that no extraction sets: they outlive, outrank or replace other entries."""


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """What in the plan its steps may not do, on the tree of its base and on this day."""
    order = [STEPS.index(step.step) for step in plan.steps]
    if order != sorted(set(order)):
        yield "its steps are not in order"
    yield from _foreign_commits(workspace, plan)
    draft = Draft(workspace.at(plan.base))
    additions = Additions(workspace, plan, today)
    for step in plan.steps:
        yield from _Referee(draft, step, additions, today).objections()


def _foreign_commits(workspace: Workspace, plan: Plan) -> Iterator[str]:
    """What the plan says it covers must be history of its base: later runs go on from there."""
    covered = [*([] if plan.until is None else [plan.until]), *plan.counted]
    foreign = list_foreign(workspace.repo, filter(SHA.fullmatch, covered), plan.base)
    for sha in covered:
        if sha in foreign or not SHA.fullmatch(sha):
            yield f"{sha!r} is no commit of the history of its base"


def _unmark_sessions(entry: Entry) -> Entry:
    """The entry with the words of sessions taken as proved."""
    mark = f"{CLAIMED}session:"
    evidence = (line.removeprefix(CLAIMED) if line.startswith(mark) else line for line in entry.evidence)
    return replace(entry, evidence=tuple(evidence))


def _is_reason(why: str) -> bool:
    """Whether a reason is one printable line of short clauses without anything the gate refuses."""
    clauses = re.split("[;,] ", NAMES.sub("", why))
    return why.isprintable() and all(len(clause) <= MAX_REASON for clause in clauses) and not check_words(why)


class _Referee:
    """Judges one step, change by change: each is done to the draft before the next is judged."""

    def __init__(self, draft: Draft, step: PlannedStep, additions: Additions, today: date) -> None:
        self._patterns, self._today = draft.base.workspace.config.scopes, today
        self._draft, self._step, self._additions = draft, step, additions
        self._removed: dict[str, Entry] = {}
        self._retired: set[str] = set()
        places = (*draft.kept, *draft.inbox)
        self._said = frozenset(chain.from_iterable(list_texts(place.entry) for place in places))

    def objections(self) -> Iterator[str]:
        for change in self._step.changes:
            for reason in self._look_at(change):
                yield f"{change.kind} of {change.entry.id} in {change.path!r}: {reason}"
            self._draft.take([change])
        yield from self._losses()

    def _look_at(self, change: Change) -> Iterator[str]:
        if change.step != self._step.step or change.kind not in KINDS[change.step]:
            yield f"not a change of the step {self._step.step!r}"
        if not is_canonical_path(change.path) or classify_scope(change.path, self._patterns) is None:
            yield "not a memory file"
        if not _is_reason(change.why):
            yield "its reason is not one short line"
        looks = {
            "add": self._add, "move": self._move, "drop": self._drop, "update": self._update, "remove": self._remove
        }  # fmt: skip
        yield from looks[change.kind](change)

    def _new_words(self, entry: Entry) -> Iterator[str]:
        """Why a text that no entry has yet must not be written. Text that is in memory already may stay."""
        new = [text for text in list_texts(entry) if text not in self._said]
        yield from check_words("\n".join(new)) if new else ()

    def _add(self, change: Change) -> Iterator[str]:
        if change.entry.id in self._draft.by_id:
            yield "an entry of that id is there already"
        if self._step.step == "promote":
            before = self._removed.get(change.entry.id)
            if before is None or _differs(before, change.entry, FREE["promote"]):
                yield "not an entry that is moved"
            yield from self._new_words(change.entry)
        else:
            yield from check_entry(change.entry)
            yield from self._additions.objections(change, self._draft)

    def _move(self, change: Change) -> Iterator[str]:
        waiting = {place.path: place for place in self._draft.inbox}.get(change.moved_from or "")
        if waiting is None or not self._is_of_note(change.entry, waiting):
            yield "not the entry of that inbox file"
        elif change.entry.cites != waiting.entry.cites:
            yield from self._new_words(change.entry)
        if change.entry.id in self._draft.by_id:
            yield "an entry of that id is there already"

    def _is_of_note(self, entry: Entry, note: Located) -> bool:
        """Whether the entry is that of a note: with its claims marked, or as an outsider's, who can claim nothing.

        It may have gained anchors. The sessions that proved its quotes are not everywhere: hearsay passes."""
        day = entry.last_reinforced
        proved = prove(self._draft.base, replace(note.entry, scope=None))
        is_anchored = all(map(parse_anchor, entry.cites))
        meant = [proved, strip_claims(note, day).entry] if day <= self._today else [proved]
        entry, *meant = (_unmark_sessions(one) for one in (entry, *meant))
        return any(entry == one or (is_anchored and replace(entry, cites=one.cites) == one) for one in meant)

    def _drop(self, change: Change) -> Iterator[str]:
        waiting = {place.path: place for place in self._draft.inbox}.get(change.moved_from or "")
        kept = [place for place in self._draft.kept if (place.path, place.entry) == (change.path, change.entry)]
        if not kept:
            yield "the entry is not kept there"
        elif waiting is None or not is_kept(waiting, kept[0]):
            yield "not what that inbox file says, for all that it is for"

    def _update(self, change: Change) -> Iterator[str]:
        known = self._known(change)
        if known is None or _differs(known, change.entry, FREE.get(change.step, ())):
            yield f"more would change than the step {self._step.step!r} may"
        yield from self._new_words(change.entry)

    def _remove(self, change: Change) -> Iterator[str]:
        known = self._known(change)
        if known is None:
            yield "the entry is not kept there"
        else:
            self._removed[change.entry.id] = known
            self._retired |= {change.entry.id} if known.status == "retired" else set()

    def _losses(self) -> Iterator[str]:
        """Each entry that is removed must have moved, be merged into another, or have been retired."""
        entries = self._draft.entries
        findable = {entry.id for entry in entries} | {old for entry in entries for old in entry.supersedes}
        for entry_id in sorted(self._removed.keys() - findable - self._retired):
            yield f"the entry {entry_id[:8]} would be lost"

    def _known(self, change: Change) -> Entry | None:
        """The entry that a change is about."""
        at = self._draft.find(change)
        return None if at is None else self._draft.kept[at].entry


def _differs(before: Entry, after: Entry, free: tuple[str, ...]) -> bool:
    """Whether a field differs that is not `free` to change."""
    kept = {name: getattr(before, name) for name in free}
    return replace(after, **kept) != before


class Additions:
    """Judges what the plan adds as extracted, on a day: could a record run have written it?

    Its range is read once, when it is first needed, which raises RepositoryError as `plan_range` does.
    """

    def __init__(self, workspace: Workspace, plan: Plan, today: date) -> None:
        self._workspace, self._plan, self._today = workspace, plan, today
        self._forgotten = tombstones_at(workspace.at(plan.base))

    def objections(self, change: Change, draft: Draft) -> Iterator[str]:
        """Why a record run would not have added this."""
        entry = change.entry
        scope = classify_scope(change.path, self._workspace.config.scopes)
        if scope is None or draft.path_of(scope) != change.path:
            yield "not the file that entries of its scope are written to"
        yield from self._not_new(entry)
        if find_forgotten(self._forgotten, Located(entry, change.path, 0, PROJECT)):
            yield "it says what was to be forgotten"
        if all(line.startswith("accepted ") for line in entry.evidence):
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
        """Whether the quoted words stand where the quote says, but for white space and masks. Hearsay passes."""
        origin, _, words = quote.partition(" ")
        if origin == "accepted":  # says nothing of what was said; the other words must be found all the same
            return words == ACCEPTED_IN
        if not words.strip():
            return False
        texts = self._said.get(origin.removeprefix("commit:"), ())
        return origin.startswith(HEARSAY) or any(fold_blanks(words) in text for text in texts)

    @cached_property
    def _said(self) -> Mapping[str, Sequence[str]]:
        """By shortened id the texts that a record run reads in a commit, for the commits that the plan quotes."""
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
            for sha, text in read_said(self._workspace, merged, adr_paths, self._forgotten):
                said[sha].append(text)
        return said


def _list_quoted(plan: Plan) -> Iterator[str]:
    """The commits, shortened, whose words the plan quotes."""
    entries = (change.entry for step in plan.steps if step.step == "extract" for change in step.changes)
    return (quote.partition(" ")[0].removeprefix("commit:") for entry in entries for quote in entry.evidence)
