"""Tests of `verify`: the checks of the base are applied to a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from memory_ci.commands.check.verify import verify_change
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    CheckLevel,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.records.report import Finding
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project

CHANGELOG = WithCheck(("src/**",), ("CHANGELOG.md",))
CODES = ("violated-check", "skipped-check", "unjudged-check", "skip-from-fork")


def rule(
    check: ChangeCheck, level: CheckLevel | None = None, number: int = 1, **fields: object
) -> str:
    title = f"Rule {number}"
    return format_entry(make_entry(number, title=title, check=check, level=level, **fields))


def start(project: Project, *rules: str) -> None:
    """Commit the rules to main, and create a branch."""
    files = {f"team{number}/MEMORY.md": text for number, text in enumerate(rules)}
    project.commit("Rules", files)
    project.branch("topic")


def judged(project: Project, *, is_fork: bool = False, title: str = "") -> Iterator[Finding]:
    report = verify_change(project.workspace, "main", "HEAD", is_fork=is_fork, title=title)
    yield from (finding for finding in report.findings if finding.code in CODES)


@pytest.mark.parametrize(
    ("level", "of_finding", "status"),
    [(None, "notice", 0), ("remind", "notice", 0), ("warn", "warning", 0), ("fail", "error", 1)],
)
def test_the_level_of_a_check_decides_the_effect_of_a_violation(
    project: Project, run: Run, level: CheckLevel | None, of_finding: str, status: int
) -> None:
    start(project, rule(CHANGELOG, level, evidence=("session:c:1#2 a", "session:c:2#9 b")))
    project.commit("Work", {"src/a.py": "x\n"})
    result = run("verify", "--base", "main", "--format", "json")
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["level"], result.exit_code) == (of_finding, status)
    assert (finding["path"], finding["code"]) == ("src/a.py", "violated-check")
    assert finding["message"] == (
        "CHANGELOG.md is not touched (asked in 2 sessions, last 1 September; 0000): "
        "add a line, or Memory-Skip: 0000 <reason>"
    )
    assert finding["hint"] == "The rule: Rule 1."


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"created_at": date(2026, 3, 2)}, "a rule since 2 March; 0000"),
        (
            {"evidence": ("session:c:1#2 a",), "occurred_at": date(2025, 4, 5)},
            "asked in 1 session, last 5 April 2025; 0000",
        ),
        (
            {"evidence": ("session:c:1#2 a", "session:c:1#9 b", "commit:3f2ab91 c")},
            "asked in 1 session, last 1 September; 0000",
        ),
    ],
)
def test_the_reason_of_a_rule_comes_from_its_entry(
    project: Project, fields: dict[str, Any], why: str
) -> None:
    start(project, rule(CHANGELOG, **fields))
    project.commit("Work", {"src/a.py": "x\n"})
    (finding,) = judged(project)
    assert f"CHANGELOG.md is not touched ({why}): " in finding.message


def test_a_warning_is_an_annotation(project: Project, run: Run) -> None:
    start(project, rule(CHANGELOG, "warn"))
    project.commit("Work", {"src/a.py": "x\n"})
    output = run("verify", "--base", "main", "--format", "github").stdout
    assert (
        "::warning file=src/a.py,line=1,title=violated-check::CHANGELOG.md is not touched" in output
    )


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (CHANGELOG, "src/a.py", "x\n"),
        (UntouchedCheck(("vendor/**",)), "vendor/a.c", "x\n"),
        (AbsentCheck(("*.py",), r"\bprint\("), "src/a.py", "x\nprint(x)\n"),
        (PresentCheck(("*.py",), "SPDX"), "src/a.py", "x\n"),
        (MessageCheck("^(feat|fix): "), "src/a.py", "x\n"),
        (MessageCheck("Work", is_forbidden=True), "src/a.py", "x\n"),
    ],
)
def test_each_kind_of_check_finds_its_violation(
    project: Project, check: ChangeCheck, path: str, text: str
) -> None:
    start(project, rule(check, "fail"))
    project.commit("Work", {path: text})
    (finding,) = judged(project)
    assert (finding.code, finding.level) == ("violated-check", "error")


def test_the_title_of_a_request_replaces_its_commit_messages(project: Project) -> None:
    start(project, rule(MessageCheck("^(feat|fix): "), "fail"))
    project.commit("Work", {"src/a.py": "x\n"})
    assert not list(judged(project, title="feat: a thing"))


def test_checks_that_need_a_session_are_not_applied(project: Project) -> None:
    start(project, rule(BeforeCheck("commit", ("make lint",)), "warn"))
    project.commit("Work", {"src/a.py": "x\n"})
    assert not list(judged(project))


def test_the_request_as_a_whole_is_judged(project: Project) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Work", {"src/a.py": "x\n"})
    project.commit("Say so", {"CHANGELOG.md": "- x\n"})
    assert not list(judged(project))


def test_later_changes_of_the_base_are_not_part_of_the_request(project: Project) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Docs", {"docs/a.md": "x\n"})
    project.checkout("main")
    project.commit("Other work", {"src/b.py": "x\n"})
    project.checkout("topic")
    assert not list(judged(project))


@pytest.mark.parametrize("is_fork", [False, True])
@pytest.mark.parametrize("loosened", ["", rule(WithCheck(("x",), ("y",))), rule(CHANGELOG)])
def test_a_request_cannot_loosen_its_own_check(
    project: Project, is_fork: bool, loosened: str
) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Work", {"src/a.py": "x\n", "team0/MEMORY.md": loosened or None})
    (finding,) = judged(project, is_fork=is_fork)
    assert (finding.code, finding.level) == ("violated-check", "error")


def test_a_check_that_a_request_adds_does_not_judge_it(project: Project) -> None:
    start(project)
    fragment = rule(CHANGELOG, "fail", scope="project")
    project.commit("Work", {"src/a.py": "x\n", fragment_path("1"): fragment})
    assert not list(judged(project))


def test_a_branch_that_left_before_a_check_was_made_is_judged_by_it(project: Project) -> None:
    project.branch("topic")
    project.commit("Work", {"src/a.py": "x\n"})
    project.checkout("main")
    project.commit("Rules", {"MEMORY.md": rule(CHANGELOG, "fail")})
    project.checkout("topic")
    assert [finding.code for finding in judged(project)] == ["violated-check"]


@pytest.mark.parametrize(
    "fields", [{"status": "retired"}, {"valid_until": "2025-01-01"}, {"scope": "session:job-1"}]
)
def test_a_check_that_is_not_in_force_judges_nothing(
    project: Project, fields: dict[str, str]
) -> None:
    text = rule(CHANGELOG, "fail")
    for key, value in fields.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
        text = "\n".join([lines[0], f"{key}: '{value}'", *lines[1:]]) + "\n"
    project.commit("Rules", {fragment_path("1") if "scope" in fields else "MEMORY.md": text})
    project.branch("topic")
    project.commit("Work", {"src/a.py": "x\n"})
    assert not list(judged(project))


def test_a_skip_with_a_reason_passes_and_is_counted(project: Project, run: Run) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Work\n\nMemory-Skip: 0000 nothing that users see\n", {"src/a.py": "x\n"})
    result = run("verify", "--base", "main", "--format", "json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    (outcome,) = report["checks"]
    assert (outcome["verdict"], outcome["reason"]) == ("skipped", "nothing that users see")
    assert [finding["code"] for finding in report["findings"]] == ["skipped-check"]
    text = run("verify", "--base", "main")
    assert "0000 is skipped: nothing that users see" in text.stdout
    assert "1 check of the base: 1 skipped" in text.stderr


@pytest.mark.parametrize("trailer", ["0000", "000 too short", "ffff another", "not an id"])
def test_a_skip_without_a_reason_or_of_another_check_has_no_effect(
    project: Project, trailer: str
) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit(f"Work\n\nMemory-Skip: {trailer}\n", {"src/a.py": "x\n"})
    assert [finding.code for finding in judged(project)] == ["violated-check"]


def test_ids_that_begin_alike_are_named_by_more_characters(project: Project) -> None:
    start(project, rule(CHANGELOG, "fail"), rule(UntouchedCheck(("src/**",)), "fail", number=2))
    skip = "Memory-Skip: 00000001 no need\n"
    project.commit(f"Work\n\n{skip}", {"src/a.py": "x\n"})
    findings = {finding.code: finding.message for finding in judged(project)}
    assert findings["skipped-check"].startswith("00000001 is skipped")
    assert "Memory-Skip: 00000002 <reason>" in findings["violated-check"]


def test_a_fork_cannot_skip_a_check(project: Project) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Work\n\nMemory-Skip: 0000 because\n", {"src/a.py": "x\n"})
    codes = {finding.code: finding.level for finding in judged(project, is_fork=True)}
    assert codes == {"violated-check": "error", "skip-from-fork": "notice"}


@pytest.mark.parametrize(
    "mine",
    [
        {},
        {"team0/MEMORY.md": None},
        {"team0/MEMORY.md": rule(CHANGELOG, "remind")},
        {"team0/MEMORY.md": rule(WithCheck(("x",), ("y",)), "fail")},
        {"team0/MEMORY.md": rule(CHANGELOG, "fail", status="retired")},
        {fragment_path("1"): rule(CHANGELOG, "remind", scope="project")},
    ],
)
def test_a_fork_can_neither_change_nor_skip_a_check_of_the_base(
    project: Project, run: Run, mine: dict[str, str | None]
) -> None:
    start(project, rule(CHANGELOG, "fail"))
    project.commit("Work\n\nMemory-Skip: 0000 because\n", {"src/a.py": "x\n", **mine})
    result = run("verify", "--base", "main", "--fork", "--format", "json")
    report = json.loads(result.stdout)
    assert [(outcome["verdict"], outcome["level"]) for outcome in report["checks"]] == [
        ("violated", "fail")
    ]
    levels = {finding["code"]: finding["level"] for finding in report["findings"]}
    assert (levels["violated-check"], levels["skip-from-fork"]) == ("error", "notice")
    assert result.exit_code == 1


def test_an_attribute_cannot_hide_a_line(project: Project) -> None:
    start(project, rule(AbsentCheck(("*.py",), "secret"), "fail"))
    project.commit("Work", {".gitattributes": "*.py -diff binary\n", "src/a.py": "a secret\n"})
    assert [finding.code for finding in judged(project)] == ["violated-check"]


@pytest.mark.parametrize(
    "name", ["src/a b.py", 'src/"a".py', "src/ä.py", "src/a\tb.py", "src/a\\b.py"]
)
def test_no_name_hides_a_line(project: Project, name: str) -> None:
    start(project, rule(AbsentCheck(("src/",), "secret"), "fail"))
    project.commit("Work", {name: "+++ b/src/x\n++ a\na secret\n"})
    (finding,) = judged(project)
    assert (finding.path, finding.line) == (name, 3)


@pytest.mark.parametrize(
    "check",
    [
        UntouchedCheck(("src/",)),
        AbsentCheck(("src/",), "secret"),
        PresentCheck(("src/",), "SPDX"),
        WithCheck(("src/",), ("NEWS",)),
    ],
)
@pytest.mark.parametrize("output", ["json", "github"])
def test_a_name_that_is_not_utf8_can_be_printed(
    project: Project, run: Run, check: ChangeCheck, output: str
) -> None:
    start(project, rule(check, "fail"))
    oid = project.git("hash-object", "-w", "--stdin", input=b"a secret\n")
    project.git(
        "update-index", "-z", "--index-info", input=b"100644 %b\tsrc/\xff.py\0" % oid.encode()
    )
    project.git("commit", "-qm", "Work")
    result = run("verify", "--base", "main", "--format", output)
    assert result.exit_code == 1
    assert "src/\\\\xff.py" in result.stdout or "src/\\xff.py" in result.stdout


def test_a_hostile_pattern_fails_no_commit(project: Project) -> None:
    start(project, rule(AbsentCheck(("*",), "^(a+)+$"), "fail"))
    project.commit("Work", {"src/a.py": "a" * 50 + "!\n"})
    (finding,) = judged(project)
    assert (finding.code, finding.level) == ("unjudged-check", "notice")
    assert "took more than 0.5 s" in finding.message


def test_a_line_of_a_megabyte_is_not_judged(project: Project) -> None:
    start(project, rule(AbsentCheck(("*",), "b"), "fail"))
    project.commit("Work", {"src/a.min.js": "a" * 1_000_000 + "\na\n"})
    assert [finding.code for finding in judged(project)] == ["unjudged-check"]


def test_a_level_that_an_agent_set_is_an_error(project: Project) -> None:
    start(project, rule(CHANGELOG))
    message = "Fail on it\n\nMemory-Session: claude-code:s1\n"
    project.commit(message, {"team0/MEMORY.md": rule(CHANGELOG, "fail")})
    findings = verify_change(project.workspace, "main", "HEAD").findings
    assert [finding.code for finding in findings] == ["priority-by-machine"]
    assert "level fail was set by" in findings[0].message


def test_a_level_that_a_person_set_is_in_order(project: Project) -> None:
    start(project, rule(CHANGELOG))
    project.commit("Fail on it", {"team0/MEMORY.md": rule(CHANGELOG, "fail")})
    assert verify_change(project.workspace, "main", "HEAD").findings == ()


OWN = "Compact\n\nMemory-CI-Step: compact\n"


@pytest.mark.parametrize(
    ("files", "is_fork", "codes"),
    [
        ({".memory/inbox/a.md": "x\n"}, False, []),
        ({".memory/inbox/a.md": "x\n"}, True, ["violated-check"]),
        ({".memory/inbox/a.md": "x\n", "src/a.py": "x\n"}, False, ["violated-check"]),
    ],
)
def test_only_commits_with_memory_files_alone_outside_of_forks_count_as_memory_ci_s(
    project: Project, files: dict[str, str], is_fork: bool, codes: list[str]
) -> None:
    start(project, rule(MessageCheck("^feat"), "fail"))
    project.commit(OWN, files)
    assert [finding.code for finding in judged(project, is_fork=is_fork)] == codes


def test_a_file_that_is_moved_into_memory_is_not_memory_alone(project: Project) -> None:
    project.commit("Code", {"src/a.py": "x\n" * 9})
    start(project, rule(MessageCheck("^feat"), "fail"))
    project.commit(OWN, {"src/a.py": None, ".memory/inbox/a.md": "x\n" * 9})
    assert [finding.code for finding in judged(project)] == ["violated-check"]
