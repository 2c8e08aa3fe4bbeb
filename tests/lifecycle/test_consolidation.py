"""Tests of consolidation: contradictions are found and linked, similar entries are not, nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.consolidation import find_contradictions, plan_consolidation
from memory_ci.lifecycle.prominence import lower_importance
from memory_ci.lifecycle.stance import Token, read_claim
from memory_ci.records.entry import Located, ScopeOf
from memory_ci.records.plan import Change
from tests.make import examples, make_entry, make_id, make_located

TODAY = date(2026, 11, 21)

CONTRADICTIONS = [
    # negation
    ("Always run the migrations before deploying", "Never run the migrations before deploying"),
    ("Use tabs for indentation", "Do not use tabs for indentation"),
    ("Commit generated files", "Don't commit generated files"),
    ("Retry a POST without a key", "You must not retry a POST without a key"),
    ("The client must retry failed uploads", "The client must never retry failed uploads"),
    ("Squash commits when merging", "Avoid squashing commits when merging"),
    ("Mocks may be used in integration tests", "Never use mocks in integration tests"),
    ("Log request bodies", "Request bodies must not be logged"),
    ("Prefer composition for handlers", "Avoid composition for handlers"),
    ("In CI, run the linters in parallel", "Do not run the linters in parallel in CI"),
    (
        "Store secrets in the environment because it is simple",
        "Never store secrets in the environment as they leak",
    ),
    ("Force pushes to main are allowed", "Force pushes to main are forbidden"),
    ("Allow force pushes to main", "Do not allow force pushes to main"),
    ("Vendor the dependencies", "Stop using vendored dependencies; do not vendor the dependencies"),
    (
        "Cache the responses of the search API",
        "Caching: see below. Never cache responses of the search API",
    ),
    ("Never deploy on Fridays", "Deploy on Fridays"),
    ("The parser handles nested quotes", "The parser does not handle nested quotes"),
    ("Rooms may import other rooms", "Rooms must not import other rooms"),
    ("When the queue is full, drop the event", "When the queue is full, never drop the event"),
    ("Import `os` in quiet rooms", "Do not import `os` in quiet rooms"),
    # antonyms
    ("Enable retries for uploads", "Disable retries for uploads"),
    ("Use linting for pull requests", "Disable linting for pull requests"),
    ("Always run the linter before a commit", "Skip the linter before a commit"),
    ("Use parallel execution for tests", "Use sequential execution for tests"),
    ("Allow wildcard imports in tests", "Forbid wildcard imports in tests"),
    ("Handlers must be async", "Handlers must be sync"),
    ("Use the async client for uploads", "Use the sync client for uploads"),
    ("The changelog entry is required", "The changelog entry is optional"),
    ("Run the linter before the tests", "Run the linter after the tests"),
    ("Run the linter before the tests", "Run the tests before the linter"),
    ("Prefer fixtures over mocks", "Prefer mocks over fixtures"),
    ("Use pnpm instead of npm for scripts", "Use npm instead of pnpm for scripts"),
    ("Helpers must stay private", "Helpers must stay public"),
    ("Sort keys in ascending order", "Sort keys in descending order"),
    ("Telemetry is enabled by default", "Telemetry is disabled by default"),
    ("Load plugins lazily at startup", "Load plugins eagerly at startup"),
    ("Use tabs for indentation", "Use spaces for indentation"),
    ("Run the shards in parallel", "Run the shards sequentially"),
    ("The gateway rejects expired tokens", "The gateway accepts expired tokens"),
    # a changed number or version
    ("Set the request timeout to 30 seconds", "The request timeout is 60s"),
    ("timeout 30", "timeout 60"),
    ("Use Node 18 in CI", "Use Node 20 in CI"),
    ("Pin Python 3.11 for releases", "Pin Python 3.12 for releases"),
    ("Keep functions under 30 lines", "Functions must stay under 50 lines"),
    (
        "Require 2 approvals for each merge",
        "Require one hundred lines; require 3 approvals for each merge",
    ),
    ("Coverage must stay above 80 %", "Coverage must stay above 90%"),
    ("The API listens on port 8080", "The API listens on port 9090"),
    ("The upload limit is 5 MB", "The upload limit is 10 MB"),
    ("Indent with two spaces", "Indent with 4 spaces"),
]

NO_CONTRADICTIONS = [
    # complementary rules
    ("Retry GET requests", "Never retry POST requests"),
    ("Run the linter before the tests", "Run the tests after the linter"),
    ("Run the linter before the tests", "Run the formatter before the linter"),
    (
        "Run the linter before running the tests nightly",
        "Run the linter nightly before running the tests",
    ),
    ("Run the tests after running the linter", "Run the linter before running the tests"),
    ("Prefer fixtures over mocks", "Prefer fakes over mocks"),
    ("Encode the payload as UTF-8", "Decode the payload as UTF-8"),
    ("Open the connection in the setup", "Close the connection in the teardown"),
    ("Lock the row before the update", "Unlock the row after the update"),
    ("Public methods need a docstring", "Private methods need a docstring"),
    ("Async handlers must set a timeout", "Sync handlers must set a timeout"),
    ("Required fields come first", "Optional fields come first"),
    ("Include patterns are matched first", "Exclude patterns are matched first"),
    ("HTTP 429 responses must be retried", "HTTP 503 responses must be retried"),
    ("Do not use Node 18 in CI", "Do not use Node 20 in CI"),
    ("Never enable retries for uploads", "Disable retries for uploads"),
    ("Do not allow force pushes to main", "Force pushes to main are forbidden"),
    ("Deploy only after the tests", "Never deploy before the tests"),
    ("Push only if approved", "Never push unless approved"),
    ("Never push unless approved", "Push if approved"),
    # the same words, another subject
    ("Rooms must not import flows", "Flows may import rooms"),
    ("Copy the data from production to staging", "Never copy the data from staging to production"),
    ("The client must not call the server", "The server calls the client"),
    ("Copy the data into the archive", "Never copy the data from the archive"),
    ("Use appendix 2 for the limits", "Use appendix 3 for the limits"),
    ("Use Node 18 for the worker", "Use Node 20 for the site"),
    ("The read timeout is 30 seconds", "The write timeout is 60 seconds"),
    ("Cache reads but never writes", "Never cache writes"),
    ("Commit lock files", "Never commit generated files"),
    ("Log errors in the gateway", "Do not log errors in the client library"),
    ("Endpoints that need a token return 401", "Endpoints that do not need a token return 401"),
    ("Step 2 runs the migrations", "Step 3 runs the migrations"),
    ("v1 requests time out after 30 seconds", "v2 requests time out after 30 seconds"),
    ("Plugins may write to the cache directory", "Plugins must not write to the source directory"),
    # scoped conditions
    ("On Windows, use short paths", "On Linux, do not use short paths"),
    ("When the flag is set, run the migration", "When the flag is not set, run the migration"),
    ("When caching is enabled, compress the body", "When caching is disabled, compress the body"),
    ("In tests, use a fixed clock", "Do not use a fixed clock in production"),
    ("If the build is red, do not merge", "Merge if the build is green"),
    ("Never log request bodies", "Log redacted request bodies"),
    ("Use the cache", "Do not use the cache while migrating"),
    ("Usually squash the commits", "Never squash the commits of a release branch"),
    (
        "When the integration tests run on Windows, the worker pool must not share its database connection",
        "When the integration tests run on Linux, the worker pool must share its database connection",
    ),
    # agreement in other words, and refinement
    ("Never use mocks in integration tests", "Avoid mocks in integration tests"),
    ("Use Node 18 in CI", "Use Node 18.2 in CI"),
    ("Set the timeout to 60 seconds", "Set the timeout to 1 minute"),
    ("Set the timeout to 30 seconds to avoid hanging", "Set the timeout to 30 seconds"),
    # no rule at all
    ("Tests", "No tests"),
    ("Code changes in the server", "No code changes in the server"),
    ("Bump version to 1.0.4", "Bump version to 1.0.5"),
    ("Should we retry uploads?", "Never retry uploads"),
    ("Retries of uploads were disabled", "Retries of uploads are enabled"),
    ("It must not be cached by the proxy", "It must be cached by the proxy"),
    ("Release 1.2 broke the parser", "Release 1.3 broke the parser"),
    ("Compaction took 12 seconds", "Compaction took 34 seconds"),
    ("Not only unit tests run in CI", "Unit tests run in CI"),
    ("Bad: retry a POST", "Never retry a POST"),
    ("Support Python 3.11", "Support Python 3.12"),
]


def make_pair(first_title: str, second_title: str, **fields: Any) -> list[Located]:
    """Return two entries with these titles."""
    return [
        make_located(1, title=first_title, **fields),
        make_located(2, title=second_title, **fields),
    ]


@pytest.mark.parametrize(("first_title", "second_title"), CONTRADICTIONS)
def test_opposite_statements_on_one_subject_are_a_contradiction(
    first_title: str, second_title: str
) -> None:
    (contradiction,) = find_contradictions(make_pair(first_title, second_title))
    assert (contradiction.first.entry.id, contradiction.second.entry.id) == (make_id(1), make_id(2))
    assert contradiction.reason


@pytest.mark.parametrize(("first_title", "second_title"), NO_CONTRADICTIONS)
def test_other_statements_are_not_a_contradiction(first_title: str, second_title: str) -> None:
    assert not find_contradictions(make_pair(first_title, second_title))


def test_the_tables_of_examples_are_complete() -> None:
    assert len(CONTRADICTIONS) >= 30
    assert len(NO_CONTRADICTIONS) >= 40


def test_the_reason_of_a_contradiction_names_the_opposite_values() -> None:
    (contradiction,) = find_contradictions(make_pair("Use Node 20 in CI", "Use Node 18 in CI"))
    assert contradiction.reason == "18 against 20"


def test_a_claim_in_the_body_counts_like_one_in_the_title() -> None:
    body = "We agreed on it.\n\nThe upload limit is 10 MB. More is refused."
    contradictions = find_contradictions(
        [
            make_located(1, title="The upload limit is 5 MB"),
            make_located(2, title="Uploads", body=body),
        ]
    )
    assert [c.reason for c in contradictions] == ["10 against 5"]


@pytest.mark.parametrize(
    "body",
    [
        "- Never use tabs for indentation",
        "> Never use tabs for indentation",
        "```\nNever use tabs for indentation\n```",
        "Wrong: never use tabs for indentation.",
        "For example, never use tabs for indentation.",
    ],
)
def test_a_quotation_or_an_example_in_a_body_is_no_claim(body: str) -> None:
    places = [
        make_located(1, title="Use tabs for indentation"),
        make_located(2, title="Style", body=body),
    ]
    assert not find_contradictions(places)


def test_an_entry_with_both_values_is_not_a_contradiction() -> None:
    assert not find_contradictions(
        [make_located(1, title="Use tabs for code", body="Never use tabs for code files.")]
    )
    both = make_located(1, title="Use tabs for indentation; never use tabs for indentation")
    assert not find_contradictions([both])


def test_a_body_made_to_slow_down_patterns_is_read() -> None:
    body = (
        "(" * 50_000
        + " " * 50_000
        + "[" * 50_000
        + "\n \n" * 20_000
        + "\t;" * 20_000
        + "\n\nThe upload limit is 10 MB."
    )
    places = [
        make_located(1, title="The upload limit is 5 MB"),
        make_located(2, title="Uploads", body=body),
    ]
    assert find_contradictions(places)


OPPOSED = ("Use tabs for indentation", "Never use tabs for indentation")


@pytest.mark.parametrize(
    "fields",
    [
        {"adoption": "rejected"},
        {"status": "retired"},
        {"status": "compacted"},
        {"supersedes": (make_id(1),)},
        {"relations": (f"supports {make_id(1)}",)},
        {"relations": (f"duplicates {make_id(1)}",)},
    ],
)
def test_ended_and_linked_entries_contradict_nothing(fields: dict[str, Any]) -> None:
    located = make_located(1, title=OPPOSED[0])
    assert find_contradictions([located, make_located(2, title=OPPOSED[1])])
    assert not find_contradictions([located, make_located(2, title=OPPOSED[1], **fields)])


JOB = ".teaparty/jobs/j7"


@pytest.mark.parametrize(
    ("first_scope", "second_scope", "is_shared"),
    [
        (("MEMORY.md", "project", ""), ("src/MEMORY.md", "team", "src"), True),
        (("institutional.md", "institutional", ""), ("MEMORY.md", "project", ""), True),
        (("src/MEMORY.md", "team", "src"), ("src/api/MEMORY.md", "team", "src/api"), True),
        (
            ("src/api/MEMORY.md", "team", "src/api"),
            ("src/apiary/MEMORY.md", "team", "src/apiary"),
            False,
        ),
        (("src/MEMORY.md", "team", "src"), ("lib/MEMORY.md", "team", "lib"), False),
        (
            (f"{JOB}/institutional.md", "session", "j7"),
            (f"{JOB}/t1/worktree/MEMORY.md", "team", f"{JOB}/t1/worktree"),
            True,
        ),
        ((f"{JOB}/institutional.md", "session", "j7"), ("j7/MEMORY.md", "team", "j7"), False),
        (
            (f"{JOB}/institutional.md", "session", "j7"),
            (".teaparty/jobs/j8/institutional.md", "session", "j8"),
            False,
        ),
        ((f"{JOB}/institutional.md", "session", "j7"), ("MEMORY.md", "project", ""), True),
    ],
)
def test_only_entries_for_the_same_work_can_contradict(
    first_scope: Any, second_scope: Any, is_shared: bool
) -> None:
    places = [
        make_located(1, *first_scope, title=OPPOSED[0]),
        make_located(2, *second_scope, title=OPPOSED[1]),
    ]
    assert bool(find_contradictions(places)) == is_shared
    assert bool(find_contradictions(places[::-1])) == is_shared


def apply_updates(located: Sequence[Located], changes: Sequence[Change]) -> list[Located]:
    """Return the entries after updates; fail on other changes."""
    assert {change.kind for change in changes} <= {"update"}
    updated = {(change.path, change.entry.id): change.entry for change in changes}
    return [
        Located(
            updated.pop((place.path, place.entry.id), place.entry),
            place.path,
            place.line,
            place.scope,
        )
        for place in located
    ]


def test_a_contradiction_is_linked_on_both_sides_and_nothing_else_changes() -> None:
    places = make_pair(*OPPOSED, relations=("supports z",))
    changes = plan_consolidation(places, TODAY)
    assert [(c.step, c.kind, c.path) for c in changes] == [
        ("consolidate", "update", "MEMORY.md")
    ] * 2
    assert changes[0].entry == msgspec.structs.replace(
        places[0].entry, relations=(f"contradicts {make_id(2)}", "supports z")
    )
    assert changes[1].entry.relations == (f"contradicts {make_id(1)}", "supports z")
    assert changes[0].why == f"contradicts {make_id(2)[:8]}: one says not"


def test_a_link_to_an_entry_that_was_merged_away_is_not_repeated() -> None:
    first = make_located(1, title=OPPOSED[0], relations=(f"refutes {make_id(9)}",))
    second = make_located(2, title=OPPOSED[1], supersedes=(make_id(9),))
    assert [change.entry.id for change in plan_consolidation([first, second], TODAY)] == [
        make_id(2)
    ]


def test_an_explicit_successor_closes_the_older_entry_once() -> None:
    old = make_located(1, title=OPPOSED[0], importance=0.8, created_at=date(2026, 1, 1))
    new = make_located(
        2,
        title=OPPOSED[1],
        supersedes=(make_id(1),),
        created_at=date(2026, 11, 3),
        occurred_at=date(2026, 11, 2),
    )
    (change,) = plan_consolidation([old, new], TODAY)
    assert (change.entry.id, change.entry.valid_until, change.entry.importance) == (
        make_id(1),
        date(2026, 11, 2),
        0.56,
    )
    assert change.entry.status == "active"
    assert not plan_consolidation(apply_updates([old, new], [change]), TODAY)


def test_the_earliest_of_several_successors_closes() -> None:
    old = make_located(1, importance=0.8)
    later = make_located(2, supersedes=(make_id(1),), created_at=date(2026, 5, 1))
    earlier = make_located(3, supersedes=(make_id(1),), created_at=date(2026, 4, 1))
    (change,) = plan_consolidation([later, old, earlier], TODAY)
    assert (change.entry.valid_until, change.why) == (
        date(2026, 4, 1),
        f"superseded by {make_id(3)[:8]}",
    )


def test_two_entries_that_supersede_each_other_both_stay_open() -> None:
    places = [make_located(1, supersedes=(make_id(2),)), make_located(2, supersedes=(make_id(1),))]
    assert not plan_consolidation(places, TODAY)


def test_superseding_an_id_of_two_different_entries_closes_neither() -> None:
    first, new = make_located(1, title="One"), make_located(2, supersedes=(make_id(1),))
    other_copy = Located(make_entry(1, title="Other"), "src/MEMORY.md", 1, ScopeOf("team", "src"))
    assert not plan_consolidation([first, other_copy, new], TODAY)
    copy = Located(first.entry, "src/MEMORY.md", 1, other_copy.scope)
    assert len(plan_consolidation([first, copy, new], TODAY)) == 2


@pytest.mark.parametrize("status", ["retired", "compacted"])
def test_only_active_entries_close_and_are_closed(status: str) -> None:
    old, new = make_located(1), make_located(2, supersedes=(make_id(1),))
    over = (
        msgspec.structs.replace(old.entry, status=status),
        msgspec.structs.replace(new.entry, status=status),
    )
    assert not plan_consolidation([Located(over[0], "MEMORY.md", 1, old.scope), new], TODAY)
    assert not plan_consolidation([old, Located(over[1], "MEMORY.md", 1, new.scope)], TODAY)


def test_an_entry_past_its_end_date_contradicts_nothing() -> None:
    closed = make_located(1, title=OPPOSED[0], valid_until=TODAY)
    assert not plan_consolidation([closed, make_located(2, title=OPPOSED[1])], TODAY)
    still = make_located(1, title=OPPOSED[0], valid_until=date(2026, 12, 1))
    assert len(plan_consolidation([still, make_located(2, title=OPPOSED[1])], TODAY)) == 2


@pytest.mark.parametrize(
    ("before", "after"), [(0.8, 0.56), (0.12, 0.1), (0.1, 0.1), (0.05, 0.05), (0.0, 0.0)]
)
def test_importance_is_lowered_to_a_tenth_at_most_and_never_raised(
    before: float, after: float
) -> None:
    assert lower_importance(before) == after


memories = st.lists(
    st.builds(
        lambda number, title, importance, olds, status: make_entry(
            number,
            title=title,
            importance=importance,
            supersedes=tuple(map(make_id, olds)),
            status=status,
        ),
        st.integers(1, 8),
        st.sampled_from(
            [title for both in CONTRADICTIONS[:4] + CONTRADICTIONS[-3:] for title in both]
        ),
        st.sampled_from([0.05, 0.3, 0.9]),
        st.lists(st.integers(1, 8), max_size=2),
        st.sampled_from(["active", "active", "active", "compacted", "retired"]),
    ),
    max_size=6,
    unique_by=lambda entry: entry.id,
).map(lambda entries: [Located(entry, "MEMORY.md", 1, ScopeOf("project")) for entry in entries])


@examples(60)
@given(memories, st.randoms(use_true_random=False))
def test_consolidation_is_idempotent_independent_of_order_and_deletes_nothing(
    located: list[Located], random: Any
) -> None:
    changes = plan_consolidation(located, TODAY)
    shuffled = random.sample(located, len(located))
    assert plan_consolidation(shuffled, TODAY) == changes
    after = apply_updates(located, changes)
    assert [place.entry.id for place in after] == [place.entry.id for place in located]
    assert [place.entry.status for place in after] == [place.entry.status for place in located]
    assert not plan_consolidation(after, TODAY)


LONG = ("word", "use over", "timeout is 30", "it can by", "is cached", "never always kept")
"""Parts that an endless sentence repeats; a pattern that looks back at each part needs quadratic time."""


@pytest.mark.parametrize("words", LONG)
def test_an_endless_sentence_is_read_in_linear_time(words: str) -> None:
    """A reader that looks back at each word would not end in a useful time."""
    read_claim([Token(word, is_in_condition=False) for word in words.split() * 20_000], 2)
