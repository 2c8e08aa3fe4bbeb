"""Tests of assigning the events of a session to changes and authors."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from tests.agents_at_work import SESSION, WORDS, keep_session, make_session, merge_branch
from tests.forge.make import make_pull
from tests.project import TODAY, Project
from tests.sessions.sessions_at_work import (
    CHECKPOINT,
    MESSAGE,
    configure,
    make_history,
    make_note,
    session_joins,
    turns,
)
from tests.standin import StandIn, by_model, make_learning

# -- which events go to which change


def test_two_changes_that_share_a_session_get_their_own_events(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    start = project.clock.now
    late = start + timedelta(hours=5)
    early_words = make_session(WORDS, "Log the key as well, please.", at=start)
    late_words = make_session("Now send the receipt only once.", at=late, first=7)
    key = keep_session(project, tmp_path, early_words + late_words)
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    project.at(late + timedelta(minutes=1))
    merge_branch(project, "receipt", 141, f"Send receipts\n\nOne each.\n\nMemory-Session: {key}")
    plan = model.plan(project)
    assert turns(model) == [
        [WORDS, "Log the key as well, please."],
        ["Now send the receipt only once."],
    ]
    assert [(join.change, join.events) for join in session_joins(plan)] == [
        ("#140", 2),
        ("#141", 1),
    ]


def test_events_that_an_earlier_run_read_are_not_read_again(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    start = project.clock.now
    late = start + timedelta(hours=5)
    transcript = make_session(WORDS, at=start) + make_session(
        "Now send the receipt only once.", at=late, first=7
    )
    key = keep_session(project, tmp_path, transcript)
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    since = project.git("rev-parse", "HEAD").strip()
    project.at(late + timedelta(minutes=1))
    merge_branch(project, "receipt", 141, f"Send receipts\n\nOne each.\n\nMemory-Session: {key}")
    model.plan(project, since=since)
    assert turns(model) == [["Now send the receipt only once."]]


def test_checkpoints_whose_branch_was_not_fetched_are_reported(
    project: Project, model: StandIn
) -> None:
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nEntire-Checkpoint: {CHECKPOINT}")
    plan = model.plan(project)
    assert [problem for problem in plan.problems if "entire/checkpoints/v1" in problem]
    assert len(plan.problems) == 1


def test_two_text_blocks_of_one_transcript_line_are_two_events(
    project: Project, model: StandIn
) -> None:
    """git-ai's notes have no ids, and Cursor's additions are in the same line as a person's words."""
    at = project.clock.now
    merge_branch(project, "charge", 140, MESSAGE)
    prompt = f"<open_files>\nsrc/client.py\n</open_files>\n<user_query>\n{WORDS}\n</user_query>"
    note = make_note(prompt, at=at).replace('"tool": "claude"', '"tool": "cursor"')
    project.git("notes", "--ref=ai", "add", "-m", note, "HEAD^2")
    model.plan(project)
    assert turns(model) == [[WORDS]]


# -- who said it


def outside_event(folder: Path, number: int) -> dict[str, str]:
    """Return the variables of a job for a fork's pull request: the event file, and no token."""
    head = {
        "label": "eve:retry",
        "ref": "retry",
        "sha": "2" * 40,
        "repo": {"id": 2, "full_name": "eve/shop"},
    }
    pull = make_pull(number, head=head, author_association="NONE", body="Please merge my work.")
    path = folder / "event.json"
    path.write_text(json.dumps({"action": "closed", "pull_request": pull}))
    return {"GITHUB_EVENT_PATH": str(path)}


def test_a_transcript_in_a_forks_change_cannot_be_quoted(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    text = make_history(project.clock.now, WORDS)
    project.branch("charge")
    project.commit(MESSAGE, {".specstory/history/one.md": text, "src/retry.py": "x"})
    project.checkout("main")
    model.will_find(make_learning(WORDS))
    project.merge("charge", message="Merge pull request #140 from eve/charge\n\nRetry")
    inside = by_model(model.plan(project))
    before = len(model.requests)
    assert [judged.verdict for judged in inside] == ["written"], "from a branch of our own it can"
    environ = model.environ | outside_event(tmp_path, 140)
    options = RecordOptions(engine="command")
    plan = plan_record(project.workspace, options, TODAY, lambda done, total: None, environ)
    assert [join.kind for join in plan.joins] == ["pull-request", "session"]
    assert not any(question.change == "#140" for question in model.requests[before:]), (
        "there is nothing that could be quoted"
    )
    assert not any(
        change.entry.title == "Ask before sending twice"
        for step in plan.steps
        for change in step.changes
    )


def test_a_session_claimed_by_a_fork_stays_with_its_own_change(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    for number in (140, 141):
        merge_branch(
            project,
            f"work-{number}",
            number,
            f"{MESSAGE}\n\nMemory-Session: {key}",
            path=f"{number}.py",
        )
    model.will_find(make_learning(WORDS))
    environ = model.environ | outside_event(tmp_path, 140)
    plan = plan_record(
        project.workspace, RecordOptions(engine="command"), TODAY, lambda done, total: None, environ
    )
    assert [(join.change, join.events) for join in session_joins(plan)] == [
        ("#140", 1),
        ("#141", 1),
    ]
    assert [(judged.change, judged.verdict) for judged in by_model(plan)] == [("#141", "written")]


def test_turns_are_attributed_to_the_author_of_the_commit(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    configure(project, "extraction:\n  trusted_authors: ['*@ours.example']\n")
    learning = make_learning(WORDS)
    model.will_find(learning)
    for number, author in enumerate(
        ("Eve <eve@elsewhere.example>", "Ada <ada@ours.example>"), start=140
    ):
        session = f"{SESSION[:-3]}{number}"
        keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now, session=session))
        message = f"Change {number}\n\nFor a reason.\n\nMemory-Session: {session}"
        merge_branch(project, f"work-{number}", number, message, author=author)
    verdicts = {
        judged.change: (judged.verdict, judged.reason.partition(":")[0])
        for judged in by_model(model.plan(project))
    }
    assert verdicts["#140"] == ("quarantined", "untrusted-quote")
    assert verdicts["#141"][0] == "written"


def test_a_long_text_that_two_sessions_repeat_is_not_from_a_person(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    template = "\n".join(f"Step {number}: always look at part {number}." for number in range(25))
    keys = []
    for session in (SESSION, SESSION[::-1]):
        data = make_session(template, WORDS, at=project.clock.now, session=session)
        transcript = data.replace(b'"uuid": "0000', f'"uuid": "{session[:4]}'.encode())
        keys.append(keep_session(project, tmp_path, transcript))
    trailers = "\n".join(f"Memory-Session: {key}" for key in keys)
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\n{trailers}")
    model.plan(project)
    assert turns(model) == [[WORDS, WORDS]]
