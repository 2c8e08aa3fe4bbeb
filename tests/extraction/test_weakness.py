"""Tests of weak marks, which help only their own change."""

from __future__ import annotations

import pytest

from memory_ci.extraction.markers import MarkedStatement
from memory_ci.extraction.weakness import find_weakness
from tests.extraction.make import make_mark


@pytest.mark.parametrize(
    "text",
    [
        "Corrected takeaway about the pool",
        "Updated the notes on retries",
        "Fixed the wording of rule three",
        "Added note on the order of steps",
    ],
)
def test_a_title_that_describes_an_edit_is_only_proposed(text: str) -> None:
    mark = make_mark(text)._replace(is_trailer=True)
    assert find_weakness(mark) == "tells an edit, not what holds"


STRONG = [
    make_mark("a new connection costs a second"),
    make_mark("use the pool because a connection costs a second", "decision"),
    make_mark("reuse the shared renderer instead of the fallback", "decision", "list"),
    make_mark("the server must not require a local directory", "constraint"),
    make_mark("global hooks can break temporary repositories", "constraint", "git-test-repos"),
    make_mark("live lookup because it is slow", "rejected"),
    make_mark(
        "inventing paths outside an active workspace hid the real one and left files", "rejected"
    ),
    make_mark("keep the fallback so registries work before init", "constraint"),
    make_mark("the lock was held twice", "root cause", subject="fix: hang"),
    make_mark("the lock was held twice", "root cause", subject="rework locks", fix="release it"),
    make_mark("this project pins every dependency", "convention"),
    make_mark("add an idempotency key to each charge", "learning"),
    make_mark("a retry was booked twice because the gateway is slow", "learning"),
    make_mark("use Postgres", "decision")._replace(is_trailer=True),
    make_mark("the nightly job was silently skipped", "learning")._replace(is_trailer=True),
    make_mark("keep the scope of functions small", "convention"),
    make_mark("ten calls a second are allowed", "constraint")._replace(is_trailer=True),
    make_mark("a queue | it loses jobs", "rejected")._replace(is_trailer=True),
]


WEAK = [
    ("short", make_mark("use pools")),
    ("reason", make_mark("use the pool for every connection", "decision")),
    ("reason", make_mark("breaking config change (B)", "rejected")),
    ("tests", make_mark("clear the variables so the cases stay stable", "decision", "where-tests")),
    ("tests", make_mark("subprocess mode can change the text", "constraint", "where-tests")),
    (
        "work",
        make_mark(
            "extract helpers instead of repeating the check",
            "decision",
            subject="refactor(x): simplify",
        ),
    ),
    ("narrates", make_mark("add test for the empty list", "decision")),
    ("narrates", make_mark("rename the helper so it is clear", "decision")),
    ("change itself", make_mark("the helper, so this change only moves it", "constraint")),
    ("change itself", make_mark("keep the flow unchanged outside of init", "constraint", "review")),
    ("change itself", make_mark("the helper must keep what the previous fix added", "constraint")),
    ("moment", make_mark("the latest main was already red", "learning", "ci")),
    ("moment", make_mark("we currently pin the old version", "constraint")),
    (
        "moment",
        make_mark("main is red today, so merge later", "constraint")._replace(is_trailer=True),
    ),
    (
        "moment",
        make_mark("current worktree has a broken symlink", "constraint")._replace(is_trailer=True),
    ),
    (
        "task",
        make_mark("keep scope tight to README accuracy for issue #2198", "constraint")._replace(
            is_trailer=True
        ),
    ),
    ("task", make_mark("fix must stay minimal", "constraint")._replace(is_trailer=True)),
    (
        "task",
        make_mark("owner requested the new invite flow", "constraint")._replace(is_trailer=True),
    ),
    ("reason", make_mark("a queue", "rejected")._replace(is_trailer=True)),
    (
        "change itself",
        make_mark("use Postgres in this change", "decision")._replace(is_trailer=True),
    ),
    (
        "moment",
        make_mark("CI took forty minutes this morning", "learning")._replace(is_trailer=True),
    ),
    (
        "moment",
        make_mark("the sidebar has a collapse button now.", "decision")._replace(is_trailer=True),
    ),
    (
        "not known",
        make_mark("not known yet, the proxy or we", "root cause", subject="fix: trace a hang"),
    ),
    ("what happened", make_mark("links were never exercised before", "learning", "doctor")),
    ("speaks of", make_mark("these regressions only show in a subprocess", "constraint", "where")),
    ("speaks of", make_mark("it only shows in a subprocess", "learning")),
    (
        "what happened",
        make_mark("watch mode was the only path that dropped them", "learning", "watch"),
    ),
    (
        "not fixed here",
        make_mark("the guard was advisory", "root cause", subject="docs: incident report"),
    ),
]


@pytest.mark.parametrize("mark", STRONG, ids=lambda mark: mark.text)
def test_a_mark_that_helps_the_next_change_is_strong(mark: MarkedStatement) -> None:
    assert find_weakness(mark) is None


@pytest.mark.parametrize(("why", "mark"), WEAK)
def test_a_mark_that_serves_its_own_change_is_weak(why: str, mark: MarkedStatement) -> None:
    assert why in (find_weakness(mark) or "")
