"""The API of memory-ci: the memory of a repository as one object.

The command line, the MCP server and the hooks of agents call it as programs do. Everything else in
the package may change with any release.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memory_ci.cli import plain
from memory_ci.memory.workspace import (
    Workspace,
    load_memory,
    open_unconfigured,
    open_workspace,
    workspace_at,
)
from memory_ci.records.entry import NEW_IMPORTANCE

# The methods import what they call: a hook waits for each module.
if TYPE_CHECKING:
    from memory_ci.commands.add.add import Added
    from memory_ci.commands.check.check import CheckReport
    from memory_ci.commands.health.records import Health
    from memory_ci.commands.record.run_options import RecordOptions
    from memory_ci.commands.retrieve.options import RetrieveOptions
    from memory_ci.commands.show.entry_list import EntryList
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

    The time is read from the clock, or `SOURCE_DATE_EPOCH` if it is set. The environment determines
    which forge and model can be reached, as for the command line.
    """

    def __init__(
        self,
        workspace: Workspace,
        at: str | None = None,
        *,
        now: datetime | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Wrap a workspace that is open already; programs use `Memory.open`.

        Args:
            workspace: the repository and its configuration.
            at: a revision, or `STAGED`; None for the files of the work tree.
            now: the time; None to read the clock.
            environ: the environment; None for the environment of the process.
        """
        self._workspace = workspace
        self._at = at
        self._fixed_now = now
        self._environ = os.environ if environ is None else environ

    @property
    def _now(self) -> datetime:
        return self._fixed_now or plain.now()

    @property
    def _today(self) -> date:
        return self._now.date()

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
            return cls(open_workspace(start, is_named=True))
        committed = open_unconfigured(start, is_named=True)
        return cls(workspace_at(committed.repo, at), at)

    def entries(self) -> tuple[Located, ...]:
        """Return every entry with the file, the line and the scope it is in.

        Entries that cannot be read are left out; `check` names them.

        Raises:
            RepositoryError: unknown-revision.
        """
        return tuple(load_memory(self._workspace, self._at).located)

    def list(self) -> EntryList:
        """Return every entry with its prominence and its usage, the most prominent first.

        The prominence says how likely an entry is to be useful. In the work tree, the notes of
        agents that wait for a commit are listed, too.

        Returns:
            The entries, and the findings on files that cannot be read.

        Raises:
            RepositoryError: unknown-revision.
        """
        from memory_ci.commands.show.entry_list import list_by_prominence

        return list_by_prominence(self._workspace, self._at, self._today)

    def retrieve(
        self,
        task: str,
        max_chars: int | None = None,
        *,
        options: RetrieveOptions | None = None,
    ) -> Retrieval:
        """Return the entries that an agent with this task is served, best first.

        Args:
            task: the task of the agent, in words; with `options.about` the path of the file.
            max_chars: the budget of the rendered answer in characters; None for that of the
                options, or else of the configuration.
            options: filters, the session that asks, and the other options of the command line.

        Raises:
            RepositoryError: unknown-revision, shallow-clone, unrelated-histories.
            UsageError: option-conflict.

        >>> memory = Memory.open(".", at=None)
        >>> added = memory.add("Charge a card once", "Send an idempotency key.")
        >>> [hit.located.entry.title for hit in memory.retrieve("charge a card").hits]
        ['Charge a card once']
        >>> from memory_ci import RetrieveOptions
        >>> options = RetrieveOptions(types=("corrective",))
        >>> memory.retrieve("charge a card", options=options).hits
        ()
        """
        from memory_ci.commands.retrieve.options import RetrieveOptions
        from memory_ci.commands.retrieve.retrieve import retrieve

        if options is None:
            options = RetrieveOptions()
        if max_chars is not None:
            options = replace(options, max_chars=max_chars)
        if options.at is None and self._at is not None:
            options = replace(options, at=self._at)
        return retrieve(self._workspace, task, options, self._today, self._environ)

    def add(
        self,
        title: str,
        body: str = "",
        *,
        type: str = "procedural",
        domain: str = "task",
        scope: str = "project",
        importance: float = NEW_IMPORTANCE,
        when: str | None = None,
        check: str | None = None,
        source: str | None = None,
        cites: Sequence[str] = (),
        relations: Sequence[str] = (),
        quote: str | None = None,
        sessions: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> Added:
        """Add an entry to memory: write it as a file into the inbox of the work tree.

        The inbox holds proposed entries until they are committed and recorded. If memory has an
        entry that says the same, nothing is written.

        Args:
            title: the learning in one sentence; "" takes the first line of `body`.
            body: why, when, and what to do, as Markdown.
            type: declarative, procedural, directive or corrective.
            domain: task, or team for what outlives it.
            scope: project, institutional, `team:<directory>` or `session:<job>`.
            importance: how much it matters, from 0 to 1.
            when: the moment at which agents are served it, such as `before:commit`.
            check: a condition that changes must meet, such as `untouched: [vendor/]`.
            source: where it comes from, such as `pr:128`.
            cites: code of HEAD that it speaks about: `PATH`, `PATH::SYMBOL` or `PATH:A-B`.
            relations: how it relates to other entries, such as `contradicts <id>`.
            quote: words of a person in an agent's session, which become its evidence.
            sessions: the sessions with these words, as `<agent>:<id>`; None for those that the
                environment names.
            dry_run: write nothing.

        Returns:
            The entry, its path, and whether it is new.

        Raises:
            FindingsError: refused-text, forgotten.
            UsageError: empty-entry, bad-value, bad-check, bad-scope, entry-not-writable; for
                cites and quotes those of the command line.
            RepositoryError: bare-repository, write-failed.
        """
        import uuid

        from memory_ci.commands.add.add import add_entry, draft_entry, quote_person, split_text

        fields: dict[str, object] = {
            "type": type,
            "domain": domain,
            "scope": scope,
            "importance": importance,
            "when": when,
            "source": source,
            "relations": tuple(relations),
        }
        if check is not None:
            from memory_ci.store.checkfield import parse_check_text

            fields["check"] = parse_check_text(check)
        title_line = " ".join(title.split())
        title_and_body = split_text(f"{title_line}\n{body}")
        if cites:
            from memory_ci.memory.named_code import read_cite

            fields["cites"] = tuple(read_cite(self._workspace, cite) for cite in cites)
        entry = draft_entry(str(uuid.uuid4()), self._today, title_and_body, **fields)

        if quote is not None:
            if sessions is None:
                from memory_ci.sessions.active_session import find_sessions

                sessions = find_sessions(self._environ)
            entry = quote_person(
                self._workspace,
                entry,
                quote,
                session_keys=sessions,
                home=Path.home(),
                now=self._now,
            )
        return add_entry(self._workspace, entry, dry_run=dry_run)

    def record(
        self,
        *,
        since: str | None = None,
        branch: str | None = None,
        options: RecordOptions | None = None,
        dry_run: bool = True,
        on_progress: OnProgress | None = None,
    ) -> Plan:
        """Read merged work and return the planned changes of memory.

        Args:
            since: begin after this revision, or this long ago (`90d`, `6m`); None continues after
                the last run.
            branch: the branch to read; None for the checked-out branch.
            options: the other options of the command line; `since` and `branch` override its own.
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
        from memory_ci.commands.record.learner import ignore_progress
        from memory_ci.commands.record.run import plan_record
        from memory_ci.commands.record.run_options import RecordOptions

        if options is None:
            options = RecordOptions()
        if since is not None:
            options = replace(options, since=since)
        if branch is not None:
            options = replace(options, ref=branch)
        report = on_progress or ignore_progress
        plan = plan_record(self._workspace, options, self._today, report, self._environ)
        if not dry_run:
            self.apply(plan)
        return plan

    def apply(self, plan: Plan, *, dry_run: bool = False) -> Applied:
        """Commit the decisions of a plan: all of them, or none.

        Args:
            plan: the plan.
            dry_run: check the plan and write nothing.

        Returns:
            The branch, its tip, and the subjects of the commits that were made, or would be.

        Raises:
            RepositoryError: ref-moved if the branch has moved since the plan was made.
            FindingsError: plan-refused if the plan has changes that its kind may not make.
        """
        from memory_ci.memory.apply import apply_plan, preview_plan

        if dry_run:
            return preview_plan(self._workspace, plan, self._now)
        in_actions = "GITHUB_ACTIONS" in self._environ
        return apply_plan(self._workspace, plan, self._now, in_actions=in_actions)

    def check(self, paths: Sequence[Path] = ()) -> CheckReport:
        """Return the findings in the memory files, errors and warnings.

        Args:
            paths: the files to report on, none for all.

        Raises:
            UsageError: not-a-memory-file.

        >>> Memory.open(".").check().is_ok
        True
        """
        from memory_ci.commands.check.check import check_memory

        return check_memory(self._workspace, self._at, paths)

    def health(self, day: date | None = None) -> Health:
        """Return the metrics of how well memory is kept.

        Args:
            day: the day that ages are counted to; None for today.

        Raises:
            RepositoryError: unknown-revision, shallow-clone.
        """
        from memory_ci.commands.health.health import measure_health

        return measure_health(
            self._workspace, day or self._today, at=self._at, environ=self._environ
        )
