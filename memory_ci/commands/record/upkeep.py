"""The steps that keep memory entries in shape: consolidation, promotion, retirement, compaction.

Consolidation resolves contradictions, promotion moves an entry to a wider scope, retirement stops
showing it, and compaction merges entries that say the same. They are planned on a draft of memory,
alone or at the end of a record run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from itertools import permutations
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.extraction.engines import Engine
from memory_ci.extraction.entries import find_deepest_directory
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.support import find_ungrounded
from memory_ci.gitrepo.history import list_commits_replacing
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.gitrepo.repo import find_setting
from memory_ci.lifecycle.compaction import list_different_copies, plan_compaction
from memory_ci.lifecycle.consolidation import plan_consolidation
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.lifecycle.promotion import plan_norm_promotion, plan_promotion
from memory_ci.lifecycle.reverts import Revert, plan_revert_effects
from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.memory.cite_verdicts import find_days_gone, judge_anchors
from memory_ci.memory.decision_records import plan_withdrawals
from memory_ci.memory.draft import Draft
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.model import ModelClient
from memory_ci.memory.stage import plan_retirement_of_ended_stages
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    build_memory_test,
    find_branch_tip,
    workspace_at,
)
from memory_ci.records.candidate import Request
from memory_ci.records.entry import Entry, Located
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.records.names import format_work_ref
from memory_ci.records.plan import (
    PLAN_VERSION,
    STEPS,
    Change,
    Counts,
    EngineUse,
    Plan,
    PlannedStep,
    Step,
)
from memory_ci.records.report import Finding
from memory_ci.sessions.ended_rules import plan_ended
from memory_ci.sessions.session_archive import SessionArchive, read_archive
from memory_ci.store.document import parse_memory_file
from memory_ci.text import content_words, jaccard, stem

MAX_SEARCHED_CHARS = 1000
"""Characters of a line that is searched for in history.

They identify it, and are no more than an argument may have.
"""

COMMON_NAMES = frozenset(
    "app apps bin ci cmd config docs examples internal lib libs pkg scripts site src test tests "
    "tools web".split()
)
"""Names of directories that many repositories have, so that they do not identify this one."""

MIN_NAME_CHARS = 3

MIN_SHARED_WORDS = 2
MIN_SHARED_PART = 0.2
"""The least that two titles share, in stems and by their Jaccard index.

Then a model is asked whether they say the same.
"""

MAX_COMPARED = 200
"""Entries that a model is shown at once."""


class Upkeep(msgspec.Struct, frozen=True):
    """The facts that the upkeep steps need in addition to the draft of memory.

    Attributes:
        since: where merged work begins; None for the first commit.
        today: the date of the run.
        reverts: the reverts of the range.
        stale_after: days after which stale entries are retired; None retires none.
        same_entries: groups of ids whose entries say the same according to a model.
        check_updates: updates of entries that get a check, which a person accepted.
        archive: the sessions; None if they were not read.
    """

    since: str | None
    today: date
    reverts: tuple[Revert, ...] = ()
    stale_after: int | None = None
    same_entries: tuple[frozenset[str], ...] = ()
    check_updates: tuple[Change, ...] = ()
    archive: SessionArchive | None = None


def plan_upkeep(upkeep: Upkeep, draft: Draft, steps: Collection[Step]) -> Iterator[PlannedStep]:
    """Yield the upkeep steps that change entries, each planned on the result of the step before.

    Args:
        upkeep: the facts that the steps need.
        draft: the entries of memory; a copy is changed, not the draft of the caller.
        steps: the steps to plan.
    """
    draft = draft.copy()
    for step in STEPS:
        if step in steps:
            changes = _merge_updates(_plan_step(step, upkeep, draft))
            applied_changes = draft.apply(changes)
            if applied_changes:
                yield PlannedStep(step=step, changes=applied_changes)


def _merge_updates(changes: Sequence[Change]) -> list[Change]:
    """Return the changes of one step, updates first, with a single update for each entry.

    The last update of an entry was planned on top of the earlier ones, so it is kept. Its reason
    names the reasons of all changes of the entry, of other kinds as well.
    """
    last_updates: dict[tuple[str, str], Change] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    other_changes: list[Change] = []
    for change in changes:
        file_and_id = (change.path, change.entry.id)
        reasons.setdefault(file_and_id, []).append(change.why)
        if change.kind == "update":
            last_updates[file_and_id] = change
        else:
            other_changes.append(change)
    merged_updates: list[Change] = []
    for file_and_id, update in last_updates.items():
        distinct_reasons = dict.fromkeys(reasons[file_and_id])
        merged_updates.append(replace(update, why="; ".join(distinct_reasons)))
    return merged_updates + other_changes


def _plan_step(step: Step, upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    """Return the changes of one step; the draft takes the changes of its parts on the way.

    Consolidation has four parts. Each is planned on the draft as the part before it left it, and
    the step holds the changes of all: cites follow code that moved, entries learned from reverted
    work are marked as suspect, entries get the checks that people accepted, and entries that
    supersede or contradict others are marked.
    """
    base = draft.base
    match step:
        case "consolidate":
            verdicts = judge_anchors(base.workspace, draft.located, base.sha)
            moved_cites = draft.apply(plan_repoint(draft.located, verdicts, base.sha))
            suspects = draft.apply(plan_revert_effects(draft.located, upkeep.reverts))
            check_updates = draft.apply(upkeep.check_updates)
            marks = plan_consolidation(draft.located, upkeep.today)
            return (*moved_cites, *suspects, *check_updates, *marks)
        case "promote":
            return _plan_promotions(draft, upkeep.today)
        case "retire":
            return _plan_retirements(upkeep, draft)
        case "compact":
            older = tuple(_find_replaced_copies(base, list_different_copies(draft.located)))
            return plan_compaction(draft.located, older, upkeep.same_entries)
    return ()


def _plan_promotions(draft: Draft, today: date) -> Sequence[Change]:
    """Return the moves of recurring entries to wider scopes, and of directives that become norms.

    A norm is an instruction that every agent is shown at the start of its work.
    """
    base = draft.base  # The commit whose files the draft changes.

    def read_directories() -> dict[str, str]:
        """Return the directory of each merged change that has an episode, by the change's name.

        It is read only if an entry may become a norm.
        """
        episodes = apply_amendments(load_episodes(base.workspace, base.sha).records)
        directories: dict[str, str] = {}
        for episode in episodes:
            changed_paths = episode.action.files
            if changed_paths:
                change_name = format_work_ref(episode.action.pr, episode.action.commit)
                directories[change_name] = find_deepest_directory(changed_paths)
        return directories

    # The names of this repository matter to proposals for the global memory alone.
    promotion = plan_promotion(draft.located, today, draft.path_of, names=())
    norms = plan_norm_promotion(draft.located, today, draft.path_of, read_directories)
    return (*promotion.changes, *norms)


def _plan_retirements(upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    """Return the retirements of entries that no longer apply, at most one for each entry.

    An entry is retired if its project stage ended, if the decision record that it comes from was
    withdrawn, if people stopped asking for it, or on request if its code has been gone for long.
    """
    base = draft.base
    changes = [
        *plan_retirement_of_ended_stages(base, draft.located, upkeep.since, upkeep.today),
        *plan_withdrawals(base, draft.located),
    ]
    if upkeep.archive is not None:
        changes += plan_ended(base, draft.located, upkeep.archive)
    if upkeep.stale_after is not None:
        verdicts = judge_anchors(base.workspace, draft.located, base.sha)
        days_gone = find_days_gone(base.workspace, draft.located, verdicts, base.sha)
        changes += plan_stale_retirement(
            draft.located, verdicts, days_gone, upkeep.today, upkeep.stale_after
        )
    first_by_id: dict[str, Change] = {}
    for change in changes:
        first_by_id.setdefault(change.entry.id, change)
    return tuple(first_by_id.values())


def _find_replaced_copies(
    base: Snapshot, differing_copies: Iterable[Sequence[Located]]
) -> Iterator[Located]:
    """Yield the copies of an entry that a commit replaced by another copy with the same id.

    This happens where an entry was edited on one branch, moved on another, and both were merged.

    Args:
        base: the commit that is compacted.
        differing_copies: for each id the copies that do not all have the same text.
    """
    for copies in differing_copies:
        for candidate, successor in permutations(copies, 2):
            if _was_replaced(base, candidate.entry, successor):
                yield candidate


def _was_replaced(base: Snapshot, entry: Entry, successor: Located) -> bool:
    """Return whether a commit replaced the text of an entry in the file of its successor.

    Such a commit removed a line of the entry's text. To find it, git's history is searched for the
    longest line of the entry that the successor does not have.

    Args:
        base: the commit whose history is searched.
        entry: the entry that may have been replaced.
        successor: another entry with the same id and another text.
    """
    workspace = base.workspace
    path = successor.path

    def read_texts(rev: str) -> list[str]:
        """Return the texts under the entry's id in the successor's file at a revision."""
        content = workspace.at(rev).read([path]).get(path, b"")
        entries = parse_memory_file(path, content).entries
        return [version.text for version in entries if version.id == entry.id]

    own_lines = set(entry.text.split("\n")) - set(successor.entry.text.split("\n"))
    longest_line = max(own_lines, key=len, default="")[:MAX_SEARCHED_CHARS]
    if not longest_line:
        return False
    for sha in list_commits_replacing(workspace.repo, base.sha, path, longest_line):
        texts_before, texts_after = read_texts(f"{sha}^"), read_texts(sha)
        had_only_entry = texts_before == [entry.text]
        has_one_other_text = len(texts_after) == 1 and texts_after != texts_before
        if had_only_entry and has_one_other_text:
            return True
    return False


def plan_upkeep_alone(
    workspace: Workspace,
    steps: Collection[Step],
    branch: str | None,
    today: date,
    stale_after: int | None = None,
) -> Plan:
    """Return a plan of upkeep steps alone, for the entries at the tip of a branch.

    It reads no merged changes, so the next record run begins where it would have begun.

    Args:
        workspace: the repository.
        steps: the steps to plan.
        branch: the branch; None for the checked-out branch.
        today: the date of the plan.
        stale_after: days after which stale entries are retired; None retires none.
    """
    ref, base = find_branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    draft = Draft(workspace.at(base))
    since = None
    if "retire" in steps:  # Only this step asks where the last run ended.
        cursor = find_cursor(workspace.repo, base, build_memory_test(workspace))
        since = cursor.source if cursor else None
    # Entries are retired if people stopped asking for them in sessions.
    needs_sessions = "retire" in steps and workspace.config.extraction.repeated != "off"
    archive = read_archive(workspace, base) if needs_sessions else None
    upkeep = Upkeep(since, today, stale_after=stale_after, archive=archive)
    planned_steps = tuple(plan_upkeep(upkeep, draft, steps))
    return make_upkeep_plan(ref, base, planned_steps, draft.base.memory.findings)


def make_upkeep_plan(
    ref: str, base: str, steps: tuple[PlannedStep, ...], findings: tuple[Finding, ...] = ()
) -> Plan:
    """Return a plan that changes entries without having read merged changes or asked a model."""
    return Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=base,
        since=None,
        until=None,
        engine=EngineUse("none", "upkeep needs none"),
        counts=Counts(),
        steps=steps,
        findings=findings,
    )


def list_own_names(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of a repository and of its top directories.

    An entry that has one of these words does not apply in every repository.
    """
    repo = snapshot.workspace.repo
    root = repo.root or repo.common_dir
    remote_url = find_setting(repo, "remote.origin.url") or ""
    remote_name = remote_url.rstrip("/").rpartition("/")[2]
    top_directories = {path.partition("/")[0] for path in snapshot.tree.files if "/" in path}
    names = {root.name, remote_name, *top_directories}
    long_names = {name.removesuffix(".git") for name in names if len(name) >= MIN_NAME_CHARS}
    return frozenset(long_names) - COMMON_NAMES


def select_agreed(entries: Sequence[Entry], engine: Engine | None) -> tuple[Entry, ...]:
    """Return the proposed entries that a model agrees apply anywhere.

    The model agrees with an entry by quoting it in a learning whose reach is everyone. The text of
    an entry stays unchanged. Without a model all entries are returned.

    Raises:
        EngineError: as the engine does; then nothing is promoted.
    """
    if engine is None or not entries:
        return tuple(entries)
    agreed_ids: set[str] = set()
    for answer in _ask_model(engine, "promotion", entries):
        if answer.learning.reach == "everyone":
            agreed_ids |= {entry.id for entry in answer.quoted_entries}
    return tuple(entry for entry in entries if entry.id in agreed_ids)


def find_same(
    client: ModelClient, located_entries: Sequence[Located], new_ids: Collection[str]
) -> tuple[frozenset[str], ...]:
    """Return groups of entries, as ids, that say the same according to a model.

    The model compares pairs: a new entry and an active entry of the same file whose titles share
    words. Without a pair it is not asked. Its answer names entries that say the same; the group of
    an answer holds the pairs that are among them.

    Args:
        client: asks the model.
        located_entries: all entries.
        new_ids: the ids of new entries.

    Raises:
        EngineError: as the engine does.
    """
    pairs = _pair_similar_titles(located_entries, new_ids)
    paired_ids = {entry_id for pair in pairs for entry_id in pair}
    paired_entries = [
        located.entry for located in located_entries if located.entry.id in paired_ids
    ]
    if len(paired_entries) < 2:
        return ()
    groups: list[frozenset[str]] = []
    for answer in _ask_model(client, "consolidation", paired_entries[:MAX_COMPARED]):
        quoted_ids = {entry.id for entry in answer.quoted_entries}
        group: set[str] = set()
        for pair in pairs:
            if quoted_ids.issuperset(pair):
                group |= set(pair)
        if group:
            groups.append(frozenset(group))
    return tuple(groups)


def _pair_similar_titles(
    located_entries: Sequence[Located], new_ids: Collection[str]
) -> list[tuple[str, str]]:
    """Return pairs of ids of active entries of one file whose titles share words.

    At least one entry of each pair is new; each pair is returned once.
    """
    stems: dict[str, frozenset[str]] = {}
    for located in located_entries:
        words = content_words(located.entry.title)
        stems[located.entry.id] = frozenset(stem(word) for word in words)
    active_entries = [
        (located.path, located.entry.id)
        for located in located_entries
        if located.entry.status == "active"
    ]
    pairs: list[tuple[str, str]] = []
    for path, new_id in active_entries:
        if new_id not in new_ids:
            continue
        for other_path, other_id in active_entries:
            if path != other_path or new_id == other_id:
                continue
            # Two new entries meet twice, once from each side.
            is_second_meeting = other_id in new_ids and new_id > other_id
            if is_second_meeting:
                continue
            first, second = stems[new_id], stems[other_id]
            shared = len(first & second)
            if shared >= MIN_SHARED_WORDS and jaccard(first, second) >= MIN_SHARED_PART:
                pairs.append((new_id, other_id))
    return pairs


class _Answer(NamedTuple):
    """One answer of a model on entries, and the entries that it quotes."""

    learning: Learning
    quoted_entries: list[Entry]


def _ask_model(
    engine: Engine, task: Literal["promotion", "consolidation"], entries: Sequence[Entry]
) -> list[_Answer]:
    """Ask a model about entries, and return its answers.

    The request is one as about merged changes: each entry is a piece of evidence, and each answer
    a learning that quotes evidence. An answer that quotes words which no entry has is left out.

    Args:
        engine: the model.
        task: the question: which entries are of use to everyone, or which say the same.
        entries: the entries.
    """
    entry_by_key = {f"e{number}": entry for number, entry in enumerate(entries, start=1)}
    evidence_by_key: dict[str, Evidence] = {}
    for key, entry in entry_by_key.items():
        evidence_by_key[key] = Evidence(
            id=key,
            kind="entry",
            text=f"{entry.title}\n\n{entry.body}".strip(),
            trust="T0",  # The highest trust: what members wrote.
            origin=Origin(kind="file", id=entry.id),
            at=UNKNOWN_TIME,
        )
    request = Request(change=task, evidence=tuple(evidence_by_key.values()), task=task)
    reply = engine.extract(request)
    answers: list[_Answer] = []
    for learning in parse_reply(reply.text).learnings:
        if find_ungrounded(learning, evidence_by_key) is None:
            quoted_entries = [entry_by_key[quote.evidence] for quote in learning.quotes]
            answers.append(_Answer(learning, quoted_entries))
    return answers
