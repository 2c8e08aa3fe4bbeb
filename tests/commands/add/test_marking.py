"""What an agent is asked when a person corrects it, and the note that comes of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from memory_ci.memory.apply import apply_plan
from memory_ci.sessions.capture import capture
from memory_ci.sessions.marked_notes import read_pending
from tests.command_line import Run
from tests.project import NOW, Project
from tests.sources.transcripts.samples import write_opencode

pytestmark = pytest.mark.in_project

ROOT = Path(__file__).parents[3]
CORRECTION = "No, never retry a charge in the caller: the client alone knows the key."
PROMPTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
STOPS = {"claude-code": "Stop", "codex": "Stop", "gemini": "AfterAgent", "copilot": "agentStop"}
Hook = Callable[..., str]
Write = Callable[..., Path]
Add = Callable[..., Result]


@pytest.fixture
def hook(run: Run, project: Project, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """`hook("codex", "Stop")` gives what the agent is told, whatever its dialect."""
    for name in ("COPILOT_CLI", "CURSOR_VERSION", "CLAUDE_CODE_ENTRYPOINT"):
        monkeypatch.delenv(name, raising=False)

    def call(agent: str, event: str, *flags: str, **told: Any) -> str:
        given = {"session_id": "s1", "cwd": str(project.path), "hook_event_name": event, **told}
        result = run("hook", "agent", "--for", agent, *flags, stdin=json.dumps(given))
        assert (result.exit_code, result.stderr) == (0, "")
        answer = json.loads(result.stdout or "{}")
        named = answer.get("hookSpecificOutput", {}).get("additionalContext")
        return str(answer.get("reason") or answer.get("additionalContext") or named or "")

    return call


def correct(hook: Hook, agent: str = "claude-code", prompt: str = CORRECTION, **told: Any) -> str:
    return hook(agent, PROMPTS.get(agent, "userPromptSubmitted"), prompt=prompt, **told)


@pytest.mark.parametrize("agent", PROMPTS)
def test_a_prompt_that_steers_is_answered_by_what_to_do_with_it_three_times(
    hook: Hook, agent: str
) -> None:
    for number in range(5):
        said = correct(hook, agent)
        assert ("memory-ci add" in said and "--quote" in said) == (number < 3), number
        assert len(said) < 10_000
    assert "memory-ci add" not in correct(
        hook, agent, "Show me the failing test of the client.", session_id="s2"
    )


def test_what_is_asked_takes_fewer_than_a_hundred_tokens(hook: Hook) -> None:
    asked = correct(hook).partition("memory-ci: this prompt")
    assert asked[1]
    assert len("".join(asked[1:]).split()) < 60
    assert len("".join(asked[1:])) < 400


@pytest.mark.parametrize(
    ("agent", "decision"),
    [("claude-code", None), ("codex", "block"), ("gemini", "deny"), ("copilot", "block")],
)
def test_the_end_of_a_turn_asks_once_in_the_dialect_of_the_agent(
    run: Run, hook: Hook, project: Project, agent: str, decision: str | None
) -> None:
    correct(hook, agent)
    told = {"session_id": "s1", "cwd": str(project.path), "hook_event_name": STOPS[agent]}
    again = json.dumps({**told, "stop_hook_active": True})
    assert run("hook", "agent", "--for", agent, stdin=again).stdout == "", (
        "a hook made it go on already"
    )
    answer = json.loads(run("hook", "agent", "--for", agent, stdin=json.dumps(told)).stdout)
    reason = answer["reason"] if decision else answer["hookSpecificOutput"]["additionalContext"]
    assert answer.get("decision") == decision
    assert reason.startswith("memory-ci: ")
    assert "--quote" in reason
    assert hook(agent, STOPS[agent]) == ""
    assert correct(hook, agent, reason) == "", "our own text is nobody's"


def test_nothing_is_asked_at_the_end_where_nobody_steered_or_a_note_was_added_since(
    hook: Hook, run: Run
) -> None:
    correct(hook, prompt="Show me the failing test of the client.")
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert run("add", "Retry a POST in the client alone").exit_code == 0
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert hook("claude-code", "Stop") != "", "another correction"


@pytest.mark.parametrize("entrypoint", ["sdk-cli", "sdk-py"])
def test_a_program_is_asked_nothing(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, entrypoint: str
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", entrypoint)
    assert "memory-ci add" not in correct(hook)
    assert hook("claude-code", "Stop") == ""
    assert "memory-ci add" in correct(hook, "codex"), "the variable is Claude Code's"


def test_who_is_not_to_be_asked_is_not(hook: Hook) -> None:
    told = {"prompt": CORRECTION}
    assert "memory-ci add" not in hook("claude-code", "UserPromptSubmit", "--no-ask", **told)
    assert hook("claude-code", "Stop", "--no-ask") == ""
    assert "memory-ci add" not in hook("claude-code", "UserPromptSubmit", agent_id="sub-1", **told)
    assert hook("claude-code", "Stop") == ""


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, **fields}


def spoken(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}}


def edit(path: str, number: int = 1) -> dict[str, Any]:
    return spoken(
        {"type": "tool_use", "id": f"t{number}", "name": "Edit", "input": {"file_path": path}}
    )


def result(text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


@pytest.fixture
def transcript(project: Project) -> Write:
    """`transcript(user("…"), edit("src/client.py"))` writes the records of a session; a line each."""

    def write(*records: dict[str, Any], session: str = "s1", cwd: str | None = None) -> Path:
        common = {
            "sessionId": session,
            "cwd": cwd or str(project.path),
            "timestamp": "2026-11-20T10:00:00Z",
        }
        lines = [
            json.dumps({**common, "uuid": f"u{number}", **one})
            for number, one in enumerate(records)
        ]
        return project.write(f".git/{session}.jsonl", "".join(f"{line}\n" for line in lines))

    return write


def test_where_no_git_hook_would_take_it_along_the_note_lies_in_the_inbox(
    hook: Hook, project: Project, add: Add, transcript: Write
) -> None:
    (project.path / ".git/hooks/pre-commit").unlink()
    path = transcript(user(CORRECTION))
    at_work(hook, path)
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    hook("claude-code", "Stop", transcript_path=str(path))
    assert (project.path / added["path"]).is_file(), "the next hook leaves it there"
    capture(project.workspace, path, NOW)
    project.git("add", "-A")
    project.commit("Do the work\n\nMemory-Session: claude-code:s1")
    project.record()
    assert [one.id for one in project.entries()].count(added["entry"]["id"]) == 1


def commit_notes(project: Project) -> None:
    """Commit the notes as our hook does with the work of their session."""
    project.commit("Note it", read_pending(project.workspace))


@pytest.fixture
def add(run: Run, project: Project) -> Add:
    """`add("--quote", "…")` adds a note of a title of its own, where a hook will take it along."""
    numbers = count()
    project.write(".git/hooks/pre-commit", "")
    return lambda *options: run(
        "add", f"Retries live in the client, rule {next(numbers)}", "--json", *options
    )


def slug(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return result.stderr.partition("[")[2].partition("]")[0]


def at_work(hook: Hook, path: Path, session: str = "s1", **told: Any) -> None:
    correct(hook, transcript_path=str(path), session_id=session, **told)


def test_a_correction_becomes_a_note_that_says_who_said_it_where_and_record_proves_it_again(
    hook: Hook, transcript: Write, add: Add, project: Project
) -> None:
    path = transcript(
        user("Fix the client"), edit("README.md"), user(CORRECTION), edit("src/client.py", 2)
    )
    at_work(hook, path)
    added = json.loads(add("--quote", "never  retry a charge in the caller").stdout)
    line = "session:claude-code:s1#3 never retry a charge in the caller"
    assert added["entry"]["evidence"] == [line]
    assert [cite.partition("@")[0] for cite in added["entry"]["cites"]] == ["src/client.py"]
    assert line in (project.path / added["path"]).read_text()
    assert hook("claude-code", "Stop") == "", "it was added"
    capture(project.workspace, path, NOW)
    commit_notes(project)
    project.record()
    (entry,) = (one for one in project.entries() if one.id == added["entry"]["id"])
    assert entry.evidence == (line,)


@pytest.mark.parametrize(
    ("digest", "settings"),
    [
        (None, ""),
        ("Never retry a charge in the gateway.", ""),
        (CORRECTION, "sessions: {read: false}\n"),
    ],
    ids=["not captured", "other words", "not read"],
)
def test_what_no_captured_session_proves_stays_a_claim(
    hook: Hook, transcript: Write, add: Add, project: Project, digest: str | None, settings: str
) -> None:
    at_work(hook, transcript(user(CORRECTION)))
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    if digest:
        capture(project.workspace, transcript(user(digest)), NOW)
    project.commit("Configure", {".memory-ci.yaml": settings})
    commit_notes(project)
    project.record()
    (entry,) = (one for one in project.entries() if one.id == added["entry"]["id"])
    assert entry.evidence == ("claimed:session:claude-code:s1#1 the client alone knows the key",)


REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse the client for retries"
)


def refusal(text: str = REFUSAL) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": True}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "toolDenialKind": "user-rejected"}


@pytest.mark.parametrize(
    ("records", "is_asked"),
    [
        ([refusal()], True),
        ([refusal(), user("Now show me the tests")], False),
        ([refusal(REFUSAL.partition(" To tell")[0])], False),
        ([result(f"src/hook.py:3: {REFUSAL}")], False),
        ([], False),
    ],
    ids=["refused", "an earlier turn", "without a word", "a tool's text", "none"],
)
def test_a_refused_tool_call_is_a_correction_at_the_end_of_the_turn(
    hook: Hook, transcript: Write, add: Add, records: list[dict[str, Any]], is_asked: bool
) -> None:
    path = str(transcript(user("Fix the client"), edit("src/client.py"), *records))
    correct(hook, prompt="Fix the client", transcript_path=path)
    assert ("--quote" in hook("claude-code", "Stop", transcript_path=path)) == is_asked
    if is_asked:
        assert add("--quote", "use the client for retries").exit_code == 0


@pytest.mark.parametrize("is_known_first", [True, False])
def test_a_plan_is_applied_also_where_the_session_is_not_known(
    hook: Hook, transcript: Write, add: Add, project: Project, is_known_first: bool
) -> None:
    at_work(hook, path := transcript(user(CORRECTION)))
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    commit_notes(project)
    if is_known_first:
        capture(project.workspace, path, NOW)
    plan = project.plan()
    if is_known_first:
        project.git("update-ref", "-d", "refs/memory-ci/sessions/claude-code/s1")
    else:
        capture(project.workspace, path, NOW)
    apply_plan(project.workspace, plan, NOW)
    (entry,) = (one for one in project.entries() if one.id == added["entry"]["id"])
    assert entry.evidence[0].startswith("claimed:") != is_known_first


SAID = "Never retry a charge in the caller."


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("No: don\u2019t \u201cretry\u201d\n  a charge here", 'don\'t "retry" a charge here'),
        (f"Look:\n```\nshout\n```\n{SAID}", SAID),
        (f"> an answer\n\n- {SAID}", SAID),
        (
            f"Not so.\n\n{SAID} Ask ada@example.com",
            "retry a charge in the caller. Ask ada@example.com",
        ),
    ],
    ids=["folded", "after a fence", "in a list", "an address"],
)
def test_a_person_is_quoted(hook: Hook, transcript: Write, add: Add, said: str, words: str) -> None:
    at_work(hook, transcript(user(said)))
    added = add("--quote", words)
    assert added.exit_code == 0, added.stderr
    assert "ada@example.com" not in added.stdout


@pytest.mark.parametrize(
    "records",
    [
        [user("Fix it"), edit("src/client.py"), result(SAID)],
        [user("Fix it"), spoken({"type": "text", "text": SAID})],
        [user("Fix it"), user(SAID, isMeta=True)],
        [user("Fix it"), user(SAID, isSidechain=True)],
        [user(SAID, entrypoint="sdk-cli")],
        [user(f"memory-ci: is it so? {SAID}")],
        [user(f"Read this:\n```\n{SAID}\n```")],
        [user(f"Read this:\n```\n{SAID}")],
        [user(f"He says\n> {SAID}")],
        [user(f"He says\n\n    {SAID}")],
        [user(f"{SAID}\n" + "x" * 2_000)],
        [user("\n".join([*["INFO a line of a log"] * 12, SAID]))],
        [user("Never retry a charge in the callers.")],
        [user("Never retry a charge.\n\nin the caller.")],
    ],
    ids=[
        "tool",
        "agent",
        "meta",
        "sub-agent",
        "program",
        "ours",
        "fence",
        "open fence",
        "quotation",
        "indented",
        "long turn",
        "long block",
        "half a word",
        "two paragraphs",
    ],
)
def test_words_that_no_person_typed_are_no_quote(
    hook: Hook, transcript: Write, add: Add, project: Project, records: list[dict[str, Any]]
) -> None:
    at_work(hook, transcript(*records))
    assert slug(add("--quote", SAID.rstrip("."))) == "quote-not-said"
    assert ".memory" not in project.status()


@pytest.mark.parametrize("words", ["", "in the", "a b c", "retry-a-charge caller", "never " * 200])
def test_a_quote_has_some_words(hook: Hook, transcript: Write, add: Add, words: str) -> None:
    at_work(hook, transcript(user(CORRECTION)))
    assert slug(add("--quote", words)) == "bad-quote"


def test_a_title_that_says_the_opposite_of_the_quote_is_refused(
    hook: Hook, transcript: Write, run: Run, project: Project
) -> None:
    at_work(hook, transcript(user(SAID)))
    assert (
        slug(run("add", "Always retry a charge in the caller", "--quote", SAID))
        == "opposite-of-the-quotes"
    )
    assert ".memory" not in project.status()


def test_a_turn_is_quoted_by_what_steers_in_it(
    hook: Hook, transcript: Write, add: Add, run: Run
) -> None:
    at_work(
        hook,
        transcript(
            user("Fix the client and its tests"), user(f"Thanks. {SAID} Go on."), user("ok")
        ),
    )
    evidence = json.loads(add("--turn", "2").stdout)["entry"]["evidence"]
    assert evidence == [f"session:claude-code:s1#2 {SAID}"]
    assert json.loads(add("--turn", "1").stdout)["entry"]["evidence"][0].endswith(
        "Fix the client and its tests"
    )
    for options in (("--turn", "0"), ("--turn", "4"), ("--turn", "2", "--quote", SAID)):
        assert slug(add(*options)) == "bad-quote"
    read = run("add", "Read the quote", "--quote", "-", "--dry-run", stdin=SAID)
    assert read.stdout.startswith("Would add")
    assert slug(run("add", "--quote", "-", stdin=SAID)) == "bad-quote"


def test_a_session_adds_three_quotes_and_none_of_them_is_institutional(
    hook: Hook, transcript: Write, add: Add, run: Run
) -> None:
    at_work(hook, transcript(user(SAID)))
    assert slug(add("--quote", SAID, "--scope", "institutional")) == "bad-scope"
    for _ in range(3):
        assert add("--quote", SAID).exit_code == 0
    assert slug(add("--quote", SAID)) == "too-many-marks"
    assert run("add", "Anybody adds what nobody is quoted for").exit_code == 0


def test_the_session_is_that_of_the_environment_else_the_one_that_is_at_work(
    hook: Hook, transcript: Write, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slug(add("--quote", SAID)) == "no-session"
    at_work(hook, transcript(user(SAID)))
    at_work(hook, transcript(user("Never use floats for money."), session="s2"), "s2")
    assert slug(add("--quote", SAID)) == "no-session", "two are at work"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s2")
    assert slug(add("--quote", SAID)) == "quote-not-said", "it is of the other session"
    assert add("--quote", "Never use floats for money").exit_code == 0
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    hook("claude-code", "SessionEnd", session_id="s2")
    assert add("--quote", SAID).exit_code == 0
    monkeypatch.setenv(
        "SOURCE_DATE_EPOCH", str(int(datetime(2026, 11, 21, 20, 1, tzinfo=UTC).timestamp()))
    )
    assert slug(add("--quote", SAID)) == "no-session", "eight hours later"


def test_a_session_without_hooks_is_found_where_the_agent_keeps_it(
    transcript: Write, add: Add, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "0a1b2c3d-9")
    assert slug(add("--quote", SAID)) == "no-transcript"
    kept = Path.home() / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(project.path))
    kept.mkdir(parents=True)
    transcript(user(SAID), session="0a1b2c3d-9").rename(kept / "0a1b2c3d-9.jsonl")
    assert add("--quote", SAID).exit_code == 0


def test_copilot_tells_no_transcript_and_keeps_it_under_the_session_s_id(
    hook: Hook, add: Add, project: Project
) -> None:
    key = "c0000000-0000-4000-8000-000000000004"
    text = (
        (ROOT / "tests/transcripts/copilot-events.jsonl")
        .read_text()
        .replace("/home/dev/shop", str(project.path))
    )
    place = Path.home() / ".copilot/session-state" / key
    place.mkdir(parents=True)
    (place / "workspace.yaml").write_text("no transcript\n")
    (place / "events.jsonl").write_text(text)
    correct(hook, "copilot", session_id="", sessionId=key)
    assert add("--quote", "never retry a charge in the caller").exit_code == 0
    hook("copilot", "agentStop", session_id="", sessionId=key)
    assert f"sessions/copilot/{key}" in project.git("for-each-ref", "--format=%(refname)")
    hook("copilot", "agentStop", session_id="", sessionId="../../etc")  # nothing is read outside


def test_opencode_keeps_all_sessions_in_one_database_of_which_one_is_quoted_and_captured(
    hook: Hook, add: Add, project: Project
) -> None:
    export = json.loads((ROOT / "tests/transcripts/opencode-export.json").read_text())
    key, words = export["info"]["id"], "never retry a charge in the caller"
    here, there = (
        {**export, "info": {**export["info"], **one}} for one in ({}, {"id": "ses_other"})
    )
    here["info"]["directory"] = str(project.path)
    write_opencode(
        Path.home() / ".local/share/opencode/opencode.db", here, {**there, "messages": []}
    )
    hook("opencode", "UserPromptSubmit", prompt=CORRECTION, session_id=key)
    added = add("--quote", words)
    assert json.loads(added.stdout)["entry"]["evidence"] == [f"session:opencode:{key}#3 {words}"]
    assert hook("opencode", "Stop", session_id=key) == ""
    hook("opencode", "UserPromptSubmit", prompt=CORRECTION, session_id=key)
    assert hook("opencode", "Stop", session_id=key) == "", (
        "its plugin has no answer to the end of a turn"
    )
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions").split()
    assert refs == [f"refs/memory-ci/sessions/opencode/{key}"]


def test_what_a_session_is_given_and_edits_later_does_not_hide_its_transcript(
    hook: Hook, transcript: Write, add: Add, project: Project
) -> None:
    at_work(hook, transcript(user(SAID)))
    hook("claude-code", "PostToolUse", tool_name="Edit", tool_input={"file_path": "src/client.py"})
    hook(
        "claude-code",
        "UserPromptSubmit",
        prompt="Look at how the client sends a charge and its idempotency key",
    )
    assert add("--quote", SAID).exit_code == 0


def test_a_transcript_in_the_work_tree_proves_nothing(
    add: Add, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "tests/transcripts/specstory.md").read_text()
    project.write(".specstory/history/5f3b2a10.md", text)
    monkeypatch.setenv("MEMORY_CI_SESSION", "claude-code:5f3b2a10-0000-4000-8000-000000000001")
    assert slug(add("--quote", "use pytest -q, the Makefile is gone")) == "no-transcript"


@pytest.mark.parametrize(
    ("name", "key", "words", "line"),
    [
        (
            "codex-new.jsonl",
            "codex:0199a000-0000-7000-8000-000000000001",
            "Now write the change log",
            20,
        ),
        (
            "gemini-events.jsonl",
            "gemini:5d1c0000-0000-4000-8000-000000000003",
            "Only delete the cache",
            15,
        ),
        (
            "copilot-events.jsonl",
            "copilot:c0000000-0000-4000-8000-000000000004",
            "never retry a charge in the",
            12,
        ),
    ],
)
def test_transcripts_of_other_agents_are_read_too(
    hook: Hook, add: Add, project: Project, name: str, key: str, words: str, line: int
) -> None:
    agent, _, session = key.partition(":")
    text = (ROOT / "tests/transcripts" / name).read_text()
    text = re.sub(r'"cwd": ?"[^"]*"', f'"cwd":"{project.path}"', text)
    text = re.sub(r"[0-9a-f]{64}", hashlib.sha256(bytes(project.path)).hexdigest(), text)
    correct(hook, agent, transcript_path=str(project.write(".git/t", text)), session_id=session)
    added = add("--quote", words)
    assert added.exit_code == 0, added.stderr
    assert json.loads(added.stdout)["entry"]["evidence"] == [f"session:{key}#{line} {words}"]


def test_a_transcript_of_another_session_or_project_proves_nothing(
    hook: Hook, transcript: Write, add: Add, tmp_path: Path
) -> None:
    at_work(hook, transcript(user(SAID), session="s2"))
    assert slug(add("--quote", SAID)) == "no-transcript"
    at_work(hook, transcript(user(SAID), cwd=str(tmp_path)))
    assert slug(add("--quote", SAID)) == "foreign-transcript"
    at_work(hook, tmp_path / "none.jsonl")
    assert slug(add("--quote", SAID)) == "transcript-unreadable"


def test_a_transcript_that_is_being_written_is_read_as_far_as_it_is(
    hook: Hook, transcript: Write, add: Add
) -> None:
    path = transcript(user(SAID))
    with path.open("a") as stream:
        stream.write('{"type": "user", "sessionId": "s1", "message": {"role": "us')
    at_work(hook, path)
    assert add("--quote", SAID).exit_code == 0
