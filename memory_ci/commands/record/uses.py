"""The memory entries that a merged change was served, used, restated or confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.extraction.entries import entry_id
from memory_ci.gitrepo.history import read_authorship
from memory_ci.gitrepo.squash_trailers import BuriedTrailers
from memory_ci.gitrepo.trailers import format_trailers
from memory_ci.lifecycle.reinforcement import list_named_ids
from memory_ci.lifecycle.relations import find_id
from memory_ci.memory.claims import OriginalCommits, list_ids
from memory_ci.records.candidate import Judged
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import HOLDOUT_TRAILER, SERVED_TRAILER, USED_TRAILER
from memory_ci.regex import Regex

COMMIT = Regex(r"\bcommit:([0-9a-f]{7,64})\b")
"""The address of a commit in an entry's source: `commit:3f2ab91c`."""


class Uses(msgspec.Struct, frozen=True):
    """The uses of entries by a change, as ids of entries.

    Attributes:
        served: entries that the agent was shown for the change, in order.
        used: entries that the change says it used.
        restated: entries that its learnings say again.
        confirmed: entries that people confirmed.
        held_out: marks of its sessions that were shown no entries, for comparison.
    """

    served: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()
    restated: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    held_out: tuple[str, ...] = ()

    @property
    def reinforced(self) -> frozenset[str]:
        """The entries whose count of uses goes up for this change."""
        return self.used | self.restated | self.confirmed

    @property
    def ignored(self) -> frozenset[str]:
        """The served entries that the change did not use.

        Empty if the change names no used entry: then it may have used any of them.
        """
        return frozenset(self.served) - self.reinforced if self.used else frozenset()


class UseFinder:
    """A reader of the trailers, agents' words and learnings by which changes name entries.

    Attributes:
        has_trailers: whether any commit so far names entries that it was served or used.
    """

    def __init__(self, run: RecordRun) -> None:
        """Create a finder for the changes of a run, which are passed to it oldest first."""
        self.has_trailers = False
        self._draft = run.draft
        self._repo = run.workspace.repo
        self._buried_trailers = BuriedTrailers(self._repo, run.base.sha)
        self._original_commits = OriginalCommits(self._repo, run.since)

    def find(
        self,
        merged: MergedChange,
        member_commits: Sequence[Commit],
        gathered: Gathered,
        outcomes: Sequence[Judged],
    ) -> Uses:
        """Return the entries that a change was served, used and restated.

        An entry was used if a trailer says so (`Memory-Used: 3f2ab91c`), or if the agent names a
        served entry in a sentence of its own. Trailers of outsiders do not count.

        Args:
            merged: the change.
            member_commits: the commits of people who may write to the repository.
            gathered: its sessions and its pull request.
            outcomes: its candidates for entries, each with the decision about it.
        """
        is_by_member = merged.tip in member_commits
        texts = self._list_trailer_texts(merged, member_commits, gathered.request)
        served_as_written = list_ids(texts, SERVED_TRAILER)
        used_as_written = list_ids(texts, USED_TRAILER)
        self.has_trailers |= bool(served_as_written or used_as_written)
        served = self.list_entry_ids(served_as_written)
        if is_by_member:
            used_as_written += tuple(self._list_named_by_agent(gathered, served))
        restated: set[str] = set()
        for judged in outcomes:
            if judged.verdict == "restates" and judged.entry_id and not self._is_copy(judged):
                restated.add(judged.entry_id)
        return Uses(
            served=served,
            used=frozenset(self.list_entry_ids(used_as_written)),
            restated=frozenset(restated),
            held_out=list_ids(texts, HOLDOUT_TRAILER),
        )

    def find_declined(self, request: PullRequest) -> Uses:
        """Return the entries that a declined pull request names in trailers of its text."""
        served = self.list_entry_ids(list_ids([request.body], SERVED_TRAILER))
        used = self.list_entry_ids(list_ids([request.body], USED_TRAILER))
        return Uses(served, frozenset(used))

    def list_entry_ids(self, ids_as_written: Iterable[str]) -> tuple[str, ...]:
        """Return the full ids of existing entries for ids as people write them, in order."""
        ids: dict[str, None] = {}
        for text in ids_as_written:
            full_id = find_id(self._draft.entries, text)
            if full_id:
                ids[full_id] = None
        return tuple(ids)

    def _list_trailer_texts(
        self, merged: MergedChange, member_commits: Sequence[Commit], request: PullRequest | None
    ) -> list[str]:
        """Return the texts of a change in which trailers count.

        These are the messages of members' commits. If a member merged the change, they are also the
        trailers of the commits that it was squashed from, and the text of the pull request.
        """
        # A copy of a commit, such as a cherry-pick, has the same trailers: they count once.
        texts = [commit.message for commit in member_commits if self._original_commits.add(commit)]
        if merged.tip not in member_commits:
            return texts
        request_shas = request.commits if request else ()
        # Trailers of the commits that the change was made from, which a squash may have dropped.
        for buried in self._buried_trailers.find(merged, request_shas):
            is_own_commit = buried.how == "commit"
            if not is_own_commit:
                texts.append(format_trailers(buried.trailers))
        if request:
            texts.append(request.body)
        return texts

    def _list_named_by_agent(self, gathered: Gathered, served: Sequence[str]) -> Iterator[str]:
        """Yield the ids, as written, of served entries that the agent names in its own text."""
        for event in gathered.events:
            if event.actor == "agent" and event.kind == "text":
                for name in list_named_ids(event.text):
                    if find_id(self._draft.entries, name) in served:
                        yield name

    def _is_copy(self, judged: Judged) -> bool:
        """Return whether a restating candidate comes from a copy of the entry's own commit.

        A cherry-pick or rebase keeps author and time: it repeats old words and is no new statement.
        """
        place = self._draft.by_id.get(judged.entry_id or "")
        # An equal id means the same sentence of the same source, read again.
        if place is None or place.entry.id == entry_id(judged.candidate):
            return True
        entry_shas = COMMIT.findall(place.entry.source or "")
        candidate_shas = COMMIT.findall(judged.candidate.source)
        if len(entry_shas) + len(candidate_shas) != 2:
            return False
        authorships = {read_authorship(self._repo, sha) for sha in entry_shas + candidate_shas}
        return len(authorships) == 1 and None not in authorships
