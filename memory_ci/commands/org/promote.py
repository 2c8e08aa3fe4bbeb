"""Promotion: what several repositories say is proposed as an entry of the organisation's own memory repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Literal
from uuid import UUID, uuid5

import msgspec

from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgHead
from memory_ci.commands.org.targets import is_safe
from memory_ci.commands.publish.landing import commit_files
from memory_ci.commands.publish.text import SharedEntry, parse_held, render_shared
from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.forge.selection import choose_proposals
from memory_ci.gitrepo.log import list_committers
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import connect, fetch_tip, find_remote_tip, push_tip
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.promotion import RECURRENCES, plan_shared
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.maintainer_decisions import list_rejected
from memory_ci.memory.workspace import PRIVATE, Workspace, branch_name, workspace_at
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Change
from memory_ci.store.edits import apply_changes

BRANCH = "memory-ci/organisation"
TITLE = "memory: what several repositories say"
NAMESPACE = UUID("6f0f3c52-6c0b-4d6a-9c2e-0d6f6f2f6a11")
"""Of ids that are made of what an entry says: the same words are the same proposal."""

MOST = 20  # Entries of one request: more than people read in one go.


class OrgPromotion(msgspec.Struct, frozen=True):
    """What was proposed, and what became of it: the new tip, "" where nothing was written; the request; or why not."""

    proposed: tuple[SharedEntry, ...]
    tip: str = ""
    url: str = ""
    reason: str = ""


def promote_shared(
    workspace: Workspace,
    index: str,
    audiences: Sequence[str],
    now: datetime,
    environ: Mapping[str, str],
    *,
    least: int = RECURRENCES,
    push: Literal["none", "pr"] = "none",
    dry_run: bool = False,
) -> OrgPromotion:
    """Propose to the repository of `workspace` what `least` repositories of the audiences say and it does not.

    `none` commits on the branch that is checked out, `pr` opens a request, which stays as people leave it: where they
    committed on its branch it is not made anew, and what a request held is proposed once.
    Raises EngineError (org-missing, remote-failed, `forge-…`), RepositoryError (push-refused), and what writing raises.
    """
    with closing(open_engine(index)) as engine:
        heads = {
            id_: head
            for id_, head in engine.heads().items()
            if head.repository.audience in audiences
        }
        shared = {id_: [place for place in engine.entries(id_) if is_safe(place)] for id_ in heads}
    ref, today = branch_name(workspace, None), now.astimezone(UTC).date()
    if push == "none":
        base = resolve_commit(workspace.repo, ref)
        found = _plan(workspace, base, shared, heads, today, least)[:MOST]
        tip = _commit(workspace, ref, base, found, now) if found and not dry_run else ""
        return OrgPromotion(
            found, tip, reason="" if found else "nothing new is said in so many repositories"
        )
    remote = connect(workspace_at(workspace.repo, ref).config.publish.remote, environ)
    branch = ref.removeprefix(HEADS)
    with (
        private_ref(workspace.repo, PRIVATE) as mine,
        private_ref(workspace.repo, PRIVATE) as theirs,
    ):
        fetch_tip(workspace.repo, remote, branch, mine)
        base = resolve_commit(workspace.repo, mine)
        here = workspace_at(workspace.repo, base)
        forge = choose_proposals(
            here.config.forge, environ, workspace.repo.common_dir / "memory-ci" / "forge-cache"
        )
        closed = forge.find_closed(BRANCH, branch) if forge else None
        held = parse_held(closed.body) if closed else frozenset()
        new = (
            one
            for one in _plan(here, base, shared, heads, today, least)
            if one.entry.id[:8] not in held
        )
        if not (found := tuple(new)[:MOST]):
            return OrgPromotion((), reason="nothing new is said in so many repositories")
        if dry_run:
            return OrgPromotion(found)
        old = find_remote_tip(workspace.repo, remote, BRANCH)
        if old is not None:
            from memory_ci.gitrepo.writer import choose_identity  # GitPython: 75 ms

            fetch_tip(workspace.repo, remote, BRANCH, theirs)
            ours = choose_identity(here.config.publish, in_actions=False).email
            for who in list_committers(workspace.repo, base, old).values():
                if who != ours:
                    return OrgPromotion(
                        found, reason=f"{who} committed on {BRANCH}: it stays as it is"
                    )
        tip = _commit(here, mine, base, found, now)
        outcome = push_tip(workspace.repo, remote, BRANCH, tip, old)
        if outcome.state != "done":
            message = f"the remote did not take {BRANCH}: {outcome.said or 'it moved meanwhile'}"
            raise RepositoryError(
                message, slug="push-refused", hint="Run again, or let its rules admit memory-ci."
            )
        if forge is None:
            return OrgPromotion(
                found, tip, reason=f"{BRANCH} is pushed; no token for a forge: open its request"
            )
        body = render_shared(found, held | {one.entry.id[:8] for one in found})
        known = forge.find(BRANCH, branch)
        if known is not None:
            forge.update(known, TITLE, body)
        request = known or forge.open(BRANCH, branch, TITLE, body)
        return OrgPromotion(found, tip, request.url)


def _commit(
    workspace: Workspace, ref: str, base: str, found: Iterable[SharedEntry], now: datetime
) -> str:
    snapshot = workspace.at(base)
    path = Draft(snapshot).path_of(PROJECT) or "MEMORY.md"
    changes = [
        Change(step="promote", kind="add", path=path, entry=one.entry, why=f"said in {one.said_in}")
        for one in found
    ]
    files = apply_changes(snapshot.read([path]), changes)
    told = "".join(f"- {one.entry.title} (said in {one.said_in})\n" for one in found)
    return commit_files(workspace, ref, base, files, f"{TITLE}\n\n{told}", now, in_actions=False)


def _plan(
    workspace: Workspace,
    base: str,
    shared: Mapping[str, Sequence[Located]],
    heads: Mapping[str, OrgHead],
    today: date,
    least: int,
) -> tuple[SharedEntry, ...]:
    """What to propose on a commit: said often enough, and neither known, rejected nor forgotten there."""
    snapshot = workspace.at(base)
    rejected, tombstones = list_rejected(snapshot), tombstones_at(snapshot)
    found = []
    for ids, members in plan_shared(shared, snapshot.memory.located, least):
        said_in = ", ".join(sorted(heads[one].repository.name for one in ids))
        best = members[0].entry
        key = content_key(best.title, best.body)
        sources = sorted(
            (head.repository.name, head.repository.link, head.head, place.entry.id)
            for place in members
            for head in [heads[place.scope.where]]
        )
        entry = Entry(
            id=str(uuid5(NAMESPACE, key)),
            type=best.type,
            domain=best.domain,
            importance=best.importance,
            reinforcement_count=0,
            status="active",
            created_at=today,
            last_reinforced=today,
            title=best.title,
            body=best.body,
            occurrences=tuple(f"{name}@{head[:12]} {id_}" for name, _, head, id_ in sources),
        )
        if key not in rejected and not find_forgotten(tombstones, Located(entry, "", 1, PROJECT)):
            found.append(SharedEntry(entry, said_in, tuple(sources)))
    return tuple(found)
