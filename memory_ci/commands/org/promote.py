"""`memory-ci org promote`: proposes entries of several repositories to the organisation's own one.

If the memory of several repositories says the same, it may hold for all.
"""

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
from memory_ci.commands.publish.answered_text import parse_keys
from memory_ci.commands.publish.landing import commit_files
from memory_ci.commands.publish.text import SharedEntry, render_shared
from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.forge.proposals import Proposals
from memory_ci.forge.selection import choose_proposals
from memory_ci.gitrepo.log import list_committers
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import Remote, connect, fetch_tip, find_remote_tip, push_tip
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.promotion import RECURRENCES, group_shared_entries
from memory_ci.memory.draft import Draft
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.maintainer_decisions import list_rejected_keys
from memory_ci.memory.workspace import PRIVATE_REFS, Workspace, branch_name, workspace_at
from memory_ci.records.config import Config
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Change
from memory_ci.store.edits import apply_changes

BRANCH = "memory-ci/organisation"
TITLE = "memory: what several repositories say"
NAMESPACE = UUID("6f0f3c52-6c0b-4d6a-9c2e-0d6f6f2f6a11")
"""The namespace of ids that are made of an entry's text: equal words are one proposal."""

MAX_PROPOSED = 20  # Entries of one request: people read no more in one go.
NOTHING_NEW = "no new entry occurs in that many repositories"


class OrgPromotion(msgspec.Struct, frozen=True):
    """The result of a promotion.

    Attributes:
        proposed: the entries that are proposed.
        tip: the new tip of the branch, "" where nothing was written.
        url: the address of the request.
        reason: why there is no request or no proposal.
    """

    proposed: tuple[SharedEntry, ...]
    tip: str = ""
    url: str = ""
    reason: str = ""


class SharedMemory(msgspec.Struct, frozen=True):
    """The entries that repositories of the audiences share.

    Attributes:
        heads: the head of each repository, by its id.
        entries: the entries of each repository that may be shown to others, by its id.
    """

    heads: Mapping[str, OrgHead]
    entries: Mapping[str, Sequence[Located]]


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
    """Propose shared entries of several repositories to the organisation's repository.

    Args:
        workspace: the organisation's own repository.
        index: the address of the index.
        audiences: the audiences to read.
        now: the present time.
        environ: the environment, which has the tokens.
        least: how many repositories must say it.
        push: "none" commits on the branch that is checked out. "pr" opens a request. If people
            committed on its branch, it is left as it is. An entry is proposed in one request only.
        dry_run: return the proposal, and write nothing.

    Raises:
        EngineError: org-missing, remote-failed, `forge-…`.
        RepositoryError: push-refused, and errors of writing.
    """
    shared = _load_shared(index, audiences)
    ref = branch_name(workspace, None)
    today = now.astimezone(UTC).date()
    if push == "pr":
        remote = connect(workspace_at(workspace.repo, ref).config.publish.remote, environ)
        request = _OrgRequest(workspace, remote, ref, environ)
        return request.propose(shared, now, least=least, dry_run=dry_run)

    base = resolve_commit(workspace.repo, ref)
    proposed = _list_new(workspace, base, shared, today, least)[:MAX_PROPOSED]
    if not proposed:
        return OrgPromotion((), reason=NOTHING_NEW)
    tip = "" if dry_run else _commit(workspace, ref, base, proposed, now)
    return OrgPromotion(proposed, tip)


def _load_shared(index: str, audiences: Sequence[str]) -> SharedMemory:
    """Return the entries of the index that the audiences may read."""
    heads: dict[str, OrgHead] = {}
    safe_entries: dict[str, list[Located]] = {}
    with closing(open_engine(index)) as engine:
        for repo_id, head in engine.heads().items():
            if head.repository.audience not in audiences:
                continue
            heads[repo_id] = head
            entries = engine.entries(repo_id)
            safe_entries[repo_id] = [located for located in entries if is_safe(located)]
    return SharedMemory(heads, safe_entries)


class _OrgRequest:
    """The pull request that proposes entries to a branch of the organisation's repository.

    Args:
        workspace: the organisation's repository.
        remote: the remote to push to.
        ref: the full name of the branch that entries are proposed to.
        environ: the environment, which has the tokens.
    """

    def __init__(
        self, workspace: Workspace, remote: Remote, ref: str, environ: Mapping[str, str]
    ) -> None:
        self._repo = workspace.repo
        self._remote = remote
        self._branch = ref.removeprefix(HEADS)
        self._environ = environ

    def propose(
        self, shared: SharedMemory, now: datetime, *, least: int, dry_run: bool
    ) -> OrgPromotion:
        """Push a commit of new entries to the branch of the request, and open or update it.

        Entries of the last closed request are not proposed again. A branch of the request on which
        somebody else committed is not changed.

        Args:
            shared: the entries of the repositories.
            now: the present time.
            least: how many repositories must say it.
            dry_run: return the proposal, and write nothing.
        """
        with private_ref(self._repo, PRIVATE_REFS) as base_ref:
            fetch_tip(self._repo, self._remote, self._branch, base_ref)
            base = resolve_commit(self._repo, base_ref)
            target = workspace_at(self._repo, base)
            forge = self._choose_forge(target.config)
            closed_ids = self._find_closed_ids(forge)
            today = now.astimezone(UTC).date()
            candidates = _list_new(target, base, shared, today, least)
            not_closed = [item for item in candidates if item.entry.id[:8] not in closed_ids]
            proposed = tuple(not_closed[:MAX_PROPOSED])
            if not proposed:
                return OrgPromotion((), reason=NOTHING_NEW)
            if dry_run:
                return OrgPromotion(proposed)

            old_tip = find_remote_tip(self._repo, self._remote, BRANCH)
            if old_tip is not None:
                author = self._find_foreign_author(target, base, old_tip)
                if author is not None:
                    reason = f"{author} committed on {BRANCH}: it stays as it is"
                    return OrgPromotion(proposed, reason=reason)
            tip = _commit(target, base_ref, base, proposed, now)
            self._push(tip, old_tip)

        if forge is None:
            reason = f"{BRANCH} is pushed; no token for a forge: open its request"
            return OrgPromotion(proposed, tip, reason=reason)
        url = self._open_or_update(forge, proposed, closed_ids)
        return OrgPromotion(proposed, tip, url)

    def _open_or_update(
        self, forge: Proposals, proposed: Sequence[SharedEntry], closed_ids: frozenset[str]
    ) -> str:
        """Open the request, or update its text if it is open, and return its address.

        Args:
            forge: the forge.
            proposed: the entries of the request.
            closed_ids: ids of entries that its text names as proposed before.
        """
        proposed_ids = {item.entry.id[:8] for item in proposed}
        body = render_shared(proposed, closed_ids | proposed_ids)
        request = forge.find(BRANCH, self._branch)
        if request is None:
            request = forge.open(BRANCH, self._branch, TITLE, body)
        else:
            forge.update(request, TITLE, body)
        return request.url

    def _choose_forge(self, config: Config) -> Proposals | None:
        cache = self._repo.common_dir / "memory-ci" / "forge-cache"
        return choose_proposals(config.forge, self._environ, cache)

    def _find_closed_ids(self, forge: Proposals | None) -> frozenset[str]:
        """Return the short ids of the entries that the last closed request proposed."""
        closed = forge.find_closed(BRANCH, self._branch) if forge else None
        return parse_keys(closed.body) if closed else frozenset()

    def _find_foreign_author(self, target: Workspace, base: str, tip: str) -> str | None:
        """Return the email of somebody else who committed on the branch of the request.

        Args:
            target: the branch that entries are proposed to, and its configuration.
            base: the commit of that branch.
            tip: the tip of the branch of the request.
        """
        from memory_ci.gitrepo.writer import choose_identity  # It loads GitPython: 75 ms.

        own_email = choose_identity(target.config.publish, in_actions=False).email
        with private_ref(self._repo, PRIVATE_REFS) as request_ref:
            fetch_tip(self._repo, self._remote, BRANCH, request_ref)
            for email in list_committers(self._repo, base, tip).values():
                if email != own_email:
                    return email
        return None

    def _push(self, tip: str, old_tip: str | None) -> None:
        """Push the branch of the request. Raises RepositoryError (push-refused)."""
        outcome = push_tip(self._repo, self._remote, BRANCH, tip, old_tip)
        if outcome.state != "done":
            message = f"the remote did not take {BRANCH}: {outcome.detail or 'it moved meanwhile'}"
            hint = "Run again, or let its rules admit memory-ci."
            raise RepositoryError(message, slug="push-refused", hint=hint)


def _commit(
    workspace: Workspace, ref: str, base: str, proposed: Iterable[SharedEntry], now: datetime
) -> str:
    """Commit the entries on a ref, and return the new tip."""
    snapshot = workspace.at(base)
    path = Draft(snapshot).path_of(PROJECT) or "MEMORY.md"
    changes = []
    lines = []
    for shared_entry in proposed:
        entry = shared_entry.entry
        reason = f"said in {shared_entry.said_in}"
        changes.append(Change(step="promote", kind="add", path=path, entry=entry, why=reason))
        lines.append(f"- {entry.title} ({reason})\n")
    files = apply_changes(snapshot.read([path]), changes)
    message = f"{TITLE}\n\n{''.join(lines)}"
    return commit_files(workspace, ref, base, files, message=message, now=now, in_actions=False)


def _list_new(
    workspace: Workspace, base: str, shared: SharedMemory, today: date, least: int
) -> tuple[SharedEntry, ...]:
    """Return the entries that at least `least` repositories share and that memory does not have.

    Entries that its maintainers rejected, or had memory-ci forget, are left out.

    Args:
        workspace: the organisation's own repository.
        base: the commit of its memory.
        shared: the entries of the repositories.
        today: the date of the new entries.
        least: how many repositories must have an entry.
    """
    snapshot = workspace.at(base)
    rejected = list_rejected_keys(snapshot)
    tombstones = tombstones_at(snapshot)
    proposed = []
    for repo_ids, members in group_shared_entries(shared.entries, snapshot.memory.located, least):
        names = sorted(shared.heads[repo_id].repository.name for repo_id in repo_ids)
        shared_entry = _make_shared(members, names, shared.heads, today)
        entry = shared_entry.entry
        is_forgotten = find_forgotten(tombstones, Located(entry, "", 1, PROJECT))
        if content_key(entry.title, entry.body) not in rejected and not is_forgotten:
            proposed.append(shared_entry)
    return tuple(proposed)


def _make_shared(
    members: Sequence[Located], names: Sequence[str], heads: Mapping[str, OrgHead], today: date
) -> SharedEntry:
    """Make an entry of the best member of a group that says the same.

    Args:
        members: the entries of the group, the best first.
        names: the names of their repositories.
        heads: the head of each repository, by its id.
        today: the present day.
    """
    sources = []
    for located in members:
        head = heads[located.scope.where]  # `group_shared_entries` puts the repository's id there.
        repository = head.repository
        sources.append((repository.name, repository.link, head.head, located.entry.id))
    sources.sort()
    occurrences = []
    for name, _, commit, entry_id in sources:
        occurrences.append(f"{name}@{commit[:12]} {entry_id}")
    best = members[0].entry
    entry = Entry(
        id=str(uuid5(NAMESPACE, content_key(best.title, best.body))),
        type=best.type,
        domain=best.domain,
        importance=best.importance,
        reinforcement_count=0,
        status="active",
        created_at=today,
        last_reinforced=today,
        title=best.title,
        body=best.body,
        occurrences=tuple(occurrences),
    )
    return SharedEntry(entry, ", ".join(names), tuple(sources))
