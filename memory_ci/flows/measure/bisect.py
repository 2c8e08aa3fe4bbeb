"""Bisect: which commit lost an entry from the answer to a query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import date
from functools import lru_cache

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.past_index import Past
from memory_ci.flows.serve.options import RetrieveOptions, make_sound
from memory_ci.flows.serve.ranking import arrange, find_ranked
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.history import list_versions, resolve_past
from memory_ci.gitrepo.repo import is_ancestor
from memory_ci.index.search import list_entries
from memory_ci.records.entry import Entry
from memory_ci.records.history import Commit
from memory_ci.store.layout import memory_pathspecs


class BisectQuery(msgspec.Struct, frozen=True):
    """The query, the entry that its answer should hold (a prefix of its id), and among how many."""

    query: str
    expected: str
    top: int = 10
    good: str | None = None
    bad: str = "HEAD"


class RankedAnswer(msgspec.Struct, frozen=True):
    """One commit's answer: the ids of all that was found, best first, and the entry as it stood there."""

    ids: tuple[str, ...]
    entry: Entry | None

    @property
    def rank(self) -> int | None:
        """1 for the best; None when the entry is not found."""
        return self.ids.index(self.entry.id) + 1 if self.entry is not None and self.entry.id in self.ids else None


class Loss(msgspec.Struct, frozen=True):
    """The commit that lost the entry, the ranks before and after it, and what it did."""

    sha: str
    subject: str
    day: date
    before: int
    after: int | None
    why: tuple[str, ...]


class BisectReport(msgspec.Struct, frozen=True):
    """What bisecting found: `loss` is None while the entry is still there, at `rank`. `probed`: commits looked at."""

    rank: int | None
    probed: int
    loss: Loss | None = None


def bisect(workspace: Workspace, question: BisectQuery, today: date) -> BisectReport:
    """The first-parent commit after which the entry is no longer among the best `top` for the query.

    Every commit is asked on the same day, and cited code is taken as it was learned: only memory differs. Without a
    good revision one is searched backwards in growing steps: a commit that has the entry in its answer.
    Raises UsageError (never-found), RepositoryError (unknown-revision, shallow-clone).
    """
    hunt = _Hunt(workspace, question, today)
    bad = hunt.list_commits()
    last = hunt.stand(bad[-1].sha) if bad else RankedAnswer((), None)
    if hunt.is_in(last):
        return BisectReport(last.rank, hunt.probed)
    low, high = hunt.find_good(bad), len(bad) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hunt.is_in(hunt.stand(bad[middle].sha)) else (low, middle)
    return BisectReport(last.rank, hunt.probed, hunt.describe(bad[low], bad[high]))


class _Hunt:
    """One question asked of many commits; each is asked once, and each memory file is read once."""

    def __init__(self, workspace: Workspace, question: BisectQuery, today: date) -> None:
        self.workspace, self.question, self.today = workspace, question, today
        self.past = Past(workspace)
        self.options = RetrieveOptions(limit=question.top)
        self.asked = make_sound(self.options, workspace.config, today)
        self.stand = lru_cache(maxsize=None)(self._stand)

    @property
    def probed(self) -> int:
        return self.stand.cache_info().misses

    def list_commits(self) -> list[Commit]:
        """The first-parent commits that touched memory, oldest first: from the good revision, if named, to the bad."""
        tip = resolve_past(self.workspace.repo, self.question.bad)
        pathspecs = memory_pathspecs(self.workspace.config.scopes)
        commits = {version.commit.sha: version.commit for version in list_versions(self.workspace.repo, tip, pathspecs)}
        found = list(commits.values())[::-1]
        if self.question.good is None:
            return found
        good = resolve_past(self.workspace.repo, self.question.good)
        newer = bisect_left(found, True, key=lambda one: not is_ancestor(self.workspace.repo, one.sha, good))
        return found[max(newer - 1, 0) :]

    def is_in(self, standing: RankedAnswer) -> bool:
        return standing.rank is not None and standing.rank <= self.asked.limit

    def find_good(self, commits: Sequence[Commit]) -> int:
        """The place of a commit whose answer has the entry. Raises UsageError (never-found)."""
        if self.question.good is not None and commits:
            candidates = [0]
        else:
            steps = [len(commits) - 1 - 2**power for power in range(len(commits).bit_length())]
            candidates = [*(place for place in steps if place > 0), *range(len(commits))]
        for place in candidates:
            if self.is_in(self.stand(commits[place].sha)):
                return place
        message = f"no commit asked has {self.question.expected!r} among the best {self.asked.limit} for this query"
        hint = "Ask with a larger --top, or name a revision that had it with --good."
        raise UsageError(message, slug="never-found", hint=hint)

    def describe(self, before: Commit, after: Commit) -> Loss:
        old, new = self.stand(before.sha), self.stand(after.sha)
        day = after.committed_at.date()
        return Loss(after.sha, after.subject, day, old.rank or 0, new.rank, tuple(_reasons(old, new, self.asked.limit)))

    def _stand(self, sha: str) -> RankedAnswer:
        with self.past.index(sha) as index:
            entries = [place.entry for place in list_entries(index)]
            found = find_ranked(index, self.workspace.config, self.question.query, self.asked, self.options, self.today)
        served, _ = arrange(found.hits, len(found.hits))
        expected = next((entry for entry in entries if entry.id.startswith(self.question.expected.lower())), None)
        return RankedAnswer(tuple(hit.located.entry.id for hit in served), expected)


def _reasons(old: RankedAnswer, new: RankedAnswer, top: int) -> list[str]:
    """What a commit did to the entry, and to those that rank before it now."""
    if old.entry is None or new.entry is None:
        return ["the entry was removed"]
    was, is_ = old.entry, new.entry
    fields = [name for name in Entry.__struct_fields__ if getattr(was, name) != getattr(is_, name)]
    reasons = [f"the entry was {is_.status}"] if is_.status != was.status else []
    reasons += [f"{name} was edited" for name in fields if name != "status"]
    ahead = set(old.ids[: (old.rank or 1) - 1])
    passed = [id_[:8] for id_ in new.ids[: min(top, (new.rank or top + 1) - 1)] if id_ not in ahead]
    return reasons + ([f"outranked by {', '.join(passed)}"] if passed else [])
