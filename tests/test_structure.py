"""Tests of rules of the repository: import contracts, error slugs, links, help texts, pinned versions."""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from memory_ci.cli.manual import load_explanations, read_topic
from memory_ci.commands.table import COMMANDS
from tests.repos import QUICK

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = [contract["id"] for contract in PYPROJECT["tool"]["importlinter"]["contracts"]]

VIOLATIONS = [
    ("layers", "records/entry.py", "import memory_ci.config"),
    ("layers", "text.py", "import memory_ci.records.entry"),
    ("layers", "gitrepo/__init__.py", "import memory_ci.store"),
    ("layers", "search/__init__.py", "import memory_ci.lifecycle"),
    ("layers", "memory/__init__.py", "import memory_ci.sessions"),
    ("layers", "sessions/__init__.py", "import memory_ci.cli"),
    ("layers", "cli/__init__.py", "import memory_ci.commands.record.run"),
    ("layers", "commands/retrieve/retrieve.py", "import memory_ci.api"),
    ("layers", "a_new_module.py", "IS_IN_NO_LAYER = True"),
    ("pure", "evidence/__init__.py", "import os"),
    ("pure", "lifecycle/__init__.py", "import time"),
    ("pure", "anchors/__init__.py", "import memory_ci.gitrepo"),
    ("pure", "records/entry.py", "import random"),
    ("pure", "secrets.py", "import anthropic"),
    ("pure", "text.py", "import socket"),
    ("owner-git", "memory/__init__.py", "import git"),
    ("owner-git", "a_new_module.py", "from git.repo import Repo"),
    ("owner-anthropic", "extraction/__init__.py", "import anthropic"),
    ("owner-sqlite3", "store/__init__.py", "import sqlite3"),
    ("owner-click", "memory/__init__.py", "import click"),
    ("owner-click", "commands/record/run.py", "import click"),
    ("owner-yaml", "store/a_new_module.py", "import yaml"),
    ("owner-urllib3", "sources/__init__.py", "import urllib3"),
    ("owner-urllib3", "search/search.py", "import urllib3"),
    ("owner-numpy", "commands/retrieve/ranking.py", "import numpy"),
    ("owner-mcp", "commands/agents/command.py", "import mcp"),
    ("owner-mcp", "commands/mcp/tools.py", "import anyio"),
    ("owner-psycopg", "commands/org/sqlite.py", "import psycopg"),
    ("owner-report", "commands/report/report.py", "import jinja2"),
    ("acyclic", "records/entry.py", "import memory_ci.records.plan"),
    ("acyclic", "commands/retrieve/retrieve.py", "import memory_ci.commands.show.why"),
]
"""(contract, file of memory_ci/, line that violates it). A missing file is created."""


PLANT = """
import contextlib, io, json, pathlib, sys
from importlinter.cli import lint_imports

def lint(*contracts):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        lint_imports(limit_to_contracts=contracts, no_logo=True)
    return said.getvalue()

said = [lint()]
for contract, file, line in json.load(sys.stdin):
    path = pathlib.Path("memory_ci", file)
    before = path.read_text("utf-8") if path.exists() else None
    path.write_text(f"{before or ''}\\n{line}\\n", "utf-8")
    said.append(lint(contract))
    path.unlink() if before is None else path.write_text(before, "utf-8")
json.dump(said, sys.stdout)
"""
"""Prints the result of import-linter for the package, then for each planted violation alone.

One process, for its cache reads a file once; not ours, for import-linter would look at the `memory_ci` that is loaded.
"""


@pytest.mark.slow  # `make lint` holds the contracts; this proves that each of them can fail
def test_every_contract_is_kept_and_each_violation_of_it_is_found(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "memory_ci", tmp_path / "memory_ci", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-c", PLANT]
    completed = subprocess.run(
        command,
        cwd=tmp_path,
        input=json.dumps(VIOLATIONS),
        capture_output=True,
        text=True,
        check=True,
    )
    as_it_stands, *spoiled = json.loads(completed.stdout)
    assert f"{len(CONTRACTS)} kept, 0 broken" in as_it_stands, as_it_stands
    for (contract, file, line), expected_message in zip(VIOLATIONS, spoiled, strict=True):
        module = file.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        assert "0 kept, 1 broken" in expected_message, (contract, file, line, expected_message)
        assert re.search(rf"\.{module}\b", expected_message.partition("Broken contracts")[2]), (
            contract,
            file,
            line,
            expected_message,
        )


def test_every_contract_has_a_violation_planted() -> None:
    assert {contract for contract, _, _ in VIOLATIONS} == set(CONTRACTS)


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in (ROOT / "memory_ci").rglob("*.py")
    }


@pytest.fixture(scope="module")
def nodes(trees: dict[Path, ast.Module]) -> dict[Path, list[ast.AST]]:
    """Return all nodes of each module, which are walked once for all tests."""
    return {path: list(ast.walk(tree)) for path, tree in trees.items()}


def test_public_class_names_are_unique(nodes: dict[Path, list[ast.AST]]) -> None:
    checked_modules = [module for path, module in nodes.items() if "sources" not in path.parts]
    names = Counter(
        node.name for module in checked_modules for node in module if isinstance(node, ast.ClassDef)
    )
    assert {
        name for name, count in names.items() if count > 1 and not name.startswith("_")
    } == set()


EXAMPLES = [
    path
    for path in (ROOT / "memory_ci").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
    and path.name != "api.py"  # tests/test_api.py has a repository
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_in_docstrings_are_correct(path: Path) -> None:
    module = import_module(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    )
    assert doctest.testmod(module).failed == 0


def list_import_compiles(node: ast.AST) -> Iterator[int]:
    """Yield the lines at which a module compiles a regular expression when it is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "re.compile":
            yield child.lineno
        yield from list_import_compiles(child)


def test_no_module_compiles_a_regular_expression_when_it_is_imported(
    trees: dict[Path, ast.Module],
) -> None:
    compiled = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in sorted(trees.items())
        for line in list_import_compiles(tree)
    ]
    assert compiled == [], "use memory_ci.regex.Regex"


FEATURES = sorted(
    path.parent.name for path in (ROOT / "memory_ci" / "commands").glob("*/__init__.py")
)


def list_documented(docstring: str) -> set[str]:
    """Return the parameters in the section `Args` of a docstring."""
    section = re.search(r"^Args:\n((?: +.*\n|\n)*)", f"{docstring}\n", re.MULTILINE)
    return set(re.findall(r"^    \**(\w+):", section[1], re.MULTILINE)) if section else set()


def test_docstrings_name_only_existing_parameters(nodes: dict[Path, list[ast.AST]]) -> None:
    unknown: list[str] = []
    for path, module in nodes.items():
        for node in module:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
                extra = list_documented(ast.get_docstring(node) or "") - parameters
                unknown += [f"{path}: {node.name}: {name}" for name in extra]
    assert unknown == []


def list_uses(feature: str) -> set[str]:
    """Return the other features that a feature's modules import."""
    modules = (ROOT / "memory_ci" / "commands" / feature).rglob("*.py")
    names = {
        name
        for path in modules
        for name in re.findall(r"memory_ci\.commands\.(\w+)", path.read_text("utf-8"))
    }
    names |= {
        name
        for path in modules
        for name in re.findall(r"from memory_ci\.commands import (\w+)", path.read_text())
    }
    return names & set(FEATURES) - {feature}


def test_the_table_of_features_names_the_commands_and_uses_of_each() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("<!-- features -->\n")[2].partition("<!-- end of features -->")[0]
    lines = ["| feature | commands | uses |", "|---|---|---|"]
    for feature in FEATURES:
        commands = [
            name for name, row in COMMANDS.items() if row.module.partition(".")[0] == feature
        ]
        uses = sorted(list_uses(feature))
        lines.append(f"| {feature} | {', '.join(commands) or '-'} | {', '.join(uses) or '-'} |")
    assert table == "\n".join([*lines, ""])


def test_features_have_few_dependencies_on_each_other() -> None:
    assert sum(len(list_uses(feature)) for feature in FEATURES) <= 45


VERBS = set(
    """ask build carry choose edit feed find format gather give hear ingest join keep learn list load make note parse
    read render save select send stand take tell write""".split()
)


def test_modules_are_nouns_of_the_glossary_or_commands() -> None:
    """A verb form names a module only if it is a command, or the glossary explains it."""
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Words")[2]
    words = {word for row in re.findall(r"(?m)^\| ([^|]+) \|", table) for word in row.split(", ")}
    stems = {path.stem for path in (ROOT / "memory_ci").rglob("*.py")} - words - set(COMMANDS)
    assert {stem for stem in stems if stem in VERBS or re.search(r"(?:ing|ed)$", stem)} == set()


SLUG_NAMES = ("slug", "code")


def list_parameters(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """Return the positional parameters of a function, or of the record that a class declares."""
    if isinstance(node, ast.FunctionDef):
        return [argument.arg for argument in node.args.args if argument.arg != "self"]
    fields = [field.target for field in node.body if isinstance(field, ast.AnnAssign)]
    return [target.id for target in fields if isinstance(target, ast.Name)]


def find_positions(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield (name, position) of every function and record that takes a slug or code by position."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            parameters = list_parameters(node)
            yield from (
                (node.name, parameters.index(name)) for name in SLUG_NAMES if name in parameters
            )


def list_branches(value: ast.expr) -> list[ast.expr]:
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def find_slugs(nodes: Iterable[ast.AST], positions: dict[str, int]) -> Iterator[str]:
    """Yield literal slugs and codes in calls of a module, given by keyword or at the position in `positions`."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        position = positions.get(name, len(node.args))
        values = [keyword.value for keyword in node.keywords if keyword.arg in SLUG_NAMES]
        for value in values + node.args[position : position + 1]:
            literals = [
                branch.value for branch in list_branches(value) if isinstance(branch, ast.Constant)
            ]
            yield from (literal for literal in literals if isinstance(literal, str))


@pytest.fixture(scope="module")
def slugs(nodes: dict[Path, list[ast.AST]]) -> set[str]:
    """Return all slugs and codes that the package uses."""
    modules = [(module, dict(find_positions(module))) for module in nodes.values()]
    public = {
        name: at
        for _, positions in modules
        for name, at in positions.items()
        if not name.startswith("_")
    }
    return {
        slug for module, positions in modules for slug in find_slugs(module, public | positions)
    }


def list_headings(path: Path) -> set[str]:
    """Return the headings below the title, without backquotes."""
    text = path.read_text(encoding="utf-8")
    return {
        heading.replace("`", "").strip()
        for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    }


def test_slugs_are_found_in_every_form_of_call() -> None:
    source = """
class Finding:
    line: int
    code: str

class Reader:
    def _find(self, line: int, code: str) -> None:
        self.findings.append(Finding(line, code))

    def read(self) -> None:
        self._find(1, "by-position")
        Finding(1, "in-a-record")
        Finding(1, code="by-keyword" if self.findings else "otherwise")
        raise UsageError("not-a-slug", slug="in-an-error")
"""
    module = list(ast.walk(ast.parse(source)))
    slugs_found = set(find_slugs(module, dict(find_positions(module))))
    assert slugs_found == {"by-position", "in-a-record", "by-keyword", "otherwise", "in-an-error"}


def list_explained() -> dict[str, str]:
    """Return for each slug and code the section of `cli/explanations.toml` that explains it."""
    return {
        slug: section
        for section, explanations in load_explanations().items()
        for slugs in explanations
        for slug in slugs.split()
    }


def test_every_slug_is_explained_and_has_a_heading_in_the_manual(slugs: set[str]) -> None:
    assert slugs
    assert sorted(slugs - list_explained().keys()) == []
    assert sorted(slugs - list_headings(ROOT / "docs" / "errors.md")) == []


def test_every_explained_slug_is_still_in_use(
    slugs: set[str], nodes: dict[Path, list[ast.AST]]
) -> None:
    constants = {
        node.value
        for module in nodes.values()
        for node in module
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    explained = list_explained()
    assert sorted(explained.keys() - slugs - constants) == []


def test_an_error_is_explained_under_its_exit_status(nodes: dict[Path, list[ast.AST]]) -> None:
    explained = list_explained()
    classes = set(explained.values()) - {"Finding"}
    wrong = set()
    for module in nodes.values():
        for node in module:
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if name in classes and isinstance(node, ast.Call):
                raised = set(find_slugs(ast.walk(node), {}))
                wrong |= {
                    (slug, name) for slug in raised if explained[slug] not in (name, "Finding")
                }
    assert wrong == {("policy-missing", "RepositoryError")}  # a repository without one


MANUALS = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").glob("*.md")]
)


@cache
def list_anchors(page: Path) -> set[str]:
    """Return the link fragments of headings: their words joined by hyphens."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"(?m)^#+ (.+)$", text)
    }


@pytest.mark.parametrize("manual", MANUALS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_of_the_manual_has_an_existing_file_and_heading(manual: Path) -> None:
    links = re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)", manual.read_text(encoding="utf-8"))
    places = [(manual.parent / path if path else manual, anchor) for path, anchor in links]
    assert [str(place) for place, _ in places if not place.exists()] == []
    assert [
        f"{place.name}#{fragment}"
        for place, fragment in places
        if fragment and fragment not in list_anchors(place)
    ] == []


def test_every_page_that_the_package_names_exists_with_its_heading() -> None:
    """Messages contain `memory-ci help PAGE#HEADING`, docstrings docs/PAGE.md#HEADING."""
    texts = {path: path.read_text("utf-8") for path in (ROOT / "memory_ci").rglob("*.py")}
    topics = {
        topic.rstrip(".")
        for text in texts.values()
        for topic in re.findall(r"`memory-ci help ([\w#.-]+)`", text)
    }
    for topic in sorted(topics - set(COMMANDS) - {"CODE", "PAGE"}):
        assert read_topic(topic)
    links = {
        link
        for text in texts.values()
        for link in re.findall(r"docs/((?:reference/)?[a-z-]+\.md)(?:#([\w-]+))?", text)
    }
    examples = {("style.md", "")}
    for page, anchor in sorted(links - examples):
        assert (ROOT / "docs" / page).exists(), page
        assert not anchor or anchor in list_anchors(ROOT / "docs" / page), (page, anchor)


@pytest.mark.parametrize("trailer", ["Memory-Retrieved", "Memory-Used", "Memory-Holdout"])
def test_the_name_of_a_trailer_is_in_one_constant(trailer: str) -> None:
    files = (ROOT / "memory_ci").rglob("*.py")
    holding = [path.name for path in files if f'"{trailer}"' in path.read_text(encoding="utf-8")]
    assert holding == ["names.py"]


NOT_PRIVATE = frozenset({"_replace", "_asdict", "_fields", "_make", "_exit"})
"""Public names of named tuples and of `os` that start with an underscore."""


def is_private(name: str) -> bool:
    """Return whether a name is private; `__main__` and `__init__` are not."""
    return name.startswith("_") and not name.startswith("__") and name not in NOT_PRIVATE


def list_private_names(source: str) -> list[str]:
    """Return private names of the package that a test imports, reads or replaces, with their lines.

    Attributes of `self` and `cls` are the test's own.
    """
    private_names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("memory_ci."):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            names = [] if is_own else [node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("setattr", "delattr") and len(node.args) > 1:
                name = node.args[1]
                names = [str(name.value)] if isinstance(name, ast.Constant) else []
        elif isinstance(node, ast.Constant) and str(node.value).startswith("memory_ci."):
            names = str(node.value).split(".")
        line = getattr(node, "lineno", 0)
        private_names += [f"{line}: {name}" for name in names if is_private(name)]
    return private_names


@pytest.mark.parametrize(
    "line",
    [
        "from memory_ci.text import _cut",
        "text._cut('words')",
        "engine._server.deadline",
        "monkeypatch.setattr(text, '_cut', None)",
        "monkeypatch.setattr('memory_ci.text._cut', None)",
        "monkeypatch.delattr(memory_ci.text, '_cut')",
    ],
)
def test_a_test_that_uses_a_private_name_is_found(line: str) -> None:
    assert len(list_private_names(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "from memory_ci.__main__ import main",
        "from memory_ci.text import shorten",
        "step._replace(what='x')",
        "self._repo = 1",
        "monkeypatch.setattr('memory_ci.text.WIDTH', 1)",
    ],
)
def test_public_names_and_those_of_a_test_class_are_free(line: str) -> None:
    assert list_private_names(line) == []


def test_no_test_uses_a_private_name_of_the_package() -> None:
    used = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text("utf-8")
        if not re.search(r"(?<!\w)_[A-Za-z]", source):  # parsing all takes seconds
            continue
        names = list_private_names(source)
        if names:
            used[path.relative_to(ROOT).as_posix()] = names
    assert used == {}


def test_every_page_is_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages | {"index.md"} == set(re.findall(r"(?m)([\w./-]+\.md)$", nav))


def list_commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every visible command below `group`, as ("index build", command)."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command, f"{name} is listed and cannot be had"
        if isinstance(command, click.Group):
            yield from list_commands(command, (*path, name))
        elif not command.hidden:
            yield " ".join((*path, name)), command


def list_our_commands() -> list[tuple[str, click.Command]]:
    from memory_ci.commands.root import main

    return list(list_commands(main))


def test_every_command_has_help_with_an_example() -> None:
    commands = list_our_commands()
    assert commands
    for name, command in commands:
        assert f"memory-ci {name}" in (command.help or ""), (
            f"help of {name}: no example `memory-ci {name} …`"
        )


def test_every_option_of_every_command_is_explained() -> None:
    options = [(name, param) for name, command in list_our_commands() for param in command.params]
    unexplained = [
        f"{name} {o.opts[0]}"
        for name, o in options
        if isinstance(o, click.Option) and not (o.help or o.hidden)
    ]
    assert unexplained == []


def test_every_command_has_its_heading_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^### memory-ci (.+)$", page)
    assert sorted(headings) == sorted(name for name, _ in list_our_commands())


def test_pre_commit_checks_with_the_versions_of_the_dev_extra() -> None:
    pins = dict(pin.split("==") for pin in PYPROJECT["project"]["optional-dependencies"]["dev"])
    config: dict[str, Any] = yaml.safe_load(
        (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    used = dict(pin.split("==") for hook in hooks for pin in hook["additional_dependencies"])
    shared = pins.keys() & used.keys()
    assert {"ruff", "mypy", "import-linter"} <= shared
    assert {name: used[name] for name in shared} == {name: pins[name] for name in shared}


def test_a_test_cannot_reach_the_network() -> None:
    with (
        socket.socket() as outside,
        pytest.raises(pytest.fail.Exception, match=r"tried to reach .*192\.0\.2\.1"),
    ):
        outside.connect(("192.0.2.1", 80))


def test_a_test_can_reach_its_own_server() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()


def run_inner(folder: Path, source: str, *arguments: str, **outside: str) -> dict[str, int]:
    """Run pytest on `source` with our conftest and `outside` in its environment, and return the outcomes."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_inner.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, str(folder)]
    environment = {"PATH": os.environ["PATH"], **outside}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    closing = result.stdout.splitlines()[-1]
    return {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", closing)}


def test_variables_of_the_callers_environment_do_not_reach_tests(tmp_path: Path) -> None:
    names = [
        "GIT_DIR",
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "MEMORY_CI_DB",
        "NO_COLOR",
        "https_proxy",
        "XDG_CONFIG_HOME",
    ]
    source = (
        f"import os\n\ndef test_inner() -> None:\n    assert not os.environ.keys() & {names!r}\n"
    )
    assert run_inner(tmp_path, source, **dict.fromkeys(names, "outside")) == {"passed": 1}


def test_a_test_sees_only_our_git_configuration(home: Path, tmp_path: Path) -> None:
    (home / ".gitconfig").write_text("[user]\n\tname = Somebody Else\n", encoding="utf-8")
    show = subprocess.run(
        ["git", "config", "--list"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    quick = {f"{key.lower()}={value}" for key, value in QUICK.items()}
    ours = {"user.name=Tess Tester", "user.email=tess@example.com", *quick}
    assert set(show.stdout.splitlines()) == ours


def test_each_test_has_an_empty_home_outside_its_folder(home: Path, tmp_path: Path) -> None:
    assert Path.home() == home
    assert list(home.iterdir()) == []
    assert not home.is_relative_to(tmp_path)


def test_golden_text_is_compared_and_rewritten_only_on_request(tmp_path: Path) -> None:
    source = "def test_inner(golden) -> None:\n    golden('a/b.txt', {!r})\n"
    assert run_inner(tmp_path, source.format("one\r\n"), "--update-golden") == {"passed": 1}
    both = source.format("one\r\n") + source.replace("inner", "other").format("one\n")
    assert run_inner(tmp_path, both) == {"passed": 1, "failed": 1}
