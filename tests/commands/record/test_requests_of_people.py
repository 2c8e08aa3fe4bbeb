"""Tests of requests: only words that trusted people typed are counted."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.agents.conduct import PENDING_HEADING
from tests.agents_at_work import make_session, put_tree
from tests.command_line import Run
from tests.project import Project
from tests.sessions.repeated_sessions import DAY, find_titles, keep_asking, session_id
from tests.sessions.sessions_at_work import ENTIRE, configure
from tests.sources.transcripts.claude import (
    Record,
    make_agent,
    make_call,
    make_queue,
    make_record,
    make_result,
    make_user,
)

pytestmark = pytest.mark.in_project

REQUEST = "Always open a draft PR first."
WORK = ("Look at the client.", "Read the parser.", "Mend the queue.")
MORE_WORK = ("Draw a map.", "Sort it.")
SESSIONS = range(1, 4)
MALLORY = "Mallory <mallory@elsewhere.example>"
AGENT = "Claude <noreply@anthropic.com>"
FORK = "refs/remotes/fork/main"
EVENT = json.dumps(
    {"task_id": "b1", "task_type": "local_bash", "status": "completed", "summary": REQUEST}
)


def list_requests(run: Run) -> list[str]:
    """Return the titles that `record` proposes because they were repeated."""
    done = run("record", "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    judged = json.loads(done.stdout)["plan"]["judged"]
    candidates = [item["candidate"] for item in judged]
    return [item["title"] for item in candidates if item.get("engine") == "repetition"]


def keep_three(project: Project, folder: Path, *turns: str | Record) -> None:
    """Capture three sessions with the same turns and different work."""
    keep_asking(project, folder, *[[work, *turns] for work in WORK])


def keep_beside_work(project: Project, folder: Path, text: str) -> None:
    """Capture three sessions that have a turn with the text, and different work, so that none is a copy."""
    keep_asking(project, folder, *[f"{work}\n\n{text}" for work in WORK])


def put_checkpoints(project: Project, ref: str, author: str) -> None:
    """Commit three sessions with the request below to a ref of Entire, by an author."""
    files = {}
    for number in SESSIONS:
        at = project.clock.now + number * DAY
        data = make_session(REQUEST, at=at, session=session_id(number), first=number * 100)
        files[f"d0/161e0df1c{number}/full.jsonl"] = data
        files[f"d0/161e0df1c{number}/metadata.json"] = b"{}"
    put_tree(project, ref, files)
    project.git("checkout", "-q", ref)
    project.git("commit", "-q", "--amend", "--no-edit", f"--author={author}")
    project.git("update-ref", ref, "HEAD")
    project.git("checkout", "-q", "-f", "main")


def put_prompts(project: Project, author: str | None = None) -> None:
    """Make three commits whose messages repeat the request as a prompt."""
    for number in SESSIONS:
        message = f"Retry {number}\n\n[Prompt 1]\n{REQUEST}"
        project.commit(message, {"src/a.py": f"{number}\n"}, author)
        project.clock.now += timedelta(days=1)


def trust(project: Project, authors: str) -> None:
    configure(project, f"extraction:\n  trusted_authors: ['{authors}']\n")


# -- who counts


def test_a_request_of_a_trusted_person_in_three_sessions_is_proposed(
    run: Run, project: Project, tmp_path: Path
) -> None:
    keep_three(project, tmp_path, REQUEST)
    assert list_requests(run) == [REQUEST.rstrip(".")]


def test_a_request_of_a_trusted_person_in_three_checkpoints_is_proposed(
    run: Run, project: Project
) -> None:
    trust(project, "ann@*")
    put_checkpoints(project, ENTIRE, "Ann Author <ann@example.com>")
    assert list_requests(run) == [REQUEST.rstrip(".")]


def test_a_request_of_a_trusted_person_in_three_commits_is_proposed(
    run: Run, project: Project
) -> None:
    put_prompts(project)
    assert list_requests(run) == [REQUEST.rstrip(".")]


def list_written(run: Run) -> list[str]:
    """Return the titles that `record` writes because they were repeated."""
    plan = json.loads(run("record", "--dry-run", "--json").stdout)["plan"]
    entries = [change["entry"] for step in plan["steps"] for change in step["changes"]]
    return [entry["title"] for entry in entries if entry.get("engine") == "repetition"]


@pytest.mark.parametrize(
    ("request_text", "count"),
    [
        ("Always open a draft PR first.", 1),
        ("Always open https://x.example/a first.", 0),
        ("Always call +49 170 1234567 first.", 0),
        ("Always sign it as ada@mail.example.", 0),
    ],
)
def test_words_with_an_address_or_a_person_s_data_are_not_written_without_a_person(
    run: Run, project: Project, tmp_path: Path, request_text: str, count: int
) -> None:
    configure(project, "extraction:\n  repeated: write\n")
    turns: list[list[str | Record]] = [[work, request_text] for work in WORK + MORE_WORK]
    keep_asking(project, tmp_path, *turns)
    assert len(list_written(run)) == count


# -- what a program wrote

MACHINE: dict[str, list[Record]] = {
    "the result of a tool": [
        make_agent(make_call("Bash", command="cat rules.txt"), number=4),
        make_user([make_result(REQUEST)], 5),
    ],
    "a side chain": [make_user(REQUEST, 5, isSidechain=True)],
    "a sub-agent": [make_user(REQUEST, 5, agentId="a1")],
    "the prompt of a sub-agent": [make_agent(make_call("Task", prompt=REQUEST), number=5)],
    "the event of a task": [make_user(EVENT, 5)],
    "the event of a task in the queue": [
        make_queue("enqueue", EVENT, 5),
        make_queue("remove", EVENT, 6),
    ],
    "the notification of a task": [
        make_user(f"<task-notification>{REQUEST}</task-notification>", 5)
    ],
    "a system reminder": [make_user(f"<system-reminder>\n{REQUEST}\n</system-reminder>", 5)],
    "the context of a hook": [
        make_user(f"SessionStart:startup hook additional context: {REQUEST}", 5)
    ],
    "a record of the client": [make_user(REQUEST, 5, isMeta=True)],
    "a summary": [
        make_user(f"This session is being continued from a previous conversation. {REQUEST}", 5)
    ],
    "the agent": [make_agent({"type": "text", "text": REQUEST}, number=5)],
    "the system": [make_record("system", 5, content=REQUEST)],
    "the session of a program": [make_user(REQUEST, 5, entrypoint="sdk-cli")],
    "memory that was served": [make_user(f"<recalled-memory>\n- {REQUEST}\n</recalled-memory>", 5)],
    "our list of what is not agreed": [make_user(f"{PENDING_HEADING}\n- {REQUEST}", 5)],
    "our line of a moment": [make_user(f"memory-ci: before you commit: {REQUEST} (id 1)", 5)],
}


@pytest.mark.parametrize("source", MACHINE)
def test_text_of_a_program_is_no_request(project: Project, tmp_path: Path, source: str) -> None:
    keep_three(project, tmp_path, *MACHINE[source])
    assert find_titles(project) == []


@pytest.mark.parametrize("message", ["{0}\n\n{0}", "Retry\n\n{0}", "Retry\n\nPrompt: {0}"])
def test_the_message_of_a_commit_is_no_request(run: Run, project: Project, message: str) -> None:
    for number in SESSIONS:
        project.commit(message.format(REQUEST), {"src/a.py": f"{number}\n"})
    assert list_requests(run) == []


def test_a_prompt_in_a_commit_of_an_agent_is_no_request(run: Run, project: Project) -> None:
    put_prompts(project, AGENT)
    assert list_requests(run) == []


# -- who is not trusted


def test_sessions_of_nobody_in_particular_do_not_count_where_some_are_trusted(
    run: Run, project: Project, tmp_path: Path
) -> None:
    trust(project, "ann@*")
    keep_three(project, tmp_path, REQUEST)
    assert list_requests(run) == []


def test_sessions_of_a_stranger_do_not_count(run: Run, project: Project) -> None:
    trust(project, "ann@*")
    put_checkpoints(project, ENTIRE, MALLORY)
    assert list_requests(run) == []


def test_commits_of_a_stranger_do_not_count(run: Run, project: Project) -> None:
    trust(project, "ann@*")
    put_prompts(project, MALLORY)
    assert list_requests(run) == []


def test_sessions_of_a_fork_do_not_count(run: Run, project: Project) -> None:
    put_checkpoints(project, "refs/remotes/fork/entire/checkpoints/v1", MALLORY)
    assert list_requests(run) == []


def test_commits_of_a_fork_do_not_count(run: Run, project: Project) -> None:
    project.branch("fork")
    put_prompts(project, MALLORY)
    for number in SESSIONS:
        text = f"# Session\n\n_**User**_\n\n{REQUEST}\n"
        path = f".specstory/history/2026-01-0{number}_10-00Z-x.md"
        project.commit("Keep", {path: text}, MALLORY)
    project.git("update-ref", FORK, "fork")
    project.git("update-ref", "refs/pull/1/head", "fork")
    project.checkout("main")
    project.git("branch", "-q", "-D", "fork")
    assert list_requests(run) == []


# -- what a person only quoted

# tests/repetition/test_requests.py has further ways to quote.


def test_text_that_a_person_quotes_is_no_request(
    run: Run, project: Project, tmp_path: Path
) -> None:
    keep_beside_work(project, tmp_path, f"Ben wrote this:\n\n> {REQUEST}\n\nIs that so?")
    assert list_requests(run) == []


def test_a_person_s_own_words_next_to_a_quotation_are_a_request(
    run: Run, project: Project, tmp_path: Path
) -> None:
    keep_beside_work(project, tmp_path, f"> the diff of Ben\n\n{REQUEST}")
    assert list_requests(run) == [REQUEST.rstrip(".")]
