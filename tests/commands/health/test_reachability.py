"""Tests of reachability: entries that a query or a relation leads to."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memory_ci.memory.cites import anchor_entries
from tests.commands.health.measured_projects import measure, metric, put, rewrite, value
from tests.make import make_entry, make_id
from tests.project import Project, copy_project


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def anchor_cite(project: Project) -> tuple[str, ...]:
    """Return the cite of a line of the project, with the hash of its text."""
    project.commit(
        "Code", {"src/long.py": "def compute_the_total_of_a_charge(amount: int) -> int:\n"}
    )
    entry = make_entry(1, cites=(f"src/long.py:1@{project.sha()[:12]}",))
    return anchor_entries(project.workspace, [entry])[0].cites


def test_entries_that_nothing_leads_to_are_named_newest_first_and_a_source_reaches_them(
    project: Project,
) -> None:
    days = {1: date(2026, 11, 2), 2: date(2026, 11, 9), 3: date(2026, 11, 5)}
    titles = {1: "Zebras wander", 2: "Lanterns glow", 3: "Harbours freeze"}
    lone = [
        make_entry(at, title=titles[at], body=titles[at], created_at=day)
        for at, day in days.items()
    ]
    put(project, *lone)
    assert metric(measure(project), "reachability").missing == tuple(map(make_id, (2, 3, 1)))
    rewrite(project, source=f"commit:{project.sha()[:12]}")
    assert metric(measure(project), "reachability").missing == ()


def test_a_related_or_similar_entry_makes_an_entry_reachable(project: Project) -> None:
    rewrite(project, source=None, evidence=(), cites=())
    put(
        project,
        make_entry(
            1,
            title="Zebras graze",
            body="Wait for them at dawn.",
            relations=(f"supports {make_id(2)}",),
        ),
        make_entry(2, title="Okapis hide in forests"),
        make_entry(3, title="Giraffes drink from the northern pond in dry seasons"),
        make_entry(4, title="Giraffes drink from the southern pond in dry seasons"),
    )
    assert metric(measure(project), "reachability").basis.startswith("4 of 6")


def test_an_unknown_source_commit_does_not_make_an_entry_reachable(project: Project) -> None:
    rewrite(project, source="commit:0123456789ab", evidence=(), cites=())
    assert value(project, "reachability") == 0


def test_a_source_commit_counts_only_if_it_is_in_the_history(
    project: Project,
) -> None:
    project.branch("topic")
    project.commit("Half done", {"src/half.py": "def half() -> int:\n"})
    left_over = project.sha()
    project.checkout("main")
    project.commit("Done again", {"src/half.py": "def half() -> int:\n"})
    rewrite(
        project,
        source=f"commit:{left_over[:12]}",
        evidence=(),
        cites=(f"src/half.py:1@{left_over[:12]}",),
    )
    project.git("branch", "-D", "topic")
    assert value(project, "reachability") == 0
    rewrite(project, source=f"commit:{project.sha()[:12]}", cites=())
    assert value(project, "reachability") == 100


def test_a_source_commit_of_the_current_branch_counts_on_that_branch(project: Project) -> None:
    project.branch("topic")
    project.commit("Half done", {"src/half.py": "1"})
    rewrite(project, source=f"commit:{project.sha()[:12]}", evidence=(), cites=())
    assert value(project, "reachability") == 100


def test_code_cited_by_its_text_is_reachable_without_its_commit(
    project: Project,
) -> None:
    (cite,) = anchor_cite(project)
    rewrite(
        project, source=None, evidence=(), cites=(cite.replace(project.sha()[:12], "0123456789ab"),)
    )
    assert value(project, "reachability") == 100


def test_a_successor_of_a_committed_entry_is_reachable_and_no_other(
    project: Project,
) -> None:
    rewrite(project, source=None, evidence=(), cites=())
    put(project, make_entry(1, title="Zebras graze"))
    project.commit("Edit", {"MEMORY.md": project.show("HEAD~1", "MEMORY.md")})
    put(
        project,
        make_entry(2, title="Okapis hide", supersedes=(make_id(1),)),
        make_entry(3, title="Lions sleep", supersedes=(make_id(99),)),
        make_entry(4, title="Herons wade", supersedes=(make_id(4),)),
    )
    basis = metric(measure(project), "reachability").basis
    assert basis.startswith(f"1 of {len(project.entries())} ")
