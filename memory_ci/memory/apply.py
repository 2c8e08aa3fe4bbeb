"""Apply: a plan, checked again against the tree it is applied to, becomes commits.

May a plan do what it says? It can come from another job, so it is input like any other. A run proves what it adds by
words that were said. What can be looked up again is: the commits of its range, and the files that came in with them.
What sessions and reviews said cannot be (docs/security.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import chain

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.errors import FindingsError, RepositoryError, UsageError
from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.entries import (
    EARLIEST,
    MAX_IMPORTANCE,
    check_entry,
    list_texts,
    trim_evidence,
)
from memory_ci.extraction.gate import check_words
from memory_ci.gitrepo.history import SOURCE, iter_merged_changes, plan_range
from memory_ci.gitrepo.repo import list_foreign
from memory_ci.lifecycle.fold import CLAIMED, is_kept, strip_claims
from memory_ci.memory import episode_files as telling
from memory_ci.memory.claims import prove
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.commit_texts import fold_blanks, read_said
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.model import trusted_at
from memory_ci.memory.workspace import (
    Workspace,
    branch_tip,
    list_memory_files,
    load_files,
    workspace_at,
)
from memory_ci.records.candidate import ACCEPTED_IN
from memory_ci.records.config import Quotes
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf
from memory_ci.records.names import FULL_ID
from memory_ci.records.plan import ALONE, PLAN_VERSION, STEPS, Change, Plan, Step
from memory_ci.store.edits import apply_changes
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
    "consolidate": (
        "relations",
        "importance",
        "valid_until",
        "adoption",
        "instead",
        "evidence",
        "cites",
    ),
    "promote": (*MERGED, "promoted_from", "promoted_at"),
    "compact": MERGED,
    "retire": ("status",),
}
"""Which fields of an entry the updates of each step may change; never its id or its type."""

NAMES = re.compile(r"(?:#\d+|[0-9a-f][0-9a-f-]{6,63})(?:, (?:#\d+|[0-9a-f][0-9a-f-]{6,63}))*")
"""A list of merged changes or ids: a reason may name as many as there are."""

MAX_REASON = 200  # Characters of one clause of a reason, lists of names left out.
SHA = re.compile(FULL_ID)
COMMIT = re.compile(r"\bcommit:(\S*)")
HEARSAY = ("session:", "review:", "pr:")  # Where words may stand that no commit holds.

UNSET = ("supersedes", "promoted_from", "promoted_at", "valid_until", "priority", "scope")
"""Fields that no extraction sets: they outlive, outrank or replace other entries."""

Prepared = list[tuple[str, dict[str, bytes | None]]]  # The message and the files of each commit.


class Beside(msgspec.Struct, frozen=True):
    """Files that go with the first commit of a plan, or are one of their own where it has none. `by` is who commits
    (`NAME <MAIL>`), if not who commits memory else."""

    message: str
    files: Mapping[str, bytes | None]
    by: str = ""


class Applied(msgspec.Struct, frozen=True):
    """What was committed: the new tip of the branch (the old one if nothing changed), and what commits say first."""

    ref: str
    tip: str
    subjects: tuple[str, ...]


def parse_plan(data: bytes) -> Plan:
    """A plan from its JSON. Raises UsageError (bad-plan)."""
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"this is not a plan: {error}", slug="bad-plan", hint="Make one: memory-ci extract."
        ) from error
    if plan.schema_version != PLAN_VERSION:
        message = f"the plan has schema version {plan.schema_version}, this memory-ci reads {PLAN_VERSION}"
        raise UsageError(
            message, slug="bad-plan", hint="Make the plan with the version that applies it."
        )
    return plan


def apply_plan(
    workspace: Workspace,
    plan: Plan,
    now: datetime,
    *,
    in_actions: bool = False,
    covers: bool = True,
    beside: Beside | None = None,
) -> Applied:
    """Perform a plan: one commit with entries and episodes, and one for each step of upkeep; all or none of them.

    Unless it `covers` its range, no commit says how far the run came.

    Raises RepositoryError (ref-moved) when the branch is not where the plan was made, FindingsError (plan-refused)
    when the plan does what a plan of its kind may not, and what the writer raises.
    """
    from memory_ci.gitrepo.writer import (  # GitPython: 75 ms, only to write
        PlannedCommit,
        choose_identity,
        commit_series,
    )

    prepared = _prepare(workspace, plan, now, beside)
    preview = _preview(plan, prepared)
    if not prepared:
        return preview
    config = workspace_at(workspace.repo, plan.base).config.publish
    if beside and beside.by:
        config = replace(config, author=beside.by)
    tip = commit_series(
        workspace.repo,
        ref=plan.ref,
        expected=plan.base,
        commits=[
            PlannedCommit(files, message if covers else without_source(message))
            for message, files in prepared
        ],
        identity=choose_identity(config, in_actions=in_actions),
        when=now,
    )
    return replace(preview, tip=tip)


def without_source(message: str) -> str:
    """A message that does not say how far a run came."""
    return "".join(
        line for line in message.splitlines(keepends=True) if not line.startswith(f"{SOURCE}:")
    )


def preview_plan(
    workspace: Workspace, plan: Plan, now: datetime, beside: Beside | None = None
) -> Applied:
    """What apply_plan would commit, after every check it makes; nothing is written."""
    return _preview(plan, _prepare(workspace, plan, now, beside))


def _preview(plan: Plan, prepared: Prepared) -> Applied:
    return Applied(
        plan.ref, plan.base, tuple(message.partition("\n")[0] for message, _ in prepared)
    )


def _prepare(workspace: Workspace, plan: Plan, now: datetime, beside: Beside | None) -> Prepared:
    """The message and the files of each commit, for a plan that has been checked against its tree."""
    ref, tip = branch_tip(workspace, plan.ref)
    if tip != plan.base:
        message = f"{ref} is at {tip[:12]}, the plan was made for {plan.base[:12]}"
        raise RepositoryError(
            message, slug="ref-moved", hint="Make the plan again: memory-ci extract."
        )
    workspace = workspace_at(workspace.repo, tip)
    today = now.astimezone(UTC).date()
    for reason in chain(
        find_objections(workspace, plan, today), telling.find_objections(workspace, plan, today)
    ):
        hint = "Make it again: memory-ci extract."
        raise FindingsError(f"the plan is refused: {reason}", slug="plan-refused", hint=hint)
    plan = trim_plan(plan, workspace.config.evidence.quotes)
    noted = telling.list_changes(workspace, plan)
    run = [step for step in plan.steps if step.step not in ALONE]
    groups = [
        *([run] if run or noted else []),
        *([step] for step in plan.steps if step.step in ALONE),
    ]
    prepared = []
    changes = [change for step in plan.steps for change in step.changes]
    content = workspace.at(tip).read(
        path for change in changes for path in (change.path, change.moved_from) if path
    )
    for steps in groups:
        told = noted if steps is run else {}
        files = dict(told)
        for step in steps:
            files |= (changed := apply_changes(content, step.changes))
            content = {
                path: data for path, data in {**content, **changed}.items() if data is not None
            }
        prepared.append((render_commit_message(steps, plan, len(told)), files))
    if prepared and workspace.config.export.record:
        prepared[-1][1].update(_export(workspace, tip, changes, content))
    if beside and beside.files:
        message, files = prepared[0] if prepared else (beside.message, {})
        prepared[:1] = [(message, files | dict(beside.files))]
    return prepared


def trim_plan(plan: Plan, quotes: Quotes) -> Plan:
    """The plan with as much of people's words as the configuration lets out of the run that proved them."""
    if quotes == "full":
        return plan

    def trim(change: Change) -> Change:
        is_kept = change.kind in ("remove", "drop")  # is found by what it says now
        return change if is_kept else replace(change, entry=trim_evidence(change.entry, quotes))

    steps = tuple(replace(step, changes=tuple(map(trim, step.changes))) for step in plan.steps)
    judged = (replace(one, candidate=replace(one.candidate, quotes=())) for one in plan.judged)
    return replace(plan, steps=steps, judged=tuple(judged))


def _export(
    workspace: Workspace, tip: str, changes: Iterable[Change], content: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """The exported file, where it is another with the memory that these changes leave."""
    from memory_ci.memory.agents_block import build_lines, put_block
    from memory_ci.store.document import load_file

    path, touched = (
        workspace.config.export.path,
        {path for one in changes for path in (one.path, one.moved_from)},
    )
    left = [file for file in list_memory_files(workspace, tip) if file.path not in touched]
    new = [
        load_file(name, data, workspace.config.scopes)
        for name, data in content.items()
        if name in touched
    ]
    files = [*load_files(workspace, left), *new]
    before = workspace.at(tip).read([path]).get(path, b"").decode("utf-8", "surrogateescape")
    after = put_block(before, build_lines(files))
    return {} if after == before else {path: after.encode("utf-8", "surrogateescape")}


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """What in the plan its steps may not do, on the tree of its base and on this day."""
    order = [STEPS.index(step.step) for step in plan.steps]
    if order != sorted(set(order)):
        yield "its steps are not in order"
    # What the plan says it covers must be history of its base: later runs go on from there.
    covered = [*([] if plan.until is None else [plan.until]), *plan.counted]
    foreign = list_foreign(workspace.repo, filter(SHA.fullmatch, covered), plan.base)
    for sha in covered:
        if sha in foreign or not SHA.fullmatch(sha):
            yield f"{sha!r} is no commit of the history of its base"
    yield from _Referee(workspace, plan, today).objections()


class _Referee:
    """Judges the steps, change by change: each is done to the draft before the next is judged. The range of the plan is
    read once, when it is first needed, which raises RepositoryError as `plan_range` does."""

    def __init__(self, workspace: Workspace, plan: Plan, today: date) -> None:
        self._workspace, self._plan, self._today = workspace, plan, today
        self._draft = Draft(workspace.at(plan.base))
        self._forgotten = tombstones_at(self._draft.base)

    def objections(self) -> Iterator[str]:
        for step in self._plan.steps:
            self._removed: dict[str, Entry] = {}
            self._retired: set[str] = set()
            places = (*self._draft.kept, *self._draft.inbox)
            self._known_texts = frozenset(
                chain.from_iterable(list_texts(place.entry) for place in places)
            )
            for change in step.changes:
                for reason in self._look_at(change, step.step):
                    yield f"{change.kind} of {change.entry.id} in {change.path!r}: {reason}"
                self._draft.take([change])
            # Each entry that is removed must have moved, be merged into another, or have been retired.
            entries = self._draft.entries
            findable = {entry.id for entry in entries} | {
                old for entry in entries for old in entry.supersedes
            }
            for entry_id in sorted(self._removed.keys() - findable - self._retired):
                yield f"the entry {entry_id[:8]} would be lost"

    def _look_at(self, change: Change, step: Step) -> Iterator[str]:
        if change.step != step or change.kind not in KINDS[change.step]:
            yield f"not a change of the step {step!r}"
        if not is_canonical_path(change.path) or self._scope_of(change) is None:
            yield "not a memory file"
        # A reason is one printable line of short clauses without anything the gate refuses.
        clauses = re.split("[;,] ", NAMES.sub("", change.why))
        is_short = change.why.isprintable() and all(len(clause) <= MAX_REASON for clause in clauses)
        if not is_short or any(check_words(change.why)):
            yield "its reason is not one short line"
        looks = {
            "add": self._add, "move": self._move, "drop": self._drop, "update": self._update, "remove": self._remove
        }  # fmt: skip
        yield from looks[change.kind](change)

    def _scope_of(self, change: Change) -> ScopeOf | None:
        return classify_scope(change.path, self._workspace.config.scopes)

    def _new_words(self, entry: Entry) -> Iterator[str]:
        """Why a text that no entry has yet must not be written. Text that is in memory already may stay."""
        new = [text for text in list_texts(entry) if text not in self._known_texts]
        yield from check_words("\n".join(new)) if new else ()

    def _add(self, change: Change) -> Iterator[str]:
        entry = change.entry
        if entry.id in self._draft.by_id:
            yield "an entry of that id is there already"
        if change.step != "promote":
            yield from check_entry(entry)
            yield from self._extracted(change)
            return
        before = self._removed.get(entry.id)
        if before is None or _differs(before, entry, FREE["promote"]):
            yield "not an entry that is moved"
        yield from self._new_words(entry)

    def _waiting(self, change: Change) -> Located | None:
        """The note of the inbox that a change takes away."""
        return next(
            (place for place in reversed(self._draft.inbox) if place.path == change.moved_from),
            None,
        )

    def _move(self, change: Change) -> Iterator[str]:
        waiting = self._waiting(change)
        if waiting is None or not self._is_of_note(change.entry, waiting):
            yield "not the entry of that inbox file"
        elif change.entry.cites != waiting.entry.cites:
            yield from self._new_words(change.entry)
        if change.entry.id in self._draft.by_id:
            yield "an entry of that id is there already"

    def _is_of_note(self, entry: Entry, note: Located) -> bool:
        """Whether the entry is that of a note: with its claims marked, or as an outsider's, who can claim nothing. It
        may have gained anchors. The sessions that proved its quotes are not everywhere: hearsay passes."""
        day = entry.last_reinforced
        proved = prove(self._draft.base, replace(note.entry, scope=None))
        is_anchored = all(map(parse_anchor, entry.cites))
        meant = [proved, strip_claims(note, day).entry] if day <= self._today else [proved]
        mark = f"{CLAIMED}session:"

        def unmark(one: Entry) -> Entry:
            lines = (
                line.removeprefix(CLAIMED) if line.startswith(mark) else line
                for line in one.evidence
            )
            return replace(one, evidence=tuple(lines))

        entry, *meant = map(unmark, (entry, *meant))
        return any(
            entry == one or (is_anchored and replace(entry, cites=one.cites) == one)
            for one in meant
        )

    def _drop(self, change: Change) -> Iterator[str]:
        waiting = self._waiting(change)
        kept = [
            place
            for place in self._draft.kept
            if (place.path, place.entry) == (change.path, change.entry)
        ]
        if not kept:
            yield "the entry is not kept there"
        elif waiting is None or not is_kept(waiting, kept[0]):
            yield "not what that inbox file says, for all that it is for"

    def _update(self, change: Change) -> Iterator[str]:
        known = self._known(change)
        if known is None or _differs(known, change.entry, FREE.get(change.step, ())):
            yield f"more would change than the step {change.step!r} may"
        yield from self._new_words(change.entry)

    def _remove(self, change: Change) -> Iterator[str]:
        known = self._known(change)
        if known is None:
            yield "the entry is not kept there"
        else:
            self._removed[change.entry.id] = known
            self._retired |= {change.entry.id} if known.status == "retired" else set()

    def _known(self, change: Change) -> Entry | None:
        """The entry that a change is about."""
        at = self._draft.find(change)
        return None if at is None else self._draft.kept[at].entry

    def _extracted(self, change: Change) -> Iterator[str]:
        """Why a record run would not have added this as extracted."""
        entry, scope = change.entry, self._scope_of(change)
        days = (entry.created_at, entry.last_reinforced)
        is_changed = (
            entry.status != "active"
            or entry.reinforcement_count
            or any(getattr(entry, one) for one in UNSET)
        )
        faults = {
            "not the file that entries of its scope are written to": (
                scope is None or self._draft.path_of(scope) != change.path
            ),
            "not an entry as it is when it is new": is_changed,
            f"its dates are not between {EARLIEST} and {self._today}": not all(
                day is not None and EARLIEST <= day <= self._today for day in days
            ),
            f"its importance is over {MAX_IMPORTANCE}": entry.importance > MAX_IMPORTANCE,
            "it says what was to be forgotten": find_forgotten(
                self._forgotten, Located(entry, change.path, 0, PROJECT)
            ),
            "no words prove it": all(line.startswith("accepted ") for line in entry.evidence),
        }
        yield from (fault for fault, is_so in faults.items() if is_so)
        for sha in COMMIT.findall(entry.source or ""):
            if sha not in self._said:
                yield f"its source {sha} is no commit of the range"
        for quote in entry.evidence:
            if not self._is_said(quote):
                yield f"words that it quotes do not stand in {quote.partition(' ')[0]}"

    def _is_said(self, quote: str) -> bool:
        """Whether the quoted words stand where the quote says, but for white space and masks. Hearsay passes."""
        origin, _, words = quote.partition(" ")
        if (
            origin == "accepted"
        ):  # says nothing of what was said; the other words must be found all the same
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
        repo = self._workspace.repo
        history = plan_range(repo, self._plan.since, self._plan.until)
        added = (
            change.entry
            for step in self._plan.steps
            if step.step == "extract"
            for change in step.changes
        )
        quoted = {
            quote.partition(" ")[0].removeprefix("commit:")
            for entry in added
            for quote in entry.evidence
        }
        trusted = trusted_at(repo, self._plan.base)
        said: dict[str, list[str]] = {}
        for merged in iter_merged_changes(repo, history):
            own = {commit.sha[:SHA_WIDTH] for commit in merged.commits}
            said |= {sha: [] for sha in own}
            for sha, text in read_said(trusted, merged, self._forgotten) if own & quoted else ():
                said[sha].append(text)
        return said


def _differs(before: Entry, after: Entry, free: tuple[str, ...]) -> bool:
    """Whether a field differs that is not `free` to change."""
    return replace(after, **{name: getattr(before, name) for name in free}) != before
