"""Tests of isolation: interfaces for agents do not show entries that a session, role or other repository must not see.

An interface (door) is a command in one of its forms, or a tool or resource of the MCP server. Each is tried by each
caller. Interfaces for people (docs/agents.md) show everything, which is tested, too.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from memory_ci.commands import former
from memory_ci.commands.mcp.server import build_server
from memory_ci.commands.mcp.tools import Caller
from memory_ci.commands.root import main
from memory_ci.commands.table import COMMANDS as COMMAND_NAMES
from memory_ci.memory.episodes import save_episode_record
from memory_ci.records.episode import Episode, Situation
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.make import make_entry, make_id
from tests.project import NOW, Project, copy_project, make_project

MANUAL = Path(__file__).parent.parent.parent / "docs" / "agents.md"
ASK = "zebra crossing light"

OWN, SHARED, NORM = make_id(0xA1), make_id(0xA2), make_id(0xA3)
OTHER, NOTED, TEAM, RETIRED, ELSEWHERE, DRAFT = map(make_id, range(0xB1, 0xB7))
OWN_EPISODE, OTHER_EPISODE = "note-00000000aaaa", "note-00000000bbbb"

MARKS = {
    OWN: "Okapi",
    SHARED: "Quokka",
    NORM: "Numbat",
    OTHER: "Wombat",
    NOTED: "Bilby",
    TEAM: "Dingo",
    RETIRED: "Dodo",
    ELSEWHERE: "Potoroo",
    DRAFT: "Taipan",
    OWN_EPISODE: "Kiwi",
    OTHER_EPISODE: "Galah",
}
"""For each entry or episode a word that only it contains: output with the word has shown it."""

CONFIG = """
roles:
  reviewer: [project]
  lead: [project, team, session]
"""


class Who(NamedTuple):
    """A caller."""

    session: str | None = None
    role: str | None = None

    @property
    def options(self) -> list[str]:
        session = ["--session", self.session] if self.session else []
        return [*session, *(["--role", self.role] if self.role else [])]


NOBODY, ONE, REVIEWER, LEAD, STRANGER = (
    Who(),
    Who("job-1"),
    Who("job-1", "reviewer"),
    Who("job-1", "lead"),
    Who("job-1", "unheard-of"),
)

ALWAYS = {OTHER, NOTED, RETIRED, ELSEWHERE, DRAFT}
HIDDEN = {
    NOBODY: ALWAYS | {OWN},
    ONE: ALWAYS,
    REVIEWER: ALWAYS | {OWN, TEAM},
    LEAD: ALWAYS,
    STRANGER: ALWAYS | {OWN, TEAM},
}
"""The entries that each caller must not see. Nobody sees retired entries, or those of another repository or work tree."""


def write_entry(number_id: str, **fields: Any) -> str:
    title = f"Zebra crossing light {MARKS[number_id]}"
    return format_entry(
        make_entry(1, **{"id": number_id, "title": title, "body": "zebra crossing light", **fields})
    )


def write_files() -> dict[str, str]:
    """Return the files of memory, with an entry for each scope."""
    relations = tuple(f"supports {mark}" for mark in (OWN, OTHER, NOTED, TEAM, RETIRED, DRAFT))
    return {
        ".memory-ci.yaml": CONFIG,
        "MEMORY.md": write_entry(SHARED, relations=relations)
        + "\n"
        + write_entry(RETIRED, status="retired"),
        "institutional.md": write_entry(NORM),
        ".teaparty/jobs/job-1/institutional.md": write_entry(OWN),
        ".teaparty/jobs/job-2/institutional.md": write_entry(OTHER),
        fragment_path(NOTED): write_entry(NOTED, scope="session:job-2"),
        "src/api/MEMORY.md": write_entry(TEAM),
    }


def note_episode(project: Project, name: str, session: str) -> None:
    """Store an episode of a session, with the word that identifies it."""
    text = f"Zebra crossing light {MARKS[name]}"
    episode = Episode(
        id=name,
        occurred_at=NOW,
        situation=Situation(summary=text),
        context={"session": session},
        text=text,
    )
    save_episode_record(project.workspace, episode)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("isolation") / "zoo")
    project.commit("Zoo", write_files())
    note_episode(project, OWN_EPISODE, "job-1")
    note_episode(project, OTHER_EPISODE, "job-2")
    project.git("add", "-f", ".memory")
    project.commit("Note episodes")
    return project


@pytest.fixture(scope="session")
def places(template: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the repository `zoo`, another repository `elsewhere`, and a linked work tree `draft`, all indexed."""
    folder = tmp_path_factory.mktemp("places")
    elsewhere = make_project(folder / "elsewhere")
    elsewhere.write("MEMORY.md", write_entry(ELSEWHERE))
    draft = copy_project(template, folder / "zoo").worktree(folder / "draft", "draft")
    draft.write(fragment_path(DRAFT), write_entry(DRAFT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1795262400")
        for directory in (elsewhere, draft):
            patch.chdir(directory.path)
            invoke("retrieve", ASK)
    return folder


@pytest.fixture
def zoo(places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the repository that is queried, as current directory; another repository and a linked work tree are beside it."""
    shutil.copytree(places, tmp_path, symlinks=True, dirs_exist_ok=True)
    project = Project(tmp_path / "zoo")
    project.git("worktree", "repair", str(tmp_path / "draft"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795262400")
    monkeypatch.chdir(project.path)
    return project


def invoke(*args: str, stdin: str | None = None) -> str:
    """Return the output of a command; a traceback fails the test."""
    result = CliRunner().invoke(main, args, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout + result.stderr


# -- doors of the command line

Door = Callable[[Who], str]


def retrieve_door(*options: str) -> Door:
    return lambda who: invoke("retrieve", ASK, "--no-record", *who.options, *options)


def hook_door(who: Who) -> str:
    hook_input = {"prompt": ASK, "session_id": who.session, "hook_event_name": "UserPromptSubmit"}
    answer = invoke(*former.RETRIEVE_HOOK, stdin=json.dumps(hook_input))
    shutil.rmtree(
        ".git/memory-ci/given", ignore_errors=True
    )  # another door is not to leave out what this one gave
    return answer


COMMANDS: dict[str, Door] = {
    "text": retrieve_door(),
    "json": retrieve_door("--json"),
    "ids": retrieve_door("--ids"),
    "explain": retrieve_door("--explain"),
    "markdown": retrieve_door("--format", "markdown"),
    "format hook": retrieve_door("--format", "hook"),
    "hook": hook_door,
    "at": retrieve_door("--at", "HEAD", "--json"),
    "at a day": retrieve_door("--at", "2026-11-21", "--json"),
    "base": retrieve_door("--base", "HEAD", "--json"),
    "much": retrieve_door("--limit", "1000", "--max-chars", "1000000", "--json"),
    "little": retrieve_door("--max-chars", "0"),
    "path": retrieve_door("--path", "src/api/zebra.py", "--json"),
    "similar": lambda who: invoke("recall", "--tasks", ASK, "--json"),
}
"""The forms of `retrieve` and `similar`."""

RECALLS = {
    f"recall {ranking} {' '.join(options)}".rstrip(): (ranking, options)
    for ranking in ("similar", "t4dm", "mempalace")
    for options in ((), ("--json",), ("--explain",))
}

SAYS_LITTLE = {"ids", "similar", "little"}
"""Interfaces that print no words of the entry that everyone may see."""


@pytest.mark.parametrize("who", HIDDEN, ids=str)
def test_no_form_of_retrieve_shows_hidden_entries(zoo: Project, who: Who) -> None:
    for name, door in COMMANDS.items():
        if name == "hook" and who.role:
            continue  # the hook of an agent takes no role
        assert find_leaks(door(who), HIDDEN[who]) == [], name


def find_leaks(text: str, hidden: set[str]) -> list[str]:
    """Return the words of hidden entries and episodes in a text."""
    return [mark for name in sorted(hidden) if (mark := MARKS[name]) in text]


def test_each_interface_shows_entries_that_everyone_may_see(zoo: Project) -> None:
    """Otherwise the test above would prove nothing."""
    for name in COMMANDS.keys() - SAYS_LITTLE:
        assert MARKS[SHARED] in COMMANDS[name](ONE), name


def test_ids_alone_are_filtered_too(zoo: Project) -> None:
    for who, hidden in HIDDEN.items():
        ids = set(COMMANDS["ids"](who).split())
        assert SHARED in ids
        assert not ids & hidden


def test_a_caller_with_more_rights_sees_more(zoo: Project) -> None:
    assert MARKS[OWN] in COMMANDS["text"](ONE)
    assert MARKS[TEAM] in COMMANDS["text"](LEAD)
    assert MARKS[NORM] in COMMANDS["text"](STRANGER), "institutional memory holds for every role"


def test_recall_shows_a_session_its_own_episodes_only(zoo: Project) -> None:
    config = (zoo.path / ".memory-ci.yaml").read_text()
    for name, (ranking, options) in RECALLS.items():
        zoo.write(".memory-ci.yaml", f"{config}\nepisodes:\n  ranking: {ranking}\n")
        arguments = ("recall", ASK, *options)
        both = {OWN_EPISODE, OTHER_EPISODE}
        assert find_leaks(invoke(*arguments), both) == [], name
        assert find_leaks(invoke(*arguments, "--session", "job-1"), both) == ["Kiwi"], name


def test_similar_tasks_are_not_those_of_a_session(zoo: Project) -> None:
    assert (
        find_leaks(
            invoke("recall", "--tasks", ASK, "--json", "--limit", "100"),
            {OWN_EPISODE, OTHER_EPISODE},
        )
        == []
    )


# -- doors of the MCP server


def visit(project: Project, who: Who, calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the answer to each call: its complete result, or the protocol's error."""
    environ = {"MEMORY_CI_EMBEDDER": "none"}
    caller = Caller(
        start=project.path, clock=lambda: NOW, environ=environ, session=who.session, role=who.role
    )

    async def talk() -> list[str]:
        async with Client(build_server(caller)) as client:
            return [await _ask(client, name, arguments) for name, arguments in calls]

    return anyio.run(talk)


async def _ask(client: Client, name: str, arguments: dict[str, Any]) -> str:
    try:
        if name == "read":
            return (await client.read_resource(arguments["uri"])).model_dump_json()
        result: CallToolResult = await client.call_tool(name, arguments)
        return result.model_dump_json()
    except MCPError as error:
        return f"{error.message} {error.data}"


ENTRY_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("retrieve", {"task": ASK}),
    ("retrieve", {"task": ASK, "walk": 1, "limit": 50, "max_chars": 32_000}),
    ("retrieve", {"task": ASK, "at": "HEAD", "walk": 1}),
    ("retrieve", {"task": ASK, "at": "2026-11-21"}),
    ("retrieve", {"task": ASK, "paths": ["src/api/zebra.py"]}),
    ("read", {"uri": "memory://institutional"}),
    ("read", {"uri": f"memory://entry/{SHARED}"}),
    ("health", {}),
]
EPISODE_CALLS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("recall_episodes", {"query": ASK, "ranking": ranking})
        for ranking in ("similar", "t4dm", "mempalace")
    ),
    ("recall_episodes", {"query": ASK, "current_time": "2027-01-01"}),
    ("query_at_time", {"query": ASK, "point_in_time": "2026-11-21T00:00:00Z", "limit": 50}),
]


@pytest.mark.parametrize("who", HIDDEN, ids=str)
def test_no_tool_and_no_resource_shows_hidden_entries(zoo: Project, who: Who) -> None:
    for (name, arguments), answer in zip(ENTRY_CALLS, visit(zoo, who, ENTRY_CALLS), strict=True):
        assert find_leaks(answer, HIDDEN[who]) == [], (name, arguments)
        assert not [mark for mark in HIDDEN[who] if mark in answer], (name, arguments)


@pytest.mark.parametrize("who", HIDDEN, ids=str)
def test_a_hidden_entry_gives_the_same_error_as_a_missing_one(zoo: Project, who: Who) -> None:
    hidden = sorted(HIDDEN[who])
    read = [("read", {"uri": f"memory://entry/{entry_id}"}) for entry_id in hidden]
    feedback = [("record_feedback", {"id": entry_id, "kind": "rejected"}) for entry_id in hidden]
    answers = visit(zoo, who, [*read, *feedback])
    assert all("unknown-entry" in answer for answer in answers)
    assert find_leaks("".join(answers), HIDDEN[who]) == []
    assert zoo.status() == ""


def test_a_visible_entry_is_found(zoo: Project) -> None:
    reads = [
        ("read", {"uri": f"memory://entry/{entry_id}"}) for entry_id in (SHARED, NORM, OWN, TEAM)
    ]
    answers = visit(zoo, LEAD, reads)
    assert find_leaks("".join(answers), {SHARED, NORM, OWN, TEAM}) == [
        "Okapi",
        "Quokka",
        "Numbat",
        "Dingo",
    ]


def test_episodes_of_another_session_are_shown_by_no_tool(zoo: Project) -> None:
    for answer in visit(zoo, ONE, EPISODE_CALLS):
        assert find_leaks(answer, {OTHER_EPISODE}) == []
        assert OTHER_EPISODE not in answer
        assert MARKS[OWN_EPISODE] in answer
    assert (
        find_leaks("".join(visit(zoo, NOBODY, EPISODE_CALLS)), {OWN_EPISODE, OTHER_EPISODE}) == []
    )


def test_an_episode_of_another_session_cannot_be_marked(zoo: Project) -> None:
    other_answer, own_answer = visit(
        zoo,
        ONE,
        [
            ("mark_important", {"episode_id": episode_id})
            for episode_id in (OTHER_EPISODE, OWN_EPISODE)
        ],
    )
    assert "unknown-episode" in other_answer
    assert "unknown-episode" not in own_answer


def test_a_learning_of_another_session_does_not_count_as_known(zoo: Project) -> None:
    learning = {"title": f"Zebra crossing light {MARKS[OTHER]}", "body": "zebra crossing light"}
    (added,) = visit(zoo, ONE, [("add_learning", learning)])
    assert OTHER not in added
    assert MARKS[OTHER] in visit(zoo, ONE, [("retrieve", {"task": ASK})])[0]


@pytest.mark.parametrize(
    "field", ["session", "role", "all_sessions", "statuses", "scopes", "base", "repo"]
)
def test_no_argument_of_a_tool_sets_the_caller(zoo: Project, field: str) -> None:
    (answer,) = visit(zoo, ONE, [("retrieve", {"task": ASK, field: "job-2"})])
    assert f"unknown field `{field}`" in answer


# -- doors for people

PEOPLE: dict[str, tuple[list[str], set[str]]] = {
    "list": (["list"], {OTHER, NOTED, TEAM, RETIRED}),
    "list as JSON": (["list", "--json"], {OTHER, NOTED, TEAM, RETIRED}),
    "list at": (["list", "--at", "HEAD"], {OTHER, NOTED, TEAM, RETIRED}),
    "show": (["show", OTHER], {OTHER}),
    "show what is retired": (["show", RETIRED, "--json"], {RETIRED}),
    "why": (["show", "--why", OTHER], {OTHER}),
    "graph": (["show", "--graph", SHARED], {OTHER, NOTED, TEAM, RETIRED}),
}


@pytest.mark.parametrize("name", PEOPLE)
def test_interfaces_for_people_show_every_session_and_scope_of_their_repository(
    zoo: Project, name: str
) -> None:
    argv, visible = PEOPLE[name]
    text = invoke(*argv)
    assert len(find_leaks(text, visible)) == len(visible)
    assert find_leaks(text, {ELSEWHERE, DRAFT}) == []


def test_the_manual_states_for_every_command_who_may_use_it() -> None:
    """It names each command once; the tests above check what is isolated."""
    rows = re.findall(
        r"^\| for (?:agents|people|writing) \| ([^|]+) \|",
        MANUAL.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    named = [name for row in rows for name in re.findall(r"`([a-z]+)`", row)]
    assert len(rows) == 3
    assert sorted(named) == sorted(COMMAND_NAMES)
