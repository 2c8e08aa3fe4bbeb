"""Tests of `learn` on a long history: batches over several calls, nothing lost, nothing paid for twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.record import batches as module
from memory_ci.commands.record.batches import Estimate, Pending, split_requests
from memory_ci.commands.setup.init import init_repository
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError, UsageError
from memory_ci.extras import how_to_install
from memory_ci.records.plan import Plan
from tests.commands.record.batching import (
    LESSONS,
    LIVE,
    Result,
    SavedBatches,
    change_of,
    make_batch,
    make_learnings,
    serve_batches,
    submit_batches,
    succeed,
)
from tests.extraction.engines.model_double import make_answer, make_error
from tests.project import Project
from tests.repos import make_repo

pytest.importorskip("anthropic")

TITLES = {title for title, _ in LESSONS.values()}


@pytest.fixture(scope="module")
def sent(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> SavedBatches:
    """Return what a first call leaves behind."""
    return submit_batches(project_template, tmp_path_factory.mktemp("sent"))


@pytest.fixture(scope="module")
def sent_range(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> SavedBatches:
    """Return what a first call for the three merged changes leaves behind."""
    since = project_template.sha()
    return submit_batches(project_template, tmp_path_factory.mktemp("sent"), since=since)


def test_the_first_call_submits_and_a_later_one_records_the_answers(project: Project) -> None:
    with serve_batches(project) as batching:
        before = project.sha()
        first = batching.plan()
        assert isinstance(first, Pending)
        assert (first.status, first.estimate.batches, project.sha()) == ("submitted", 1, before)
        assert batching.plan() == Pending("processing", first.estimate, 0)
        batching.end()
        plan = batching.collect()
    assert project.titles() >= TITLES
    assert (len(batching.sent), batching.live, plan.problems) == (1, [], ())
    assert plan.engine.input_tokens == 1200 * first.estimate.requests
    assert plan.engine.cost_usd == pytest.approx(
        first.estimate.requests * (1200 * 0.1 + 80 * 0.5) / 2e6
    )
    assert {entry.title: entry.source for entry in project.entries()}[
        "Wait for the ledger"
    ].startswith("pr:202")  # type: ignore[union-attr] # it has one


def test_a_first_run_begins_at_the_first_commit(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "old")
    project = Project(repo.path, repo.clock)
    first = project.commit(
        "fix: early\n\nFrom now on what came before memory counts as well.\n", {"a.py": "one\n"}
    )
    init_repository(project.workspace)
    project.git("add", ".")
    project.commit("Add memory")
    with serve_batches(project) as batching:
        batching.plan()
    assert [change_of(item["params"]) for item in batching.sent[0]] == [first[:7], *LESSONS]


def test_a_range_that_is_asked_for_is_kept_for_the_later_call(project: Project) -> None:
    since = project.sha()
    with serve_batches(project) as batching:
        batching.plan(since=since)
        project.branch("elsewhere")
        batching.end()
        plan = batching.collect()
    assert [change_of(item["params"]) for item in batching.sent[0]] == ["#201", "#202", "#203"]
    assert (plan.ref, plan.since, plan.counts.merged_changes) == ("refs/heads/main", since, 3)


def test_a_run_after_that_asks_nothing_and_changes_nothing(
    project: Project, sent: SavedBatches
) -> None:
    with serve_batches(project, sent=sent) as batching:
        batching.end()
        batching.collect()
        after, asked = project.sha(), len(batching.model.requests)
        assert not batching.path.exists()
        batching.collect()
        assert (project.sha(), len(batching.model.requests)) == (after, asked)


def test_sent_batches_are_kept_if_the_plan_was_not_applied(
    project: Project, sent: SavedBatches
) -> None:
    with serve_batches(project, sent=sent) as batching:
        batching.end()
        assert isinstance(batching.plan(), Plan)
        assert batching.path.exists()
        batching.collect()
    assert len(batching.sent) == 1
    assert project.titles() >= TITLES


def test_a_crash_between_two_batches_sends_the_second_only(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_REQUESTS", 2)
    since, broken = project.sha(), make_error(529, "overloaded_error", "busy")
    with serve_batches(project, make_batch(1), broken, make_batch(2)) as batching:
        with pytest.raises(EngineError) as caught:
            batching.plan(since=since)
        assert caught.value.slug == "engine-overloaded"
        batching.plan()
        assert [[change_of(item["params"]) for item in part] for part in batching.sent] == [
            ["#201", "#202"],
            ["#203"],
            ["#203"],
        ]
        lost = batching.model.requests.pop(1)
        assert lost.path == "/v1/messages/batches"
        batching.end()
        batching.collect()
    assert batching.live == []
    assert project.titles() >= TITLES


def test_waiting_looks_again_until_the_batches_have_ended(project: Project) -> None:
    seen: list[Pending] = []
    with serve_batches(project) as batching:

        def wait(pending: Pending) -> None:
            seen.append(pending)
            if len(seen) == 2:
                batching.end()

        plan = batching.plan(wait)
    assert isinstance(plan, Plan)
    assert [(pending.status, pending.ended) for pending in seen] == [("processing", 0)] * 2


@pytest.mark.parametrize("kind", ["expired", "canceled"])
def test_a_request_that_failed_in_a_batch_is_asked_once_by_itself(
    project: Project, sent_range: SavedBatches, kind: str
) -> None:
    with serve_batches(project, sent=sent_range) as batching:
        till = next(
            item["params"] for item in batching.sent[0] if change_of(item["params"]) == "#203"
        )
        batching.model.paths[LIVE] = make_answer(make_learnings(till))
        batching.end(lambda sent: {"type": kind} if change_of(sent) == "#203" else succeed(sent))
        plan = batching.collect()
    assert batching.live == ["#203"]
    assert plan.problems == (
        "1 of the batches' answers, so the model is asked again: failed, expired or missing",
    )
    assert project.titles() >= TITLES


def test_a_model_that_fails_then_leaves_the_rest_to_the_next_run(
    project: Project, sent_range: SavedBatches
) -> None:
    def answer(sent: Result) -> Result:
        return {"type": "expired"} if change_of(sent) == "#202" else succeed(sent)

    with serve_batches(project, sent=sent_range) as batching:
        batching.end(answer)
        batching.model.paths[LIVE] = make_error(400, "invalid_request_error", "no")
        assert "engine-rejected-request" in batching.collect().engine.failure
        assert project.titles() & TITLES == {"Ask before sending twice"}
        assert batching.path.exists()
        ledger = next(
            item["params"] for item in batching.sent[0] if change_of(item["params"]) == "#202"
        )
        batching.model.paths[LIVE] = make_answer(make_learnings(ledger))
        batching.collect()
    assert batching.live == ["#202", "#202"], (
        "#203 is answered by its batch although memory has changed"
    )
    assert project.titles() >= TITLES
    assert not batching.path.exists()


def test_a_change_merged_since_is_asked_by_itself(
    project: Project, sent_range: SavedBatches
) -> None:
    with serve_batches(project, sent=sent_range) as batching:
        batching.end()
        project.merge_work("fix: late\n\nFrom now on nobody is late.\n", "late", 204, "src/late.py")
        plan = batching.collect()
    assert batching.live == ["#204"]
    assert plan.problems == (
        "1 of the batches' answers, so the model is asked again: range, model or prompt changed since",
    )


def test_answers_of_another_model_are_not_used(project: Project, sent_range: SavedBatches) -> None:
    with serve_batches(project, sent=sent_range) as batching:
        batching.end()
        project.commit("Another model", {".memory-ci.yaml": "engine:\n  model: claude-opus-5\n"})
        project.commit("Nothing more")
        batching.collect()
    assert set(batching.live) >= {"#201", "#202", "#203"}
    assert not project.titles() & TITLES


def test_evidence_that_changed_since_is_asked_again(
    project: Project, sent_range: SavedBatches
) -> None:
    with serve_batches(project, sent=sent_range) as batching:
        batching.end()
        old = batching.path.read_text()
        keys = [item["custom_id"] for item in batching.sent[0]]
        batching.path.write_text(old.replace(keys[0], "0" * 64))
        batching.collect()
    assert batching.live == ["#201"]


def test_a_dry_run_shows_the_cost_and_sends_nothing(project: Project) -> None:
    with serve_batches(project) as batching:
        pending = batching.begin(since=project.sha("HEAD~3")).plan(dry_run=True)
    assert isinstance(pending, Pending)
    assert (pending.status, pending.estimate.requests, pending.estimate.batches) == (
        "estimated",
        3,
        1,
    )
    tokens, cost = pending.estimate.input_tokens, pending.estimate.cost_usd
    assert tokens > 3 * 1000
    assert cost == pytest.approx((tokens * 1.25 * 0.1 + 3 * 8000 * 0.5) / 2e6), (
        "the price of a batch is half"
    )
    assert batching.model.requests == []
    assert not batching.path.exists()
    assert str(pending).startswith("Would submit 3 requests (batches: 1), about")
    assert str(pending).endswith(f"at most {math.ceil(cost * 10_000) / 10_000:.4f} USD.")


def test_a_dry_run_says_that_the_limit_would_refuse_it(project: Project) -> None:
    project.commit("Be cheap", {".memory-ci.yaml": "engine:\n  max_cost_usd: 0.0001\n"})
    with serve_batches(project) as batching:
        pending = batching.begin(since=project.sha("HEAD~1")).plan(dry_run=True)
    assert isinstance(pending, Pending)
    assert "Would be refused: 1 request to claude-haiku-5-5 in batches could cost 0.00" in str(
        pending
    )
    assert "more than engine.max_cost_usd, 0.0001 USD a run." in str(pending)


def test_no_cost_that_is_something_is_shown_as_nothing() -> None:
    pending = Pending("estimated", Estimate(1, 1, 10, 0.000_001))
    assert "at most 0.0001 USD" in str(pending)


def test_the_error_for_a_missing_package_names_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with serve_batches(project) as batching, pytest.raises(UsageError) as caught:
        batching.plan()
    assert caught.value.slug == "no-batches"
    assert caught.value.hint == f"Install the package: {how_to_install('anthropic')}."


def test_a_backfill_that_could_cost_too_much_sends_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_REQUESTS", 1)
    project.commit("Be cheap", {".memory-ci.yaml": "engine:\n  max_cost_usd: 0.005\n"})
    since = project.sha()
    with serve_batches(project) as batching:
        with pytest.raises(EngineError) as caught:
            batching.plan(since=since)
        assert batching.model.requests == [], (
            "each of the three batches alone would keep to the limit"
        )
    assert caught.value.slug == "cost-limit"
    assert not batching.path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2}', "\xff"])
def test_a_note_that_cannot_be_read_is_named_and_left(project: Project, text: str) -> None:
    with serve_batches(project) as batching:
        batching.path.parent.mkdir(exist_ok=True)
        batching.path.write_bytes(text.encode("latin-1"))
        with pytest.raises(RepositoryError) as caught:
            batching.plan()
    assert caught.value.slug == "bad-batch-state"
    assert str(batching.path) in caught.value.message
    assert (batching.path.read_bytes(), batching.model.requests) == (text.encode("latin-1"), [])


def test_the_note_of_another_repository_is_refused(project: Project, sent: SavedBatches) -> None:
    with serve_batches(project, sent=sent) as batching:
        note = json.loads(batching.path.read_text())
        batching.path.write_text(json.dumps(note | {"base": "1" * 40}))
        with pytest.raises(RepositoryError) as caught:
            batching.plan()
    assert caught.value.slug == "foreign-batch-state"
    assert str(batching.path) in caught.value.message


def test_the_note_holds_no_credential_and_no_evidence(project: Project) -> None:
    with serve_batches(project) as batching:
        batching.plan()
    text = batching.path.read_text()
    assert batching.environ["ANTHROPIC_API_KEY"] not in text
    assert not any(words in text for _, words in LESSONS.values())
    assert str(Path(project.path)) not in text


@pytest.mark.parametrize(
    ("options", "config"),
    [({"engine": "rules"}, ""), ({}, "engine:\n  name: anthropic\n  provider: bedrock\n")],
)
def test_an_engine_without_batches_is_refused(
    project: Project, options: dict[str, Any], config: str
) -> None:
    project.commit("Configure", {".memory-ci.yaml": config})
    with serve_batches(project) as batching:
        with pytest.raises(UsageError) as caught:
            batching.plan(**options)
        assert (caught.value.slug, batching.model.requests) == ("no-batches", [])
    assert "name another engine" in caught.value.hint


def test_a_batch_that_is_gone_leaves_the_note(project: Project, sent: SavedBatches) -> None:
    with serve_batches(project, sent=sent) as batching:
        batching.model.paths["/v1/messages/batches/msgbatch_1"] = make_error(
            404, "not_found_error", "no such batch"
        )
        with pytest.raises(MemoryCIError) as caught:
            batching.plan()
    assert caught.value.slug == "engine-rejected-request"
    assert batching.path.exists()


@given(st.lists(st.integers(0, 40)), st.integers(1, 5), st.integers(1, 60))
def test_parts_keep_to_their_limits_and_hold_each_key_once_in_order(
    sizes: list[int], most: int, room: int
) -> None:
    keyed = {str(number): size for number, size in enumerate(sizes)}
    parts = list(split_requests(keyed, most, room))
    assert [key for part in parts for key in part] == list(keyed)
    for part in parts:
        assert 0 < len(part) <= most
        assert len(part) == 1 or sum(keyed[key] for key in part) <= room
