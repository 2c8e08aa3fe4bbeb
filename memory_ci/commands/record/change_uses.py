"""The memory entries that a merged change was served, used, restated or confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from memory_ci.commands.record.gatherer import GatheredEvents, RecordRun
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

COMMIT_SOURCE = Regex(r"\bcommit:([0-9a-f]{7,64})\b")
"""The address of a commit in an entry's source: `commit:3f2ab91c`."""


class ChangeUses(msgspec.Struct, frozen=True):
    """The uses of entries by a change, as ids of entries.

    Attributes:
        served_ids: entries that the agent was shown for the change, in order.
        used_ids: entries that the change says it used.
        restated_ids: entries that its learnings say again.
        confirmed_ids: entries that people confirmed.
        held_out: marks of its sessions that were shown no entries, to compare sessions with and
            without memory.
    """

    served_ids: tuple[str, ...] = ()
    used_ids: frozenset[str] = frozenset()
    restated_ids: frozenset[str] = frozenset()
    confirmed_ids: frozenset[str] = frozenset()
    held_out: tuple[str, ...] = ()

    @property
    def reinforced(self) -> frozenset[str]:
        """The entries whose count of uses goes up for this change."""
        return self.used_ids | self.restated_ids | self.confirmed_ids

    @property
    def ignored(self) -> frozenset[str]:
        """The served entries that the change did not use.

        Empty if the change names no used entry: then it may have used any of them.
        """
        return frozenset(self.served_ids) - self.reinforced if self.used_ids else frozenset()


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
        gathered_events: GatheredEvents,
        judged_candidates: Sequence[Judged],
    ) -> ChangeUses:
        """Return the entries that a change was served, used and restated.

        An entry was used if a trailer says so (`Memory-Used: 3f2ab91c`), or if the agent names a
        served entry in a sentence of its own. Trailers and agents of outsiders do not count. An
        entry was restated if a learning of the change says the same again (verdict "restates").

        Args:
            merged: the change.
            member_commits: its commits by people who may write to the repository.
            gathered_events: its sessions and its pull request.
            judged_candidates: its candidates for entries, with their verdicts.
        """
        is_by_member = merged.tip in member_commits
        texts = self._list_trailer_texts(merged, member_commits, gathered_events.request)
        # Ids as people write them, mostly shortened.
        served_short_ids = list_ids(texts, SERVED_TRAILER)
        used_short_ids = list_ids(texts, USED_TRAILER)
        self.has_trailers |= bool(served_short_ids or used_short_ids)
        served_ids = self.list_entry_ids(served_short_ids)
        if is_by_member:
            used_short_ids += tuple(self._list_named_by_agent(gathered_events, served_ids))
        restated_ids: set[str] = set()
        for judged in judged_candidates:
            if judged.verdict == "restates" and judged.entry_id and not self._is_copy(judged):
                restated_ids.add(judged.entry_id)
        return ChangeUses(
            served_ids=served_ids,
            used_ids=frozenset(self.list_entry_ids(used_short_ids)),
            restated_ids=frozenset(restated_ids),
            held_out=list_ids(texts, HOLDOUT_TRAILER),
        )

    def find_declined(self, request: PullRequest) -> ChangeUses:
        """Return the entries that a declined pull request names in trailers of its text."""
        served_ids = self.list_entry_ids(list_ids([request.body], SERVED_TRAILER))
        used_ids = self.list_entry_ids(list_ids([request.body], USED_TRAILER))
        return ChangeUses(served_ids, frozenset(used_ids))

    def list_entry_ids(self, short_ids: Iterable[str]) -> tuple[str, ...]:
        """Return the full ids of existing entries for ids as people write them, each once."""
        full_ids: list[str] = []
        for short_id in short_ids:
            full_id = find_id(self._draft.entries, short_id)
            if full_id:
                full_ids.append(full_id)
        return tuple(dict.fromkeys(full_ids))

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
        # A squash may drop the trailers of the commits that it was made from. The finder yields the
        # change's own commits, too: their messages are in `texts` already.
        for buried in self._buried_trailers.find(merged, request_shas):
            is_from_own_commit = buried.how == "commit"
            if not is_from_own_commit:
                texts.append(format_trailers(buried.trailers))
        if request:
            texts.append(request.body)
        return texts

    def _list_named_by_agent(
        self, gathered_events: GatheredEvents, served_ids: Sequence[str]
    ) -> Iterator[str]:
        """Yield the ids, as written, of served entries that the agent names in its own text."""
        for event in gathered_events.events:
            if event.actor == "agent" and event.kind == "text":
                for short_id in list_named_ids(event.text):
                    if find_id(self._draft.entries, short_id) in served_ids:
                        yield short_id

    def _is_copy(self, judged: Judged) -> bool:
        """Return whether a candidate that restates an entry is no new statement, but a copy.

        It is a copy if it is the same sentence of the same source, read again: its id is equal. It
        is also a copy if its commit is a cherry-pick or rebase of the entry's commit: author and
        time are equal. If the entry is gone, there is nothing to restate.
        """
        located = self._draft.by_id.get(judged.entry_id or "")
        if located is None or located.entry.id == entry_id(judged.candidate):
            return True
        entry_shas = COMMIT_SOURCE.findall(located.entry.source or "")
        candidate_shas = COMMIT_SOURCE.findall(judged.candidate.source)
        if len(entry_shas) + len(candidate_shas) != 2:
            return False
        authorships = {read_authorship(self._repo, sha) for sha in entry_shas + candidate_shas}
        return len(authorships) == 1 and None not in authorships
