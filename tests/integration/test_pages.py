"""The commands of the README, the tutorial and the page of CI, run in order: each prints what the page shows.

Ids, dates and numbers of lines are another run's. A line of "…" stands for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import Background
from tests.project import IMPORTED_FROM
from tests.repos import RepoBuilder, make_repo

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ", re.MULTILINE)
ID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[a-f]*\d)[0-9a-f]{6,40}\b"
VARIES = re.compile(rf"{ID}|\b20\d\d-\d\d-\d\d\b|(?<=\.md:)\d+|\b20\d\d-\d\d\b")
CLIENT = "src/payments/client.py"


class Step(NamedTuple):
    """A command of a page, and the lines that it prints there."""

    command: str
    printed: list[str]


class Reader:
    """Someone who types what a page shows."""

    def __init__(self, repo: RepoBuilder, environ: dict[str, str]) -> None:
        self.repo, self._environ = repo, environ
        self._ids: dict[str, str] = {}

    def run(self, command: str) -> list[str]:
        for shown, actual in self._ids.items():
            command = command.replace(shown, actual)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.repo.path,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout
        assert "Usage:" not in done.stdout, done.stdout
        return [line for line in done.stdout.splitlines() if line]

    def follow(self, text: str) -> None:
        """Run the commands of a block, and compare what they print."""
        for step in read_steps(text):
            printed = self.run(step.command)
            self._learn_ids(step.printed, printed)
            if step.printed:
                compare(step, printed)

    def commit(self, message: str) -> None:
        """Commit all changes with the message of a page. What hooks add to a message is not typed."""
        for shown, actual in self._ids.items():
            message = re.sub(rf"\b{shown}\b(?!-)", actual, message)
        typed = re.sub(r"^Memory-Retrieved: .*\n", "", message, flags=re.MULTILINE)
        message_file = self.repo.path / ".git/typed"
        message_file.write_text(typed)
        self.run("git commit -q -a -F .git/typed")
        assert self.run("git log -1 --format=%B") == [line for line in message.splitlines() if line]

    def _learn_ids(self, shown: list[str], printed: list[str]) -> None:
        """Take each id of a line for that of the same line in the page."""
        actual = {blur(line): re.findall(ID, line) for line in printed}
        for line in shown:
            pairs = zip(re.findall(ID, line), actual.get(blur(line), []), strict=False)
            self._ids.update({before: after for before, after in pairs if before not in self._ids})


def read_steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield Step(re.sub(r" {4,}#.*", "", command), [line for line in printed if line])


def blur(line: str) -> str:
    return " ".join(VARIES.sub("*", line).split())


def compare(step: Step, printed: list[str]) -> None:
    """Compare words, as entries of one commit come in the order of their ids, which are random."""
    is_part = "…" in step.printed
    shown = Counter(" ".join(blur(line) for line in step.printed if line != "…").split())
    actual = Counter(" ".join(map(blur, printed)).split())
    missing, more = shown - actual, actual - shown
    assert not missing, f"{step.command} does not print {sorted(missing)}: {printed}"
    assert is_part or not more, f"{step.command} prints more: {sorted(more)}"


def read_section(page: str, title: str) -> list[re.Match[str]]:
    """Return the fenced blocks of the sections whose heading begins with a title, or of all."""
    text = (ROOT / page).read_text("utf-8")
    parts = [part for part in SECTION.split(text) if part.startswith(title)]
    assert parts, f"{page} has no section {title}"
    return [block for part in parts for block in FENCE.finditer(part)]


@pytest.fixture
def reader(tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader in the shop of the tutorial, with `memory-ci` on PATH."""
    repo = make_repo(tmp_path / "shop")
    repo.commit("Begin", {CLIENT: 'def charge(order):\n    return post("/v2/charge", order)\n'})
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "memory-ci"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m memory_ci "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return Reader(repo, dict(os.environ))


def edit(reader: Reader, key: str) -> None:
    """Change the code as the commit of a page says."""
    reader.repo.write(
        CLIENT, f'def charge(order):\n    return post("/v2/charge", order, key={key})\n'
    )


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    works: dict[str, Callable[[], None]] = {
        "fix: charge a card once": lambda: edit(reader, "order.id"),
        "feat: give charges a prefix": lambda: edit(reader, '"shop-" + order.id'),
    }
    for block in read_section("docs/tutorial.md", ""):
        if block["kind"] == "console":
            reader.follow(block["text"])
        else:
            works.pop(block["text"].splitlines()[0])()
            reader.commit(block["text"])
    assert not works


def test_setting_up_as_the_readme_says_works_once_the_placeholder_is_replaced(
    reader: Reader,
) -> None:
    (block,) = read_section("README.md", "Set up")
    (setup,) = [step for step in read_steps(block["text"]) if step.command.startswith("memory-ci")]
    # What older work would give is another history's.
    lines = setup.printed[
        next(at for at, line in enumerate(setup.printed) if line.startswith("written")) :
    ]
    compare(Step(setup.command, [*lines, "…"]), reader.run(setup.command))
    reader.run("sed -i 's/OWNER/acme/' .pre-commit-config.yaml .github/workflows/memory.yml")
    reader.run("git add . && git commit -q -m 'Add memory'")
    assert not [line for line in reader.run("memory-ci doctor") if "OWNER" in line]


def test_a_gate_in_ci_says_what_the_page_shows(reader: Reader) -> None:
    reader.run(
        "memory-ci init && git add . && git commit -q -m 'Add memory' && git switch -q -c side"
    )
    reader.repo.write("MEMORY.md", "# Memory\n\nProse.\n\n## A learning\n\nWithout front matter.\n")
    reader.run("git commit -q -a -m 'Write by hand'")
    blocks = [
        block for block in read_section("docs/ci.md", "The gate") if block["kind"] == "console"
    ]
    reader.follow(blocks[0]["text"])
