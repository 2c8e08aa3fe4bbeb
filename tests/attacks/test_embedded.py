"""Tests of a repository inside a folder of a clone: nothing of it is run, and no file is overwritten."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.sources.agent_events import AGENT_NAMES as AGENTS
from tests.attacks.attack import (
    BOUNDED,
    COMMAND,
    ENTRY,
    ERROR,
    LOST,
    Area,
    Case,
    Done,
    Launcher,
    ask_mcp,
    assert_ended_clearly,
    call_tool,
    list_commands,
)
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.slow

AREA = Area(
    "a folder that is a repository",
    "a clone brings a folder with `HEAD`, `objects`, `refs` and `config`: a work tree with filters, drivers and "
    "programs; a promisor remote `ext::`; a journal of ours whose commit is an option of git. Every command, and "
    "every event of every agent, with the current folder there",
    "a git directory is `.git`, or what `.git`, `--git-dir` or `GIT_DIR` names; nothing is fetched lazily; "
    "what is read from it is checked",
)

HOLDS = (COMMAND, LOST, ERROR, BOUNDED)
MEMORY = f"""---
id: {ENTRY}
type: procedural
domain: team
importance: 0.5
reinforcement_count: 0
last_reinforced: 2026-01-04
status: active
created_at: 2026-01-04
---
## Retries live in the client

Because of the keys in a.py.
"""
PRECIOUS = "# settings of the person\n"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


class Traps(NamedTuple):
    """A clone with three folders that are repositories.

    Attributes:
        clone: the work tree after `git clone`.
        canaries: the folder that gets a file when a program of the attacker runs.
        precious: the user's file that the journal names.
    """

    clone: Path
    canaries: Path
    precious: Path

    def folders(self) -> dict[str, Path]:
        """Return the current folders from which each command is tried."""
        docs = self.clone / "docs"
        return {
            "work tree": docs / "worktree" / "tree",
            "git directory of the work tree": docs / "worktree",
            "promisor": docs / "promisor",
            "journal": docs / "journal",
        }


def config_with_programs(canaries: Path) -> str:
    """Return a configuration in which every key that names a program writes a canary."""
    programs = {
        "core": ("fsmonitor", "sshCommand", "pager", "editor", "alternateRefsCommand", "askPass"),
        'filter "x"': ("clean", "smudge"),
        'diff "x"': ("textconv", "command"),
        "diff": ("external",),
        'merge "x"': ("driver",),
        "gpg": ("program",),
        "credential": ("helper",),
        "sequence": ("editor",),
    }
    lines = ["[core]", "\trepositoryformatversion = 0", "\tbare = false", "\tworktree = tree"]
    lines.append("\thooksPath = tree/hooks")
    for section, keys in programs.items():
        lines.append(f"[{section}]")
        place = f"{canaries}/{section[:4].strip()}"
        lines += [f'\t{key} = "touch {place}-{key}; cat #"' for key in keys]
    lines += ['[remote "origin"]', f"\turl = ext::sh -c touch% {canaries}/ext"]
    lines += [f"\tuploadpack = touch {canaries}/uploadpack;", "\tpromisor = true"]
    lines += ["[protocol]", "\tallow = always", '[protocol "ext"]', "\tallow = always"]
    return "\n".join(lines) + "\n"


def move_git_directory(source: Path, target: Path) -> None:
    """Turn the `.git` of a repository into a folder that can be committed."""
    shutil.move(source / ".git", target)
    for name in ("hooks", "info", "logs"):
        shutil.rmtree(target / name, ignore_errors=True)
    for name in ("refs/tags", "objects/pack"):
        (target / name).mkdir(parents=True, exist_ok=True)
        (target / name / ".keep").touch()


def make_work_tree_trap(docs: Path, canaries: Path) -> None:
    """Make a folder that is a git directory with a work tree, hooks, and programs in its configuration."""
    inner = make_repo(docs / "inner")
    inner.commit("one", {"MEMORY.md": MEMORY, "a.py": "1\n"})
    inner.commit(
        "two\n\nDecision: retries live in a.py because of the keys.",
        {".gitattributes": "* filter=x diff=x merge=x\n"},
    )
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        hook = inner.write(f"hooks/{name}", f"#!/bin/sh\ntouch {canaries}/hook-{name}\n")
        hook.chmod(0o755)
    move_git_directory(inner.path, docs / "worktree")
    shutil.move(inner.path, docs / "worktree" / "tree")
    (docs / "worktree" / "config").write_text(config_with_programs(canaries))
    (docs / "worktree" / "tree" / "MEMORY.md").write_text(
        MEMORY + "\n"
    )  # its state differs: a filter is asked


def make_promisor_trap(docs: Path, canaries: Path) -> str:
    """Make a folder that is a partial clone whose remote runs a command; return its missing blob."""
    inner = make_repo(docs / "inner")
    inner.commit("one", {"MEMORY.md": MEMORY})
    blob = inner.git("rev-parse", "HEAD:MEMORY.md")
    (inner.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    move_git_directory(inner.path, docs / "promisor")
    shutil.rmtree(inner.path)
    (docs / "promisor" / "config").write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = ext::sh -c touch% {canaries}/promisor\n\tpromisor = true\n'
        '[protocol "ext"]\n\tallow = always\n'
    )
    return blob


def make_journal_trap(docs: Path, precious: Path) -> None:
    """Make a folder that is a bare repository with a journal of ours that names a user's file."""
    inner = make_repo(docs / "inner")
    inner.commit("one", {"a": "1\n", "MEMORY.md": MEMORY})
    tip = inner.commit("two", {"\ntouch canary #": "x"})
    move_git_directory(inner.path, docs / "journal")
    shutil.rmtree(inner.path)
    (docs / "journal" / "index").unlink()
    (docs / "journal" / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
    )
    journal = docs / "journal" / "memory-ci" / "journal"
    journal.parent.mkdir()
    journal.write_text(f"refs/heads/main\0--output={precious}\0{tip}")


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Traps:
    """Return a clone of a repository that contains the three traps."""
    folder = tmp_path_factory.mktemp("embedded")
    canaries = folder / "canaries"
    canaries.mkdir()
    precious = folder / "bashrc"
    precious.write_text(PRECIOUS)
    outer = make_repo(folder / "outer")
    outer.commit("Start", {"src/a.py": "1\n", "MEMORY.md": MEMORY})
    docs = outer.path / "docs"
    docs.mkdir()
    make_work_tree_trap(docs, canaries)
    make_promisor_trap(docs, canaries)
    make_journal_trap(docs, precious)
    outer.git("add", "-A", "-f")
    outer.commit("Add fixtures")
    outer.git("clone", "-q", str(outer.path), str(folder / "clone"))
    return Traps(folder / "clone", canaries, precious)


@pytest.fixture
def trap(traps: Traps, tmp_path: Path) -> Traps:
    """Return a copy of the clone whose traps write their canaries to a folder of this test."""
    copy = tmp_path / "clone"
    shutil.copytree(traps.clone, copy, symlinks=True)
    docs = copy / "docs"
    for file in (
        docs / "worktree/config",
        docs / "promisor/config",
        docs / "journal/memory-ci/journal",
    ):
        file.write_text(file.read_text().replace(str(traps.canaries.parent), str(tmp_path)))
    (tmp_path / "canaries").mkdir()
    precious = tmp_path / "bashrc"
    precious.write_text(PRECIOUS)
    return Traps(copy, tmp_path / "canaries", precious)


def assert_nothing_ran(trap: Traps, result: Done, where: str) -> None:
    ran = sorted(path.name for path in trap.canaries.iterdir())
    assert ran == [], f"{where}: these programs of the folder ran"
    assert trap.precious.read_bytes() == PRECIOUS.encode(), f"{where}: the person's file is another"
    assert_ended_clearly(result, where)


def list_cases() -> Iterator[Case]:
    for name, words in list_commands():
        yield Case(name, f"`memory-ci {name}` in each folder", HOLDS, words)


CASES = {case.name: case for case in list_cases()}

CALL = call_tool(1, "retrieve", {"task": "retry a charge"})


def make_event(event: str, folder: Path) -> bytes:
    """Return the input that an agent sends to its hook."""
    values = {
        "hook_event_name": event,
        "session_id": "s-1",
        "cwd": str(folder),
        "prompt": "retry the charge in a.py",
        "tool_name": "Read",
        "tool_input": {"file_path": str(folder / "a.py")},
        "source": "startup",
    }
    return json.dumps(values).encode()


def run_in(launcher: Launcher, folder: Path, words: Sequence[str], where: Path) -> Done:
    """Run a command in `folder`, with standard input about `where`."""
    if words[0] == "mcp":
        return ask_mcp(folder, CALL, options=words[1:])
    is_agent = tuple(words[:2]) == ("hook", "agent")
    stdin = make_event("UserPromptSubmit", where) if is_agent else b"{}"
    return launcher.run(folder, *words, stdin=stdin)


@pytest.mark.parametrize("name", CASES)
def test_a_command_in_an_embedded_repository_runs_nothing_of_it(
    name: str, trap: Traps, launcher: Launcher
) -> None:
    for where, folder in trap.folders().items():
        result = run_in(launcher, folder, (*name.split(), *CASES[name].data), folder)
        assert_nothing_ran(trap, result, where)


HOOK_CASES = {
    f"hook of {agent}": Case(
        f"hook of {agent}",
        f"six events of {agent}, the process at the root or in the folder",
        HOLDS,
        agent,
    )
    for agent in AGENTS
}


@pytest.mark.parametrize("name", HOOK_CASES)
def test_an_agents_hook_runs_nothing_of_an_embedded_repository(
    name: str, trap: Traps, launcher: Launcher
) -> None:
    agent = HOOK_CASES[name].data
    for where, folder in trap.folders().items():
        for event in EVENTS:
            for cwd in (trap.clone, folder):
                stdin = make_event(event, folder)
                result = launcher.run(cwd, "hook", "agent", "--for", agent, stdin=stdin)
                assert_nothing_ran(trap, result, f"{where}, {event}")


NAMED: dict[str, tuple[str, ...]] = {
    "a policy from the folder": ("init", "--policy", "docs/promisor@main"),
    "a file of the folder as what a task is about": (
        "retrieve",
        "x",
        "--about",
        "docs/worktree/HEAD",
    ),
    "a change that brought the folder": ("verify", "--base", "HEAD~1"),
    "a check of the folder's files": ("check", "docs/worktree/tree/MEMORY.md"),
    "a server for the folder": ("mcp", "--repo", "docs/worktree/tree"),
    "a server for the bare folder": ("mcp", "--repo", "docs/promisor"),
    "the merged work with the folder": ("record", "--since", "HEAD~1"),
}
NAMED_CASES = {
    name: Case(name, f"`memory-ci {' '.join(words)}` at the root of the clone", HOLDS, words)
    for name, words in NAMED.items()
}


@pytest.mark.parametrize("name", NAMED_CASES)
def test_naming_an_embedded_repository_at_the_root_runs_nothing(
    name: str, trap: Traps, launcher: Launcher
) -> None:
    words = NAMED_CASES[name].data
    result = run_in(launcher, trap.clone, words, trap.clone)
    assert_nothing_ran(trap, result, name)


ALL_CASES = {**CASES, **HOOK_CASES, **NAMED_CASES}


def test_plain_git_runs_the_traps(trap: Traps) -> None:
    """Otherwise the other tests would pass for no reason."""
    folders = trap.folders()
    plain = RepoBuilder(folders["work tree"])
    plain.git("status")
    assert (trap.canaries / "filt-clean").exists()
    bare = RepoBuilder(folders["promisor"])
    subprocess.run(
        ["git", "cat-file", "-p", "HEAD:MEMORY.md"], cwd=bare.path, capture_output=True, check=False
    )
    assert (trap.canaries / "promisor").exists()
    ref, old, new = (folders["journal"] / "memory-ci/journal").read_text().split("\0")
    assert ref == "refs/heads/main"
    RepoBuilder(folders["journal"]).git("diff-tree", "-r", "-z", "--name-only", old, new)
    assert trap.precious.read_text() != PRECIOUS
