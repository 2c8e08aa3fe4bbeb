"""Tests of `memory-ci forget` as a user calls it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from memory_ci.memory.forgotten import REJECTED_FILE
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project

WORDS = "the zephyr gateway of Berlin"


def test_words_come_from_standard_input_and_are_never_printed(project: Project, run: Run) -> None:
    project.put_fragment(make_entry(60, title=f"Ask {WORDS} first"))
    project.commit("Note", {"README.md": f"Shop\n\nAsk {WORDS}.\n"})
    before = project.git("rev-parse", "HEAD")
    refused = run("forget", "-", stdin=WORDS)
    assert (refused.exit_code, "[not-confirmed]" in refused.stderr) == (2, True)
    plan = run("forget", "-", "--plan", "--json", stdin=WORDS)
    kinds = [(place["kind"], place["is_left"]) for place in json.loads(plan.stdout)["places"]]
    assert kinds == [("memory", False), ("file", True)]
    assert (plan.exit_code, project.git("rev-parse", "HEAD")) == (1, before)
    done = run("forget", "-", "--yes", stdin=WORDS)
    assert (done.exit_code, "! README.md: is not memory" in done.stdout) == (1, True)
    assert "git filter-repo" in done.stdout
    assert "zephyr" not in (plan.stdout + done.stdout).casefold()
    assert (
        "zephyr" not in project.git("show", "HEAD", "--format=%B", "--", REJECTED_FILE).casefold()
    )


def test_nothing_is_left_of_an_entry(project: Project, run: Run) -> None:
    project.put_fragment(make_entry(61, title="Never retry a charge without a key"))
    done = run("forget", make_id(61)[:8], "--yes")
    assert (done.exit_code, "Forgot an entry" in done.stdout, project.status()) == (0, True, "")


def test_text_without_a_word_is_refused(project: Project, run: Run) -> None:
    result = run("forget", "!!", "--yes")
    assert (result.exit_code, "[nothing-to-forget]" in result.stderr) == (2, True)


def test_the_words_stand_in_no_argument_of_a_process(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    start = subprocess.Popen.__init__

    def started(self: subprocess.Popen[bytes], args: list[str], *rest: Any, **options: Any) -> None:
        requests.extend(map(str, args))
        start(self, args, *rest, **options)

    project.commit("Note the zephyrous payout", {"notes.txt": "the zephyrous payout\n"})
    monkeypatch.setattr(subprocess.Popen, "__init__", started)
    result = run("forget", "-", "--yes", stdin="zephyrous payout")
    assert "notes.txt" in result.stdout
    assert requests
    assert not [arg for arg in requests if "zephyrous" in arg.lower()]
