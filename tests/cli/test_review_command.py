"""`memory-ci review --stale` as it is called."""

from __future__ import annotations

import json

from memory_ci.store.edit import format_entry
from tests.cli.conftest import Run
from tests.flows.project import Project
from tests.make import make_entry, make_id


def test_stale_entries_are_listed_and_answered_without_a_terminal(project: Project, run: Run) -> None:
    assert run("review", "--stale").stdout == "No entry is stale.\n"
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\n"})[:12]
    entry = make_entry(1, title="Pay \x1b[2Jonce", cites=(f"src/pay.py:1@{sha}",))
    project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    edit = project.commit("Edit", {"src/pay.py": "other()\ntwo()\n"})
    listed = run("review", "--stale")
    assert listed.stdout.splitlines() == [
        "00000001 Pay \\x1b[2Jonce (MEMORY.md:1)", f"  changed: src/pay.py, edited in {edit[:7]}"
    ]  # fmt: skip
    assert json.loads(run("review", "--stale", "--json").stdout)["stale"][0]["located"]["entry"]["id"] == make_id(1)
    dry = run("review", "--stale", "--retire", make_id(1), "--dry-run")
    assert (dry.stdout.startswith("Would commit on main: "), project.sha()) == (True, edit)
    done = run("review", "--stale", "--keep", make_id(1))
    assert done.stdout.startswith("Committed on main: "), done.stderr
    assert run("review", "--stale").stdout == "No entry is stale.\n"
    assert run("review").exit_code == 2
