"""Tests of checks that a run proposes for requests, rules and habits, each with its back-test."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.extraction.entries import compute_candidate_key
from memory_ci.memory.apply import apply_plan
from memory_ci.records.candidate import Judged
from memory_ci.records.check import UntouchedCheck, WithCheck
from memory_ci.records.plan import Plan
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import NOW, TODAY, Project, copy_project
from tests.sessions.repeated_sessions import keep_asking

pytestmark = pytest.mark.in_project

RULE = "Never touch db/seeds"
SEEDS = UntouchedCheck(("db/seeds/**",))


@pytest.fixture(scope="module")
def project_template(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """Return the project that each test gets a copy of: with seeds, and a few changes elsewhere."""
    project = copy_project(project_template, tmp_path_factory.mktemp("worked") / "shop")
    project.commit("Add seeds", {"db/seeds/users.sql": "insert\n"})
    project.record()
    for number in range(4):
        project.commit(f"Work {number}", {f"src/work{number}.py": "x = 1\n"})
    return project


def plan(project: Project, *accepted: str) -> Plan:
    options = RecordOptions(accepted_keys=frozenset(accepted))
    return plan_record(project.workspace, options, TODAY, lambda done, total: None)


def list_checks(project: Project, *accepted: str) -> list[Judged]:
    judged = plan(project, *accepted).judged
    return [item for item in judged if item.candidate.proposal]


def agree(project: Project, title: str = RULE) -> str:
    """Commit a rule that people agreed to, and return its id."""
    rule = make_entry(7, title=title, type="directive", created_at=TODAY.replace(year=2025))
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    return rule.id


def test_a_rule_of_memory_gets_a_check_with_its_back_test(project: Project) -> None:
    entry_id = agree(project)
    (item,) = list_checks(project)
    proposal = item.candidate.proposal
    assert proposal is not None
    assert (item.candidate.title, proposal.check) == (RULE, SEEDS)
    assert (proposal.source, proposal.place, item.verdict) == ("entry", entry_id, "suspected")
    assert proposal.applicable >= 4


def test_each_change_in_which_it_would_have_spoken_is_listed(project: Project) -> None:
    agree(project)
    for number in range(4):
        project.commit(f"More {number}", {f"src/more{number}.py": "x = 1\n"})
    project.commit("Mend a seed", {"db/seeds/users.sql": "insert 2\n"})
    (item,) = list_checks(project)
    assert item.candidate.proposal is not None
    assert any(line.endswith("Mend a seed") for line in item.candidate.proposal.examples)


def test_a_check_that_would_speak_too_often_is_not_proposed(project: Project) -> None:
    agree(project)
    for number in range(6):
        project.commit(f"Mend seed {number}", {"db/seeds/users.sql": f"insert {number}\n"})
    assert list_checks(project) == []


def test_a_check_that_applies_to_no_change_is_not_proposed(project: Project) -> None:
    project.commit("Add docs", {"docs/api.md": "x\n", "docs/cli.md": "x\n"})
    agree(project, "When you change docs/api.md, update docs/cli.md")
    assert list_checks(project) == []


def test_a_request_gets_a_check_beside_its_own_box(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, *["Please never touch db/seeds."] * 3)
    judged = plan(project).judged
    boxes = [item for item in judged if item.candidate.title.endswith("never touch db/seeds")]
    keys = {compute_candidate_key(item.candidate) for item in boxes}
    assert [item.candidate.proposal is None for item in boxes] == [True]
    assert len(keys) == len(boxes), "no change was merged since: it has no back-test yet"


def write_rules(project: Project, text: str) -> None:
    """Commit rules, then changes of later days, one of which breaks the rules."""
    project.clock.now = NOW - timedelta(days=60)
    project.commit("Write rules", {"AGENTS.md": text})
    project.clock.now = NOW - timedelta(days=20)
    for number in range(8):
        project.commit(f"Work on {number}", {f"src/later{number}.py": "x = 1\n"})
    project.commit("Break rules", {"db/seeds/users.sql": "more\n", "src/client.py": "y = 1\n"})


def test_a_line_of_a_document_is_the_source_and_stays(project: Project) -> None:
    write_rules(project, f"# Rules\n\n- **{RULE}**\n")
    (item,) = list_checks(project)
    assert item.candidate.proposal is not None
    assert (item.candidate.title, item.candidate.proposal.place) == (RULE, "AGENTS.md:3")
    assert [quote.origin for quote in item.candidate.quotes] == ["file:AGENTS.md:3"]


def test_changes_before_a_rule_was_written_do_not_count(project: Project) -> None:
    write_rules(project, f"- {RULE}\n")
    (item,) = list_checks(project)
    assert item.candidate.proposal is not None
    assert item.candidate.proposal.violations == 1  # not when the seeds were added


def test_a_rule_of_a_document_that_nobody_broke_is_not_proposed(project: Project) -> None:
    write_rules(project, "- Never touch src/work0.py\n")
    assert list_checks(project) == []


def test_signatures_of_agents_are_proposed_although_nobody_wrote_one(project: Project) -> None:
    write_rules(project, "- Never add Co-Authored-By lines of agents to a commit message\n")
    assert len(list_checks(project)) == 1


def change_together(project: Project) -> None:
    """Change two files together, after a change of the first alone."""
    project.clock.now = NOW - timedelta(days=120)
    both = {"package.json": "x\n", "yarn.lock": "x\n"}
    project.commit("Name the package", both)
    project.commit("Describe the package", {"package.json": "y\n"})
    project.clock.now = NOW - timedelta(days=30)
    for number in range(20):
        files = {"package.json": f"{number}\n", "yarn.lock": f"{number}\n"}
        project.commit(f"Use version {number} of it", files)


def test_a_lock_file_that_ci_tests_is_not_proposed(project: Project) -> None:
    change_together(project)
    project.commit("Test", {".github/workflows/ci.yml": "run: yarn install --immutable\n"})
    assert list_checks(project) == []


def test_a_habit_of_files_that_are_gone_is_not_proposed(project: Project) -> None:
    change_together(project)
    project.git("rm", "--quiet", "package.json")
    project.commit("Use another tool", {"deno.json": "x\n"})
    assert list_checks(project) == []


def test_a_habit_that_a_rule_demands_is_proposed_once(project: Project) -> None:
    rule = "When you change `package.json`, update `yarn.lock`"
    change_together(project)
    agree(project, rule)
    for number in range(20):
        project.commit(f"Use {number}", {"package.json": f"{number}\n", "yarn.lock": f"{number}\n"})
    titles = [item.candidate.title for item in list_checks(project)]
    assert titles == [rule]


def test_a_habit_of_the_history_is_proposed(project: Project) -> None:
    change_together(project)
    checks = [item.candidate.proposal for item in list_checks(project)]
    (proposal,) = [item for item in checks if item is not None]
    assert proposal.check == WithCheck(("package.json",), ("yarn.lock",))
    assert (proposal.source, proposal.violations) == ("habit", 1)


def test_a_rule_that_a_linter_tests_is_not_proposed(project: Project) -> None:
    agree(project, "Never use `print()` in code")
    assert len(list_checks(project)) == 1
    project.commit("Lint", {"ruff.toml": 'select = ["T20"]\n'})
    assert list_checks(project) == []


def test_a_rule_that_a_known_hook_tests_better_has_no_check(project: Project) -> None:
    agree(project, "Use conventional commits")
    assert list_checks(project) == []


def test_an_accepted_check_is_written_into_its_entry(project: Project) -> None:
    entry_id = agree(project)
    (item,) = list_checks(project)
    apply_plan(project.workspace, plan(project, compute_candidate_key(item.candidate)), NOW)
    (entry,) = [entry for entry in project.entries("institutional.md") if entry.id == entry_id]
    assert entry.check == SEEDS
    assert list_checks(project) == []


def test_an_accepted_check_of_a_document_is_an_entry(project: Project) -> None:
    write_rules(project, f"{RULE}\n")
    (item,) = list_checks(project)
    apply_plan(project.workspace, plan(project, compute_candidate_key(item.candidate)), NOW)
    (entry,) = [entry for entry in project.entries("institutional.md") if entry.title == RULE]
    assert (entry.check, entry.type) == (SEEDS, "directive")


def test_review_lists_it_and_accepts_it(project: Project, run: Run) -> None:
    agree(project)
    listed = run("review", "--candidates").stdout
    assert "check: untouched: ['db/seeds/**'] (a rule of memory" in listed
    assert "would have spoken 1 time in" in listed
    (row,) = json.loads(run("review", "--candidates", "--json").stdout)["candidates"]
    assert (row["kind"], row["source"], row["spoken"]) == ("check", "entry", 1)
    assert run("review", "--candidates", "--accept", "1").exit_code == 0
    project.record()
    titles = [entry for entry in project.entries("institutional.md") if entry.title == RULE]
    assert [entry.check for entry in titles if entry.status == "active"] == [SEEDS]


def test_a_declined_check_is_not_proposed_again(project: Project, run: Run) -> None:
    agree(project)
    assert run("review", "--candidates", "--never", "1").exit_code == 0
    assert json.loads(run("review", "--candidates", "--json").stdout)["candidates"] == []


def test_declined_checks_take_no_place_of_others(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.commands.record.proposed_checks.MAX_PROPOSED", 1)
    write_rules(project, f"{RULE}\n\nNever touch src/client.py\n")
    (first,) = list_checks(project)
    project.commit(
        "Decline", {".memory/rejected.txt": f"{compute_candidate_key(first.candidate)} x\n"}
    )
    (second,) = list_checks(project)
    assert second.candidate.title == "Never touch src/client.py"


def test_an_accepted_check_is_written_however_many_come_before(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rules(project, f"{RULE}\n\nNever touch src/client.py\n")
    _, second = list_checks(project)
    monkeypatch.setattr("memory_ci.commands.record.proposed_checks.MAX_PROPOSED", 1)
    verdicts = [
        item.verdict for item in list_checks(project, compute_candidate_key(second.candidate))
    ]
    assert verdicts == ["suspected", "written"]


def test_an_accepted_check_is_written_although_it_would_not_be_proposed_any_more(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(project)
    (item,) = list_checks(project)
    monkeypatch.setattr("memory_ci.commands.record.proposed_checks.MAX_VIOLATED_SHARE", 0.0)
    assert list_checks(project) == []
    verdicts = [
        item.verdict for item in list_checks(project, compute_candidate_key(item.candidate))
    ]
    assert verdicts == ["written"]
