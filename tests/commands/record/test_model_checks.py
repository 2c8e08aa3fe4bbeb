"""Tests of checks that a model writes for rules which no template understands; the back-test judges them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

from memory_ci.checks.repository import list_repository_files
from memory_ci.commands.record.model_checks import describe_files, write_checks
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import EngineError
from memory_ci.extraction.engines.meter import Meter
from memory_ci.extraction.entries import compute_candidate_key
from memory_ci.extraction.prompt import CHECKS, build_prompt
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.model import Model
from memory_ci.records.candidate import Candidate, CheckProposal, EngineReply, Request
from memory_ci.records.check import AbsentCheck
from memory_ci.records.config import EngineConfig
from memory_ci.records.plan import Plan
from memory_ci.sessions.backtest_text import describe_proposal
from memory_ci.store.checkfield import parse_check_text
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import NOW, TODAY, Project, copy_project

pytestmark = pytest.mark.in_project

RULE = "Log through the logger of the module instead of printing"
CHECK = r"absent: {in: ['src/**'], text: '\bprint\('}"
NO_PRINT = AbsentCheck(("src/**",), r"\bprint\(")
FILES = list_repository_files(["src/app/main.py", "src/app/data.sql", "README.md"])


class Writer:
    """A model that writes checks and finds no learnings."""

    def __init__(self, checks: Mapping[str, str], *, quotes: str = "") -> None:
        self.requests: list[Request] = []
        self._checks = checks
        self._quotes = quotes

    def extract(self, request: Request) -> EngineReply:
        learnings: list[dict[str, object]] = []
        if request.task == "checks":
            self.requests.append(request)
            for piece in request.evidence:
                if check := self._checks.get(piece.text):
                    quote = {"evidence": piece.id, "text": self._quotes or piece.text}
                    learnings.append({"title": piece.text, "quotes": [quote], "check": check})
        reply = json.dumps({"learnings": learnings})
        return EngineReply(text=reply, stop_reason="end_turn", model="m")


class Failing:
    """A model that does not answer requests for checks."""

    def extract(self, request: Request) -> EngineReply:
        if request.task == "checks":
            raise EngineError("busy", slug="engine-overloaded")
        return EngineReply(text='{"learnings": []}', stop_reason="end_turn", model="m")


@pytest.fixture(scope="module")
def project_template(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """Return the project that each test gets a copy of: with a rule for which no template has a check."""
    project = copy_project(project_template, tmp_path_factory.mktemp("worked") / "shop")
    rule = make_entry(7, title=RULE, type="directive", created_at=TODAY.replace(year=2025))
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    project.record()
    for number in range(6):
        project.commit(f"Work {number}", {f"src/work{number}.py": "x = 1\n"})
    return project


def plan(project: Project, engine: Writer | Failing, *accepted: str) -> Plan:
    settings = EngineConfig(name="command")
    model = Model("command", "a test", engine, Meter(settings), settings)
    options = RecordOptions(accepted_keys=frozenset(accepted))
    return plan_record(project.workspace, options, TODAY, lambda done, total: None, model=model)


def list_candidates(plan: Plan) -> list[Candidate]:
    return [item.candidate for item in plan.judged if item.candidate.proposal]


def find_proposal(plan: Plan) -> CheckProposal:
    (candidate,) = list_candidates(plan)
    assert candidate.proposal is not None
    return candidate.proposal


def test_a_check_of_a_model_is_proposed_with_its_back_test(project: Project) -> None:
    proposal = find_proposal(plan(project, Writer({RULE: CHECK})))
    assert proposal.check == NO_PRINT
    assert proposal.applicable >= 3
    assert proposal.violations == 0


def test_the_proposal_says_that_a_model_wrote_the_check(project: Project) -> None:
    proposal = find_proposal(plan(project, Writer({RULE: CHECK})))
    assert "written by a model" in next(describe_proposal(proposal))


def test_a_check_that_speaks_in_most_changes_is_not_proposed(project: Project) -> None:
    check = "absent: {in: ['src/**'], text: 'x'}"
    assert not list_candidates(plan(project, Writer({RULE: check})))


def test_an_accepted_check_is_written_into_the_entry(project: Project) -> None:
    engine = Writer({RULE: CHECK})
    (candidate,) = list_candidates(plan(project, engine))
    accepted = plan(project, engine, compute_candidate_key(candidate))
    apply_plan(project.workspace, accepted, NOW)
    assert "check:\n  absent:" in (project.path / "institutional.md").read_text()


def test_a_check_is_written_once_and_stays_the_same(project: Project) -> None:
    plan(project, Writer({RULE: CHECK}))
    second = Writer({RULE: "absent: {in: ['src/**'], text: 'another'}"})
    assert find_proposal(plan(project, second)).check == NO_PRINT
    assert not second.requests


def test_review_shows_and_accepts_it_without_the_model(project: Project, run: Run) -> None:
    plan(project, Writer({RULE: CHECK}))
    listed = run("review", "--candidates").stdout
    assert "a rule of memory" in listed
    assert "written by a model" in listed
    assert run("review", "--candidates", "--accept", "1").exit_code == 0
    project.record()
    assert "check:\n  absent:" in (project.path / "institutional.md").read_text()


@pytest.mark.parametrize("text", ["no json", '{"x": 3}', "[]"])
def test_a_file_of_written_checks_that_cannot_be_read_has_none(project: Project, text: str) -> None:
    path = project.path / ".git/memory-ci/checks.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert find_proposal(plan(project, Writer({RULE: CHECK}))).check == NO_PRINT


def test_a_check_that_a_person_declined_is_not_asked_for_again(project: Project) -> None:
    project.commit("Decline", {".memory/rejected.txt": f"{'0' * 32} {RULE}\n"})
    engine = Writer({RULE: CHECK})
    assert not list_candidates(plan(project, engine))
    assert not engine.requests


def test_all_rules_are_asked_about_in_one_request(project: Project) -> None:
    rules = "- You must close each file that you open\n- You must never trust a header\n"
    project.commit("Write rules", {"AGENTS.md": rules})
    engine = Writer({})
    plan(project, engine)
    (request,) = engine.requests
    assert len(request.evidence) == 3


def test_a_model_is_not_asked_about_a_rule_that_a_template_understands(project: Project) -> None:
    project.commit("Add seeds", {"db/seeds/a.sql": "x\n", "AGENTS.md": "- Never touch db/seeds\n"})
    engine = Writer({})
    plan(project, engine)
    assert [piece.text for request in engine.requests for piece in request.evidence] == [RULE]


def test_a_model_that_fails_is_reported_and_loses_no_check_of_a_template(project: Project) -> None:
    rule = make_entry(
        8, title="Never touch db/seeds", type="directive", created_at=TODAY.replace(year=2025)
    )
    files = {"db/seeds/a.sql": "x\n", "MEMORY.md": f"{format_entry(rule)}\n"}
    project.commit("Add seeds", files)
    result = plan(project, Failing())
    assert [candidate.title for candidate in list_candidates(result)] == ["Never touch db/seeds"]
    assert "checks of rules: busy [engine-overloaded]" in result.problems


@pytest.mark.parametrize(
    "check",
    [
        "no check at all",
        "untouched: ['vendor/**']",
        "absent: {in: ['src/**'], text: '(a+)+(b+)+('}",
        "with: {when: ['src/**'], also: ['docs/**']}",
        "before: {command: commit, ran: ['make lint'], since: edit}",
        "absent: {in: ['src/**'], text: '" + "x" * 2_000 + "'}",
    ],
    ids=["text", "no-file", "bad-pattern", "no-other-file", "before", "long"],
)
def test_a_check_that_cannot_be_tried_is_left_out(check: str) -> None:
    assert write_checks(Writer({RULE: check}), [RULE], FILES) == [None]


def test_a_check_whose_quote_is_not_of_the_rule_is_left_out() -> None:
    engine = Writer({RULE: CHECK}, quotes="words that the rule does not have")
    assert write_checks(engine, [RULE], FILES) == [None]


def test_each_form_that_the_prompt_names_is_a_check() -> None:
    forms = re.findall(
        r"\b(?:with|untouched|absent|present|message): [{\[].*?[}\]](?=  | or )", CHECKS
    )
    assert len(forms) == 6
    for form in forms:
        parse_check_text(form.replace("GLOB", "'src/**'").replace("PATTERN", "'x'"))


def test_the_schema_has_a_check_only_for_this_task() -> None:
    engine = Writer({})
    write_checks(engine, [RULE], FILES)
    (request,) = engine.requests
    fields = build_prompt(request).schema["properties"]["learnings"]["items"]["properties"]
    assert "check" in fields


def test_a_model_is_shown_directories_and_kinds_but_no_single_file_of_a_kind() -> None:
    assert describe_files(FILES) == "/: *.md\nsrc/app/: *.py *.sql"


def test_directories_that_cannot_be_printed_are_shown_escaped() -> None:
    files = list_repository_files(["caf\udce9/a.py", "b\nc/a.py"])
    assert describe_files(files).splitlines() == ["b\\nc/: *.py", "caf\\udce9/: *.py"]
