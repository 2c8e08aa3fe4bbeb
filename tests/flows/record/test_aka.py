"""What work was called finds what it taught."""

from __future__ import annotations

from tests.flows.project import Project


def test_an_entry_is_found_by_the_title_of_the_work_that_taught_it(project: Project) -> None:
    project.record()
    entries = project.entries()
    assert [entry.aka for entry in entries if entry.aka], "the title says more than the learnings"
    asked = next(entry.aka for entry in entries if entry.aka)
    assert project.retrieve(asked or "", all_matches=True).hits
