"""The API of memory-ci: the memory of a repository as one object.

Everything else in the package may change with any release.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.cli.plain import now, today
from memory_ci.memory.workspace import (
    Workspace,
    load_memory,
    open_committed,
    open_workspace,
    workspace_at,
)
from memory_ci.records.entry import NEW_IMPORTANCE

if TYPE_CHECKING:
    from memory_ci.commands.add.add import Added
    from memory_ci.commands.check.check import CheckReport
    from memory_ci.commands.health.records import Health
    from memory_ci.memory.apply import Applied
    from memory_ci.records.entry import Located
    from memory_ci.records.plan import Plan
    from memory_ci.records.retrieval import Retrieval

OnProgress = Callable[[int, int], None]
"""Called with how many merged changes have been read, and how many there are."""


class Memory:
    """The memory of one repository, at a commit or in the work tree.

    Open one with `Memory.open`. All methods raise `MemoryCIError` for errors that the caller can
    act on: it has a `message`, a stable `slug` and a `hint`.

    The time is that of the clock, or `SOURCE_DATE_EPOCH` if it is set. The environment determines
    which forge and model can be reached, as for the command line.
    """

    def __init__(self, workspace: Workspace, at: str | None) -> None:
        """Wrap an open workspace; callers use `Memory.open`."""
        self._workspace = workspace
        self._at = at

    @classmethod
    def open(cls, path: str | Path = ".", at: str | None = "HEAD") -> Memory:
        """Open the memory of the repository around a path.

        Args:
            path: a path in the repository, or a bare repository.
            at: a revision whose memory is read; None for the files of the work tree.

        Raises:
            RepositoryError: not-a-repository, unnamed-repository.
            UsageError: bad-config.

        >>> memory = Memory.open(".")
        >>> [located.entry.title for located in memory.entries()]
        []
        """
        start = Path(path)
        if at is None:
            return cls(open_workspace(start, is_named=True), None)
        committed = open_committed(start, is_named=True)
        return cls(workspace_at(committed.repo, at), at)

    def entries(self) -> tuple[Located, ...]:
        """Return every entry with the file, the line and the scope it is in.

        Entries that cannot be read are left out; `check` names them.

        Raises:
            RepositoryError: unknown-revision.
        """
        return tuple(load_memory(self._workspace, self._at).located)

    def retrieve(self, task: str, max_chars: int | None = None) -> Retrieval:
        """Return the entries that an agent with this task is served, best first.

        Args:
            task: the task of the agent, in words.
            max_chars: the budget of the rendered answer in characters; None for the
                configuration's.

        Raises:
            RepositoryError: unknown-revision, shallow-clone.

        >>> memory = Memory.open(".", at=None)
        >>> added = memory.add("Charge a card once", "Send an idempotency key.")
        >>> [hit.located.entry.title for hit in memory.retrieve("charge a card").hits]
        ['Charge a card once']
        """
        from memory_ci.commands.retrieve.options import RetrieveOptions
        from memory_ci.commands.retrieve.retrieve import retrieve

        options = RetrieveOptions(max_chars=max_chars, at=self._at)
        return retrieve(self._workspace, task, options, today(), os.environ)

    def add(
        self,
        title: str,
        body: str = "",
        *,
        type: str = "procedural",
        scope: str = "project",
        importance: float = NEW_IMPORTANCE,
        dry_run: bool = False,
    ) -> Added:
        """Write a learning into the inbox of the work tree, unless memory has it already.

        Args:
            title: one sentence that says the learning by itself.
            body: why, when, and what to do, as Markdown.
            type: declarative, procedural, directive or corrective.
            scope: project, institutional, `team:<directory>` or `session:<job>`.
            importance: how much it matters, from 0 to 1.
            dry_run: write nothing.

        Returns:
            The entry, its path, and whether it is new.

        Raises:
            FindingsError: refused-text.
            UsageError: empty-entry, bad-value, bad-scope, entry-not-writable.
            RepositoryError: bare-repository, write-failed.
        """
        from memory_ci.commands.add.add import add_entry, draft_entry, split_text

        text = split_text(f"{' '.join(title.split())}\n{body}")
        fields = {"type": type, "domain": "task", "scope": scope, "importance": importance}
        entry = draft_entry(str(uuid.uuid4()), today(), text, **fields)
        return add_entry(self._workspace, entry, dry_run=dry_run)

    def record(
        self,
        *,
        since: str | None = None,
        branch: str | None = None,
        dry_run: bool = True,
        on_progress: OnProgress | None = None,
    ) -> Plan:
        """Read merged work and return the plan of what memory learns from it.

        Args:
            since: begin after this revision, or so long ago (`90d`, `6m`); None continues after the
                last run.
            branch: the branch to read; None for the checked-out branch.
            dry_run: only plan; with False the plan is applied, too.
            on_progress: called as changes are read.

        Raises:
            RepositoryError: unborn-branch, detached-head, unknown-revision, shallow-clone,
                unreachable-cursor.
            UsageError: for an engine that is configured and not available.

        >>> plan = Memory.open(".").record()
        >>> [change.entry.type for step in plan.steps for change in step.changes]
        ['corrective', 'declarative']
        """
        from memory_ci.commands.record.run import RecordOptions, plan_record

        report = on_progress or (lambda done, total: None)
        options = RecordOptions(since=since, ref=branch)
        plan = plan_record(self._workspace, options, today(), report, os.environ)
        if not dry_run:
            self.apply(plan)
        return plan

    def apply(self, plan: Plan) -> Applied:
        """Commit the decisions of a plan: all of them, or none.

        Raises:
            RepositoryError: ref-moved if the branch has moved since the plan was made.
            FindingsError: plan-refused if the plan has changes that its kind may not make.
        """
        from memory_ci.memory.apply import apply_plan

        return apply_plan(self._workspace, plan, now())

    def check(self) -> CheckReport:
        """Return the findings in the memory files, errors and warnings.

        >>> Memory.open(".").check().is_ok
        True
        """
        from memory_ci.commands.check.check import check_memory

        return check_memory(self._workspace, self._at)

    def health(self, day: date | None = None) -> Health:
        """Return the metrics of how well memory is kept.

        Args:
            day: the day that ages are counted to; None for today.

        Raises:
            RepositoryError: unknown-revision, shallow-clone.
        """
        from memory_ci.commands.health.health import measure_health

        return measure_health(self._workspace, day or today(), at=self._at)
