"""Tests of search words: an entry is found by the title of the work that taught it; rules of conduct are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project
from tests.standin import StandIn, make_learning


@pytest.mark.first_run
def test_an_entry_is_found_by_the_title_of_the_work_that_taught_it(project: Project) -> None:
    entries = project.entries()
    assert [entry.aka for entry in entries if entry.aka], "the title says more than the learnings"
    search_words = next(entry.aka for entry in entries if entry.aka)
    assert project.retrieve(search_words or "", all_matches=True).hits


def test_a_rule_of_conduct_has_cites_only_if_it_names_code(project: Project) -> None:
    code = "def send(url):\n    return url\n\n\ndef wait(url):\n    return url\n"
    project.commit("Code", {"src/net.py": code})
    project.record()
    text = "Work\n\nDirective: never merge on a Friday.\n\nDirective: call `send()` with a key.\n"
    project.commit(text, {"src/net.py": code.replace("url\n\n\n", "url.strip()\n\n\n")})
    project.record()
    entries = {
        entry.title: entry for entry in (*project.entries(), *project.entries("institutional.md"))
    }
    friday = next(entry for title, entry in entries.items() if "Friday" in title)
    send = next(entry for title, entry in entries.items() if "send" in title)
    assert (friday.type, friday.cites) == ("directive", ())
    assert "symbol:send" in send.cites[0]


@pytest.mark.first_run
def test_search_words_of_a_model_find_its_learning(project: Project, tmp_path: Path) -> None:
    model, said = (
        StandIn(tmp_path / "model"),
        "The worker takes the lock before it reads the queue.",
    )
    model.will_find(
        make_learning(said, title="Take the lock before the queue is read", aka="mutex deadlock")
    )
    project.commit(f"Move the worker\n\n{said}", {"src/worker.py": "x\n"})
    model.record(project)
    (entry,) = [
        each_entry
        for each_entry in project.entries()
        if each_entry.title.startswith("Take the lock")
    ]
    assert (entry.aka or "").startswith("mutex deadlock")
    assert project.retrieve("mutex deadlock", all_matches=True).hits[0].located.entry.id == entry.id
