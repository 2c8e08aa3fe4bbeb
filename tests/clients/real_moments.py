"""Tests of real agents and lines that are shown at a moment: `make clients`. A script replaces the model.

The script commits, reads the line, and follows it, as a model should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.model import Call, ModelRequest
from tests.clients.real_clients import FOLDER, PROGRAMS
from tests.clients.recording import FILE, NEW, OLD, Shop, Talk

CHANGELOG = "CHANGELOG.md"
TITLE = f"Add a line to {CHANGELOG} in each commit"
LINE = f"memory-ci: before you commit: {TITLE}"
FAILURE = "`gh pr diff --stat` fails: unknown flag: --stat"
KNOWN = f"memory-ci: this command is known here: {FAILURE}"

COMMITS = "Charge with a key, and commit it"
COMMITS_AGAIN = "Commit one more blank line"
COMPARES = "Say which files the request changes"

FIRST, SECOND = "Charge with a key", "Add a blank line"
COMMIT = f'git commit -q -a -m "{FIRST}"'
AMEND = f'echo "- {FIRST}" >> {CHANGELOG} && git add {CHANGELOG} && git commit -q --amend --no-edit'
COMMIT_AGAIN = (
    f'echo >> {FILE} && echo "- {SECOND}" >> {CHANGELOG} && git commit -q -a -m "{SECOND}"'
)
WRONG, RIGHT = "gh pr diff --stat", "gh pr diff --name-only"

GH = f"""#!/bin/sh
echo "$*" >> "$(dirname "$0")/gh.log"
case "$*" in
*--stat*) echo 'unknown flag: --stat' >&2; exit 1 ;;
*) echo {FILE} ;;
esac
"""
"""A double of GitHub's command line that refuses one option."""


def script(path: str) -> Callable[[ModelRequest], Call | str]:
    """Return the script of the model: it edits, commits, compares, and follows each line of our hooks."""
    rules = {
        LINE: Call("shell", command=AMEND),
        KNOWN: Call("shell", command=RIGHT),
        COMMITS: Call("read", path=path),
        COMMITS_AGAIN: Call("shell", command=COMMIT_AGAIN),
        COMPARES: Call("shell", command=WRONG),
    }

    def reply(request: ModelRequest) -> Call | str:
        if request.result_of == "read":
            return Call("edit", path=path, old=OLD, new=NEW)
        if request.result_of == "edit":
            return Call("shell", command=COMMIT)
        for words, call in rules.items():
            if words in request.new and (words in (LINE, KNOWN) or not request.result_of):
                return call
        return "Done."

    return reply


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: str(client.name))
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """Yield a repository with an agreed norm and a known failure, and a client that may run all commands."""
    client: Client = request.param
    if not (FOLDER / client.command[0]).exists():
        pytest.skip(f"{client.package} is not in {FOLDER}")
    base = tmp_path_factory.mktemp(f"{client.name}-moments")
    programs = base / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    free = client._replace(command=(*client.command, *client.unasked))
    new_shop = Shop(base, free, [programs, *PROGRAMS])
    new_shop.model.script = script(str(new_shop.folder / FILE) if client.name != "codex" else FILE)
    new_shop.run(
        *("memory-ci", "add", TITLE, "--type", "directive", "--scope", "institutional"),
        *("--when", "before:commit"),
    )
    new_shop.run(
        *("memory-ci", "add", FAILURE, "--body", f"`{RIGHT}` works.", "--type", "corrective"),
        *("--when", f"before:command {WRONG}"),
    )
    # Some clients hide the variables and the home by which git would know it.
    new_shop.git("config", "user.name", "Tess Tester")
    new_shop.git("config", "user.email", "tess@example.com")
    (new_shop.folder / CHANGELOG).write_text("# Changes\n")
    new_shop.commit("Agree on a changelog")
    new_shop.run("memory-ci", "record")
    new_shop.install(client.name)
    yield new_shop
    new_shop.model.close()


@pytest.fixture(scope="module")
def talk(shop: Shop) -> Talk:
    """Run a session that commits twice and runs the command that is known to fail."""
    return shop.talk(COMMITS, COMMITS_AGAIN, COMPARES)


@pytest.fixture(autouse=True)
def _cannot(shop: Shop, request: pytest.FixtureRequest) -> None:
    if why := shop.client.cannot.get(request.node.originalname.removeprefix("test_")):
        request.applymarker(pytest.mark.xfail(reason=why))


def test_the_line_of_a_commit_reaches_the_model(talk: Talk) -> None:
    assert LINE in talk.read_context(COMMITS)


def test_the_line_of_a_commit_is_shown_once_a_session(talk: Talk) -> None:
    assert talk.all_new().count(LINE) == 1


def test_the_commit_has_the_changelog_that_the_line_requires(shop: Shop, talk: Talk) -> None:
    files = shop.git("log", "-1", f"--grep={FIRST}", "--format=", "--name-only")
    assert {FILE, CHANGELOG} <= set(files.splitlines())


def test_the_second_commit_is_made(shop: Shop, talk: Talk) -> None:
    files = shop.git("log", "-1", f"--grep={SECOND}", "--format=", "--name-only")
    assert {FILE, CHANGELOG} <= set(files.splitlines())


def test_a_known_failure_is_shown_when_its_command_runs(talk: Talk) -> None:
    assert KNOWN in talk.read_context(COMPARES)
    assert talk.all_new().count(KNOWN) == 1


def test_the_other_form_of_the_command_runs_next(shop: Shop, talk: Talk) -> None:
    log = (shop.home.parent / "programs" / "gh.log").read_text().splitlines()
    assert [f"gh {arguments}" for arguments in log] == [WRONG, RIGHT]
