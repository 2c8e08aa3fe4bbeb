"""The memory and history that the report is counted in, and links to them on the web."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from urllib.parse import quote

import msgspec

from memory_ci.commands.report.records import WebLink
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo.addresses import link_page, link_request
from memory_ci.lifecycle.fold import CLAIMED
from memory_ci.memory.eligible import find_merge_day
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode, Feedback, UseCount
from memory_ci.records.history import MergedChange

SHORT_SHA = 7  # Digits of a commit id.

MAX_BODY = 400  # Characters of a body or a quote.


class RepositoryLinks(msgspec.Struct, frozen=True):
    """Links to the parts of a repository on the web.

    Attributes:
        address: the address of the repository, "" if it has none.
        tip: the commit that links to files show.
    """

    address: str
    tip: str

    def link_commit(self, sha: str) -> WebLink:
        """Return a link to a commit."""
        return WebLink(sha[:SHORT_SHA], link_page(self.address, f"commit/{sha}"))

    def link_origin(self, ref: str) -> WebLink:
        """Return a link to the commit or pull request that an origin names, or its label alone.

        Args:
            ref: the origin, as `commit:3f2ab91` or `pr:128`; `CLAIMED` before it says that the
                origin is not proved.
        """
        kind, _, name = ref.removeprefix(CLAIMED).partition(":")
        if kind == "commit" and name.isalnum():
            return self.link_commit(name)
        if kind == "pr" and name.isdecimal() and self.address:
            return WebLink(f"#{name}", link_request(self.address, name))
        return WebLink(ref.removeprefix(CLAIMED))

    def link_work(self, episode: Episode) -> tuple[WebLink, ...]:
        """Return the link to the change of an episode, if it names one."""
        action = episode.action
        if action.pr:
            return (self.link_origin(f"pr:{action.pr}"),)
        if action.commit:
            return (self.link_origin(f"commit:{action.commit}"),)
        return ()

    def file_url(self, path: str) -> str:
        """Return the URL of a file, "" if the repository has no address."""
        return link_page(self.address, f"blob/{self.tip}/{quote(path)}")


class ReportInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and history that the parts of the report are counted in.

    Attributes:
        located: the entries of the work tree.
        verdicts: the verdicts of each entry's cites, by id.
        changes: the merged changes of the weeks shown, oldest first.
        merge_days: the day of each merged change, by its label and by its short id.
        usage: how often each entry was served and used, by id.
        feedback: feedback on entries, oldest first.
    """

    workspace: Workspace
    today: date
    links: RepositoryLinks
    located: tuple[Located, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    changes: tuple[MergedChange, ...]
    merge_days: Mapping[str, date]
    episodes: tuple[Episode, ...]
    usage: Mapping[str, UseCount]
    feedback: tuple[Feedback, ...]

    @property
    def tip(self) -> str:
        """The commit whose history counts."""
        return self.links.tip

    def find_day_of_work(self, entry: Entry) -> date | None:
        """Return the day of the work that an entry was learned from.

        It can be long before the day on which the entry was written: one run over old history
        writes the learnings of many months.

        Returns:
            The day that the entry records, else the day of the first change in its source that is
            known, else the day on which the entry was written; None if it records none of them.
        """
        if entry.occurred_at is not None:
            return entry.occurred_at
        # The source names changes, as `pr:128 commit:3f2ab91`.
        for ref in (entry.source or "").split():
            # CLAIMED is the prefix of a change that an entry names without a proof.
            kind, _, name = ref.removeprefix(CLAIMED).partition(":")
            change_label = f"#{name}" if kind == "pr" else name[:SHORT_SHA]
            if change_label in self.merge_days:
                return self.merge_days[change_label]
        return entry.created_at

    def link_origins(self, entry: Entry) -> tuple[WebLink, ...]:
        """Return links to the changes that taught an entry."""
        return tuple(self.links.link_origin(ref) for ref in (entry.source or "").split())


def map_merge_days(changes: Iterable[MergedChange]) -> dict[str, date]:
    """Return the day of each merged change, by its label and by its short id."""
    days: dict[str, date] = {}
    for change in changes:
        day = find_merge_day(change)
        days[change.label] = day
        days[change.tip.sha[:SHORT_SHA]] = day
    return days


@contextmanager
def note_failure(notes: list[str], part: str) -> Iterator[None]:
    """Turn an error in the block into a note that a part of the report cannot be shown."""
    try:
        yield
    except MemoryCIError as error:
        reason = error.message.splitlines()[0]
        notes.append(f"{part} cannot be shown: {reason}. {error.hint}".strip())
