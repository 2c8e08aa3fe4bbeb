"""Tests of the ten scopes of extraction: their questions, the evidence they may quote, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.commands.record.global_promotion import promote_globally, propose_globally
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.upkeep import select_agreed
from memory_ci.extraction.engines.program import CommandEngine
from memory_ci.memory.agents_block import FENCE
from memory_ci.memory.apply import apply_plan
from memory_ci.records.config import EngineConfig
from memory_ci.records.entry import EntryType
from memory_ci.store.edits import format_entry
from tests.agents_at_work import (
    SESSION,
    WORDS,
    keep_session,
    make_refusal,
    make_session,
    merge_branch,
)
from tests.forge.make import make_pull, make_review
from tests.make import make_entry
from tests.project import NOW, TODAY, Project
from tests.repos import make_repo
from tests.standin import StandIn, by_model, make_learning

REFUSAL = "ask before you install anything on this machine"
INTENT = "Charges must be retried, but no customer may ever pay twice."
RISK = "The gateway may book a charge although the client saw a timeout."
ASSUMED = "The gateway answers within one second."
BODY = "The worker takes the lock before it reads the queue."
PLAIN = f"Move the worker\n\n{BODY}"
JOB = f".teaparty/jobs/{SESSION}/institutional.md"
TITLE = "Send a key with each POST"


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "model")


def with_session(project: Project, folder: Path) -> None:
    data = make_session(WORDS, *make_refusal(REFUSAL), at=project.clock.now)
    key = keep_session(project, folder, data)
    merge_branch(project, "work", 140, f"{PLAIN}\n\nMemory-Session: {key}")


def with_file(path: str, text: str) -> Callable[[Project, Path], None]:
    def merge(project: Project, folder: Path) -> None:
        project.branch("work")
        project.commit(PLAIN, {path: text, "src/worker.py": "x\n"})
        project.merge_back("work", message=f"Merge pull request #140 from ada/work\n\n{PLAIN}")

    return merge


def with_message(message: str) -> Callable[[Project, Path], None]:
    def merge(project: Project, folder: Path) -> None:
        merge_branch(project, "work", 140, message)

    return merge


class Case(NamedTuple):
    """A change with evidence for a scope: the piece with these `words`, and the entry that it becomes."""

    scope: str
    merge: Callable[[Project, Path], None]
    words: str
    piece: str
    path: str
    type: EntryType
    importance: float
    kind: str = "convention"
    reach: str = "project"


ASSUMPTION = json.dumps({"assumption": ASSUMED, "state": "failed"}) + "\n"
CASES = (
    Case(
        "observations",
        with_session,
        WORDS,
        "text",
        "MEMORY.md",
        "directive",
        0.6,
        "preference",
        "everyone",
    ),
    Case(
        "observations",
        with_session,
        REFUSAL,
        "rejection",
        "MEMORY.md",
        "directive",
        0.8,
        "preference",
    ),
    Case(
        "intent-alignment",
        with_file("INTENT.md", INTENT),
        INTENT,
        "intent",
        "MEMORY.md",
        "procedural",
        0.5,
    ),
    Case(
        "team",
        with_message(PLAIN),
        BODY,
        "commit",
        "src/MEMORY.md",
        "procedural",
        0.5,
        reach="team",
    ),
    Case("session", with_session, WORDS, "text", JOB, "procedural", 0.5, reach="session"),
    Case(
        "project", with_message(PLAIN), BODY, "commit", "MEMORY.md", "declarative", 0.7, "decision"
    ),
    Case(
        "prospective",
        with_file(".premortem.md", RISK),
        RISK,
        "premortem",
        "MEMORY.md",
        "procedural",
        0.6,
        "gotcha",
    ),
    Case(
        "in-flight",
        with_file(".assumptions.jsonl", ASSUMPTION),
        ASSUMED,
        "assumption",
        "MEMORY.md",
        "procedural",
        0.5,
    ),
    Case(
        "corrective",
        with_message(f"fix: lock\n\n{BODY}"),
        BODY,
        "commit",
        "MEMORY.md",
        "corrective",
        0.6,
        "fix",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.scope}-{case.piece}")
def test_the_quoted_evidence_decides_scope_and_file_of_a_learning(
    project: Project, tmp_path: Path, model: StandIn, case: Case
) -> None:
    case.merge(project, tmp_path)
    title = case.words.rstrip(".")
    model.will_find(make_learning(case.words, title, kind=case.kind, reach=case.reach))
    plan = model.record(project)
    (request,) = [request for request in model.requests if request.change == "#140"]
    assert case.reach in request.reaches
    assert any(case.words in text for text in request.texts(case.piece))
    (judged,) = by_model(plan)
    assert (judged.verdict, judged.candidate.extraction_scope) == ("written", case.scope)
    (entry,) = [entry for entry in project.entries(case.path) if entry.title == title]
    assert (entry.type, entry.importance) == (case.type, case.importance)
    assert entry.evidence[0].endswith(case.words)
    assert entry.source is not None
    assert entry.source.startswith("pr:140 commit:")
    assert project.check().is_ok


def test_one_sentence_of_a_person_goes_to_the_project_and_is_no_norm(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    with_session(project, tmp_path)
    merge_branch(
        project, "marked", 141, "Retry\n\nDirective: Ask the gateway before you book a second time."
    )
    model.will_find(make_learning(WORDS, TITLE, kind="preference", reach="everyone"))
    model.record(project)
    assert {entry.title for entry in project.entries("MEMORY.md")} >= {
        TITLE,
        "Ask the gateway before you book a second time",
    }


def test_a_model_is_sent_the_outcome_of_an_assumption(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    line = json.dumps({"assumption": ASSUMED, "state": "failed"})
    with_file(".assumptions.jsonl", line + "\n")(project, tmp_path)
    model.plan(project)
    (piece,) = [
        piece
        for request in model.requests
        for piece in request.pieces
        if piece["kind"] == "assumption"
    ]
    assert "failed" in json.dumps(piece | {"text": ""})


def test_a_change_without_a_place_of_its_own_is_not_asked_about_one(
    project: Project, model: StandIn
) -> None:
    project.branch("work")
    project.commit(PLAIN, {"src/worker.py": "x\n", "docs/worker.md": "x\n"})
    project.merge_back("work", message=f"Merge pull request #140 from ada/work\n\n{PLAIN}")
    model.plan(project)
    assert {request.change: request.reaches for request in model.requests}["#140"] == (
        "project",
        "everyone",
    )


def test_two_sessions_are_no_job_of_one(project: Project, tmp_path: Path, model: StandIn) -> None:
    keys = [
        keep_session(
            project,
            tmp_path,
            make_session(WORDS, at=project.clock.now, session=f"{SESSION[:-1]}{number}"),
        )
        for number in (1, 2)
    ]
    merge_branch(project, "work", 140, f"{PLAIN}\n\nMemory-Session: {', '.join(keys)}")
    model.plan(project)
    (reaches,) = [request.reaches for request in model.requests if request.change == "#140"]
    assert "session" not in reaches


def test_a_requested_change_of_a_reviewer_weighs_more_than_routine(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    words = "Send the key with each try, or the gateway books it twice."
    event = {
        "pull_request": make_pull(140),
        "review": make_review(body=words, state="changes_requested"),
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    merge_branch(project, "work", 140, PLAIN)
    model.will_find(make_learning(words, TITLE, kind="fix"))
    environ = model.environ | {"GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    options = RecordOptions(engine="command")
    plan = plan_record(project.workspace, options, TODAY, lambda done, total: None, environ)
    apply_plan(project.workspace, plan, NOW)
    (entry,) = [entry for entry in project.entries() if entry.title == TITLE]
    assert (entry.type, entry.importance) == ("corrective", 0.75)
    assert entry.evidence == (f"review:140#r199 {words}",)
    assert [join.kind for join in plan.joins] == ["pull-request"]


def test_global_memory_is_filled_by_promotion_alone(project: Project, tmp_path: Path) -> None:
    checkout = make_repo(tmp_path / "memory")
    checkout.commit("Start", {"MEMORY.md": "# Ours\n"})
    agnostic = [
        make_entry(n, title="Write the failing test before the fix", source=f"pr:{n}")
        for n in (1, 2, 3)
    ]
    bound = [
        make_entry(n + 10, title="Run the shop before its client", source=f"pr:{n}")
        for n in (1, 2, 3)
    ]
    text = "\n".join([project.show("HEAD", "MEMORY.md"), *map(format_entry, [*agnostic, *bound])])
    project.commit("Put", {"MEMORY.md": text})
    promote_globally(
        str(checkout.path), propose_globally(project.workspace, None, TODAY), NOW, dry_run=False
    )
    written = checkout.show("HEAD", "MEMORY.md")
    assert "Write the failing test before the fix" in written
    assert "shop" not in written


def test_a_learning_of_three_changes_is_proposed_for_global_memory(project: Project) -> None:
    rule = "Write the failing test before the fix"
    for number in (141, 142, 143):
        assert propose_globally(project.workspace, None, TODAY) == ()
        project.merge_work(f"Move the worker\n\nLearning: {rule}.", f"work{number}", number)
        project.record()
    (entry,) = [entry for entry in project.entries() if entry.title == rule]
    assert entry.occurrences == ("pr:142", "pr:143")
    assert [entry.title for entry in propose_globally(project.workspace, None, TODAY)] == [rule]


def test_a_learning_of_three_changes_in_a_directory_moves_up_and_leaves_no_empty_file(
    project: Project, model: StandIn
) -> None:
    for number in (141, 142, 143):
        model.will_find(make_learning(BODY, BODY.rstrip("."), reach="team"))
        merge_branch(project, f"work{number}", number, PLAIN)
        model.record(project)
    (entry,) = [entry for entry in project.entries() if entry.title == BODY.rstrip(".")]
    assert (entry.promoted_from, entry.occurrences) == ("team:src", ("pr:142", "pr:143"))
    assert not project.git("ls-files", "src/MEMORY.md")


@pytest.mark.parametrize(
    ("folders", "path"), [("api db web", "institutional.md"), ("api api db", "MEMORY.md")]
)
def test_a_general_rule_from_three_directories_becomes_a_norm(
    project: Project, folders: str, path: str
) -> None:
    for number, folder in enumerate(folders.split(), start=141):
        message = "Move the worker\n\nDirective: ask the gateway before a second booking"
        project.merge_work(message, f"work{number}", number, f"src/{folder}/worker.py")
        project.record()
    project.merge_work("Go on", "go-on", 150)
    project.record()
    (entry,) = [
        entry
        for entry in project.entries(path)
        if entry.title == "Ask the gateway before a second booking"
    ]
    assert entry.occurrences == ("pr:142", "pr:143")
    assert project.check().is_ok


def test_all_decision_records_of_a_first_import_are_written(project: Project) -> None:
    stores = ("Redis", "Kafka", "Postgres", "SQLite", "Memcached")
    record = "# Use {0} for its part\n\n## Decision\n\nWe take {0}, because {1}.\n"
    reasons = (
        "it is quick",
        "jobs are replayed",
        "money needs transactions",
        "tests are offline",
        "pages are cached",
    )
    files = {
        f"docs/adr/{at}-{store}.md": record.format(store, why)
        for at, (store, why) in enumerate(zip(stores, reasons, strict=True), start=1000)
    }
    project.branch("records")
    project.commit("Tell what was decided", files)
    project.checkout("main")
    project.merge(
        "records", message="Merge pull request #140 from ada/records\n\nTell what was decided"
    )
    project.record()
    assert {f"Use {store} for its part" for store in stores} <= set(project.titles())


def test_a_model_can_mark_a_learning_as_general(project: Project, model: StandIn) -> None:
    proposed = [
        make_entry(n, title=title)
        for n, title in ((1, "Write the failing test first"), (2, "Ask Ada to merge"))
    ]
    model.will_find(make_learning("Write the failing test first", reach="everyone"))
    engine = CommandEngine(EngineConfig(), model.environ)
    assert [entry.title for entry in select_agreed(proposed, engine)] == [
        "Write the failing test first"
    ]
    assert "in any project whatever" in model.documents[0]["system"]
    model.will_find(make_learning("Ask Ada to merge", reach="project"))
    assert select_agreed(proposed, engine) == ()
    assert select_agreed(proposed, None) == tuple(proposed)


@pytest.mark.parametrize(
    ("path", "text", "verdict"),
    [
        ("docs/queue.md", BODY, "suspected"),
        ("docs/MEMORY.md", BODY, "written"),
        ("docs/queue.md", f"<!-- memory-ci: begin -->\n{BODY}\n<!-- memory-ci: end -->", "written"),
        ("AGENTS.md", f"{FENCE.begin}\n{BODY}\n{FENCE.end}", "written"),
    ],
)
def test_a_rule_of_a_document_at_the_tip_is_proposed_and_not_written(
    project: Project, model: StandIn, path: str, text: str, verdict: str
) -> None:
    merge_branch(project, "work", 140, PLAIN)
    project.commit("Describe the queue", {path: f"# Queue\n\n{text}\n"})
    model.will_find(make_learning(BODY, BODY.rstrip(".")))
    (judged,) = by_model(model.plan(project))
    assert judged.verdict == verdict
    assert (judged.reason == f"restates-document: {path}") is (verdict == "suspected")
