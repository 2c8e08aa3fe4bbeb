"""Checks of a plan against memory: which changes each step may make, and that nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.extraction.cites import SHA_WIDTH
from memory_ci.extraction.entries import EARLIEST_DATE, MAX_IMPORTANCE, check_entry, list_texts
from memory_ci.extraction.gate import check_words
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.repo import list_outside_history
from memory_ci.lifecycle.fold import CLAIMED, is_restated_by, keep_note_text
from memory_ci.memory.claims import mark_unproved
from memory_ci.memory.commit_texts import fold_blanks, read_change_texts
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, read_tombstones_at
from memory_ci.memory.model import trust_config_at
from memory_ci.memory.workspace import Workspace
from memory_ci.records.candidate import ACCEPTED_IN_REQUEST
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf
from memory_ci.records.names import FULL_ID
from memory_ci.records.plan import STEPS, Change, Plan, Step
from memory_ci.regex import Regex
from memory_ci.store.layout import classify_scope, is_canonical_path

ALLOWED_KINDS: Mapping[Step, tuple[str, ...]] = {
    "fold": ("move", "drop"),
    "extract": ("add",),
    "reinforce": ("update",),
    "consolidate": ("update",),
    "promote": ("remove", "add", "update"),
    "compact": ("remove", "update"),
    "retire": ("update",),
}
"""The kinds of change that each step may make."""

COUNTERS = ("reinforcement_count", "last_reinforced")
MERGED = (
    *COUNTERS,
    "importance",
    "priority",
    "created_at",
    "occurred_at",
    "supersedes",
    "evidence",
    "occurrences",
    "cites",
    "aka",
    "relations",
    "source",
    "title",
    "body",
    "instead",
    "adoption",
    "status",
    "valid_until",
    "phase",
    "session",
    "engine",
    "domain",
)
CHANGEABLE_FIELDS: Mapping[Step, tuple[str, ...]] = {
    "reinforce": (*COUNTERS, "occurrences"),
    "consolidate": (
        "relations",
        "importance",
        "valid_until",
        "adoption",
        "instead",
        "evidence",
        "cites",
        "check",
    ),
    "promote": (*MERGED, "promoted_from", "promoted_at"),
    "compact": MERGED,
    "retire": ("status",),
}
"""The fields of an entry that each step may change; never its id or its type."""

NAMES = Regex(r"(?:#\d+|[0-9a-f][0-9a-f-]{6,63})(?:, (?:#\d+|[0-9a-f][0-9a-f-]{6,63}))*")
"""A list of merged changes or ids. A reason may hold such a list of any length."""

MAX_REASON = 200
"""Length of one clause of a reason in characters, without its lists of names."""

SHA = Regex(FULL_ID)
COMMIT = Regex(r"\bcommit:(\S*)")
"""A commit in the source of an entry, as `commit:1a2b3c4`."""

ORIGINS_WITHOUT_COMMIT = ("session:", "review:", "pr:")
"""Origins of quotes whose words are in no commit."""

FIELDS_NOT_EXTRACTED = (
    "supersedes",
    "promoted_from",
    "promoted_at",
    "valid_until",
    "priority",
    "scope",
)
"""Fields that no extraction sets, because they outlive, outrank or replace other entries."""


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """Yield why a plan does more than its steps may, on the commit that it was made for.

    Args:
        workspace: the workspace at that commit.
        plan: the plan.
        today: the day; no entry may have a later date.
    """
    order = [STEPS.index(step.step) for step in plan.steps]
    if order != sorted(set(order)):
        yield "its steps are not in order"
    yield from _check_covered_commits(workspace, plan)
    if plan.steps:  # else memory need not be read
        yield from _PlanChecker(workspace, plan, today).iter_objections()


def _check_covered_commits(workspace: Workspace, plan: Plan) -> Iterator[str]:
    """Yield which commits, of those that a plan says it has read, are not in its base's history.

    Later runs begin behind these commits.
    """
    covered = [*plan.counted]
    if plan.until is not None:
        covered.insert(0, plan.until)

    well_formed = [sha for sha in covered if SHA.fullmatch(sha)]
    foreign = list_outside_history(workspace.repo, well_formed, plan.base)
    for sha in covered:
        if sha in foreign or sha not in well_formed:
            yield f"{sha!r} is no commit of the history of its base"


class _PlanChecker:
    """A check of the changes of a plan, each on the memory that the changes before it leave.

    The merged changes of the range are read once, when they are first needed. That raises
    RepositoryError as `plan_range` does.
    """

    def __init__(self, workspace: Workspace, plan: Plan, today: date) -> None:
        """Start at the memory of the commit that the plan was made for.

        Args:
            workspace: the workspace at that commit.
            plan: the plan.
            today: the day; no entry may have a later date.
        """
        self._workspace = workspace
        self._plan = plan
        self._today = today
        self._draft = Draft(workspace.at(plan.base))
        self._tombstones = read_tombstones_at(self._draft.base)
        # Of the step that is checked:
        self._removed: dict[str, Entry] = {}  # the entries that it removed so far, by id
        self._retired_ids: set[str] = set()  # those of them that were retired already
        self._texts_in_memory: frozenset[str] = frozenset()  # all texts of entries before it

    def iter_objections(self) -> Iterator[str]:
        """Yield why changes of the plan are not allowed, step by step.

        Each change is checked on the draft, which is the memory as the changes before it leave it.
        `_check_removal` notes the removed entries of a step, and at the end of the step
        `_check_losses` finds those that no other change of it kept.
        """
        for step in self._plan.steps:
            self._begin_step()
            for change in step.changes:
                for objection in self._check_change(change, step.step):
                    yield f"{change.kind} of {change.entry.id} in {change.path!r}: {objection}"
                self._draft.apply([change])
            yield from self._check_losses()

    def _begin_step(self) -> None:
        """Note the texts that are in memory before a step, and forget removals of earlier steps."""
        self._removed = {}
        self._retired_ids = set()
        texts: set[str] = set()
        for located in (*self._draft.located, *self._draft.inbox):
            texts.update(list_texts(located.entry))
        self._texts_in_memory = frozenset(texts)

    def _check_losses(self) -> Iterator[str]:
        """Yield which entries a step removed without moving or merging them.

        Only retired entries may be removed for good.
        """
        reachable_ids: set[str] = set()
        for entry in self._draft.entries:
            reachable_ids |= {entry.id, *entry.supersedes}
        for entry_id in sorted(self._removed.keys() - reachable_ids - self._retired_ids):
            yield f"the entry {entry_id[:8]} would be lost"

    def _check_change(self, change: Change, step: Step) -> Iterator[str]:
        """Yield why a change to one entry is not allowed in a step of the plan."""
        if change.step != step or change.kind not in ALLOWED_KINDS[change.step]:
            yield f"not a change of the step {step!r}"
        if not is_canonical_path(change.path) or self._classify(change) is None:
            yield "not a memory file"
        if not _is_valid_reason(change.why):
            yield "its reason is not one short line"

        checks = {
            "add": self._check_add,
            "move": self._check_move,
            "drop": self._check_drop,
            "update": self._check_update,
            "remove": self._check_removal,
        }
        yield from checks[change.kind](change)

    def _classify(self, change: Change) -> ScopeOf | None:
        """Return the scope of the memory file that a change writes, None for any other file."""
        return classify_scope(change.path, self._workspace.config.scopes)

    def _check_new_texts(self, entry: Entry) -> Iterator[str]:
        """Screen the texts of an entry that are not in memory yet; older texts may remain."""
        texts = [text for text in list_texts(entry) if text not in self._texts_in_memory]
        if texts:
            yield from check_words("\n".join(texts))

    def _check_add(self, change: Change) -> Iterator[str]:
        """Yield why an entry may not be added to a memory file.

        A promotion adds an entry that it removed from another file. Any other entry must be new,
        and proved by the commits of the plan.
        """
        entry = change.entry
        if entry.id in self._draft.by_id:
            yield "memory has an entry of that id already"

        if change.step != "promote":
            yield from check_entry(entry)
            yield from self._check_extracted(change)
            yield from self._check_provenance(entry)
            return

        removed = self._removed.get(entry.id)
        if removed is None or _differs(removed, entry, CHANGEABLE_FIELDS["promote"]):
            yield "no entry that this step moved here"
        yield from self._check_new_texts(entry)

    def _find_note(self, change: Change) -> Located | None:
        """Return the note of the inbox that a change takes away."""
        for note in reversed(self._draft.inbox):
            if note.path == change.moved_from:
                return note
        return None

    def _check_move(self, change: Change) -> Iterator[str]:
        """Yield why an entry may not be moved from a note of the inbox into a memory file."""
        note = self._find_note(change)
        if note is None or not self._is_from_note(change.entry, note):
            yield "not the entry of that inbox file"
        elif change.entry.cites != note.entry.cites:
            yield from self._check_new_texts(change.entry)
        if change.entry.id in self._draft.by_id:
            yield "memory has an entry of that id already"

    def _is_from_note(self, entry: Entry, note: Located) -> bool:
        """Return whether an entry is what a record run makes of a note of the inbox.

        A run may make two entries of a note. If the author has write access, it is the note, in
        which sources and quotes that git does not prove are marked. Otherwise it is a new entry
        that keeps only the text. Two differences do not count: cites of code may have got a commit
        and a hash, and quotes of sessions may be marked or not, because not every clone has the
        sessions that prove them.
        """
        trusted_entry = mark_unproved(self._draft.base, replace(note.entry, scope=None))
        expected_entries = [trusted_entry]
        if entry.last_reinforced <= self._today:
            text_only_entry = keep_note_text(note, entry.last_reinforced).entry
            expected_entries.append(text_only_entry)

        entry = _unmark_session_quotes(entry)
        has_only_anchors = all(parse_anchor(cite) for cite in entry.cites)
        for expected_entry in expected_entries:
            expected = _unmark_session_quotes(expected_entry)
            if has_only_anchors:
                expected = replace(expected, cites=entry.cites)
            if entry == expected:
                return True
        return False

    def _check_drop(self, change: Change) -> Iterator[str]:
        """Yield why a note of the inbox may not be deleted.

        It may if the entry that the change names is in memory, says the same, and is served to
        everybody whom the note is for.
        """
        target = self._find_target_of_drop(change)
        if target is None:
            yield "memory does not have the entry in that file"
            return
        note = self._find_note(change)
        if note is None or not is_restated_by(note, target):
            yield "the entry does not say the same as the inbox file, or is served to fewer people"

    def _find_target_of_drop(self, change: Change) -> Located | None:
        """Return the entry in memory that made a dropped note superfluous; None without one."""
        for located in self._draft.located:
            if (located.path, located.entry) == (change.path, change.entry):
                return located
        return None

    def _check_update(self, change: Change) -> Iterator[str]:
        """Yield why a change may not update an entry: each step may change some fields only."""
        before = self._find_entry(change)
        if before is None or _differs(before, change.entry, CHANGEABLE_FIELDS.get(change.step, ())):
            yield f"more would change than the step {change.step!r} may"
        elif before.check not in (None, change.entry.check):
            yield "a check that an entry has is changed by a person alone"
        yield from self._check_new_texts(change.entry)

    def _check_removal(self, change: Change) -> Iterator[str]:
        """Note that a change removes an entry; yield an objection if the entry is not in memory.

        Whether it is lost is known only at the end of the step.
        """
        entry = self._find_entry(change)
        if entry is None:
            yield "memory does not have the entry in that file"
            return
        self._removed[change.entry.id] = entry
        if entry.status == "retired":
            self._retired_ids.add(change.entry.id)

    def _find_entry(self, change: Change) -> Entry | None:
        """Return the entry in memory that a change updates or removes."""
        index = self._draft.find(change)
        return None if index is None else self._draft.located[index].entry

    def _check_extracted(self, change: Change) -> Iterator[str]:
        """Yield why a record run would not have extracted this entry and added it to this file."""
        entry = change.entry
        scope = self._classify(change)
        if scope is None or self._draft.path_of(scope) != change.path:
            yield "not the file that entries of its scope are written to"
        if not _has_extracted_fields_only(entry):
            yield "it has fields that a new entry does not have"
        if not (self._is_valid_day(entry.created_at) and self._is_valid_day(entry.last_reinforced)):
            yield f"its dates are not between {EARLIEST_DATE} and {self._today}"
        if entry.importance > MAX_IMPORTANCE:
            yield f"its importance is over {MAX_IMPORTANCE}"
        located = Located(entry, change.path, line=0, scope=PROJECT)
        if find_forgotten(self._tombstones, located):
            yield "it repeats a text that people had forgotten"

        # A person may accept a check without a quote; any other entry needs quoted words.
        quotes = [quote for quote in entry.evidence if not quote.startswith("accepted ")]
        is_accepted_check = entry.check is not None and bool(entry.evidence)
        if not quotes and not is_accepted_check:
            yield "it quotes no words as evidence"

    def _check_provenance(self, entry: Entry) -> Iterator[str]:
        """Yield which sources and quotes of an entry are not in the commits that the plan read."""
        for sha in COMMIT.findall(entry.source or ""):
            if sha not in self._texts_by_commit:
                yield f"its source {sha} is no commit of the range"
        for quote in entry.evidence:
            if not self._is_quote_in_origin(quote):
                yield f"words that it quotes are not in {quote.partition(' ')[0]}"

    def _is_valid_day(self, day: date | None) -> bool:
        return day is not None and EARLIEST_DATE <= day <= self._today

    def _is_quote_in_origin(self, quote: str) -> bool:
        """Return whether the file or commit that a quote names holds its words.

        A quote is `<origin> <words>`, as `commit:1a2b3c4 Retry twice`. White space is ignored, and
        credentials are masked on both sides. Quotes of sessions and reviews pass, because their
        words are in no commit.
        """
        origin, _, words = quote.partition(" ")
        if origin == "accepted":
            # A note that a person accepted the entry; it has this one wording.
            return words == ACCEPTED_IN_REQUEST
        if not words.strip():
            return False
        if origin.startswith(ORIGINS_WITHOUT_COMMIT):
            return True

        folded_words = fold_blanks(words)
        if origin.startswith("file:"):
            path = origin.removeprefix("file:").rpartition(":")[0]  # without the line
            data = self._draft.base.read([path]).get(path, b"")
            return folded_words in fold_blanks(data.decode("utf-8", "replace"))
        texts = self._texts_by_commit.get(origin.removeprefix("commit:"), ())
        return any(folded_words in text for text in texts)

    @cached_property
    def _texts_by_commit(self) -> Mapping[str, Sequence[str]]:
        """The texts in each commit of the plan's range by which its quotes can be proved.

        The keys are the shortened ids of all commits that the plan has read. Only changes that the
        plan quotes have texts: those that a record run reads as evidence, such as the message.
        """
        if self._plan.until is None:
            return {}
        repo = self._workspace.repo
        history = plan_range(repo, self._plan.since, self._plan.until)
        quote_origins = _list_quote_origins(self._plan)
        trusted_workspace = trust_config_at(repo, self._plan.base)

        texts_by_commit: dict[str, list[str]] = {}
        for merged_change in iter_merged_changes(repo, history):
            shas = {commit.sha[:SHA_WIDTH] for commit in merged_change.commits}
            texts_by_commit |= {sha: [] for sha in shas}
            is_quoted = bool(shas & quote_origins)
            if not is_quoted:
                continue
            for sha, text in read_change_texts(trusted_workspace, merged_change, self._tombstones):
                texts_by_commit[sha].append(text)
        return texts_by_commit


def _is_valid_reason(reason: str) -> bool:
    """Return whether the reason of a change is one line of short clauses without forbidden text."""
    if not reason.isprintable():
        return False
    clauses = re.split("[;,] ", NAMES.sub("", reason))
    return all(len(clause) <= MAX_REASON for clause in clauses) and not check_words(reason)


def _unmark_session_quotes(entry: Entry) -> Entry:
    """Remove the prefix CLAIMED, which marks unproved quotes, from the quotes of sessions."""
    evidence = []
    for quote in entry.evidence:
        if quote.startswith(f"{CLAIMED}session:"):
            quote = quote.removeprefix(CLAIMED)
        evidence.append(quote)
    return replace(entry, evidence=tuple(evidence))


def _has_extracted_fields_only(entry: Entry) -> bool:
    """Return whether an entry has only such fields as extraction sets."""
    if entry.status != "active" or entry.reinforcement_count:
        return False
    return not any(getattr(entry, field) for field in FIELDS_NOT_EXTRACTED)


def _list_quote_origins(plan: Plan) -> set[str]:
    """Return the origins of the quotes in extracted entries.

    The origin of a quote from a commit is the shortened id; others are as `file:README.md:3`.
    """
    origins = set()
    for step in plan.steps:
        if step.step != "extract":
            continue
        for change in step.changes:
            for quote in change.entry.evidence:
                origin = quote.partition(" ")[0]
                origins.add(origin.removeprefix("commit:"))
    return origins


def _differs(before: Entry, after: Entry, free_fields: tuple[str, ...]) -> bool:
    """Return whether an entry differs from before in a field that is not free to change."""
    old_values = {field: getattr(before, field) for field in free_fields}
    return replace(after, **old_values) != before
