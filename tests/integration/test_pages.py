"""Tests of the commands in README, the start page and the guides, run in order at a terminal: each prints what its page shows.

Ids, dates and line numbers may differ. Blocks that cannot be run here have another kind than `console`, or are listed
below with the reason.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from memory_ci.commands.root import main
from tests.processes import Background
from tests.project import IMPORTED_FROM
from tests.repos import RepoBuilder, make_repo
from tests.sources.transcripts.claude import SESSION, make_lines, make_user
from tests.terminal_reader import ROOT, TerminalReader, compare, read_blocks, read_steps

CLIENT = "src/payments/client.py"
TAUGHT = """fix: charge a card once

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge, and retry only with the same key.

Decision: the key is the id of the order, because a restart must not lose it.
"""
GUIDES = ("agents", "reviewing", "ci", "models", "platform", "security")
NOT_RUN = {
    "make demo": "tests/test_demo.py runs it",
    "pipx install .": "it installs from an index",
    "cd ../your-repository": "there is none",
    "gh run download": "it needs GitHub",
    "git clone --quiet": "tests/integration/test_workflow.py runs it, with a remote",
    "git config --global gpg.format ssh": "it needs the key of a runner",
    "jq -r": "it needs jq, and the lines of many jobs",
    "MEMORY_CI_ORG_INDEX=postgresql": "it needs a server; tests/commands/org run one",
}
"""The beginning of each block or command that is not run, with the reason."""
COMMAND = re.compile(r"(?m)^(?:\$ |[A-Z_]+=\S+ )?(?:memory-ci|make|git|gh|jq|pip|pipx) ")


class Shop:
    """The repository of the pages, and a reader at its terminal."""

    def __init__(self, repo: RepoBuilder, root: Path, environ: dict[str, str]) -> None:
        self.repo, self.root = repo, root
        self.reader = TerminalReader(repo.path, root, environ)

    def edit(self, key: str) -> None:
        """Change the code like the commit of a page."""
        self.repo.write(
            CLIENT, f'def charge(order):\n    return post("/v2/charge", order, key={key})\n'
        )

    def commit(self, message: str) -> None:
        """Commit all changes with the message of a page, without the lines that hooks add."""
        message = self.reader.translate(message)
        typed = re.sub(r"^Memory-Retrieved: .*\n", "", message, flags=re.MULTILINE)
        (self.repo.path / ".git/typed").write_text(typed)
        self.reader.run("git commit -q -a -F .git/typed")
        lines = [line for line in message.splitlines() if line]
        assert self.reader.run("git log -1 --format=%B") == lines

    def teach(self) -> None:
        """Set memory up, and record a commit with two learnings."""
        self.reader.run("memory-ci init </dev/null && git add . && git commit -q -m 'Add memory'")
        self.edit("order.id")
        self.commit(TAUGHT)
        self.reader.run("memory-ci record")

    def change_what_was_taught(self) -> None:
        """Record two learnings, then change the code that they are about."""
        self.teach()
        self.edit('"shop-" + order.id')
        self.reader.run("git commit -q -a -m 'feat: give charges a prefix'")

    def break_memory(self) -> None:
        """Write an entry without front matter by hand, on a branch."""
        self.teach()
        self.reader.run("git switch -q -c side")
        memory = (self.repo.path / "MEMORY.md").read_text("utf-8")
        self.repo.write("MEMORY.md", f"{memory}\n## A learning\n\nWithout front matter.\n")
        self.reader.run("git commit -q -a -m 'Write by hand'")

    def be_steered(self) -> None:
        """Write a session of Claude Code in which a person types the words of the page and the agent runs the commands."""
        self.reader.run("git add . && git commit -q -m 'Hook an agent in'")
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(self.repo.path))
        place = Path.home() / ".claude" / "projects" / folder / f"{SESSION}.jsonl"
        place.parent.mkdir(parents=True)
        turn = make_user("Please never retry a charge in the caller.", cwd=str(self.repo.path))
        place.write_bytes(make_lines(turn))
        self.reader.run("memory-ci sessions --capture")
        self.reader.set("MEMORY_CI_SESSION", f"claude-code:{SESSION}")

    def write_policy(self) -> None:
        """Write the policy of the page into a repository next to this one, and make it the current directory."""
        step = next(read_steps(read_blocks("docs/platform.md", "A policy")[0]["text"]))
        policy = make_repo(self.root / "policy")
        policy.commit("Policy", {"memory-ci-policy.yaml": "\n".join([*step.printed, ""])})
        self.reader.place = policy.path

    def come_back(self) -> None:
        self.reader.place = self.repo.path

    def write_organisation(self) -> None:
        from benchmarks.org import THREE
        from tests.commands.org.organisation import Organisation
        from tests.make import make_entry

        org = Organisation(self.root)
        for number, (name, (title, body)) in enumerate(THREE.items(), start=1):
            org.add(name, make_entry(number, title=title, body=body))
        org.write("pay", "shop public", "infra group-ops")
        self.reader.place = self.root

    def write_secret(self) -> None:
        self.repo.write("secret.txt", "Ada's key\n")

    def write_dated_section(self) -> None:
        self.repo.write(
            "MEMORY.md", "# Memory\n\n## [2026-03-01] Decision: retries live in the client\n"
        )

    def write_claude_memory(self) -> None:
        self.come_back()
        place = Path.home() / ".claude/projects/-home-ada-shop/memory"
        place.mkdir(parents=True)
        (place / "MEMORY.md").write_text("# Shop\n\n- Amounts are integers in cents\n")


@pytest.fixture
def shop(tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the repository of the tutorial, with `memory-ci` on the PATH."""
    repo = make_repo(tmp_path / "shop")
    repo.commit("Begin", {CLIENT: 'def charge(order):\n    return post("/v2/charge", order)\n'})
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "memory-ci"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m memory_ci "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return Shop(repo, tmp_path, dict(os.environ))


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(shop: Shop) -> None:
    works: dict[str, Callable[[], None]] = {
        "fix: charge a card once": lambda: shop.edit("order.id"),
        "feat: give charges a prefix": lambda: shop.edit('"shop-" + order.id'),
    }
    for block in read_blocks("docs/tutorial.md"):
        if block["kind"] == "console":
            for step in read_steps(block["text"]):
                shop.reader.follow(step)
        else:
            works.pop(block["text"].splitlines()[0])()
            shop.commit(block["text"])
    assert not works


PREPARED: dict[tuple[str, str], Callable[[Shop], None]] = {
    ("agents", "memory-ci init --clone"): Shop.teach,
    ("agents", "memory-ci add"): Shop.be_steered,
    ("reviewing", "memory-ci review"): Shop.change_what_was_taught,
    ("reviewing", "memory-ci forget -"): Shop.write_secret,
    ("ci", "memory-ci verify"): Shop.break_memory,
    ("platform", "cat memory-ci-policy.yaml"): Shop.write_policy,
    ("platform", "memory-ci init"): Shop.come_back,
    ("platform", "cat repositories.txt"): Shop.write_organisation,
    ("platform", "memory-ci import --from claude-code"): Shop.write_claude_memory,
    ("platform", "memory-ci import --from legacy"): Shop.write_dated_section,
}
"""Steps before the first command of a page, by the beginning of that command."""


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_each_command_of_a_guide_prints_what_the_guide_shows(shop: Shop, guide: str) -> None:
    waiting = {command: prepare for (page, command), prepare in PREPARED.items() if page == guide}
    for block in read_blocks(f"docs/{guide}.md"):
        for step in read_steps(block["text"]) if block["kind"] == "console" else ():
            for command in [prefix for prefix in waiting if step.command.startswith(prefix)]:
                waiting.pop(command)(shop)
            shop.reader.follow(step)
    assert not waiting


def test_the_setup_commands_of_the_readme_work(shop: Shop) -> None:
    (block,) = read_blocks("README.md", "Set up")
    (setup,) = [step for step in read_steps(block["text"]) if step.command.startswith("memory-ci")]
    # What older work would give is another history's.
    compare(setup, shop.reader.run(setup.command))
    shop.reader.run("git add . && git commit -q -m 'Add memory'")
    assert not [line for line in shop.reader.run("memory-ci doctor") if "OWNER" in line]


@pytest.mark.slow
def test_the_commands_of_the_readme_about_the_demo_print_what_it_shows(shop: Shop) -> None:
    """The demo's script stops where a person looks at the candidates."""
    script = (ROOT / "docs/demo.sh").read_text("utf-8")
    scratch_line = f"scratch={shop.root}/demo; mkdir $scratch"
    script = re.sub(r"scratch=.*\ntrap .*", scratch_line, script)
    head, looks, remainder = script.partition("run memory-ci review --candidates\n")
    assert looks
    setup = head.partition('\nsay "A repository')[0]
    (shop.root / "head.sh").write_text(head)
    (shop.root / "rest.sh").write_text(
        f"{setup.replace('; mkdir $scratch', '')}\ncd $scratch/shop\n{remainder}"
    )
    candidates, served = [
        step
        for block in read_blocks("README.md", "What it does")
        for step in read_steps(block["text"])
    ]
    reader = shop.reader
    reader.run(f"bash {shop.root}/head.sh")
    reader.place = shop.root / "demo/shop"
    reader.follow(candidates)
    reader.run(f"bash {shop.root}/rest.sh")
    reader.follow(served)


PAGES = ("README.md", "docs/tutorial.md", *(f"docs/{guide}.md" for guide in GUIDES))


def list_blocks_not_run() -> list[tuple[str, str]]:
    """Return the first lines of blocks with commands that are not of kind `console`: (page, line)."""
    return [
        (page, block["text"].splitlines()[0])
        for page in PAGES
        for block in read_blocks(page)
        if block["kind"] in ("sh", "") and COMMAND.search(block["text"])
    ]


def test_each_block_of_commands_is_run_or_listed_with_a_reason() -> None:
    reasons = [line for line in NOT_RUN if line not in ("pipx install .", "cd ../your-repository")]
    unlisted = [
        (page, line)
        for page, line in list_blocks_not_run()
        if not any(line.startswith(reason) for reason in reasons)
    ]
    assert unlisted == []
    unused = [
        reason
        for reason in reasons
        if not any(line.startswith(reason) for _, line in list_blocks_not_run())
    ]
    assert unused == []


@pytest.mark.parametrize("page", PAGES)
def test_no_indented_block_contains_a_command(page: str) -> None:
    """Such a block has no kind, so no test would run it."""
    text = (ROOT / page).read_text("utf-8")
    assert re.findall(r"(?m)^ {4}(?:\$ )?memory-ci .*", text) == []


def list_inline_commands() -> list[tuple[str, str]]:
    """Return the commands in backquotes on all pages: (page, command)."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return [
        (page.name, command)
        for page in pages
        for command in re.findall(r"`(memory-ci [a-z][^`]*)`", page.read_text("utf-8"))
    ]


def test_each_command_in_the_text_has_an_existing_name_and_options() -> None:
    unknown = []
    for page, line in list_inline_commands():
        words = line.replace("…", " ").split()[1:]
        command: click.Command | None = main
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0).strip(","))
        if command is None:
            unknown.append((page, line))
            continue
        names = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        options = {
            word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)
        }
        unknown += [(page, line)] if options - names - {"--help"} else []
    assert unknown == []
