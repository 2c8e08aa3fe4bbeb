"""Tests of real agents and checks of commits: `make clients`. A script replaces the model.

In one session it commits with a skip, commits without the line that a check requires, and makes a
commit that a check of level fail refuses. Each commit is on its own branch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.model import Call, ModelRequest
from tests.clients.real_clients import FOLDER, PROGRAMS
from tests.clients.recording import FILE, NEW, OLD, Shop, Talk

CHANGELOG, SCHEMA = "CHANGELOG.md", "docs/db.md"
SAY = f"Say in {CHANGELOG} what changed"
DESCRIBE = f"Describe each table in {SCHEMA}"
REMINDED = f"{CHANGELOG} is not touched ("
REFUSED = f"memory-ci: error: {SCHEMA} is not touched ("

QUIET = "src/quiet.py"

SKIPS = "Add a file that no user sees"
COMMITS = "Charge with a key, and commit it"
ADDS = "Keep charges in a table"

SKIPPED, REMINDS, FAILS = "skipped", "reminded", "refused"
"""The branches of the three commits."""

MEND = f'echo "- A key" >> {CHANGELOG} && git add {CHANGELOG} && git commit -q --amend --no-edit'
DESCRIBED = f"mkdir docs && touch {SCHEMA} && git add docs && git commit -q"
FOLLOWED = {
    REMINDED: Call("shell", command=MEND),
    REFUSED: Call("shell", command=f"{DESCRIBED} -m Table"),
    f"{SCHEMA} is not touched (": Call("shell", command=f"{DESCRIBED} --amend --no-edit"),
}


def script(path: str, entry_id: str) -> Callable[[ModelRequest], Call | str]:
    """Return the script of the model: it works step by step, and follows each line of our hooks."""
    skip = f"Memory-Skip: {entry_id} no user sees it"
    steps = {
        SKIPS: [
            _shell(SKIPPED, f"touch {QUIET}", "git add src", f'git commit -q -m Quiet -m "{skip}"')
        ],
        COMMITS: [
            _shell(REMINDS),
            Call("read", path=path),
            Call("edit", path=path, old=OLD, new=NEW),
            Call("shell", command="git commit -q -a -m Key"),
        ],
        ADDS: [
            _shell(FAILS, "mkdir db", "touch db/charge.sql", "git add db", "git commit -q -m Table")
        ],
    }
    remaining: list[Call] = []

    def reply(request: ModelRequest) -> Call | str:
        if not request.result_of:
            remaining[:] = next(
                (calls for words, calls in steps.items() if words in request.new), []
            )
        for words, call in FOLLOWED.items():
            if request.result_of and words in request.new:
                return call
        return remaining.pop(0) if remaining else "Done."

    return reply


def _shell(branch: str, *commands: str) -> Call:
    """Return a shell call on a new branch; for `git switch -c` Gemini CLI would ask a person."""
    return Call("shell", command=" && ".join((f"git checkout -q -b {branch} main", *commands)))


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: str(client.name))
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """Yield a repository whose default branch has two checks, one of level fail."""
    client: Client = request.param
    if not (FOLDER / client.command[0]).exists():
        pytest.skip(f"{client.package} is not in {FOLDER}")
    free = client._replace(command=(*client.command, *client.unasked))
    new_shop = Shop(tmp_path_factory.mktemp(f"{client.name}-checks"), free, PROGRAMS)
    for title, when, also in ((SAY, "src/**", CHANGELOG), (DESCRIBE, "db/**", SCHEMA)):
        check = f"with: {{when: ['{when}'], also: [{also}]}}"
        new_shop.run("memory-ci", "add", title, "--type", "directive", "--check", check)
    # Some clients hide the variables and the home by which git would know it.
    new_shop.git("config", "user.name", "Tess Tester")
    new_shop.git("config", "user.email", "tess@example.com")
    (new_shop.folder / CHANGELOG).write_text("# Changes\n")
    new_shop.git("add", CHANGELOG, ".memory")  # not the settings of the client
    new_shop.git("commit", "-q", "-m", "Agree on two rules")
    new_shop.run("memory-ci", "record")
    memory = new_shop.folder / "MEMORY.md"
    text, check = memory.read_text(), "check:\n  with: {when: ['db/**']"
    assert text.count(check) == 1
    memory.write_text(text.replace(check, f"level: fail\n{check}"))
    new_shop.git("commit", "-q", "-a", "-m", "Refuse a table that is not described")
    path = str(new_shop.folder / FILE) if client.name != "codex" else FILE
    new_shop.model.script = script(path, find_id(new_shop))
    new_shop.install(client.name)
    yield new_shop
    new_shop.model.close()


def find_id(shop: Shop) -> str:
    """Return the id of the check that only prints a reminder."""
    head = (shop.folder / "MEMORY.md").read_text().partition(f"## {SAY}\n")[0]
    ids: list[str] = re.findall(r"^id: (\S+)", head, re.MULTILINE)
    return ids[-1]


@pytest.fixture(scope="module")
def talk(shop: Shop) -> Talk:
    """Run one session, and return it; the branches stay as the session leaves them."""
    return shop.talk(SKIPS, COMMITS, ADDS)


@pytest.fixture(autouse=True)
def _cannot(shop: Shop, request: pytest.FixtureRequest) -> None:
    if why := shop.client.cannot.get(request.node.originalname.removeprefix("test_")):
        request.applymarker(pytest.mark.xfail(reason=why))


def verify(shop: Shop, branch: str) -> dict[str, str]:
    """Return the outcome of each check on a branch, by title."""
    options = ("--base", "main", "--head", branch, "--format", "json")
    report: dict[str, Any] = json.loads(shop.run("memory-ci", "verify", *options))
    return {outcome["title"]: outcome["verdict"] for outcome in report["checks"]}


def list_files(shop: Shop, branch: str) -> list[str]:
    """Return the files of a branch's only commit."""
    assert shop.git("rev-list", "--count", f"main..{branch}") == "1"
    return shop.git("diff", "--name-only", "main", branch).splitlines()


def test_a_skip_in_the_message_passes_without_a_line(shop: Shop, talk: Talk) -> None:
    assert list_files(shop, SKIPPED) == [QUIET]
    assert REMINDED not in talk.read_context(SKIPS)


def test_verify_counts_the_skip(shop: Shop, talk: Talk) -> None:
    assert verify(shop, SKIPPED)[SAY] == "skipped"


def test_the_line_of_a_violated_check_reaches_the_model_once(talk: Talk) -> None:
    assert REMINDED in talk.read_context(COMMITS)
    assert talk.all_new().count(REMINDED) == 1


def test_the_final_commit_has_what_the_line_requires(shop: Shop, talk: Talk) -> None:
    assert list_files(shop, REMINDS) == [CHANGELOG, FILE]
    assert verify(shop, REMINDS)[SAY] == "followed"


def test_a_commit_that_violates_a_check_of_level_fail_is_refused(talk: Talk) -> None:
    assert REFUSED in talk.read_context(ADDS)


def test_the_line_of_level_fail_is_shown_once(talk: Talk) -> None:
    assert talk.all_new().count(f"{SCHEMA} is not touched (") == 1


def test_the_commit_has_what_the_check_of_level_fail_requires(shop: Shop, talk: Talk) -> None:
    assert list_files(shop, FAILS) == ["db/charge.sql", SCHEMA]
    assert verify(shop, FAILS)[DESCRIBE] == "followed"


def test_health_counts_the_merged_commits(shop: Shop, talk: Talk) -> None:
    for branch in (SKIPPED, REMINDS, FAILS):
        shop.git("switch", "-q", "main")
        shop.git("merge", "-q", "--no-ff", "-m", f"Merge {branch}", branch)
    outcomes = {
        outcome["title"]: (outcome["applicable"], outcome["ignored"], outcome["skipped"])
        for outcome in json.loads(shop.run("memory-ci", "health", "--json"))["checks"]
    }
    assert outcomes == {SAY: (2, 0, 1), DESCRIBE: (1, 0, 0)}
