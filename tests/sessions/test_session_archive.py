"""Tests of reading the people's turns of all sessions of a repository, merged or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memory_ci.gitrepo import blobs, log
from memory_ci.records.repetition import PersonTurn
from memory_ci.sessions import session_archive
from memory_ci.sessions.session_archive import SessionArchive, add_reviews
from memory_ci.sources.transcripts.registry import read_stream
from tests.agents_at_work import WORDS, keep_session, make_refusal, make_session, put_tree
from tests.project import Project
from tests.sessions.repeated_sessions import (
    DRAFT,
    keep_asking,
    list_people,
    list_typed,
    read_all,
    run_command,
)
from tests.sessions.sessions_at_work import (
    ENTIRE,
    checkpoint,
    configure,
    make_history,
    make_note,
)
from tests.sources.transcripts.claude import (
    make_agent,
    make_call,
    make_queue,
    make_record,
    make_result,
    make_user,
)

ADA = "Ada Archer <ada@example.com>"
MALLORY = "Mallory <mallory@example.org>"
UNKNOWN = "unknown flag: --stat"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEMPLATE = "\n".join(
    [f"Step {number}: look at the part {number} of the page." for number in range(25)]
    + ["", "Always open a draft PR first."]
)


def cache_path(project: Project) -> Path:
    return project.path / ".git/memory-ci/session-archive"


# -- where sessions are


def test_captured_sessions_are_read(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, *DRAFT[:2])
    assert list_typed(project) == list(DRAFT[:2])


def test_checkpoints_of_entire_are_read_with_their_committer(
    project: Project, tmp_path: Path
) -> None:
    put_tree(project, ENTIRE, checkpoint(make_session(WORDS, at=project.clock.now)))
    archive = read_all(project)
    assert [turn.text for turn in archive.turns] == [WORDS]
    assert list_people(archive.turns) == {"Ann Author <ann@example.com>"}


def test_notes_of_git_ai_are_read(project: Project) -> None:
    note = make_note(WORDS, at=project.clock.now)
    project.git("notes", "--ref=ai", "add", "-m", note)
    assert list_typed(project) == [WORDS]


def test_committed_transcripts_are_read_with_their_author_even_if_removed_since(
    project: Project,
) -> None:
    path = ".specstory/history/one.md"
    project.commit("Keep", {path: make_history(project.clock.now, WORDS)}, ADA)
    project.commit("Remove", {path: None})
    archive = read_all(project)
    assert [turn.text for turn in archive.turns] == [WORDS]
    assert list_people(archive.turns) == {ADA}


def test_a_renamed_transcript_is_read_once(project: Project) -> None:
    project.commit(
        "Keep", {".specstory/history/one.md": make_history(project.clock.now, WORDS)}, ADA
    )
    project.write(".specstory/history/x", "")
    project.git("mv", ".specstory/history/one.md", ".specstory/history/two.md")
    project.commit("Rename")
    assert list_typed(project) == [WORDS]


def test_prompts_that_commit_messages_repeat_are_turns_of_the_commit(project: Project) -> None:
    message = f"Retry\n\n[Prompt 1]\n{WORDS}\n\n[Prompt 2]\nOpen a draft PR.\n\n[Response]\nDone."
    sha = project.commit(message, author=ADA)
    archive = read_all(project)
    assert [turn.text for turn in archive.turns] == [WORDS, "Open a draft PR."]
    assert {turn.session for turn in archive.turns} == {f"commit:{sha[:12]}"}
    assert list_people(archive.turns) == {ADA}


def test_only_new_commits_are_searched_and_earlier_results_are_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.commit(f"Retry\n\n[Prompt 1]\n{WORDS}", author=ADA)
    assert list_typed(project) == [WORDS]
    searched_ranges: list[tuple[str, ...]] = []
    read_log = log.read_log

    def note(repo: object, *arguments: str) -> object:
        searched_ranges.append(arguments)
        return read_log(repo, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(session_archive, "read_log", note)
    assert list_typed(project) == [WORDS]
    assert searched_ranges == []
    base = project.sha()
    project.commit("Go on\n\n[Prompt 1]\nOpen a draft PR.", author=ADA)
    assert list_typed(project) == [WORDS, "Open a draft PR."]
    assert all(f"^{base}" in arguments for arguments in searched_ranges)


def test_nothing_is_read_without_sessions(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, *DRAFT[:2])
    project.commit("Configure", {".memory-ci.yaml": "sessions:\n  read: false\n"})
    assert read_all(project) == SessionArchive()


# -- what is cached


def test_a_transcript_is_parsed_once(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_asking(project, tmp_path, *DRAFT[:2])
    first = read_all(project)
    parsed: list[object] = []

    def count(*arguments: object) -> object:
        parsed.append(1)
        return read_stream(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("memory_ci.sessions.session_archive.read_stream", count)
    assert read_all(project) == first
    assert parsed == []
    keep_asking(project, tmp_path, DRAFT[2], first=3)
    assert len(read_all(project).turns) == 3
    assert len(parsed) == 1


def test_a_forgotten_session_leaves_the_cache(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, *DRAFT[:2])
    read_all(project)
    for ref in project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci").split():
        project.git("update-ref", "-d", ref)
    assert list_typed(project) == []
    assert b"draft" not in cache_path(project).read_bytes()


@pytest.mark.parametrize("kind", ["turn", "prompt", "output", "command", "review"])
def test_no_secret_is_cached(project: Project, tmp_path: Path, kind: str) -> None:
    text = f"Use the token {TOKEN} of ada@example.com"
    if kind == "turn":
        keep_asking(project, tmp_path, text)
    elif kind == "prompt":
        project.commit(f"Retry\n\n[Prompt 1]\n{text}")
    elif kind == "review":
        turn = PersonTurn("#1", project.clock.now, ADA, "Open a draft PR.")
        add_reviews(project.workspace, read_all(project), [turn])
    else:
        command = f"gh pr diff --stat {TOKEN}" if kind == "command" else "gh pr diff --stat"
        output = f"{UNKNOWN} {TOKEN}" if kind == "output" else UNKNOWN
        transcript = make_session(WORDS, *run_command(command, output), at=project.clock.now)
        put_tree(project, ENTIRE, checkpoint(transcript))
    assert read_all(project) != SessionArchive()
    assert TOKEN[:12].encode() not in cache_path(project).read_bytes()


@pytest.mark.parametrize("cut", range(0, 44, 4))
def test_a_secret_at_the_limit_of_a_text_is_masked_before_cutting(
    project: Project, cut: int
) -> None:
    before = session_archive.MAX_TURN - cut
    text = f"{'word ' * (before // 5)}{TOKEN}"
    project.commit(f"Retry\n\n[Prompt 1]\n{text}")
    (turn,) = read_all(project).turns
    assert "ghp_" not in turn.text
    assert len(turn.text) <= session_archive.MAX_TURN


# -- whose words count


@pytest.mark.parametrize("where", ["captured", "committed", "prompt", "entire", "review"])
def test_words_of_untrusted_people_do_not_count(
    project: Project, tmp_path: Path, where: str
) -> None:
    configure(project, "extraction:\n  trusted_authors: ['*@example.com']\n")
    now = project.clock.now
    if where == "captured":
        keep_asking(project, tmp_path, *DRAFT)  # nobody says whose session it is
    elif where == "committed":
        project.commit("Keep", {".specstory/history/one.md": make_history(now, WORDS)}, MALLORY)
    elif where == "prompt":
        project.commit(f"Retry\n\n[Prompt 1]\n{WORDS}", author=MALLORY)
    elif where == "entire":
        put_tree(project, ENTIRE, checkpoint(make_session(WORDS, at=now)))
        project.git("checkout", "-q", ENTIRE)
        project.git("commit", "-q", "--amend", "--no-edit", f"--author={MALLORY}")
        project.git("update-ref", ENTIRE, "HEAD")
        project.git("checkout", "-q", "-f", "main")
    else:
        turn = PersonTurn("#1", now, MALLORY, WORDS)
        add_reviews(project.workspace, read_all(project), [turn])
    assert list_typed(project) == []


def test_words_of_trusted_people_count(project: Project) -> None:
    configure(project, "extraction:\n  trusted_authors: ['ada@*']\n")
    project.commit(f"Retry\n\n[Prompt 1]\n{WORDS}", author=ADA)
    assert list_typed(project) == [WORDS]


def test_a_bot_s_prompts_do_not_count(project: Project) -> None:
    project.commit(f"Retry\n\n[Prompt 1]\n{WORDS}", author="renovate[bot] <bot@example.com>")
    assert list_typed(project) == []


def test_reviews_are_cached_once(project: Project) -> None:
    turn = PersonTurn("#1", project.clock.now, ADA, "Open a draft PR.")
    stranger = PersonTurn("#1", project.clock.now, "renovate[bot] <x@y>", "Open a draft PR now.")
    for _ in range(3):
        archive = add_reviews(project.workspace, read_all(project), [turn, stranger])
        assert [turn.person for turn in archive.turns] == [ADA]
    assert cache_path(project).read_bytes().count(b"renovate") == 1


def test_a_copy_of_a_turn_counts_once_and_keeps_its_author(
    project: Project, tmp_path: Path
) -> None:
    data = make_session(WORDS, at=project.clock.now)
    keep_session(project, tmp_path, data)
    put_tree(project, ENTIRE, checkpoint(data))
    archive = read_all(project)
    assert [turn.text for turn in archive.turns] == [WORDS]
    assert list_people(archive.turns) == {"Ann Author <ann@example.com>"}


# -- what is no person's


EVENT = '{"task_id": "b1", "task_type": "local_bash", "status": "completed", "summary": "%s"}'


@pytest.mark.parametrize(
    "records",
    [
        [make_user(EVENT % WORDS, 5)],
        [make_queue("enqueue", EVENT % WORDS, 5), make_queue("remove", EVENT % WORDS, 6)],
        [make_user(f"<task-notification>{WORDS}</task-notification>", 5)],
        [make_user(f"<agent-notification>\n{WORDS}\n</agent-notification>", 5)],
        [make_user(f"<system-reminder>{WORDS}</system-reminder>", 5)],
        [make_agent(make_call("Bash", command="cat x")), make_user([make_result(WORDS)], 5)],
        [make_user(WORDS, 5, isSidechain=True)],
        [make_user(WORDS, 5, agentId="a1")],
        [make_user(WORDS, 5, isMeta=True)],
        [make_agent({"type": "text", "text": WORDS}, number=5)],
        [make_user(f"This session is being continued from a previous conversation. {WORDS}", 5)],
        [make_record("system", 5, content=WORDS)],
    ],
    ids=[
        *("a task's event", "an event in the queue", "a notification", "another notification"),
        *("a reminder", "tool output", "a sidechain", "a sub-agent", "a meta record"),
        *("the agent", "a summary", "the system"),
    ],
)
@pytest.mark.parametrize("where", ["captured", "entire"])
def test_text_of_a_program_is_not_a_turn(
    project: Project, tmp_path: Path, records: list[dict[str, object]], where: str
) -> None:
    data = make_session("Look at the client.", *records, at=project.clock.now)
    if where == "captured":
        keep_session(project, tmp_path, data)
    else:
        put_tree(project, ENTIRE, checkpoint(data))
    assert list_typed(project) == ["Look at the client."]


@pytest.mark.parametrize(
    "prompt",
    [
        f"<task-notification>\n{WORDS}\n</task-notification>",
        EVENT % WORDS,
        f"<command-name>/deploy</command-name>\n{WORDS}",
        f"<system-reminder>\n{WORDS}\n</system-reminder>",
        f"This session is being continued from a previous conversation. {WORDS}",
        f"# AGENTS.md instructions\n{WORDS}",
    ],
)
def test_text_of_a_program_in_a_commits_prompt_is_not_a_turn(project: Project, prompt: str) -> None:
    project.commit(f"Retry\n\n[Prompt 1]\n{prompt}")
    assert list_typed(project) == []


def test_a_long_template_in_two_sessions_is_not_a_turn(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, TEMPLATE)
    assert list_typed(project) == [TEMPLATE]
    keep_asking(project, tmp_path, [TEMPLATE, "Go on."], first=2)
    assert list_typed(project) == ["Go on."]


def test_a_refusal_with_words_is_a_turn(project: Project, tmp_path: Path) -> None:
    refused = make_refusal("use pnpm, npm breaks the lock file")
    keep_session(project, tmp_path, make_session(*refused, at=project.clock.now))
    assert list_typed(project) == ["use pnpm, npm breaks the lock file"]


# -- what agents did


@pytest.mark.parametrize(
    ("command", "moment"),
    [
        ("git add . && git commit -m x", "before:commit"),
        ("git push -u origin main", "before:push"),
        ("gh pr create --draft", "before:pull-request"),
        ("glab mr create", "before:pull-request"),
        ("git status", ""),
        ("echo 'git push'", ""),
    ],
)
@pytest.mark.parametrize("where", ["captured", "entire"])
def test_the_first_milestone_after_a_turn_is_its_moment(
    project: Project, tmp_path: Path, command: str, moment: str, where: str
) -> None:
    data = make_session(
        WORDS,
        *run_command("git status", number=10),
        *run_command(command, number=20),
        *run_command("git push", number=30) if moment else (),
        "Open a draft PR.",
        at=project.clock.now,
    )
    if where == "captured":
        keep_session(project, tmp_path, data)
    else:
        put_tree(project, ENTIRE, checkpoint(data))
    first, second = read_all(project).turns
    assert (first.then, second.then) == (moment, "")


@pytest.mark.parametrize("where", ["captured", "entire"])
def test_misused_commands_are_kept_with_the_form_that_worked(
    project: Project, tmp_path: Path, where: str
) -> None:
    data = make_session(
        WORDS,
        *run_command("gh pr diff 12 --stat", UNKNOWN, number=10),
        *run_command("gh pr diff 12 --name-only", number=20),
        *run_command("make test", "FAILED tests/test_retry.py - assert 1 == 2", number=30),
        at=project.clock.now,
    )
    if where == "captured":
        keep_session(project, tmp_path, data)
    else:
        put_tree(project, ENTIRE, checkpoint(data))
    (failed,) = read_all(project).failed
    assert (failed.form, failed.error) == ("gh pr diff --stat", UNKNOWN)
    assert failed.worked == "gh pr diff --name-only"


# -- limits


def test_a_transcript_that_is_too_large_is_a_problem_and_the_others_are_read(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_archive, "MAX_TRANSCRIPT", 100_000)
    put_tree(project, ENTIRE, checkpoint(make_session("x " * 60_000, at=project.clock.now)))
    keep_asking(project, tmp_path, DRAFT[0])
    archive = read_all(project)
    assert [turn.text for turn in archive.turns] == [DRAFT[0]]
    assert archive.problems == ("1 transcript not read for what people ask again",)


def test_the_next_run_reads_transcripts_that_exceeded_the_limit(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_asking(project, tmp_path, *DRAFT)
    monkeypatch.setattr(session_archive, "MAX_BYTES", 1)
    counts = [len(read_all(project).turns) for _ in range(len(DRAFT))]
    assert counts == [1, 2, 3, 4, 5]


def test_one_transcript_is_in_memory_at_a_time(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_asking(project, tmp_path, *DRAFT)
    read: list[int] = []
    read_files = blobs.read_files

    def note(repo: object, files: Sequence[object], limit: int) -> Iterator[object]:
        read.append(len(files))
        return read_files(repo, files, limit)  # type: ignore[arg-type]

    monkeypatch.setattr(session_archive, "read_files", note)
    read_all(project)
    assert read == [1] * len(DRAFT)
