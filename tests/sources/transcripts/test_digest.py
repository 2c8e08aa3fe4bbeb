"""Tests of digests: kept events read back unchanged, dropped events are counted, secrets are masked."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.evidence.content import redact
from memory_ci.records.event import Event, Session
from memory_ci.sources.transcripts.builder import Place, SessionBuilder
from memory_ci.sources.transcripts.digest import MAX_TEXT, read, sniff, write_digest
from tests.make import examples

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
LIMIT = 100_000


def unmasked(text: str) -> str:
    return text


def masked(text: str) -> str:
    return redact(text).text


def make_session() -> Session:
    """Return a session with events of every kind and with the line numbers of the transcript."""
    builder = SessionBuilder("claude-code", "claude-code", "79e9becd.jsonl")
    builder.branch = "retry"
    builder.pull_requests.append(128)
    builder.count_unknown("mystery")
    builder.add_event("injected", "text", "AGENTS.md says", Place(1, START))
    builder.add_event("human", "text", "Charge the card once.", Place(2, START), uid="u2")
    builder.add_event(
        "agent", "text", "I shall.\nFirst the client.", Place(4, START + timedelta(seconds=3))
    )
    builder.add_event("agent", "tool_call", "rm -rf build", Place(5), tool="Bash", paths=("build",))
    builder.add_event("tool", "tool_result", "all went well", Place(6), tool="Bash", ok=True)
    builder.add_event(
        "tool", "tool_result", "E" * 5000, Place(8), tool="Bash", ok=False, severity="error"
    )
    builder.add_event(
        "human", "rejection", "not that file", Place(9), tool="Edit", paths=("src/client.py",)
    )
    builder.add_event(
        "human",
        "text",
        "Use a key.",
        Place(12, START + timedelta(minutes=1)),
        labels=(("via", "queue"),),
    )
    builder.add_event("system", "compaction", "This session is being continued", Place(13))
    builder.add_event("human", "interrupt", "", Place(14, START + timedelta(minutes=2)))
    return builder.build()


def reread(data: bytes) -> Session:
    (session,) = read(io.BytesIO(data), "digest.jsonl")
    return session


def left_out(data: bytes) -> int:
    count: int = msgspec.json.decode(data.splitlines()[0])["left_out"]
    return count


def test_kept_events_read_back_with_their_address_in_the_transcript() -> None:
    session = make_session()
    reread_session = reread(write_digest(session, LIMIT, unmasked))
    lines = {event.origin.line for event in reread_session.events}
    assert lines == {2, 4, 5, 8, 9, 12, 13, 14}
    assert str(reread_session.events[0].origin) == "session:claude-code:79e9becd 79e9becd.jsonl:2"
    unshortened_lines = {2, 4, 9, 12, 13, 14}
    assert [event for event in reread_session.events if event.origin.line in unshortened_lines] == [
        event for event in session.events if event.origin.line in unshortened_lines
    ]
    assert msgspec.structs.replace(reread_session, events=()) == msgspec.structs.replace(
        session, events=()
    )


def test_tool_input_and_output_are_left_out_and_failures_are_shortened() -> None:
    data = write_digest(make_session(), LIMIT, unmasked)
    call, failed = (event for event in reread(data).events if event.tool == "Bash")
    assert (call.text, call.paths) == ("", ("build",))
    assert (len(failed.text), failed.ok, failed.severity) == (MAX_TEXT, False, "error")
    for dropped in (b"rm -rf", b"all went well", b"AGENTS.md says"):
        assert dropped not in data


def test_a_persons_words_are_never_shortened() -> None:
    builder = SessionBuilder("codex", "codex", "s.jsonl")
    builder.add_event("human", "text", "word " * 3000, Place(1))
    assert reread(write_digest(builder.build(), LIMIT, unmasked)).events[0].text == "word " * 3000


def test_no_part_of_a_credential_is_kept_even_if_a_text_is_cut() -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    builder = SessionBuilder("codex", "codex", "/home/ada/s.jsonl")
    builder.add_event("agent", "text", "x" * (MAX_TEXT - 20) + " " + token, Place(1))
    builder.add_event("human", "text", f"the token is {token}", Place(2), labels=(("note", token),))
    builder.add_event(
        "agent",
        "tool_call",
        "",
        Place(3),
        tool="Edit",
        paths=("/home/ada/shop/a.py", f"/srv/{token}"),
    )
    data = write_digest(builder.build(), LIMIT, masked)
    assert b"ghp_" not in data
    assert b"ada" not in data
    assert reread(data).path == "s.jsonl"


def test_a_digest_is_deterministic_and_idempotent() -> None:
    data = write_digest(make_session(), LIMIT, masked)
    assert data == write_digest(make_session(), LIMIT, masked)
    assert data == write_digest(reread(data), LIMIT, masked)


def test_the_least_valuable_events_are_dropped_first() -> None:
    session = make_session()
    full_digest = write_digest(session, LIMIT, unmasked)
    dropped_lines: list[int | None] = []
    for limit in range(len(full_digest), 0, -20):
        kept_lines = {
            event.origin.line for event in reread(write_digest(session, limit, unmasked)).events
        }
        dropped_lines += [
            line
            for line in (5, 4, 8, 13, 9, 12, 14, 2)
            if line not in kept_lines and line not in dropped_lines
        ]
    assert dropped_lines == [5, 4, 8, 13, 9, 12, 14, 2]


@given(st.integers(1, 3000))
def test_a_digest_keeps_its_limit_and_counts_dropped_events(limit: int) -> None:
    session = make_session()
    data = write_digest(session, limit, unmasked)
    header = data.index(b"\n") + 1
    assert len(data) <= max(limit, header)
    assert left_out(data) + len(reread(data).events) == 8


TEXTS = st.text(max_size=40) | st.just("\ud800 half a character")
EVENTS = st.lists(
    st.builds(
        Event,
        seq=st.integers(0, 1000),
        at=st.datetimes(timezones=st.just(UTC)),
        actor=st.sampled_from(["human", "agent", "subagent", "tool", "system", "injected"]),
        kind=st.sampled_from(
            ["text", "tool_call", "tool_result", "rejection", "interrupt", "compaction"]
        ),
        text=TEXTS,
        origin=st.just(make_session().events[0].origin),
        ok=st.sampled_from([None, True, False]),
        paths=st.lists(TEXTS, max_size=2).map(tuple),
        uid=st.sampled_from(["", "u1"]),
    ),
    max_size=8,
)


@examples(40)
@given(EVENTS)
def test_reading_is_the_inverse_of_writing(events: list[Event]) -> None:
    session = msgspec.structs.replace(make_session(), events=tuple(events))
    data = write_digest(session, LIMIT, unmasked)
    reread_session = reread(data)
    assert write_digest(reread_session, LIMIT, unmasked) == data
    persons_events = [
        event for event in events if event.actor == "human" and event.kind != "tool_call"
    ]
    readable = [
        event for event in persons_events if "\ud800" not in "".join((event.text, *event.paths))
    ]
    reread_events = [
        msgspec.structs.replace(event, session=None) for event in reread_session.events
    ]
    assert all(event in reread_events for event in readable)


def test_a_digest_is_recognised_by_its_first_line_and_broken_lines_are_counted() -> None:
    data = write_digest(make_session(), LIMIT, unmasked)
    assert sniff(data)
    assert not sniff(b'{"type":"user","memory-ci-session":1}')
    broken = data + b'{"seq":"x"}\nnot json\n\xff\n'
    assert reread(broken).counts.bad_lines == 3
    assert len(reread(broken).events) == 8


@pytest.mark.parametrize(
    "data", [b"", b"{}\n", b'{"memory-ci-session":2}\n', b'{"memory-ci-session":1}\n', b"\xff"]
)
def test_other_files_give_no_session(data: bytes) -> None:
    assert list(read(io.BytesIO(data), "x")) == []


def make_commands(*commands: tuple[str, bool]) -> Session:
    """Return a session of shell commands; each has a text and whether it succeeded."""
    builder = SessionBuilder("codex", "codex", "s.jsonl")
    for number, (command, ok) in enumerate(commands):
        builder.add_event("agent", "tool_call", command, Place(2 * number + 1), tool="shell")
        builder.add_event(
            "tool", "tool_result", f"it said {number}", Place(2 * number + 2), tool="shell", ok=ok
        )
    return builder.build()


def list_calls(session: Session) -> list[str]:
    events = reread(write_digest(session, LIMIT, masked)).events
    return [event.text for event in events if event.kind == "tool_call"]


def test_a_milestone_keeps_only_its_command() -> None:
    session = make_commands(
        ("git add . && git commit -m 'secret plan' && git push origin secret", True),
        ("gh pr create --title secret", True),
        ("echo 'git push' \"git commit\"", True),
        ("git commit -m 'then git push'", True),
        ("cat secret", True),
    )
    milestones = ["git commit && git push", "gh pr create", "", "git commit", ""]
    assert list_calls(session) == milestones
    assert b"secret" not in write_digest(session, LIMIT, masked)


def test_a_failed_command_and_the_few_after_it_are_kept_without_credentials() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    session = make_commands(
        ("one", True), (f"two {token}", False), *[(f"next {n}", True) for n in range(8)]
    )
    calls = list_calls(session)
    assert calls[0] == ""
    assert calls[1].startswith("two [redacted:")
    assert calls[2:] == [*[f"next {n}" for n in range(6)], "", ""]
    assert b"it said 2" not in write_digest(session, LIMIT, masked)


def test_a_known_command_that_succeeded_keeps_only_its_form() -> None:
    session = make_commands(("gh pr diff secret --stat", True), ("cat secret", True))
    data = write_digest(
        session, LIMIT, masked, lambda command: "gh pr diff" if "diff" in command else ""
    )
    calls = [event.text for event in reread(data).events if event.kind == "tool_call"]
    assert calls == ["gh pr diff", ""]
    assert b"secret" not in data
