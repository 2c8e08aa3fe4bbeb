"""Titles that read well alone, bodies that carry the rest, and marks that only serve their own change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.extraction.decisions import find_withdrawal
from memory_ci.extraction.gate import BODY_WIDTH, MARKED_TITLE_WIDTH, TITLE_WIDTH
from memory_ci.extraction.markers import Mark
from memory_ci.extraction.weakness import find_weakness
from memory_ci.extraction.wording import (
    compose,
    cut,
    cut_at_sentence,
    make_title,
)


def make_mark(
    text: str, marker: str = "learning", scope: str = "", subject: str = "feat: x", fix: str = ""
) -> Mark:
    return Mark(marker, scope, text, text, subject, fix)


def test_a_short_statement_is_title_and_no_body() -> None:
    assert compose(make_mark("never retry a POST without a key.")) == (
        "Never retry a POST without a key",
        "",
    )


def test_the_scope_names_the_subject_unless_the_text_does() -> None:
    assert (
        compose(make_mark("the slow part was the lookup", scope="where"))[0]
        == "where: the slow part was the lookup"
    )
    assert (
        compose(make_mark("treat where like context", scope="where"))[0]
        == "Treat where like context"
    )


@pytest.mark.parametrize(
    "text", ["sanitizeDBName is shared", "bootstrap.go exits early", "`x` is slow", "a/b.py is old"]
)
def test_an_identifier_keeps_its_case(text: str) -> None:
    assert compose(make_mark(text))[0].lower() == text.lower()
    assert compose(make_mark(text))[0].split(" ")[0][1:] == text.split(" ")[0][1:]
    assert compose(make_mark("bootstrap.go exits early"))[0] == "bootstrap.go exits early"


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        (
            "live lookup because it is slow",
            "prefix: live lookup",
            "Because it is slow",
        ),
        ("a live lookup | it is slow", "prefix: a live lookup", "It is slow"),
        ("a live lookup, since `x | y` is slow", "prefix: a live lookup", None),
    ],
)
def test_the_title_of_a_rejection_names_what_was_rejected_alone(
    text: str, title: str, body: str | None
) -> None:
    found = compose(make_mark(text, marker="rejected", scope="prefix"))
    assert found == (title, found[1] if body is None else body)


@pytest.mark.parametrize(
    ("subject", "fix", "title"),
    [
        ("fix: uv tree fails on bare projects", "", "Prevent: uv tree fails on bare projects"),
        ("fix: Workspace members with conflicts have empty export output", "", None),
        ("fix: uv tree fails on bare projects", "Read the group alone.", "Read the group alone"),
        ("fix: commit each batch when the table is large", "Split it.", "Commit each batch when the table is large"),
        ("fix: let the workers that have no lease wait", "", "Let the workers that have no lease wait"),
        ("Prevent SessionStart hook errors on launch", "Check it.", "Prevent SessionStart hook errors on launch"),
    ],
)  # fmt: skip
def test_a_title_never_states_a_repaired_fault_as_a_fact(
    subject: str, fix: str, title: str | None
) -> None:
    found, _ = compose(
        make_mark("the group was never read", "root cause", subject=subject, fix=fix)
    )
    assert found == (title or "Prevent: workspace members with conflicts have empty export output")


def test_the_title_is_the_first_sentence_and_the_body_what_follows() -> None:
    title, body = compose(
        make_mark("Pools leak. They do so when a worker dies, since nobody closes them.")
    )
    assert title == "Pools leak"
    assert body == "They do so when a worker dies, since nobody closes them."


def test_a_long_sentence_is_cut_before_its_reason() -> None:
    text = (
        "Load the parents through the hierarchy reader and sort them by id so that "
        + "the snapshots stay the same " * 8
    )
    assert make_title(text) == "Load the parents through the hierarchy reader and sort them by id"


def test_a_sentence_that_fits_is_the_title_and_needs_no_body() -> None:
    text = (
        "Load the parents through the reader and sort them "
        + "by id and by name " * 5
        + "so that it works."
    )
    assert TITLE_WIDTH // 2 < len(text) <= TITLE_WIDTH
    assert compose(make_mark(text)) == (text.rstrip("."), "")


def test_a_long_sentence_without_a_clause_stays_whole() -> None:
    text = "Never " + "compare the days of a commit with the days of the " * 6 + "file"
    assert TITLE_WIDTH < len(text) < MARKED_TITLE_WIDTH
    assert make_title(text) == text
    assert find_weakness(make_mark(text)) is None


def test_a_sentence_longer_than_any_title_is_only_proposed_and_is_not_cut_with_dots() -> None:
    text = "Never " + "compare the dates of the commit with the dates of the " * 9 + "file"
    assert find_weakness(make_mark(text)) == "its first sentence is too long for a title"
    title = make_title(text)
    assert len(title) <= MARKED_TITLE_WIDTH
    assert not title.endswith(".")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (": never retry a POST", "Never retry a POST"),
        ("- \u2192 never retry a POST", "Never retry a POST"),
        ("... never retry a POST", "Never retry a POST"),
        (".gitignore is read first", ".gitignore is read first"),
        ("--all is slow for users", "--all is slow for users"),
        ("run `make lint before the push", "Run make lint before the push"),
        ("run it as follows: ```sh make", "Run it as follows"),
        ("Corrected the takeaway about pools. A pool must be closed.", "A pool must be closed"),
        ("call `f(x; y)` twice", "Call `f(x; y)` twice"),
    ],
)
def test_a_title_has_neither_a_broken_beginning_nor_half_of_some_code(
    text: str, title: str
) -> None:
    found = compose(make_mark(text))
    assert found[0] == title
    assert title not in found[1]


@pytest.mark.parametrize(
    "text",
    [
        "Corrected takeaway about the pool",
        "Updated the notes on retries",
        "Fixed the wording of rule three",
        "Added note on the order of steps",
    ],
)
def test_a_title_that_tells_an_edit_is_only_proposed(text: str) -> None:
    mark = make_mark(text)._replace(is_trailer=True)
    assert find_weakness(mark) == "tells an edit, not what holds"


def test_a_body_ends_before_a_code_block_that_would_be_cut() -> None:
    _, body = compose(make_mark("Pools leak. Do this:\n```\n" + "x = 1\n" * 200 + "```"))
    assert body == "Do this:"


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ("# A\n\nStatus: Accepted\n", ""),
        ("# A\n\n## Status\n\nAccepted, supersedes ADR-2\n\n## Decision\n\nIt was rejected.\n", ""),
        ("# A\n\n* Status: superseded by [ADR-7](0007-b.md)\n", "superseded by ADR-7"),
        ("# A\n\n## Status\n\n~~Accepted~~\n\nSuperceded by [2. B](2.md)\n", "superseded by 2. B"),
        ("---\nstatus: deprecated\n---\n# A\n", "deprecated"),
        ("---\nstatus: accepted\nsuperseded_by: ADR-9\n---\n# A\n", "superseded by ADR-9"),
        ("---\nsuperseded_by: null\n---\n# A\n", ""),
        ("---\nsuperseded_by:\n---\n# A\n", ""),
        ("# A\n\n**Status:** Rejected\n", "rejected"),
    ],
)
def test_the_status_of_a_record_says_whether_it_still_holds(record: str, status: str) -> None:
    assert find_withdrawal(record) == status


def test_a_root_cause_says_cause_and_fix() -> None:
    mark = make_mark(
        "the lock was held twice.", "root cause", subject="fix(db): hang on close (GH#12) (#13)"
    )
    assert compose(mark) == (
        "The lock was held twice",
        "Fix: Hang on close",
    )
    assert compose(mark._replace(fix="- release it"))[1].endswith("Fix:\n- release it")


def test_the_subject_of_a_fix_is_the_better_title_when_it_says_enough() -> None:
    mark = make_mark(
        "one transaction wrapped all batches",
        "root cause",
        subject="fix: commit per batch to avoid a timeout",
    )
    assert compose(mark)[0] == "Commit per batch to avoid a timeout"


def test_letters_are_composed_and_compatibility_forms_stay() -> None:
    assert (
        compose(make_mark("wait for\u00a0the cafe\u0301 \u2026 CO\u2082"))[0]
        == "Wait for the caf\u00e9 \u2026 CO\u2082"
    )


@given(st.text(min_size=1), st.integers(min_value=4, max_value=60))
def test_a_cut_is_a_beginning_that_fits(text: str, width: int) -> None:
    for short in (cut(text, width), cut_at_sentence(text, width)):
        assert len(short) <= width
        assert text.startswith(short)


@given(st.text(alphabet="abc .,;:\n-\u00e9", min_size=1, max_size=900))
def test_no_statement_breaks_the_limits(text: str) -> None:
    title, body = compose(make_mark(text, fix=text, marker="root cause"))
    assert len(title) <= MARKED_TITLE_WIDTH
    assert len(body) <= BODY_WIDTH


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
def test_a_mark_that_helps_the_next_change_is_strong(mark: Mark) -> None:
    assert find_weakness(mark) is None


@pytest.mark.parametrize(("why", "mark"), WEAK)
def test_a_mark_that_serves_its_own_change_is_weak(why: str, mark: Mark) -> None:
    assert why in (find_weakness(mark) or "")
