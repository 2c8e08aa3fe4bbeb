"""A small project with memory: tests run memory-ci's functions on it and read the result with git."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import memory_ci
from memory_ci.commands.check.check import CheckReport, check_memory
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.upkeep import plan_upkeep_alone
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.setup.init import init_repository
from memory_ci.gitrepo.process import remember_directory
from memory_ci.gitrepo.repo import Repository
from memory_ci.memory.apply import Applied, apply_plan
from memory_ci.memory.workspace import (
    Workspace,
    configure_workspace,
    open_workspace,
    undo_killed_run,
)
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan, Step
from memory_ci.records.retrieval import Retrieval
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.repos import RepoBuilder, make_repo

IMPORTED_FROM = str(Path(memory_ci.__file__).parent.parent)
"""PYTHONPATH for processes that run the package under test: the checkout, or the installed wheel."""

TODAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

WITHOUT_EMBEDDER = {"MEMORY_CI_EMBEDDER": "none"}
"""An environment in which retrieval uses words only and loads no embedding model."""

MARKED = """fix: charge a card once

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge.

Decision: retries live in src/client.py rather than in each caller, because only the client knows the key.
"""


DECIDED = """feat: {name} through the queue

Decision: every {name} job goes through the {name} queue in src/{name}.py, because the {name} service drops bursts.
"""


class Project(RepoBuilder):
    """A repository builder that also runs memory-ci."""

    @property
    def workspace(self) -> Workspace:
        """The repository, opened anew, as in a new process.

        Where it is plain, no git process has to find it: thousands of tests open one, and those of
        `find_repository` and of whole commands let git find it.
        """
        root = self.path.resolve()
        git_dir = root / ".git"
        if not is_plain(git_dir):
            return open_workspace(self.path, is_named=True)
        remember_directory(git_dir, {"GIT_DIR": str(git_dir)}, ())
        return configure_workspace(undo_killed_run(Repository(root, git_dir, git_dir)))

    def plan(self, since: str | None = None, ref: str | None = None, today: date = TODAY) -> Plan:
        return plan_record(
            self.workspace, RecordOptions(since, ref), today, lambda done, total: None
        )

    def record(
        self, since: str | None = None, ref: str | None = None, today: date = TODAY
    ) -> Applied:
        workspace = self.workspace
        plan = plan_record(workspace, RecordOptions(since, ref), today, lambda done, total: None)
        return apply_plan(workspace, plan, NOW)

    def upkeep(self, step: Step, stale_after: int | None = None, today: date = TODAY) -> Applied:
        workspace = self.workspace
        plan = plan_upkeep_alone(workspace, (step,), None, today, stale_after)
        return apply_plan(workspace, plan, NOW)

    def retrieve(self, task: str, **options: object) -> Retrieval:
        return retrieve(self.workspace, task, RetrieveOptions(**options), TODAY)  # type: ignore[arg-type] # named by the test

    def check(self, view: str | None = None) -> CheckReport:
        return check_memory(self.workspace, view)

    def entries(self, path: str = "MEMORY.md", rev: str = "HEAD") -> tuple[Entry, ...]:
        return parse_memory_file(path, self.show(rev, path).encode()).entries

    def titles(self, path: str = "MEMORY.md") -> set[str]:
        return {entry.title for entry in self.entries(path)}

    def subjects(self, since: str) -> list[str]:
        return self.git("log", "--reverse", "--format=%s", f"{since}..HEAD").splitlines()

    def status(self) -> str:
        return self.git("status", "--porcelain")

    def put_fragment(self, entry: Entry, message: str = "Note something") -> str:
        """Commit an entry to the inbox."""
        path = fragment_path(entry.id)
        self.commit(message, {path: format_entry(entry)})
        return path

    def merge_work(
        self, message: str, branch: str, number: int, path: str = "src/client.py"
    ) -> str:
        """Merge a branch with one commit, as GitHub's merge button words it."""
        self.branch(branch)
        self.commit(message, {path: f"{branch}\n"})
        title = f"Merge pull request #{number} from ada/{branch}"
        return self.merge_back(branch, f"{title}\n\n{message.splitlines()[0]}")


def is_plain(git_dir: Path) -> bool:
    """Return whether a git directory is a main one, with SHA-1 and without a configured filter."""
    config = git_dir / "config"
    if not config.exists():
        return False
    text = config.read_text(errors="replace").lower()
    return not any(
        section in text for section in ("[extensions", "[filter", "[include", "bare = true")
    )


def copy_project(template: Project, path: Path) -> Project:
    """Return a copy of a project: copying is cheaper than building it again."""
    return template.copy(path)


def make_project(path: Path) -> Project:
    """Make a repository with memory and one merged pull request with marked lines (`Root cause:`, `Decision:`)."""
    repo = make_repo(path)
    project = Project(repo.path, repo.clock)
    project.commit("Start", {"src/client.py": "one\n", "README.md": "Shop\n"})
    init_repository(project.workspace)
    project.git("add", ".")
    project.commit("Add memory")
    project.merge_work(MARKED, "retry", 128)
    project.git("repack", "-adq")  # one file to copy for each test, not a directory for each object
    return project
