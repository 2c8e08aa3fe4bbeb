"""Tests of the plugin in real agents: `make clients`. A script replaces the model.

The marketplace is this checkout. One repository has only the plugin, another also has the files that `init`
writes, and a third is on a machine without memory-ci.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from memory_ci import __version__
from tests.clients.clients import CLIENTS, Client
from tests.clients.model import Call, ModelRequest
from tests.clients.real_clients import FOLDER, PROGRAMS
from tests.clients.recording import ABOUT_FILE, ASKS, FILE, NORM, RECALLED, Shop, Talk

ROOT = Path(__file__).parents[2]
PLUGIN = "memory-ci@memory-ci"
INSTALL: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "claude-code": (
        ("claude", "plugin", "marketplace", "add", str(ROOT)),
        ("claude", "plugin", "install", PLUGIN),
    ),
    "codex": (
        ("codex", "plugin", "marketplace", "add", str(ROOT)),
        ("codex", "plugin", "add", PLUGIN),
    ),
    "copilot": (
        ("copilot", "plugin", "marketplace", "add", str(ROOT)),
        ("copilot", "plugin", "install", PLUGIN),
    ),
}
REMOVE: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("claude", "plugin", "uninstall", PLUGIN),
    "codex": ("codex", "plugin", "remove", PLUGIN),
    "copilot": ("copilot", "plugin", "uninstall", PLUGIN),
}
RETRIEVE = {
    "claude-code": "mcp__plugin_memory-ci_memory-ci__retrieve",
    "codex": "mcp__memory_ci.retrieve",
    "copilot": "memory-ci-retrieve",
}
"""The name of the tool `retrieve` of the plugin's server in each agent."""

TITLE = "Add a line to CHANGELOG.md in each commit"
LINE = f"memory-ci: before you commit: {TITLE}"
SKILL = "Use when a person corrects you or states a rule that will hold next month"
MISSING = f"pipx install 'memory-ci[mcp] @ git+https://github.com/OWNER/memory-ci@v{__version__}'"

LOOKS_UP = "Look up what the client raises"
COMMITS = "Commit it please"
GOES_ON = "Say something else"


def reply(request: ModelRequest) -> Call | str:
    """Look up memory by the plugin's server, or commit, when asked to."""
    if request.result_of:
        return "Done."
    if LOOKS_UP in request.new:
        return Call("retrieve")
    if COMMITS in request.new:
        return Call("shell", command=f"echo >> {FILE} && git commit -q -a -m More")
    return "Understood."


@pytest.fixture(
    scope="module",
    params=[client for client in CLIENTS if client.name in INSTALL],
    ids=lambda client: str(client.name),
)
def client(request: pytest.FixtureRequest) -> Client:
    param: Client = request.param
    if not (FOLDER / param.command[0]).exists():
        pytest.skip(f"{param.package} is not in {FOLDER}")
    tool = (RETRIEVE[param.name], {"task": "post in the client raises"})
    allowed = (RETRIEVE[param.name],) if param.name == "claude-code" else ()  # it asks otherwise
    tools = {**param.tools, "retrieve": lambda _call: tool}
    return param._replace(command=(*param.command, *param.unasked, *allowed), tools=tools)


@pytest.fixture(scope="module")
def make_shop(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Shop]]:
    """Yield a function that makes a repository with an agreed rule, and a home with the plugin installed."""
    shops: list[Shop] = []

    def make(name: str) -> Shop:
        shop = Shop(tmp_path_factory.mktemp(f"{client.name}-{name}"), client, PROGRAMS)
        shops.append(shop)
        shop.model.script = reply
        rule = ("--type", "directive", "--scope", "institutional", "--when", "before:commit")
        shop.run("memory-ci", "add", TITLE, *rule)
        # Some clients hide the variables and the home by which git would know it.
        shop.git("config", "user.name", "Tess Tester")
        shop.git("config", "user.email", "tess@example.com")
        shop.git("add", ".memory")
        shop.git("commit", "-q", "-m", "Agree on a changelog")
        shop.run("memory-ci", "record")
        for command in INSTALL[client.name]:
            shop.run(*command)
        return shop

    yield make
    for shop in shops:
        shop.model.close()


@pytest.fixture(scope="module")
def alone(make_shop: Callable[[str], Shop]) -> Talk:
    """Return a session with only the plugin."""
    return make_shop("alone").talk(ASKS, LOOKS_UP, COMMITS)


@pytest.fixture(scope="module")
def both(make_shop: Callable[[str], Shop], client: Client) -> Talk:
    """Return a session with the plugin in a repository that `init` set up for the same agent."""
    shop = make_shop("both")
    shop.install(client.name)
    return shop.talk(ASKS, COMMITS)


@pytest.fixture(scope="module")
def without(make_shop: Callable[[str], Shop]) -> tuple[Shop, Talk]:
    """Return a session with the plugin on a machine without memory-ci."""
    shop = make_shop("without")
    folders = [str(FOLDER), *os.environ["PATH"].split(os.pathsep)]
    others = [folder for folder in folders if not (Path(folder) / "memory-ci").exists()]
    shop.environ["PATH"] = os.pathsep.join(others)
    (shop.home / ".profile").write_text("")
    return shop, shop.talk(ASKS, GOES_ON)


def list_tools(talk: Talk) -> set[str]:
    """Return the names of the tools in the last request to the model.

    Codex groups the tools of a server. Later versions of Claude Code first list only the names, and
    describe the tools that the model asks for.
    """
    body = talk.requests[-1].body
    names = set()
    for tool in body["tools"]:
        name = tool.get("name") or tool.get("function", {}).get("name", "")
        names |= {f"{name}.{inner['name']}" for inner in tool.get("tools", [])} or {name}
    for message in body.get("messages", []):
        if message["role"] == "system":
            names |= set(re.findall(r"mcp__[\w-]+", str(message)))
    return names


def read_screen(shop: Shop) -> str:
    """Return the text on the client's screen without blanks, because it moves the cursor instead of writing some."""
    return "".join((shop.home.parent / "screen.txt").read_text().split())


def test_the_validator_of_claude_code_finds_no_fault(client: Client) -> None:
    if client.name != "claude-code":
        pytest.skip("it has no validator")
    for path in (ROOT, ROOT / "plugin"):
        command = (str(FOLDER / "claude"), "plugin", "validate", "--strict", str(path))
        completed = subprocess.run(command, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stdout


def test_the_agreed_rule_is_in_the_first_request(alone: Talk) -> None:
    context = alone.read_context(ASKS)
    assert TITLE in context
    assert NORM in context
    assert RECALLED in context


def test_norms_are_served_once(alone: Talk) -> None:
    prompts = (ASKS, COMMITS)  # between them the model asks for it by a tool
    assert sum(alone.read_context(prompt).count(NORM) for prompt in prompts) == 1


def test_the_tools_of_the_server_are_offered(alone: Talk, client: Client) -> None:
    assert RETRIEVE[client.name] in list_tools(alone)


def test_a_tool_of_the_server_answers_for_this_repository(alone: Talk) -> None:
    assert ABOUT_FILE in alone.read_context(LOOKS_UP)


def test_the_line_of_a_commit_is_shown_once_before_it(alone: Talk) -> None:
    assert LINE in alone.read_context(COMMITS)
    assert alone.all_new().count(LINE) == 1


def test_the_skill_is_listed(alone: Talk) -> None:
    assert SKILL in str(alone.requests[0].body)


def test_only_one_answers_if_init_installed_hooks_too(both: Talk) -> None:
    context = both.read_all_contexts()
    assert context.count(NORM) == 1
    assert context.count(RECALLED) == 1
    assert both.all_new().count(LINE) == 1


def test_the_tools_are_offered_once_if_init_installed_the_server_too(both: Talk) -> None:
    tools = [name for name in list_tools(both) if name.endswith("retrieve")]
    assert len(tools) == 1


def test_without_the_program_one_line_explains_how_to_install_it(
    without: tuple[Shop, Talk], client: Client
) -> None:
    shop, talk = without
    notice = talk.requests[0].new if client.name == "copilot" else read_screen(shop)
    assert "".join(notice.split()).count("".join(MISSING.split())) >= 1
    if client.name == "copilot":  # it shows a person nothing that a hook prints
        assert talk.all_new().count(MISSING) == 1


def test_without_the_program_the_session_continues(without: tuple[Shop, Talk]) -> None:
    _, talk = without
    assert any(GOES_ON in request.new for request in talk.requests)
    assert NORM not in talk.all_new()


def test_the_plugin_is_removed_by_the_client(without: tuple[Shop, Talk], client: Client) -> None:
    shop, _ = without
    shop.run(*REMOVE[client.name])
    listed = shop.run(client.command[0], "plugin", "list").splitlines()
    lines = [line for line in listed if PLUGIN in line]  # the marketplace still offers it
    assert all(re.search(r"not installed|\(disabled\)", line) for line in lines)
