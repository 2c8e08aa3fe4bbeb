"""Promotion beyond the repository: what holds anywhere, copied into the global memory as a commit there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.gate import find_ungrounded
from memory_ci.extraction.reply import parse_reply
from memory_ci.flows.branch import branch_tip
from memory_ci.flows.draft import Draft
from memory_ci.flows.workspace import Snapshot, Workspace, open_committed, workspace_at
from memory_ci.gitrepo.repo import find_setting
from memory_ci.lifecycle.fold import is_same_learning
from memory_ci.lifecycle.promotion import plan_promotion
from memory_ci.records.candidate import Request
from memory_ci.records.entry import Entry
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.records.plan import PLAN_VERSION, Change, Counts, EngineUse, Plan, PlannedStep
from memory_ci.rendering.plan import render_commit_message
from memory_ci.store.document import load_file
from memory_ci.store.edit import apply_changes

COMMON = frozenset(
    "app apps bin ci cmd config docs examples internal lib libs pkg scripts site src test tests tools web".split()
)
"""Names of directories that many repositories have: they tell nothing about this one."""

MIN_NAME = 3


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
    """Of proposed entries those that a model finds to hold anywhere: the ones that it quotes under the scope `global`.

    What is promoted stays the entry's own text, whatever the model would rather say. Without a model all are.
    Raises EngineError as the engine does: what cannot be asked is not promoted.
    """
    if engine is None or not entries:
        return tuple(entries)
    pieces = {f"e{number}": _piece(f"e{number}", entry) for number, entry in enumerate(entries, start=1)}
    reply = engine.extract(Request(change="promotion", evidence=tuple(pieces.values()), scopes=("global",)))
    cited = {
        quote.evidence
        for learning in parse_reply(reply.text).learnings
        if learning.extraction_scope == "global" and find_ungrounded(learning, pieces) is None
        for quote in learning.quotes
    }
    return tuple(entry for key, entry in zip(pieces, entries, strict=True) if key in cited)


def _piece(key: str, entry: Entry) -> Evidence:
    text = f"{entry.title}\n\n{entry.body}".strip()
    origin = Origin(kind="file", id=entry.id)
    return Evidence(id=key, kind="entry", text=text, trust="T0", origin=origin, at=UNKNOWN_TIME)


def promote_globally(
    config_path: str, entries: tuple[Entry, ...], now: datetime, *, dry_run: bool
) -> tuple[Entry, ...]:
    """Copy entries into the checkout that `global.path` names, as one commit there; what it has already is left out.

    They stay in the project too: a job in CI has no global memory. Raises UsageError (no-global-checkout), and what
    the writer raises.
    """
    from memory_ci.gitrepo.writer import MEMORY_CI, PlannedCommit, commit_series  # GitPython: 75 ms, only to write

    place, path = _find_checkout(config_path)
    ref, tip = branch_tip(place, None)
    content = place.at(tip).read([path])
    known = [located.entry for located in load_file(path, content.get(path, b""), place.config.scopes).entries]
    fresh = tuple(entry for entry in entries if not any(is_same_learning(entry, other) for other in known))
    if not fresh or dry_run:
        return fresh
    changes = tuple(Change(step="promote", kind="add", path=path, entry=e, why="from a project") for e in fresh)
    plan = Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=tip,
        since=None,
        until=None,
        engine=EngineUse("none", ""),
        counts=Counts(),
    )
    message = render_commit_message(PlannedStep(step="promote", changes=changes), plan)
    commit = PlannedCommit(files=apply_changes(content, changes), message=message)
    commit_series(place.repo, ref=ref, expected=tip, commits=[commit], identity=MEMORY_CI, when=now)
    return fresh


def _find_checkout(config_path: str) -> tuple[Workspace, str]:
    """The repository of the global memory, and its memory file as the repository names it."""
    directory = Path(config_path).expanduser()
    hint = "Clone the repository of the global memory, and name its directory: `global: {path: ~/memory}`."
    if not config_path or not directory.is_dir():
        raise UsageError("global.path names no checkout to promote to", slug="no-global-checkout", hint=hint)
    try:
        place = open_committed(directory)
    except RepositoryError as error:
        raise UsageError(f"{directory} is in no git repository", slug="no-global-checkout", hint=hint) from error
    path = (directory.resolve() / "MEMORY.md").relative_to((place.repo.root or directory).resolve())
    return place, path.as_posix()
