"""Tests of deriving checks from rules by templates: each template, unsupported rules, hostile words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory_ci.checks.judge import AddedLine, CheckedChange, judge
from memory_ci.checks.patterns import MAX_PATTERN, compile_pattern, limit_time
from memory_ci.checks.repository import RepositoryFiles, list_repository_files
from memory_ci.checks.templates import MAX_RULE, derive_check
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.records.history import FileChange

FILES = [
    "CHANGELOG.md",
    "README.md",
    "docs/index.md",
    "src/app.py",
    "src/generated/models.py",
    "tests/test_app.py",
    "db/seeds/users.sql",
    "uv.lock",
    "pyproject.toml",
]
REPOSITORY = list_repository_files(FILES)
PYTHON = list_repository_files(["app/totals.py", "tests/test_totals.py"])
TYPESCRIPT = list_repository_files(["web/totals.ts", "web/page.tsx"])


def derive(rule: str, repository: RepositoryFiles = REPOSITORY) -> ChangeCheck | None:
    """Return the check that is derived from the text of a rule, or None."""
    return derive_check(rule, repository)


def accepts(check: ChangeCheck | None, *lines: str, path: str = "app/new.py") -> bool:
    """Return whether a new file with these lines follows a check."""
    assert check is not None
    change = CheckedChange(
        files=(FileChange("A", path),),
        added=tuple(AddedLine(path, number, line) for number, line in enumerate(lines, 1)),
    )
    judgement = judge(check, change)
    assert not judgement.unjudged
    return judgement.fault is None


# -- messages, commands and files


@pytest.mark.parametrize(
    ("rule", "broken", "accepted"),
    [
        ("Never add Claude as a co-author of commits", "Co-Authored-By: Claude <a@b>", "Fix it"),
        ("No emojis in commit messages", "Add \U0001f680", "Add a rocket"),
        ("Don't use emoji in the title of a pull request", "\u2728 New", "New"),
    ],
)
def test_a_text_that_messages_must_not_contain(rule: str, broken: str, accepted: str) -> None:
    check = derive(rule)
    assert isinstance(check, MessageCheck)
    assert check.is_forbidden
    assert compile_pattern(check.text).search(broken)
    assert not compile_pattern(check.text).search(accepted)


def test_messages_must_name_an_issue() -> None:
    check = derive("Commit messages must name the issue number")
    assert isinstance(check, MessageCheck)
    assert compile_pattern(check.text).search("Fix #12")
    assert compile_pattern(check.text).search("ABC-12 Fix")
    assert not compile_pattern(check.text).search("Fix twelve")


@pytest.mark.parametrize(
    ("rule", "paths"),
    [
        ("Never touch db/seeds", ("db/seeds/**",)),
        ("Do not ever edit `src/generated`", ("src/generated/**",)),
        ("Leave uv.lock alone", ("/uv.lock",)),
        ("db/seeds must not be changed", ("db/seeds/**",)),
        ("Don\u2019t modify src/generated/models.py", ("src/generated/models.py",)),
    ],
)
def test_files_must_not_change(rule: str, paths: tuple[str, ...]) -> None:
    assert derive(rule) == UntouchedCheck(paths)


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        (
            "When you change pyproject.toml, update uv.lock",
            WithCheck(("/pyproject.toml",), ("/uv.lock",)),
        ),
        (
            "If you touch db/seeds, adjust docs/index.md",
            WithCheck(("db/seeds/**",), ("docs/index.md",)),
        ),
    ],
)
def test_files_must_change_together(rule: str, check: WithCheck) -> None:
    assert derive(rule) == check


def test_changes_of_code_need_a_line_in_the_changelog() -> None:
    check = derive("Add a changelog entry with every change")
    assert isinstance(check, WithCheck)
    assert check.also == ("CHANGELOG.md",)
    assert check.when[:2] == ("*.py", "*.sql")
    assert "!tests/**" in check.when


def test_changes_of_code_need_tests() -> None:
    check = derive("Always add tests")
    assert isinstance(check, WithCheck)
    assert "tests/**" in check.also


# -- text


@pytest.mark.parametrize(
    ("rule", "broken", "accepted"),
    [
        ("Never use `print()`", "    print(1)", "    pprint(1)"),
        ("Avoid using `os.system`", "os.system(x)", "os.systems"),
        ("Never leave a TODO in code", "x = 1  # TODO: more", "x = todo()"),
    ],
)
def test_a_text_that_code_must_not_contain(rule: str, broken: str, accepted: str) -> None:
    check = derive(rule)
    assert not accepts(check, broken)
    assert accepts(check, accepted)


def test_new_files_need_a_licence() -> None:
    check = derive("Every new file must have an SPDX header")
    assert isinstance(check, PresentCheck)
    assert accepts(check, "# SPDX-License-Identifier: MIT", "x = 1")
    assert not accepts(check, "x = 1")


# -- how code is written

NAMES: list[tuple[str, str, str]] = [
    ("Always start function names with 'fn_'", "def fn_total(rows):", "def total(rows):"),
    ("Functions begin with the prefix `fn_`", "async def fn_total():", "async def total():"),
    ("Prefix all function names with \u201cfn_\u201d", "def fn_a():", "def a():"),
    ("Use 'fn_' as a prefix for function names", "def fn_a():", "def a_fn_():"),
    ("End all your method names with '_md'", "    def go_md(self):", "    def go(self):"),
    ("For method names, end them with '_md'", "    def go_md(cls, a):", "    def md_go(cls):"),
    ("We want variable names to end with '_v'", "total_v = 1", "total = 1"),
    ("Start variable names with 'v_'", "    v_a, v_b = 1, 2", "    v_a, b = 1, 2"),
    ("Start variable names with 'v_'", "v_a: list[int] = []", "a: list[int] = []"),
    ("Start variable names with 'v_'", "    run(total=1)", "    total = 1"),
    ("Start attribute names with 'at_'", "        self.at_x = 1", "        self.x = 1"),
    ("Attributes must start with `at_`", "        self.x == 1", "        self.x: int = 1"),
    ("Class names end with 'Row'", "class TotalRow(Base):", "class Total:"),
    ("Include the string 'chx' in class names", "class TotalchxRow:", "class Total:"),
    ("Start function argument names with 'a_'", "def f(a_x, *a_y):", "def f(a_x, y=1):"),
    ("Start parameter names with 'a_'", "    def f(self, a_x):", "    def f(self, x):"),
    (
        "Function arguments start with 'a_'",
        "def f(a_x: dict[str, int], a_y: str = 'b, c') -> int:",
        "def f(a_x: dict[str, int], y: str):",
    ),
    ("Use snake_case for function names", "def read_all():", "def readAll():"),
    ("Use CamelCase for class names", "class HTTPReader:", "class http_reader:"),
    ("Class names are in PascalCase", "class Reader2:", "class READER:"),
    ("Use all UPPERCASE for class names", "class READER_2:", "class Reader:"),
    ("Use camelCase for function names", "def readAll():", "def ReadAll():"),
    ("Use snake_case for variables", "MAX_ROWS = 3", "maxRows = 3"),
    ("Include a single digit in class names", "class Row2:", "class Row22:"),
    ("Method names contain a digit", "    def a22(self):", "    def a(self):"),
    ("Never start function names with 'get_'", "def read():", "def get_rows():"),
    ("Don't use camelCase for functions", "def read_all():", "def readAll():"),
    (
        "Start function names with 'b_' instead of 'a_'",
        "def b_read():",
        "def a_read():",
    ),
    (
        "Use snake_case for functions, methods, and variables",
        "    def read_all(self):",
        "    def readAll(self):",
    ),
]


@pytest.mark.parametrize(("rule", "accepted", "broken"), NAMES)
def test_names_must_follow_a_rule(rule: str, accepted: str, broken: str) -> None:
    check = derive(rule, PYTHON)
    assert isinstance(check, AbsentCheck)
    assert accepts(check, accepted)
    assert not accepts(check, broken)


@pytest.mark.parametrize("style", ["snake_case", "camelCase"])
def test_a_name_of_one_word_is_not_in_a_forbidden_style(style: str) -> None:
    check = derive(f"Never use {style} for variables", PYTHON)
    assert accepts(check, "count = 1")
    assert not accepts(check, {"snake_case": "row_count = 1", "camelCase": "rowCount = 1"}[style])


@pytest.mark.parametrize("name", ["__init__", "__eq__"])
def test_names_that_python_requires_break_no_rule(name: str) -> None:
    check = derive("Always start method names with 'md_'", PYTHON)
    assert accepts(check, f"    def {name}(self):")


def test_names_of_tests_that_their_runner_requires_break_no_rule() -> None:
    check = derive("Always start function names with 'fn_'", PYTHON)
    assert accepts(check, "def test_total():", path="tests/test_new.py")


def test_names_of_typescript_are_read() -> None:
    check = derive("Use camelCase for functions and variables", TYPESCRIPT)
    path = "web/new.ts"
    assert accepts(check, "export async function readAll(rows) {", "const total = 1;", path=path)
    assert not accepts(check, "function read_all(rows) {", path=path)
    assert not accepts(check, "  let total_rows = 1;", path=path)


def test_a_rule_for_one_language_ignores_other_languages() -> None:
    mixed = list_repository_files(["app/a.py", "web/b.ts"])
    assert derive("Start function names with 'fn_'", mixed) is None
    check = derive("Start function names in Python with 'fn_'", mixed)
    assert isinstance(check, AbsentCheck)
    assert check.paths == ("*.py",)


@pytest.mark.parametrize(
    ("rule", "accepted", "broken"),
    [
        ("Always use annotations for functions", "def f(a: int) -> int:", "def f(a):"),
        ("Use type hints in all functions", "def f() -> None:", "def f():"),
        ("Use type hints everywhere", "def f(a: int):", "    def f(self, a):"),
        ("Methods need annotations", "def f(a):", "    def f(self, a):"),
        ("Methods need annotations", "    def __init__(self, a):", "    async def f(self):"),
    ],
)
def test_definitions_need_annotations(rule: str, accepted: str, broken: str) -> None:
    check = derive(rule, PYTHON)
    assert accepts(check, accepted)
    assert not accepts(check, broken)


def test_a_definition_of_several_lines_is_not_judged_by_its_first() -> None:
    check = derive("Always use annotations for functions", PYTHON)
    assert accepts(check, "def f(", "    a: int,", ") -> int:")


@pytest.mark.parametrize(
    "rule",
    [
        "Always import the 'secrets' module even if it is not used",
        "Import `secrets` in every Python file",
    ],
)
def test_new_files_must_import_a_module(rule: str) -> None:
    check = derive(rule, PYTHON)
    assert accepts(check, "import csv, secrets")
    assert accepts(check, "from secrets import token_hex")
    assert not accepts(check, "import secrets_of_all")
    assert not accepts(check, "secrets = 1")


def test_new_files_need_comments() -> None:
    check = derive("Always add comments in your code", PYTHON)
    assert accepts(check, "x = 1  # one")
    assert not accepts(check, "#!/usr/bin/env python", "x = 1")


# -- what no template understands


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "Be careful",
        "Do we start function names with 'fn_'?",
        "Start function names with 'fn_' if they are public",
        "Start private method names with '_'",
        "Start the names of helper functions with 'h_'",
        "Only test functions start with 'test_'",
        "Functions: an action verb as prefix (`get_rows`, `read_all`)",
        "End functions with `return`",
        "Start branches with 'feature_'",
        "Use snake_case",
        "Always use docstrings in functions",
        "Always include try statements in methods",
        "Always include assert statements in functions",
        "Always add the '@retry' decorator from the 'pedantic' module to all methods",
        "Never import the 'secrets' module in every file",
        "Always import `Logger` from `app.log`",
        "Import `pytest` lazily",
        "Use type hints where appropriate",
        "Add type annotations to Y",
        "Use annotations for complex functions",
        "Add comments to complex code",
        "Never add comments to your code",
        "Add a comment to each function",
        "Never touch db/nowhere",
        "Leave it alone",
        "Make sure the tests pass before you commit",
        "Go ahead before you push",
        "Never use `print the thing`",
        "When you change pyproject.toml, tell me",
        "Write short messages",
        "Every file is read twice",
    ],
)
def test_a_rule_that_matches_no_template_has_no_check(rule: str) -> None:
    assert derive(rule) is None


@pytest.mark.parametrize(("rule", "_kept", "_broken"), NAMES)
def test_a_rule_about_names_needs_code_of_a_known_language(
    rule: str, _kept: str, _broken: str
) -> None:
    assert derive(rule, list_repository_files(["README.md", "src/a.rs"])) is None


# -- hostile words

HOSTILE: list[Callable[[int], str]] = [
    lambda count: "function " * count,
    lambda count: "start function names with " * count + "'a_'",
    lambda count: "'a_' " * count,
    lambda count: "functions, methods and " * count + "classes start with 'a_'",
    lambda count: "never " * count + "use `a.b`",
    lambda count: "before you commit " * count,
    lambda count: "import 'a' " * count + "always",
    lambda count: "update " * count + "when you change " * count,
    lambda count: "`" * count,
    lambda count: "a/" * count,
]


@pytest.mark.parametrize("make", HOSTILE)
def test_only_the_beginning_of_long_words_is_read(make: Callable[[int], str]) -> None:
    rule = make(20_000)
    assert derive(rule) == derive(rule[:MAX_RULE])
    with limit_time():  # as long as a check may take
        derive(rule)


@pytest.mark.parametrize("value", ["a" * 30, "_" * 30])
def test_the_pattern_of_a_derived_check_is_allowed_in_checks(value: str) -> None:
    rule = f"Functions, methods, classes, variables and attributes start with '{value}_'"
    check = derive(rule, PYTHON)
    assert check is None or len(getattr(check, "text", "")) <= MAX_PATTERN


@pytest.mark.parametrize("value", [".*", "a|b", "(?=x)", "\\", "[", "a b"])
def test_regex_signs_in_a_rule_are_not_part_of_a_name(value: str) -> None:
    assert derive(f"Start function names with '{value}'", PYTHON) is None


@pytest.mark.parametrize(
    "line",
    [
        "def f(" + "a, " * 3_000 + "b):",
        "def f(" + "[" * 5_000,
        "a, " * 3_000 + "b = 1",
        "self." + "a" * 9_000 + " = 1",
        "    def " + "a" * 9_000 + "(self",
        "import " + "a, " * 3_000,
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        "Start function argument names with 'a_'",
        "Start variable names with 'v_'",
        "Start attribute names with 'at_'",
        "End method names with '_md'",
        "Include a single digit in function names",
        "Always import the 'secrets' module even if it is not used",
    ],
)
def test_a_hostile_line_is_judged_in_time(rule: str, line: str) -> None:
    check = derive(rule, PYTHON)
    assert check is not None
    change = CheckedChange(
        files=(FileChange("A", "app/new.py"),), added=(AddedLine("app/new.py", 1, line),)
    )
    assert judge(check, change).unjudged == ""


@pytest.mark.parametrize(
    "rule",
    [
        "Don't forget to update CHANGELOG.md",
        "Never forget to commit CHANGELOG.md",
        "Do not hesitate to update CHANGELOG.md",
        "Never change code without updating docs/",
        "Do not commit before you update CHANGELOG.md",
        "Keep the commit subject under 72 characters",
        "Do not run `make lint` before you commit",
    ],
)
def test_the_opposite_of_a_rule_is_not_derived(rule: str) -> None:
    check = derive(rule)
    assert not isinstance(check, UntouchedCheck | MessageCheck | BeforeCheck)


def test_a_reminder_gives_the_check_of_its_rule() -> None:
    rule = "update CHANGELOG.md with each change"
    assert derive(f"Don't forget to {rule}") == derive(rule) is not None


@pytest.mark.parametrize(
    "rule",
    [
        "Never use `JSON.parse()` directly in production code",
        "Don't call `lexers.Match()` on a render path",
        "Avoid using `any()` when the type is known",
    ],
)
def test_a_text_that_is_forbidden_only_in_some_places_has_no_check(rule: str) -> None:
    assert derive(rule) is None


def test_constants_and_type_aliases_break_no_style_of_variables() -> None:
    check = derive("Use snake_case for variable names")
    for line in ("_MAX_SIZE = 3", "Messages = list[Message]", "    first, _ = pair"):
        assert accepts(check, line)
    assert not accepts(check, "    maxSize = 3")


def test_the_word_other_is_not_a_directory() -> None:
    files = list_repository_files(["tools/other/a.py"])
    assert derive("The table is the source, so you do not edit any other", files) is None
