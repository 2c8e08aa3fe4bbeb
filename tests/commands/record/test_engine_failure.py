"""Tests of failing engines: the learnings so far are kept, and the next run reads the rest."""

from __future__ import annotations

import json
import shlex
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.text import render_plan
from memory_ci.commands.root import main
from memory_ci.memory.apply import apply_plan
from memory_ci.records.plan import Plan
from tests.agents_at_work import merge_branch
from tests.extraction.engines.make import KEY
from tests.extraction.engines.model_double import Answer, make_answer, make_error, serve_model
from tests.make import make_entry
from tests.project import NOW, TODAY, Project, copy_project
from tests.servers import json_answer, serve
from tests.standin import StandIn, make_learning

LESSONS = (
    "The worker takes the lock before it reads the queue.",
    "Receipts are rendered without network so that tests stay fast.",
    "Prices are integers of the smallest coin in every table.",
    "A migration never renames a column that a release still reads.",
)
TITLES = (
    "Lock the worker before the queue is read",
    "Render receipts offline",
    "Keep prices as integers",
    "Leave columns that a release reads",
)
FIRST = "the client retried a POST after a timeout"
"""Words of #128."""

MARK = "Learning: the scheduler drops a job whose lease ran out, because two workers had run it."


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    model = StandIn(tmp_path / "model")
    tell(model)
    return model


@pytest.fixture(scope="module")
def template(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("five") / "shop")
    for number, lesson in enumerate(LESSONS, start=201):
        mark = f"\n\n{MARK}" if number == 202 else ""
        message = f"Change number {number}\n\n{lesson}{mark}"
        merge_branch(project, f"work-{number}", number, message, path=f"src/part{number}.py")
    return project


@pytest.fixture
def five(template: Project, tmp_path: Path) -> Project:
    """Return five changes: #128, whose author marked a learning, and #201 to #204 with a lesson each."""
    return copy_project(template, tmp_path / "five")


def tell(model: StandIn, fail_on: str = "") -> None:
    learnings = [
        make_learning(words, title=title) for words, title in zip(LESSONS, TITLES, strict=True)
    ]
    model.will_find(*learnings, fail_on=fail_on)


def learned(project: Project) -> dict[str, tuple[object, ...]]:
    """Return the compared fields of each entry, by title."""
    return {
        entry.title: (
            entry.id,
            entry.body,
            entry.source,
            entry.evidence,
            entry.reinforcement_count,
            entry.cites,
        )
        for entry in project.entries()
    }


def run_record(
    project: Project, model: StandIn, monkeypatch: pytest.MonkeyPatch, *args: str
) -> Result:
    monkeypatch.chdir(project.path)
    environ = {**model.environ, "SOURCE_DATE_EPOCH": "1795262400"}
    return CliRunner().invoke(main, ["record", "--engine", "command", *args], env=environ)


def test_at_the_first_change_nothing_is_covered_and_nothing_committed(
    five: Project, model: StandIn
) -> None:
    five.put_fragment(make_entry(1, title="Waits in the inbox"))
    tip = five.sha()
    tell(model, fail_on=FIRST)
    plan = model.record(five)
    assert (plan.until, plan.steps, plan.counts.merged_changes) == (None, (), 0)
    assert plan.engine.failure.endswith("[engine-failed]")
    assert five.sha() == tip
    assert "The run stopped: " in render_plan(plan)
    tell(model)
    model.record(five)
    assert {*TITLES, "Waits in the inbox"} <= five.titles()


@pytest.mark.parametrize(("args", "code"), [((), 0), (("--fail-on", "engine"), 5)])
def test_the_command_warns_and_fails_only_where_that_is_asked_for(
    five: Project, model: StandIn, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], code: int
) -> None:
    tell(model, fail_on=FIRST)
    tip = five.sha()
    result = run_record(five, model, monkeypatch, *args)
    assert result.exit_code == code
    assert "Warning: the run stopped: " in result.stderr
    assert "no weights" in result.stderr
    assert five.sha() == tip


def test_an_engine_that_answers_neither_warns_nor_fails(
    five: Project, model: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_record(five, model, monkeypatch, "--fail-on", "engine")
    assert (result.exit_code, result.stderr) == (0, "")


def test_at_the_third_of_five_two_are_kept_and_the_next_run_does_as_one_whole_run(
    five: Project, model: StandIn, tmp_path: Path
) -> None:
    whole = copy_project(five, tmp_path / "whole")
    model.record(whole)
    tell(model, fail_on=LESSONS[1])
    second = five.sha("HEAD~3")
    plan = model.record(five)
    assert plan.until == second
    assert plan.counts.merged_changes == 2
    assert {*TITLES[:1]} == {*TITLES} & five.titles()
    assert MARK.partition(": ")[2][4:20] not in five.show("HEAD", "MEMORY.md"), (
        "nothing of the third is counted"
    )
    tell(model)
    after = model.plan(five)
    assert after.since == plan.until
    apply_plan(five.workspace, after, NOW)
    assert learned(five) == learned(whole)
    assert {*TITLES} <= five.titles()
    assert any("scheduler" in title for title in five.titles()), (
        "what its author marked came with it"
    )
    assert model.plan(five).steps == ()


def test_an_answered_request_is_not_paid_for_again(five: Project) -> None:
    pytest.importorskip("anthropic")
    with serve_model(
        NOTHING, answer_with(0), make_error(401, "authentication_error", "no")
    ) as double:
        plan_with(five, double.url)
    with serve_model(answer_with(1), answer_with(2), answer_with(3)) as double:
        plan = plan_with(five, double.url)
    assert len(double.requests) == 3
    assert (plan.engine.answers, plan.engine.tries, plan.counts.merged_changes) == (5, 3, 5)


def test_an_answer_of_one_engine_is_not_used_for_another(five: Project, model: StandIn) -> None:
    pytest.importorskip("anthropic")
    model.plan(five)
    call_count = len(model.requests)
    model.plan(five)
    assert len(model.requests) == 2 * call_count, "a program may have been mended meanwhile"
    with serve_model(*[NOTHING] * call_count) as double:
        plan = plan_with(five, double.url)
    assert len(double.requests) == call_count
    assert {judged_entry.candidate.engine for judged_entry in plan.judged} == {"rules"}


def test_a_reply_that_holds_no_list_is_a_failure_as_well(five: Project, tmp_path: Path) -> None:
    """It does not count as a change without learnings, and is read again."""
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho I would rather talk about the weather.\n")
    program.chmod(0o755)
    environ = {"MEMORY_CI_ENGINE_COMMAND": shlex.quote(str(program)), "PATH": ""}
    plan = plan_record(
        five.workspace, RecordOptions(engine="command"), TODAY, lambda done, total: None, environ
    )
    assert plan.until is None
    assert plan.engine.failure.endswith("[unreadable-reply]")
    tell(model := StandIn(tmp_path / "model"))
    model.record(five)
    assert {*TITLES} <= five.titles()


# -- a model behind the Messages API


def plan_with(project: Project, url: str, today: date = TODAY) -> Plan:
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    return plan_record(
        project.workspace,
        RecordOptions(engine="anthropic"),
        today,
        lambda done, total: None,
        environ,
    )


def answer_with(at: int) -> Answer:
    """Return the lesson of one change, quoted from its first piece of evidence; it costs 450,000 tokens."""
    quotes = [{"evidence": "e1", "text": LESSONS[at]}]
    fields = {"title": TITLES[at], "body": LESSONS[at], "quotes": quotes}
    return make_answer(
        json.dumps({"learnings": [fields]}), input_tokens=400_000, output_tokens=50_000
    )


NOTHING = make_answer('{"learnings": []}')


def test_the_limit_of_cost_stops_a_run_as_a_failure_does(five: Project) -> None:
    pytest.importorskip("anthropic")
    five.commit("Limit", {".memory-ci.yaml": "engine:\n  max_cost_usd: 0.4\n  price: [1.0, 1.0]\n"})
    five.commit("Go on")
    with serve_model(NOTHING, answer_with(0), answer_with(1)) as double:
        plan = plan_with(five, double.url)
    assert len(double.requests) == 2
    assert plan.engine.failure.endswith("[cost-limit]")
    assert plan.counts.merged_changes == 2
    assert plan.engine.cost_usd == pytest.approx(0.45128)
    apply_plan(five.workspace, plan, NOW)
    assert {*TITLES[:1]} == {*TITLES} & five.titles()
    five.commit("Allow more", {".memory-ci.yaml": ""})
    five.commit("Go on")
    with serve_model(answer_with(1), answer_with(2), answer_with(3), NOTHING) as double:
        apply_plan(five.workspace, plan_with(five, double.url), NOW)
    assert {*TITLES} <= five.titles()


def test_the_monthly_limit_counts_the_costs_in_commits_of_earlier_runs(five: Project) -> None:
    pytest.importorskip("anthropic")
    five.commit(
        "Limit",
        {
            ".memory-ci.yaml": "engine: {max_cost_usd: 0, max_cost_usd_month: 0.5, price: [1.0, 1.0]}\n"
        },
    )
    five.commit("Go on")
    with serve_model(NOTHING, answer_with(0), answer_with(1)) as double:
        plan = plan_with(five, double.url)
    assert plan.engine.failure.endswith("[cost-limit]")
    apply_plan(five.workspace, plan, NOW)
    assert f"\nMemory-CI-Cost: {plan.engine.cost_usd:.6f} USD" in five.git(
        "log", "-1", "--format=%B"
    )
    with serve_model() as double:
        again = plan_with(five, double.url)
    assert double.requests == [], "what is left of the month pays for no call"
    assert again.engine.failure.endswith("[cost-limit]")
    with serve_model(make_error(401, "authentication_error", "no")) as double:
        next_month = plan_with(five, double.url, today=TODAY.replace(month=12))
    assert len(double.requests) == 1
    assert next_month.engine.failure.endswith("[engine-unauthorised]")


def test_a_key_that_is_refused_leaves_everything_for_the_next_run(five: Project) -> None:
    pytest.importorskip("anthropic")
    tip = five.sha()
    with serve_model(make_error(401, "authentication_error", "invalid x-api-key")) as double:
        plan = plan_with(five, double.url)
    assert len(double.requests) == 1
    assert (plan.until, plan.steps) == (None, ())
    assert plan.engine.failure.endswith("[engine-unauthorised]")
    assert KEY not in plan.engine.failure
    assert apply_plan(five.workspace, plan, NOW).tip == tip


# -- who chooses the engine


def test_the_newest_change_does_not_choose_who_reads_the_evidence(
    five: Project, model: StandIn
) -> None:
    five.commit("Choose", {".memory-ci.yaml": "engine:\n  name: command\n"})
    plan = plan_record(
        five.workspace, RecordOptions(), TODAY, lambda done, total: None, model.environ
    )
    assert (plan.engine.name, model.requests) == ("rules", [])
    five.commit("Go on")
    plan = plan_record(
        five.workspace, RecordOptions(), TODAY, lambda done, total: None, model.environ
    )
    assert (plan.engine.name, len(model.requests)) == ("command", 5)


def test_settings_that_could_not_be_read_can_be_mended_at_once(five: Project) -> None:
    five.commit("Break", {".memory-ci.yaml": "sessions:\n  keep_days: -3\n"})
    five.commit("Mend", {".memory-ci.yaml": "sessions:\n  keep_days: 3\n"})
    plan = plan_record(five.workspace, RecordOptions(), TODAY, lambda done, total: None)
    assert plan.counts.merged_changes


def test_a_merge_that_edits_the_settings_does_not_choose_either(
    five: Project, model: StandIn
) -> None:
    five.branch("eve")
    five.commit("Choose", {".memory-ci.yaml": "engine:\n  name: command\n"})
    five.commit("Go on", {"x.txt": "x"})
    five.merge_back("eve", message="Merge pull request #206 from eve/eve\n\nWork")
    plan = plan_record(
        five.workspace, RecordOptions(), TODAY, lambda done, total: None, model.environ
    )
    assert (plan.engine.name, model.requests) == ("rules", [])


def test_the_run_ends_at_a_change_whose_author_the_forge_cannot_name(project: Project) -> None:
    """Otherwise the marks of a stranger would count as those of a team member."""
    refused = json_answer({"message": "Bad credentials"}, 401)
    with serve(lambda request: refused) as server:
        environ = {
            "GITHUB_REPOSITORY": "shop/shop",
            "GITHUB_TOKEN": "t" * 40,
            "GITHUB_API_URL": server.url,
        }
        plan = plan_record(
            project.workspace, RecordOptions(), TODAY, lambda done, total: None, environ
        )
    assert (plan.until, plan.steps, plan.judged) == (None, (), ())
    assert "forge-unauthorised" in plan.engine.failure
    assert [step.step for step in project.plan().steps] == ["extract"]


def test_a_note_stays_if_the_forge_cannot_name_its_author(project: Project) -> None:
    path = project.put_fragment(make_entry(4, scope="project"))
    with serve(lambda request: json_answer({"message": "Bad credentials"}, 401)) as server:
        environ = {
            "GITHUB_REPOSITORY": "shop/shop",
            "GITHUB_TOKEN": "t" * 40,
            "GITHUB_API_URL": server.url,
        }
        plan = plan_record(
            project.workspace, RecordOptions(), TODAY, lambda done, total: None, environ
        )
    assert any("notes of the inbox" in problem for problem in plan.problems)
    assert [
        change.moved_from
        for step in project.plan().steps
        if step.step == "fold"
        for change in step.changes
    ] == [path]
