"""Upkeep: the steps that keep memory in shape, planned on a draft, alone or at the end of a record run.

Beyond the repository: what holds anywhere is copied into the global memory, as a commit there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain, permutations, product
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.entries import deepest_directory
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.support import find_ungrounded
from memory_ci.gitrepo.history import find_cursor, list_replacing
from memory_ci.gitrepo.repo import find_setting
from memory_ci.lifecycle.compaction import list_unlike, plan_compaction
from memory_ci.lifecycle.consolidation import plan_consolidation
from memory_ci.lifecycle.episodes import combine
from memory_ci.lifecycle.fold import is_same_learning
from memory_ci.lifecycle.promotion import plan_norms, plan_promotion
from memory_ci.lifecycle.reverts import Revert, plan_undone
from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.memory.cites import gone_since, judge_anchors
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.draft import Draft
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.model import Asker
from memory_ci.memory.stage import plan_retirements
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    branch_tip,
    memory_test,
    open_committed,
    workspace_at,
)
from memory_ci.records.candidate import Request
from memory_ci.records.entry import Entry, Located
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.records.names import work_ref
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
from memory_ci.store.document import load_file, parse_memory_file
from memory_ci.store.edits import apply_changes
from memory_ci.text import content_words, jaccard, stem

SEARCHED = 1000
"""Characters of the line that is looked for in history: enough to be found by, and no longer than an argument."""

COMMON = frozenset(
    "app apps bin ci cmd config docs examples internal lib libs pkg scripts site src test tests tools web".split()
)
"""Names of directories that many repositories have: they tell nothing about this one."""

MIN_NAME = 3

SHARED_WORDS, SHARED_PART, MAX_COMPARED = 2, 0.2, 200
"""What two titles share of which a model is asked whether they say the same; entries that it is shown."""


class Upkeep(msgspec.Struct, frozen=True):
    """What the steps need beside the draft: where merged work begins, the day, reverts, when stale ones retire. `same`
    are ids of entries of which a model says that they say the same."""

    since: str | None
    today: date
    reverts: tuple[Revert, ...] = ()
    stale_after: int | None = None
    same: tuple[frozenset[str], ...] = ()


def plan_upkeep(upkeep: Upkeep, draft: Draft, steps: Collection[Step]) -> Iterator[PlannedStep]:
    """The steps that change something, in order, each planned on what the one before leaves of the draft."""
    draft = draft.copy()
    for step in STEPS:
        if step not in steps:
            continue
        changes = _plan_step(step, upkeep, draft)
        # One update of each entry: the last one, which was planned on top of the earlier ones.
        last = {
            (change.path, change.entry.id): change for change in changes if change.kind == "update"
        }
        why = {
            key: "; ".join(dict.fromkeys(c.why for c in changes if (c.path, c.entry.id) == key))
            for key in last
        }
        updates = (replace(change, why=why[key]) for key, change in last.items())
        if taken := draft.take(
            (*updates, *(change for change in changes if change.kind != "update"))
        ):
            yield PlannedStep(step=step, changes=taken)


def _plan_step(step: Step, upkeep: Upkeep, draft: Draft) -> Sequence[Change]:
    base, kept, today = draft.base, draft.kept, upkeep.today
    match step:
        case "consolidate":
            verdicts = judge_anchors(base.workspace, kept, base.sha)
            repointed = draft.take(plan_repoint(kept, verdicts, base.sha))
            undone = draft.take(plan_undone(kept, upkeep.reverts))
            return (*repointed, *undone, *plan_consolidation(kept, today))
        case "promote":

            def list_folders() -> dict[str, str]:
                """The directory of each merged change that an episode tells of."""
                told = (
                    episode.action
                    for episode in combine(load_episodes(base.workspace, base.sha).tellings)
                )
                return {
                    work_ref(one.pr, one.commit): deepest_directory(one.files)
                    for one in told
                    if one.files
                }

            changes = plan_promotion(kept, today, draft.path_of, names_of(base)).changes
            return (*changes, *plan_norms(kept, today, draft.path_of, list_folders))
        case "retire":
            changes = plan_retirements(base, kept, upkeep.since, today)
            if upkeep.stale_after is None:
                return changes
            verdicts = judge_anchors(base.workspace, kept, base.sha)
            gone = gone_since(base.workspace, kept, verdicts, base.sha)
            ended = {change.entry.id for change in changes}
            stale = plan_stale_retirement(kept, verdicts, gone, today, upkeep.stale_after)
            return (*changes, *(change for change in stale if change.entry.id not in ended))
        case "compact":
            return plan_compaction(kept, tuple(_find_older(base, list_unlike(kept))), upkeep.same)
    return ()


def _find_older(base: Snapshot, unlike: Iterable[Sequence[Located]]) -> Iterator[Located]:
    """The older copies of an id, if a commit made another of them: edited on one branch, moved on the other, merged."""
    workspace = base.workspace
    for one, other in (pair for copies in unlike for pair in permutations(copies, 2)):
        text, path = one.entry.text, other.path

        def said_under(rev: str, path: str = path, key: str = one.entry.id) -> list[str]:
            """What a file of a revision says under the id."""
            file = parse_memory_file(path, workspace.at(rev).read([path]).get(path, b""))
            return [entry.text for entry in file.entries if entry.id == key]

        line = max(
            {*text.split("\n")}.difference(other.entry.text.split("\n")), key=len, default=""
        )[:SEARCHED]
        commits = list_replacing(workspace.repo, base.sha, path, line) if line else []
        sides = ((said_under(f"{sha}^"), said_under(sha)) for sha in commits)
        if any(before == [text] != after and len(after) == 1 for before, after in sides):
            yield one


def plan_upkeep_alone(
    workspace: Workspace,
    steps: Collection[Step],
    branch: str | None,
    today: date,
    stale_after: int | None = None,
) -> Plan:
    """A plan of these steps only, on the tip of a branch. It covers no merged work, and moves no cursor."""
    ref, base = branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    draft = Draft(workspace.at(base))
    cursor = find_cursor(workspace.repo, base, memory_test(workspace))
    upkeep = Upkeep(cursor.source if cursor else None, today, stale_after=stale_after)
    return _plan(ref, base, tuple(plan_upkeep(upkeep, draft, steps)), draft.base.memory.findings)


def _plan(
    ref: str, base: str, steps: tuple[PlannedStep, ...], findings: tuple[Finding, ...] = ()
) -> Plan:
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


def names_of(snapshot: Snapshot) -> frozenset[str]:
    """What the repository and its packages are called: words that no entry for every repository may hold."""
    repo = snapshot.workspace.repo
    root, remote = repo.root or repo.common_dir, find_setting(repo, "remote.origin.url") or ""
    top = {path.partition("/")[0] for path in snapshot.tree.files if "/" in path}
    named = {root.name, remote.rstrip("/").rpartition("/")[2], *top}
    return frozenset(name.removesuffix(".git") for name in named if len(name) >= MIN_NAME) - COMMON


def propose_globally(workspace: Workspace, branch: str | None, today: date) -> tuple[Entry, ...]:
    """The entries of a branch that recur and hold in any repository. Doubt means no."""
    _, base = branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    draft = Draft(workspace.at(base))
    promotion = plan_promotion(draft.kept, today, draft.path_of, names_of(draft.base))
    return tuple(proposal.entry for proposal in promotion.proposals)


def agreed_by_model(entries: Sequence[Entry], engine: Engine | None) -> tuple[Entry, ...]:
    """The proposed entries that a model agrees hold anywhere: those it quotes with reach to everyone. The text of an
    entry stays as it is. Without a model all are agreed. Raises EngineError as the engine does: nothing is promoted
    unasked."""
    if engine is None or not entries:
        return tuple(entries)
    learnings = _ask(engine, "promotion", entries)
    cited = {
        entry.id
        for learning, quoted in learnings
        if learning.reach == "everyone"
        for entry in quoted
    }
    return tuple(entry for entry in entries if entry.id in cited)


def find_same(
    asker: Asker, places: Sequence[Located], fresh: Collection[str]
) -> tuple[frozenset[str], ...]:
    """The ids of entries that a model takes to say the same, among those just written (`fresh`) and those near them.
    Near are active entries of one file whose titles share words. Nothing is asked where nothing is near. Entries
    without words in common are no group, whatever the model says. Raises EngineError as the engine."""
    stems = {
        place.entry.id: frozenset(map(stem, content_words(place.entry.title))) for place in places
    }
    active = [(place.path, place.entry.id) for place in places if place.entry.status == "active"]
    near = [
        (one, other)
        for (path, one), (there, other) in product(
            (place for place in active if place[1] in fresh), active
        )
        if path == there
        and (one < other or (one != other and other not in fresh))
        and len(stems[one] & stems[other]) >= SHARED_WORDS
        and jaccard(stems[one], stems[other]) >= SHARED_PART
    ]
    named = frozenset(chain.from_iterable(near))
    entries = [place.entry for place in places if place.entry.id in named][:MAX_COMPARED]
    if len(entries) < 2:
        return ()
    groups = ({entry.id for entry in quoted} for _, quoted in _ask(asker, "consolidation", entries))
    linked = (
        frozenset(one for pair in near if group.issuperset(pair) for one in pair)
        for group in groups
    )
    return tuple(filter(None, linked))


def _ask(
    engine: Engine, task: Literal["promotion", "consolidation"], entries: Sequence[Entry]
) -> list[tuple[Learning, list[Entry]]]:
    """What a model answers about entries: each grounded learning with the entries that it quotes."""
    known = {f"e{number}": entry for number, entry in enumerate(entries, start=1)}
    pieces = {
        key: Evidence(
            id=key,
            kind="entry",
            text=f"{entry.title}\n\n{entry.body}".strip(),
            trust="T0",
            origin=Origin(kind="file", id=entry.id),
            at=UNKNOWN_TIME,
        )
        for key, entry in known.items()
    }
    reply = engine.extract(Request(change=task, evidence=tuple(pieces.values()), task=task))
    grounded = (
        one for one in parse_reply(reply.text).learnings if find_ungrounded(one, pieces) is None
    )
    return [
        (learning, [known[quote.evidence] for quote in learning.quotes]) for learning in grounded
    ]


def promote_globally(
    config_path: str, entries: tuple[Entry, ...], now: datetime, *, dry_run: bool
) -> tuple[Entry, ...]:
    """Copy entries into the checkout that `global.path` names, as one commit there; what it has already is left out.
    They stay in the project too: a job in CI has no global memory. Raises UsageError (no-global-checkout), and what the
    writer raises."""
    from memory_ci.gitrepo.writer import (
        MEMORY_CI,
        PlannedCommit,
        commit_series,
    )  # GitPython: 75 ms, only to write

    directory = Path(config_path).expanduser()
    hint = "Clone the repository of the global memory, and name its directory: `global: {path: ~/memory}`."
    if not config_path or not directory.is_dir():
        raise UsageError(
            "global.path names no checkout to promote to", slug="no-global-checkout", hint=hint
        )
    try:
        place = open_committed(directory)
    except RepositoryError as error:
        raise UsageError(
            f"{directory} is in no git repository", slug="no-global-checkout", hint=hint
        ) from error
    path = (
        (directory.resolve() / "MEMORY.md")
        .relative_to((place.repo.root or directory).resolve())
        .as_posix()
    )
    ref, tip = branch_tip(place, None)
    content = place.at(tip).read([path])
    known = [
        located.entry
        for located in load_file(path, content.get(path, b""), place.config.scopes).entries
    ]
    fresh = tuple(
        entry for entry in entries if not any(is_same_learning(entry, other) for other in known)
    )
    if not fresh or dry_run:
        return fresh
    changes = tuple(
        Change(step="promote", kind="add", path=path, entry=e, why="from a project") for e in fresh
    )
    step = PlannedStep(step="promote", changes=changes)
    commit = PlannedCommit(
        apply_changes(content, changes), render_commit_message([step], _plan(ref, tip, (step,)))
    )
    commit_series(place.repo, ref=ref, expected=tip, commits=[commit], identity=MEMORY_CI, when=now)
    return fresh
