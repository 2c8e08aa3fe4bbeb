"""Tests of commits as a source: each commit becomes an event without changes."""

from __future__ import annotations

from memory_ci.sources.commits import make_commit_events
from tests.make import make_change, make_commit

SHA, TIP = "a" * 40, "c" * 40


def test_every_commit_of_a_change_is_one_event_in_order() -> None:
    change = make_change(
        make_commit("first", SHA), make_commit("Merge", TIP, parents=("b" * 40, SHA))
    )
    events = make_commit_events(change)
    assert [(event.seq, event.text, event.is_merge) for event in events] == [
        (0, "first", False),
        (1, "Merge", True),
    ]
    assert [str(event.origin) for event in events] == [f"commit:{SHA}", f"commit:{TIP}"]


def test_message_trailers_paths_and_author_are_unchanged() -> None:
    message = "fix: x\n\n  Learning:  a \r\n\nCo-authored-by: B <b@example.com>\n"
    commit = make_commit(
        message, SHA, ("src/a.py", "b.md"), trailers=(("Co-authored-by", "B <b@example.com>"),)
    )
    (event,) = make_commit_events(make_change(commit))
    assert event.text == message
    assert event.paths == ("src/a.py", "b.md")
    assert event.labels == (("Co-authored-by", "B <b@example.com>"),)
    assert event.author == "Ada <ada@example.com>"
    assert event.at == commit.committed_at
