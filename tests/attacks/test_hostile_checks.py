"""Tests of hostile checks, and of changes that try to evade a check: each is judged in bounded time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.records.check import (
    AbsentCheck,
    ChangeCheck,
    MessageCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.store.edits import format_entry
from tests.attacks.attack import (
    BELIEVED,
    BOUNDED,
    COMMAND,
    ERROR,
    Area,
    Case,
    Launcher,
    assert_ended_clearly,
)
from tests.attacks.scene import FIXED_TIME
from tests.make import make_entry
from tests.project import Project, copy_project, make_project

pytestmark = pytest.mark.slow

AREA = Area(
    "checks of changes",
    "patterns of exponential time, globs with 60 wildcards, lines of 30 MB, 200,000 added lines, 100,000 files, a long message; "
    "a request that edits, deletes or retires its check, skips it from a fork, hides text by attributes or odd names",
    "globs without backtracking, a timer on patterns, limits on what is read; the checks of the base's tip "
    "judge, and attributes are not asked",
)
MEMORY = 1 << 30
PRINT = AbsentCheck(("src/",), r"\bprint\(")
CHANGELOG = WithCheck(("src/**",), ("CHANGELOG.md",))
SIZES = (COMMAND, ERROR, BOUNDED)
BYPASS = (BELIEVED, ERROR)


class Attack(NamedTuple):
    """A check of the base commit, and a change.

    Attributes:
        verdict: the verdict that `verify` must print for the check.
        files: the files of the change; None deletes one.
    """

    check: ChangeCheck
    verdict: str
    files: Mapping[str, str | bytes | None]
    message: str = "Work"
    is_fork: bool = False


def pattern(text: str) -> Attack:
    return Attack(AbsentCheck(("src/",), text), "not-judged", {"src/a": "a" * 60 + "!\n"})


RULE = format_entry(make_entry(1, title="Rule", check=CHANGELOG, level="fail"))
WORK = {"src/a.py": "x\n"}
ATTACKS = {
    "a nested quantifier": pattern("(a+)+$"),
    "overlapping alternatives": pattern("^(a|aa|aaa)+$"),
    "nested stars": pattern("(.*)*(.*)*b"),
    "a back-reference": pattern(r"^(a+)(\1+)*(\1+)*c"),
    "a glob with 60 stars": Attack(
        UntouchedCheck(("*a" * 60 + "b",)), "followed", {"a" * 200: "x\n"}
    ),
    "a glob 50 directories deep": Attack(
        UntouchedCheck(("**/a/" * 50 + "b",)), "followed", {"a/" * 90 + "c": "x\n"}
    ),
    "a line of 1 MB": Attack(PRINT, "not-judged", {"src/a.js": "a" * 1_000_000 + "\n"}),
    "a line of 30 MB": Attack(PRINT, "not-judged", {"src/a.js": "a" * 30_000_000}),
    "200,000 lines": Attack(PRINT, "not-judged", {"src/a.js": "a\n" * 200_000}),
    "bytes that are no text": Attack(PRINT, "not-judged", {"src/a": bytes(range(256)) * 80_000}),
    "a message of 5 MB": Attack(
        MessageCheck("zebra", is_forbidden=True), "followed", WORK, "Work\n\n" + "word \n" * 800_000
    ),
    "its check is deleted": Attack(CHANGELOG, "violated", {**WORK, "team/MEMORY.md": None}),
    "its check is emptied": Attack(CHANGELOG, "violated", {**WORK, "team/MEMORY.md": "# x\n"}),
    "its check is retired": Attack(
        CHANGELOG,
        "violated",
        {**WORK, "team/MEMORY.md": RULE.replace("status: active", "status: retired")},
    ),
    "its check only reminds": Attack(
        CHANGELOG, "violated", {**WORK, "team/MEMORY.md": RULE.replace("fail", "remind")}
    ),
    "its memory is another file": Attack(
        CHANGELOG, "violated", {**WORK, ".memory-ci.yaml": "scopes: {project: [x.md]}\n"}
    ),
    "a fork skips it": Attack(
        CHANGELOG, "violated", WORK, "Work\n\nMemory-Skip: 0000 please", is_fork=True
    ),
    "a skip without a reason": Attack(CHANGELOG, "violated", WORK, "Work\n\nMemory-Skip: 0000"),
    "a skip of all": Attack(CHANGELOG, "violated", WORK, "Work\n\nMemory-Skip: - all of them"),
    "text behind an attribute": Attack(
        PRINT, "violated", {".gitattributes": "* -diff -text binary\n", "src/a.py": "print(1)\n"}
    ),
    "text behind a NUL": Attack(PRINT, "violated", {"src/a.py": "\0\nprint(1)\n"}),
    "text in a file with an odd name": Attack(PRINT, "violated", {'src/"\t\\': "print(1)\n"}),
    "text like the header of a diff": Attack(
        PRINT, "violated", {"src/a.py": "++ b/docs/x\n@@ -0,0 +1 @@\nprint(1)\n"}
    ),
    "text without the end of a line": Attack(PRINT, "violated", {"src/a.py": "x\nprint(1)"}),
    "text with other ends of lines": Attack(PRINT, "violated", {"src/a.py": "x\r\nprint(1)\r"}),
}
MANY = Case("100,000 files", "a change of 100,000 files", SIZES)


def list_cases() -> Iterator[Case]:
    for name, attack in ATTACKS.items():
        holds = BYPASS if attack.verdict == "violated" else SIZES
        yield Case(name, name, holds, attack)


CASES = {case.name: case for case in list_cases()}
ALL_CASES = {**CASES, MANY.name: MANY}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("checks") / "shop")


def put_rule(template: Project, path: Path, check: ChangeCheck) -> Project:
    project = copy_project(template, path)
    rule = make_entry(1, title="Rule", check=check, level="fail")
    project.commit("Rule", {"team/MEMORY.md": format_entry(rule)})
    project.branch("topic")
    return project


def verify(project: Project, launcher: Launcher, *words: str) -> str:
    words = ("verify", "--base", "main", "--format", "json", *words)
    result = launcher.run(project.path, *words, env=FIXED_TIME, memory=MEMORY)
    assert_ended_clearly(result, words)
    (outcome,) = json.loads(result.stdout)["checks"]
    verdict: str = outcome["verdict"]
    assert (verdict == "violated") <= (result.status == 1)
    return verdict


@pytest.mark.parametrize("case", CASES)
def test_the_check_of_the_base_judges_in_bounded_time(
    case: str, template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    attack: Attack = CASES[case].data
    project = put_rule(template, tmp_path / "shop", attack.check)
    project.commit(attack.message, attack.files)
    assert verify(project, launcher, *(["--fork"] if attack.is_fork else [])) == attack.verdict
    for words in (("check", "--backtest", "--json"), ("check",)):
        result = launcher.run(project.path, *words, env=FIXED_TIME, memory=MEMORY)
        assert_ended_clearly(result, words)


def test_a_change_of_many_files_is_judged(
    template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    project = put_rule(template, tmp_path / "shop", CHANGELOG)
    blob = project.git("hash-object", "-w", "--stdin", input=b"x\n")
    lines = [f"100644 {blob}\tsrc/d{number % 500}/f{number}.py" for number in range(100_000)]
    project.git("update-index", "--index-info", input="\n".join(lines).encode())
    project.git("commit", "-q", "-m", "Many")
    assert verify(project, launcher) == "violated"
