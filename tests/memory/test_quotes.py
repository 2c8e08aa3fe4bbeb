"""Tests of evidence.quotes: quotes prove a learning, and are stored as the configuration says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memory_ci.errors import FindingsError
from memory_ci.memory.apply import apply_plan, trim_plan_quotes
from memory_ci.records.config import Quotes
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import NOW, TODAY, Project

WORDS = "the client retried a POST"


@pytest.mark.parametrize(("quotes", "has_origin"), [("link", True), ("none", False)])
def test_quotes_prove_a_learning_and_are_not_stored(
    project: Project, quotes: Quotes, has_origin: bool
) -> None:
    project.commit("Configure", {".memory-ci.yaml": f"evidence: {{quotes: {quotes}}}\n"})
    plan = project.plan()
    assert WORDS in str(plan)  # what the referee looks up
    assert WORDS not in str(
        [
            change.entry.evidence
            for step in trim_plan_quotes(plan, quotes).steps
            for change in step.changes
        ]
    )
    apply_plan(project.workspace, plan, NOW)
    lines = [line for entry in project.entries() for line in entry.evidence]
    assert [" " in line for line in lines] == [False] * len(lines)
    assert any(line.startswith("commit:") for line in lines) is has_origin
    assert project.plan(today=TODAY + timedelta(days=1)).steps == ()
    assert project.retrieve("retry a charge").hits
    assert not [finding for finding in project.check().findings if finding.level == "error"]


def test_a_quote_that_nobody_said_is_refused(project: Project) -> None:
    project.commit("Configure", {".memory-ci.yaml": "evidence: {quotes: none}\n"})
    plan = project.plan()
    with pytest.raises(FindingsError, match="it quotes no words as evidence"):
        apply_plan(project.workspace, trim_plan_quotes(plan, "none"), NOW)


def test_a_note_without_words_is_folded(project: Project) -> None:
    project.commit("Configure", {".memory-ci.yaml": "evidence: {quotes: link}\n"})
    project.record()
    sha = project.sha("HEAD")[:12]
    entry = make_entry(
        70, title="Notes may name where only", evidence=(f"commit:{sha}",), scope="project"
    )
    project.put_fragment(entry)
    project.record()
    assert f"commit:{sha}" in format_entry(
        next(candidate for candidate in project.entries() if candidate.id == entry.id)
    )
