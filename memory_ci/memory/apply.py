"""Application of plans: the changes of a plan to memory are checked, and then committed.

A plan is made by a record run, perhaps in another job, so it is checked like any other input. Each
step of it may only make some kinds of changes. A run proves each new entry by quoted words. The
quotes that can be looked up again are looked up: those from the commits of the range, and from the
files that came in with them. Quotes from sessions and reviews cannot be (docs/security.md).
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
    EARLIEST_DATE,
    MAX_IMPORTANCE,
    check_entry,
    list_texts,
    trim_evidence,
)
from memory_ci.extraction.gate import check_words
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.record_commits import SOURCE
from memory_ci.gitrepo.repo import list_outside_history
from memory_ci.lifecycle.fold import CLAIMED, is_kept, strip_claims
from memory_ci.memory import episode_files
from memory_ci.memory.claims import prove
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.commit_texts import fold_blanks, read_change_texts
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.model import trusted_at
from memory_ci.memory.recorded_ranges import plan_recorded_file
from memory_ci.memory.workspace import (
    Workspace,
    branch_tip,
    list_memory_files,
    load_files,
    workspace_at,
)
from memory_ci.records.candidate import ACCEPTED_IN_REQUEST
from memory_ci.records.config import Quotes
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf
from memory_ci.records.names import FULL_ID
from memory_ci.records.plan import (
    COMMITTED_ALONE,
    PLAN_VERSION,
    STEPS,
    Change,
    Plan,
    PlannedStep,
    Step,
)
from memory_ci.regex import Regex
from memory_ci.store.edits import apply_changes
from memory_ci.store.layout import RECORDED_FILE, classify_scope, is_canonical_path

KINDS: Mapping[Step, tuple[str, ...]] = {
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

HEARSAY = ("session:", "review:", "pr:")
"""Origins of quotes whose words are in no commit."""

UNSET = ("supersedes", "promoted_from", "promoted_at", "valid_until", "priority", "scope")
"""Fields that no extraction sets, because they outlive, outrank or replace other entries."""

PreparedCommit = tuple[str, dict[str, bytes | None]]
"""The message and the files of a commit; None deletes a file."""


class ExtraFiles(msgspec.Struct, frozen=True):
    """Files that are committed together with a plan.

    They go into the first commit of the plan, or into a commit of their own if it has none.

    Attributes:
        message: the message of that own commit.
        files: the content by path; None deletes a file.
        author: the author (`NAME <MAIL>`); empty for the author that is configured.
    """

    message: str
    files: Mapping[str, bytes | None]
    author: str = ""


class Applied(msgspec.Struct, frozen=True):
    """The commits that applying a plan made, or would make.

    Attributes:
        ref: the branch.
        tip: its tip afterwards; the old tip if nothing changed.
        subjects: the first line of each commit message.
    """

    ref: str
    tip: str
    subjects: tuple[str, ...]


def parse_plan(data: bytes) -> Plan:
    """Parse a plan from its JSON.

    Raises:
        UsageError: bad-plan.
    """
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"this is not a plan: {error}",
            slug="bad-plan",
            hint="Make one: memory-ci record --plan FILE.",
        ) from error

    if plan.schema_version != PLAN_VERSION:
        raise UsageError(
            f"the plan has schema version {plan.schema_version}, "
            f"this memory-ci reads {PLAN_VERSION}",
            slug="bad-plan",
            hint="Make the plan with the version that applies it.",
        )
    return plan


def apply_plan(
    workspace: Workspace,
    plan: Plan,
    now: datetime,
    *,
    in_actions: bool = False,
    covers_range: bool = True,
    extra_files: ExtraFiles | None = None,
) -> Applied:
    """Check the changes that a plan makes to memory files, and commit them: all, or none.

    The first commit holds new entries and episodes. Each step of upkeep is a commit of its own.

    Args:
        workspace: the repository.
        plan: the plan.
        now: the time of the commits.
        in_actions: whether this runs in GitHub Actions, which has another default identity.
        covers_range: whether later runs begin after the range of history that the plan has read.
        extra_files: other files to commit.

    Raises:
        RepositoryError: ref-moved, if the branch has another tip than the plan was made for;
            and the errors of the writer.
        FindingsError: plan-refused, if the plan does more than its steps may.
    """
    from memory_ci.gitrepo import writer  # GitPython: 75 ms, only to write

    prepared = _prepare_commits(workspace, plan, now, extra_files)
    preview = _describe_commits(plan, prepared)
    if not prepared:
        return preview

    config = workspace_at(workspace.repo, plan.base).config.publish
    if extra_files and extra_files.author:
        config = replace(config, author=extra_files.author)

    commits = []
    for message, files in prepared:
        if not covers_range:
            message = remove_source_trailer(message)
        commits.append(writer.PlannedCommit(files, message))

    tip = writer.commit_series(
        workspace.repo,
        ref=plan.ref,
        expected=plan.base,
        commits=commits,
        identity=writer.choose_identity(config, in_actions=in_actions),
        when=now,
    )
    return replace(preview, tip=tip)


def remove_source_trailer(message: str) -> str:
    """Remove the trailer from a commit message that says how far a run came."""
    lines = message.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(f"{SOURCE}:"))


def preview_plan(
    workspace: Workspace, plan: Plan, now: datetime, extra_files: ExtraFiles | None = None
) -> Applied:
    """Return what `apply_plan` would commit, after all of its checks, and write nothing."""
    prepared = _prepare_commits(workspace, plan, now, extra_files)
    return _describe_commits(plan, prepared)


def _describe_commits(plan: Plan, prepared: Iterable[PreparedCommit]) -> Applied:
    """Return the subjects of commits that are not made yet, on the branch at its old tip."""
    subjects = tuple(message.partition("\n")[0] for message, _ in prepared)
    return Applied(plan.ref, plan.base, subjects)


def _prepare_commits(
    workspace: Workspace, plan: Plan, now: datetime, extra_files: ExtraFiles | None
) -> list[PreparedCommit]:
    """Check a plan on the commit that it was made for, and return its commits.

    Raises:
        RepositoryError: ref-moved.
        FindingsError: plan-refused.
    """
    _require_base(workspace, plan)
    workspace = workspace_at(workspace.repo, plan.base)
    _require_no_objections(workspace, plan, now.astimezone(UTC).date())
    plan = trim_plan(plan, workspace.config.evidence.quotes)

    content = _read_changed_files(workspace, plan)  # each step changes what those before it left
    prepared = []
    for steps, episode_changes in _group_steps(plan, _list_episode_changes(workspace, plan)):
        files = dict(episode_changes)
        for step in steps:
            changed_files = apply_changes(content, step.changes)
            files |= changed_files
            _update_content(content, changed_files)
        prepared.append((_render_message(steps, plan, episode_changes), files))

    if prepared and workspace.config.export.record:
        last_files = prepared[-1][1]
        last_files.update(_export_block(workspace, plan, content))
    if extra_files and extra_files.files:
        _add_files(prepared, extra_files)
    return prepared


def _render_message(
    steps: Sequence[PlannedStep], plan: Plan, episode_changes: Mapping[str, bytes | None]
) -> str:
    """Return the message of a commit with some steps of a plan and some episode files."""
    records_range = RECORDED_FILE in episode_changes
    file_count = len(episode_changes)
    if records_range:
        file_count -= 1  # RECORDED_FILE, which holds no episode
    return render_commit_message(steps, plan, file_count, records_range=records_range)


def _list_episode_changes(workspace: Workspace, plan: Plan) -> dict[str, bytes | None]:
    """Return the episode files that a plan changes, and the file with the ranges that were read."""
    changes = episode_files.list_changes(workspace, plan)
    has_joint_step = any(step.step not in COMMITTED_ALONE for step in plan.steps)
    recorded_file = plan_recorded_file(
        workspace.at(plan.base), plan, is_committed=bool(changes) or has_joint_step
    )
    return {**changes, **recorded_file}


def _require_base(workspace: Workspace, plan: Plan) -> None:
    """Refuse a plan if its branch has another tip than the plan was made for."""
    ref, tip = branch_tip(workspace, plan.ref)
    if tip != plan.base:
        raise RepositoryError(
            f"{ref} is at {tip[:12]}, the plan was made for {plan.base[:12]}",
            slug="ref-moved",
            hint="Make the plan again: memory-ci record --plan FILE.",
        )


def _require_no_objections(workspace: Workspace, plan: Plan, today: date) -> None:
    """Refuse a plan that does more than its steps may, with the first reason."""
    objections = chain(
        find_objections(workspace, plan, today),
        episode_files.find_objections(workspace, plan, today),
    )
    for objection in objections:
        raise FindingsError(
            f"the plan is refused: {objection}",
            slug="plan-refused",
            hint="Make it again: memory-ci record --plan FILE.",
        )


def _read_changed_files(workspace: Workspace, plan: Plan) -> dict[str, bytes]:
    """Read from its base the files that the plan changes."""
    paths = []
    for step in plan.steps:
        for change in step.changes:
            paths += [path for path in (change.path, change.moved_from) if path]
    return dict(workspace.at(plan.base).read(paths))


def _group_steps(
    plan: Plan, episode_changes: dict[str, bytes | None]
) -> list[tuple[list[PlannedStep], dict[str, bytes | None]]]:
    """Return the steps and the episode files of each commit of a plan.

    The first commit has all episode files, and the steps that need no commit of their own.

    Args:
        plan: the plan.
        episode_changes: the content of the episode files that it changes, by path.
    """
    groups: list[tuple[list[PlannedStep], dict[str, bytes | None]]] = []
    joint_steps = [step for step in plan.steps if step.step not in COMMITTED_ALONE]
    if joint_steps or episode_changes:
        groups.append((joint_steps, episode_changes))
    for step in plan.steps:
        if step.step in COMMITTED_ALONE:
            groups.append(([step], {}))
    return groups


def _update_content(content: dict[str, bytes], changed_files: Mapping[str, bytes | None]) -> None:
    """Apply changed files to the content of files by path; None deletes a file."""
    for path, data in changed_files.items():
        if data is None:
            content.pop(path, None)
        else:
            content[path] = data


def _add_files(prepared: list[PreparedCommit], extra_files: ExtraFiles) -> None:
    """Add files to the first commit; without a commit, they become one."""
    if not prepared:
        prepared.append((extra_files.message, {}))
    first_files = prepared[0][1]
    first_files.update(extra_files.files)


def trim_plan(plan: Plan, quotes: Quotes) -> Plan:
    """Shorten or remove the quotes of people in the entries of a plan.

    Args:
        plan: the plan.
        quotes: how much of a quote the configuration allows in memory files; "full" changes
            nothing.
    """
    if quotes == "full":
        return plan

    steps = []
    for step in plan.steps:
        changes = tuple(_trim_change(change, quotes) for change in step.changes)
        steps.append(replace(step, changes=changes))

    judged_candidates = []
    for judged in plan.judged:
        candidate = replace(judged.candidate, quotes=())
        judged_candidates.append(replace(judged, candidate=candidate))
    return replace(plan, steps=tuple(steps), judged=tuple(judged_candidates))


def _trim_change(change: Change, quotes: Quotes) -> Change:
    """Shorten or remove the quotes of the entry that a change writes."""
    if change.kind in ("remove", "drop"):
        return change  # its entry is looked up by its present text
    return replace(change, entry=trim_evidence(change.entry, quotes))


def _export_block(
    workspace: Workspace, plan: Plan, content: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """Update the block of memory in AGENTS.md, or the file that is configured instead.

    Args:
        workspace: the workspace at the base of the plan.
        plan: the plan.
        content: the changed memory files as the plan leaves them.

    Returns:
        The new content by path; nothing if the block is the same as before.
    """
    from memory_ci.memory.agents_block import build_lines, put_block
    from memory_ci.store.document import load_file

    changed_paths: set[str | None] = set()
    for step in plan.steps:
        for change in step.changes:
            changed_paths |= {change.path, change.moved_from}

    memory_files = list_memory_files(workspace, plan.base)
    unchanged = [file for file in memory_files if file.path not in changed_paths]
    loaded_files = [*load_files(workspace, unchanged)]
    for path, data in content.items():
        if path in changed_paths:
            loaded_files.append(load_file(path, data, workspace.config.scopes))

    export_path = workspace.config.export.path
    data = workspace.at(plan.base).read([export_path]).get(export_path, b"")
    before = data.decode("utf-8", "surrogateescape")
    after = put_block(before, build_lines(loaded_files))
    if after == before:
        return {}
    return {export_path: after.encode("utf-8", "surrogateescape")}


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
        self._tombstones = tombstones_at(self._draft.base)
        # Of the step that is checked:
        self._removed: dict[str, Entry] = {}  # the entries that it removed so far, by id
        self._retired_ids: set[str] = set()  # those of them that were retired already
        self._texts_in_memory: frozenset[str] = frozenset()  # all texts of entries before it

    def iter_objections(self) -> Iterator[str]:
        """Yield why changes of the plan are not allowed, step by step."""
        for step in self._plan.steps:
            self._begin_step()
            for change in step.changes:
                for objection in self._check_change(change, step.step):
                    yield f"{change.kind} of {change.entry.id} in {change.path!r}: {objection}"
                self._draft.take([change])
            yield from self._check_losses()

    def _begin_step(self) -> None:
        """Note the texts that are in memory before a step, and forget removals of earlier steps."""
        self._removed = {}
        self._retired_ids = set()
        texts: set[str] = set()
        for located in (*self._draft.kept, *self._draft.inbox):
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
        if change.step != step or change.kind not in KINDS[change.step]:
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
            yield "an entry of that id is there already"

        if change.step != "promote":
            yield from check_entry(entry)
            yield from self._check_extracted(change)
            yield from self._check_provenance(entry)
            return

        removed = self._removed.get(entry.id)
        if removed is None or _differs(removed, entry, FREE["promote"]):
            yield "not an entry that is moved"
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
            yield "an entry of that id is there already"

    def _is_from_note(self, entry: Entry, note: Located) -> bool:
        """Return whether an entry is what folding makes of a note of the inbox.

        Folding marks claims that are not proved, or strips those of an outsider, and may add
        anchors. Not every clone has the sessions that proved its quotes, so marks on quotes of
        sessions are ignored.
        """
        expected_entries = [prove(self._draft.base, replace(note.entry, scope=None))]
        if entry.last_reinforced <= self._today:
            expected_entries.append(strip_claims(note, entry.last_reinforced).entry)

        entry = _unmark_sessions(entry)
        is_anchored = all(map(parse_anchor, entry.cites))
        for expected in map(_unmark_sessions, expected_entries):
            if entry == expected:
                return True
            if is_anchored and replace(entry, cites=expected.cites) == expected:
                return True
        return False

    def _check_drop(self, change: Change) -> Iterator[str]:
        """Yield why a note of the inbox may not be deleted.

        It may if the entry that the change names is in memory and says the same.
        """
        target = self._find_target_of_drop(change)
        if target is None:
            yield "the entry is not kept there"
            return
        note = self._find_note(change)
        if note is None or not is_kept(note, target):
            yield "not what that inbox file says, for all that it is for"

    def _find_target_of_drop(self, change: Change) -> Located | None:
        """Return the entry in memory that made a dropped note superfluous; None without one."""
        for located in self._draft.kept:
            if (located.path, located.entry) == (change.path, change.entry):
                return located
        return None

    def _check_update(self, change: Change) -> Iterator[str]:
        """Yield why a change may not update an entry: each step may change some fields only."""
        before = self._find_entry(change)
        if before is None or _differs(before, change.entry, FREE.get(change.step, ())):
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
            yield "the entry is not kept there"
            return
        self._removed[change.entry.id] = entry
        if entry.status == "retired":
            self._retired_ids.add(change.entry.id)

    def _find_entry(self, change: Change) -> Entry | None:
        """Return the entry in memory that a change updates or removes."""
        index = self._draft.find(change)
        return None if index is None else self._draft.kept[index].entry

    def _check_extracted(self, change: Change) -> Iterator[str]:
        """Yield why a record run would not have extracted this entry and added it to this file."""
        entry = change.entry
        scope = self._classify(change)
        if scope is None or self._draft.path_of(scope) != change.path:
            yield "not the file that entries of its scope are written to"
        if not _is_fresh(entry):
            yield "not an entry as it is when it is new"
        if not (self._is_valid_day(entry.created_at) and self._is_valid_day(entry.last_reinforced)):
            yield f"its dates are not between {EARLIEST_DATE} and {self._today}"
        if entry.importance > MAX_IMPORTANCE:
            yield f"its importance is over {MAX_IMPORTANCE}"
        if find_forgotten(self._tombstones, Located(entry, change.path, 0, PROJECT)):
            yield "it says what was to be forgotten"

        # A person may accept a check without a quote; any other entry needs quoted words.
        quotes = [quote for quote in entry.evidence if not quote.startswith("accepted ")]
        is_accepted_check = entry.check is not None and bool(entry.evidence)
        if not quotes and not is_accepted_check:
            yield "no words prove it"

    def _check_provenance(self, entry: Entry) -> Iterator[str]:
        """Yield which sources and quotes of an entry are not in the commits that the plan read."""
        for sha in COMMIT.findall(entry.source or ""):
            if sha not in self._texts_by_commit:
                yield f"its source {sha} is no commit of the range"
        for quote in entry.evidence:
            if not self._is_grounded(quote):
                yield f"words that it quotes do not stand in {quote.partition(' ')[0]}"

    def _is_valid_day(self, day: date | None) -> bool:
        return day is not None and EARLIEST_DATE <= day <= self._today

    def _is_grounded(self, quote: str) -> bool:
        """Return whether the origin of a quote holds its words, but for white space and masks.

        A quote is `<origin> <words>`, as `commit:1a2b3c4 Retry twice`. Quotes of sessions and
        reviews pass, because their words are in no commit.
        """
        origin, _, words = quote.partition(" ")
        if origin == "accepted":
            # It says that a person accepted the entry; all other quotes must still be grounded.
            return words == ACCEPTED_IN_REQUEST
        if not words.strip():
            return False
        if origin.startswith(HEARSAY):
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
        """The texts that a record run reads in each commit of the plan's range, by shortened id.

        The texts of merged changes that the plan does not quote are not read.
        """
        if self._plan.until is None:
            return {}
        repo = self._workspace.repo
        history = plan_range(repo, self._plan.since, self._plan.until)
        quoted_commits = _list_quoted_commits(self._plan)
        trusted = trusted_at(repo, self._plan.base)

        texts_by_commit: dict[str, list[str]] = {}
        for merged in iter_merged_changes(repo, history):
            shas = {commit.sha[:SHA_WIDTH] for commit in merged.commits}
            texts_by_commit |= {sha: [] for sha in shas}
            if shas & quoted_commits:
                for sha, text in read_change_texts(trusted, merged, self._tombstones):
                    texts_by_commit[sha].append(text)
        return texts_by_commit


def _is_valid_reason(reason: str) -> bool:
    """Return whether the reason of a change is one line of short clauses without forbidden text."""
    if not reason.isprintable():
        return False
    clauses = re.split("[;,] ", NAMES.sub("", reason))
    return all(len(clause) <= MAX_REASON for clause in clauses) and not check_words(reason)


def _unmark_sessions(entry: Entry) -> Entry:
    """Remove the prefix CLAIMED, which marks unproved quotes, from quotes of sessions."""
    evidence = []
    for quote in entry.evidence:
        if quote.startswith(f"{CLAIMED}session:"):
            quote = quote.removeprefix(CLAIMED)
        evidence.append(quote)
    return replace(entry, evidence=tuple(evidence))


def _is_fresh(entry: Entry) -> bool:
    """Return whether an entry has only such fields as extraction sets."""
    if entry.status != "active" or entry.reinforcement_count:
        return False
    return not any(getattr(entry, field) for field in UNSET)


def _list_quoted_commits(plan: Plan) -> set[str]:
    """Return the shortened ids of the commits that extracted entries quote.

    Other origins of quotes, as `file:README.md:3`, are in the set as well.
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
