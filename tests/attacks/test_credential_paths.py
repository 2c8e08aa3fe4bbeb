"""Tests of credentials of many kinds in every input and output: none is written, served, printed, logged or passed to git."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.store.edits import format_entry
from tests.agents_at_work import make_session
from tests.attacks.attack import (
    SECRET,
    Area,
    Case,
    Done,
    Launcher,
    ask_mcp,
    assert_ended_clearly,
    call_tool,
    log_git,
)
from tests.attacks.scene import FIXED_TIME, SESSION_TIME
from tests.extraction.engines.programs import make_program
from tests.make import make_entry, make_id
from tests.project import Project, copy_project, make_project
from tests.test_credentials import KEYS, make

pytestmark = pytest.mark.slow

COUNT = 48
SECRETS = {pair[0]: make(pair[1]) for pair in KEYS[:COUNT]}
"""Credentials that are made when the tests run: none is in a file of this repository."""

AREA = Area(
    "credentials on every path",
    f"{COUNT} kinds of credentials in memory files, commits, trailers, authors, file names, sessions, notes, "
    "arguments, replies of a model; in what is written, served, printed, drawn, logged, in git's arguments",
    "masked where it is read, refused where it is written, masked where it is printed",
)
HOLDS = (SECRET,)
TASK = "which key does the client of the gateway use"


def list_leaked(text: str | bytes) -> list[str]:
    """Return the kinds of credentials that a text contains."""
    data = text if isinstance(text, bytes) else text.encode()
    return [vendor for vendor, secret in SECRETS.items() if secret.encode() in data]


# -- out: all that prints


def plant(project: Project) -> None:
    """Put each credential where people write by hand: entries, messages, trailers, authors, file names."""
    entries = []
    for number, (vendor, secret) in enumerate(SECRETS.items(), start=1):
        title = f"The {vendor} client of the gateway uses {secret}"
        entries.append(make_entry(number, title=title, body=f"For {vendor}:\n\n    KEY={secret}"))
    entries.append(
        make_entry(900, title="Retired", body=" ".join(SECRETS.values()), status="retired")
    )
    project.commit("Remember", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    for vendor, secret in SECRETS.items():
        author = f"Ann {secret[:60]} <ann@example.com>".replace("<", "<", 1)
        message = (
            f"feat: {vendor} for the gateway {secret}\n\n"
            f"Decision: the client in src/client.py uses {secret} because the gateway asks for it.\n\n"
            f"Reviewed-by: {secret}\nMemory-Used: {secret}"
        )
        name = secret.replace("/", "_").replace(":", "_")[:120]
        project.commit(
            message, {f"src/{name}.py": "1\n"}, author=author if ">" not in secret else None
        )


ID = make_id(1)
OUTPUTS: tuple[tuple[str, ...], ...] = (
    *(
        ("list",),
        ("list", "--json"),
        ("show", ID),
        ("show", ID, "--json"),
        ("show", "--why", ID),
        ("show", "--why", ID, "--json"),
    ),
    *(
        ("show", "--log", ID),
        ("show", "--graph", ID),
        ("show", "--graph", ID, "--json"),
        ("show", "--blame", "src/client.py"),
        ("check",),
        ("check", "--json"),
    ),
    *(
        ("health",),
        ("health", "--json"),
        ("health", "--stage"),
        ("doctor",),
        ("verify", "--base", "HEAD~3"),
    ),
    *(("retrieve", TASK), ("retrieve", TASK, "--json"), ("retrieve", TASK, "--explain")),
    *(
        ("recall", "--tasks", TASK),
        ("recall", "--tasks", TASK, "--json"),
        ("recall", "the gateway"),
        ("recall", "the gateway", "--json"),
    ),
    *(
        ("record", "--dry-run"),
        ("record", "--dry-run", "--json"),
        ("record", "--yes"),
        ("record", "--json", "--yes"),
    ),
    *(
        ("record", "--plan", "-"),
        ("review", "--candidates", "--since", "99y", "--all"),
        ("review", "--since", "99y", "--all", "--json"),
    ),
    *(
        ("upkeep", "compact", "--dry-run"),
        ("upkeep", "compact"),
        ("check", "--fix"),
        ("forget", ID, "--plan"),
        ("report", "--json"),
    ),
    *(
        ("ci", "--provider", "none"),
        ("sessions",),
        ("org", "plan", "list.txt"),
    ),
)
OUT_CASES = {
    f"out: {' '.join(words)}".replace(ID, "ID"): Case(" ".join(words), "printed", HOLDS, words)
    for words in OUTPUTS
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("planted") / "shop")
    plant(project)
    project.write("list.txt", ".\n")
    return project


@pytest.mark.parametrize("case", OUT_CASES)
def test_no_command_prints_a_credential(
    case: str, planted: Project, launcher: Launcher, tmp_path: Path
) -> None:
    project = copy_project(planted, tmp_path / "shop")
    result = launcher.run(
        project.path, *OUT_CASES[case].data, env={**FIXED_TIME, "GITHUB_ACTIONS": "true"}
    )
    assert_ended_clearly(result, case)
    assert list_leaked(result.printed) == []


def read_argv(project: Project, launcher: Launcher, folder: Path) -> str:
    """Return the arguments of all git processes of a series of commands."""
    env = {**FIXED_TIME, **log_git(folder)}
    for words in (
        ("record", "--yes"),
        ("check",),
        ("retrieve", TASK),
        ("recall", "--tasks", TASK),
        ("health",),
        ("index",),
    ):
        launcher.run(project.path, *words, env=env)
    return (folder / "argv").read_text(errors="replace")


def read_derived(project: Project, launcher: Launcher, folder: Path) -> bytes:
    """Return the files that commands write below the git directory."""
    for words in (
        ("record", "--yes"),
        ("index",),
        ("recall", "--tasks", TASK),
        ("hook", "sync", "post-merge"),
    ):
        launcher.run(project.path, *words, env=FIXED_TIME)
    files = (path for path in (project.path / ".git/memory-ci").rglob("*") if path.is_file())
    return b"\n".join(path.read_bytes() for path in files)


def read_new_commits(project: Project, launcher: Launcher, folder: Path) -> str:
    """Return the messages and file lines that `record` adds."""
    before = project.sha()
    launcher.run(project.path, "record", "--yes", env=FIXED_TIME)
    diff = project.git("log", "-p", "--format=%B", f"{before}..HEAD")
    return "\n".join(
        line for line in diff.splitlines() if line.startswith("+") or line[:1].isalpha()
    )


def read_page(project: Project, launcher: Launcher, folder: Path) -> str:
    launcher.run(project.path, "report", "--output", "page.html", env=FIXED_TIME)
    return (project.path / "page.html").read_text()


def read_export(project: Project, launcher: Launcher, folder: Path) -> str:
    result = launcher.run(project.path, "export", "--to", "agents-md", env=FIXED_TIME)
    file = project.path / "AGENTS.md"
    return result.printed + (file.read_text() if file.exists() else "")


def read_summary(project: Project, launcher: Launcher, folder: Path) -> str:
    launcher.run(
        project.path, "ci", "--provider", "none", "--summary", "summary.md", env=FIXED_TIME
    )
    return (project.path / "summary.md").read_text()


def read_hook(project: Project, launcher: Launcher, folder: Path) -> str:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": TASK}
    stdin = json.dumps(event).encode()
    return launcher.run(
        project.path, "hook", "agent", "--for", "claude-code", stdin=stdin, env=FIXED_TIME
    ).printed


def read_mcp(project: Project, launcher: Launcher, folder: Path) -> str:
    calls = [
        call_tool(1, "retrieve", {"task": TASK}),
        call_tool(2, "similar_tasks", {"task": TASK}),
    ]
    return ask_mcp(project.path, *calls, env=FIXED_TIME).printed


READERS: dict[str, Callable[[Project, Launcher, Path], str | bytes]] = {
    "the arguments of git": read_argv,
    "derived files": read_derived,
    "new commits": read_new_commits,
    "the page": read_page,
    "AGENTS.md": read_export,
    "the summary of a job": read_summary,
    "the hook of an agent": read_hook,
    "MCP": read_mcp,
}
READ_CASES = {f"in {name}": Case(f"in {name}", name, HOLDS, read) for name, read in READERS.items()}


@pytest.mark.parametrize("case", READ_CASES)
def test_no_credential_is_in_the_output_of_commands(
    case: str, planted: Project, launcher: Launcher, tmp_path: Path
) -> None:
    text = READ_CASES[case].data(copy_project(planted, tmp_path / "shop"), launcher, tmp_path)
    assert text, "there is something to look at"
    assert list_leaked(text) == []


# -- in: all that takes words


class Entry(NamedTuple):
    """An input: the arguments of a command, its standard input, and a file for it."""

    words: tuple[str, ...]
    stdin: str = ""
    file: str = ""
    text: str = ""


SENTENCE = "Use {} for the client of the gateway"
WAYS = {
    "add": Entry(("add", SENTENCE)),
    "the body of add": Entry(("add", "Use the gateway", "--body", SENTENCE)),
    "the source of add": Entry(("add", "Use the gateway", "--source", "{}")),
    "standard input of add": Entry(("add",), f"Use the gateway\n\n{SENTENCE}\n"),
    "episode": Entry(("episode", SENTENCE, "--outcome", "failure")),
    "the topic of episode": Entry(("episode", SENTENCE)),
    "checkpoint": Entry(("checkpoint", SENTENCE)),
    "the reason of checkpoint": Entry(
        ("checkpoint", "It holds", "--state", "held", "--because", SENTENCE)
    ),
    "premortem": Entry(("premortem",), f"{SENTENCE}\n"),
    "feedback": Entry(("feedback", make_id(1), "confirmed", "--ref", "{}")),
    "import": Entry(
        ("import", "--from", "legacy", "{file}"),
        "",
        "MEMORY.md",
        f"# M\n\n## [2026-03-01] Lesson\n{SENTENCE}\n",
    ),
    "capture": Entry(("sessions", "--capture", "{file}"), "", "session.jsonl", "SESSION"),
    "a task": Entry(("retrieve", SENTENCE)),
    "a prompt": Entry(
        ("hook", "agent", "--for", "claude-code"),
        '{{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Use {} for it"}}',
    ),
}
IN_CASES = {f"into {name}": Case(f"into {name}", name, HOLDS, way) for name, way in WAYS.items()}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("ways") / "shop")
    project.commit("Remember", {"MEMORY.md": format_entry(make_entry(1, title="Use the gateway"))})
    return project


def all_bytes(project: Project) -> bytes:
    """Return the content of every file of a repository and of every git object."""
    objects = project.git("cat-file", "--batch", "--batch-all-objects").encode(
        "utf-8", "surrogateescape"
    )
    files = (path.read_bytes() for path in project.path.rglob("*") if path.is_file())
    return b"\n".join([objects, *files])


@pytest.mark.parametrize("case", IN_CASES)
def test_no_credential_of_an_input_is_written_or_printed(
    case: str, template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    way: Entry = IN_CASES[case].data
    project = copy_project(template, tmp_path / "shop")
    env = {**FIXED_TIME, **log_git(tmp_path)}
    for secret in SECRETS.values():
        file = tmp_path / (way.file or "none")
        if way.text == "SESSION":
            file.write_bytes(make_session(SENTENCE.format(secret), at=SESSION_TIME))
        elif way.file:
            file.write_text(way.text.format(secret))
        words = [word.replace("{}", secret).replace("{file}", str(file)) for word in way.words]
        stdin = way.stdin.format(secret) if way.stdin else ""
        result = launcher.run(project.path, *words, stdin=stdin.encode(), env=env)
        assert_ended_clearly(result, case)
        assert list_leaked(result.printed) == []
    assert list_leaked(all_bytes(project)) == []
    assert list_leaked((tmp_path / "argv").read_bytes()) == []


REPLY = """
told = json.loads(os.environ["TOLD"])
pieces = json.loads(seen["input"])
pieces = json.loads(pieces["user"])["evidence"]
quotes = [{"evidence": one["id"], "text": one["text"][:60]} for one in pieces if one.get("quote")][:1]
print(json.dumps({"learnings": [{"title": f"Use {told}", "body": f"Use {told}", "quotes": quotes}]}))
"""


def test_no_credential_of_a_models_reply_is_written(
    template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    program = make_program(tmp_path / "bin", REPLY, "model")
    for vendor, secret in list(SECRETS.items())[::6]:
        project = copy_project(template, tmp_path / vendor)
        env = {**FIXED_TIME, "MEMORY_CI_ENGINE_COMMAND": str(program), "TOLD": json.dumps(secret)}
        result: Done = launcher.run(
            project.path, "record", "--engine", "command", "--yes", env={**os.environ, **env}
        )
        assert_ended_clearly(result, vendor)
        assert list_leaked(result.printed) == []
        assert list_leaked(all_bytes(project)) == []


REPLY_CASES = {"a model's reply": Case("a model's reply", "a model says them", HOLDS)}


def list_cases() -> Iterator[tuple[str, Case]]:
    for cases in (OUT_CASES, READ_CASES, IN_CASES, REPLY_CASES):
        yield from cases.items()


ALL_CASES = dict(list_cases())
