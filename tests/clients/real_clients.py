"""Tests of memory-ci with real agents: `make clients`. A person's input is typed, and a script replaces the model.

Set CLIENTS to the folder of node_modules; `-k codex` selects one. RECORDING names the file for the report.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.recording import (
    ABOUT_FILE,
    ASKS,
    CORRECTS,
    EDITS,
    FILE,
    FORGED,
    NORM,
    QUOTE,
    RECALLED,
    RULE,
    STEERS,
    TYPED,
    Shop,
    Talk,
    measure,
    put,
    render,
)

FOLDER = Path(os.environ.get("CLIENTS", "node_modules")).resolve() / ".bin"
PROGRAMS = [Path(sys.executable).parent, FOLDER]
ASKED = "nothing was noted"
"""Text of the question at the end of a turn."""


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: str(client.name))
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    client: Client = request.param
    if not (FOLDER / client.command[0]).exists():
        pytest.skip(f"{client.package} is not in {FOLDER}")
    new_shop = Shop(tmp_path_factory.mktemp(client.name), client, PROGRAMS)
    yield new_shop
    new_shop.model.close()


@pytest.fixture(scope="module")
def talk(shop: Shop) -> Talk:
    """Run a session with the hooks of two agents: it asks, edits, is corrected twice, forges, and is interrupted."""
    shop.before = shop.settings()
    shop.install(
        shop.client.name, "copilot" if shop.client.name == "claude-code" else "claude-code"
    )
    return shop.talk(*TYPED)


@pytest.fixture(autouse=True)
def _cannot(shop: Shop, request: pytest.FixtureRequest) -> None:
    if why := shop.client.cannot.get(request.node.originalname.removeprefix("test_")):
        request.applymarker(pytest.mark.xfail(reason=why))


def test_the_first_request_contains_recalled_entries(talk: Talk) -> None:
    assert RECALLED in talk.read_context(ASKS)
    assert NORM in talk.read_context(ASKS)


def test_norms_are_served_once(talk: Talk) -> None:
    assert talk.read_all_contexts().count(NORM) == 1


def test_only_one_of_two_agents_hooks_answers(talk: Talk) -> None:
    assert talk.read_all_contexts().count(RECALLED) == 1
    assert talk.read_context(CORRECTS).count("may be a correction") == 1


def test_memory_of_a_file_is_served_once(talk: Talk) -> None:
    assert ABOUT_FILE in talk.read_context(EDITS)
    assert talk.read_all_contexts().count(ABOUT_FILE) == 1


def test_a_correction_becomes_a_proved_note(shop: Shop, talk: Talk) -> None:
    [note] = shop.notes()
    assert f"## {RULE}" in note
    [key, line] = re.search(r"session:(\S+)#(\d+) " + re.escape(QUOTE), note).groups()  # type: ignore[union-attr]
    output = shop.run("memory-ci", "sessions", "--human")
    assert re.search(rf"{line}: {re.escape(CORRECTS)}", output)
    assert key.startswith(shop.client.name)
    assert f"{FILE}@" in note


def test_the_second_question_is_not_asked(talk: Talk) -> None:
    assert talk.read_all_contexts().count(ASKED) == 1
    assert "memory-ci add" in talk.read_context(STEERS), "the nudge at the prompt"


def test_a_forged_quote_is_refused(shop: Shop, talk: Talk) -> None:
    assert re.search("quote-not-said|no-transcript", talk.all_new())
    assert not any(FORGED in note for note in shop.notes())


def test_the_words_of_people_are_the_typed_texts(shop: Shop, talk: Talk) -> None:
    output = shop.run("memory-ci", "sessions", "--human")
    assert [
        line.partition(": ")[2] for line in output.splitlines() if re.search(r":\d+: (?!\[)", line)
    ] == [*TYPED]


def test_an_interrupt_changes_nothing(shop: Shop, talk: Talk) -> None:
    assert len(shop.notes()) == 1
    assert TYPED[-1] in shop.run("memory-ci", "sessions", "--human")


def test_the_commit_of_a_person_includes_note_and_session(shop: Shop, talk: Talk) -> None:
    talk.note = "\n".join(shop.notes())
    shop.git("commit", "-q", "-a", "-m", "Charge with a key")
    message, files = (
        shop.git("log", "-1", "--format=%B"),
        shop.git("show", "--format=", "--name-only", "HEAD"),
    )
    assert f"Memory-Session: {shop.client.name}:" in message
    assert "Memory-Retrieved: " in message
    assert ".memory/inbox/" in files
    talk.commit = shop.git("log", "-1", "--format=%B", "--name-status").replace("\n\n\n", "\n\n")
    talk.recorded = shop.run("memory-ci", "record")
    assert RULE in talk.recorded
    assert "claimed:" not in (shop.folder / "MEMORY.md").read_text()


@pytest.mark.skipif("RECORDING" not in os.environ, reason="asked for by RECORDING")
def test_a_recording_is_written(shop: Shop, talk: Talk) -> None:
    put(Path(os.environ["RECORDING"]), render(shop, talk, measure(shop)))


def test_a_program_is_asked_no_question(shop: Shop, talk: Talk) -> None:
    first = len(shop.model.requests)
    shop.run(*shop.client.headless, CORRECTS.replace("retry", "repeat"), is_ok=False)
    assert len(shop.model.requests) > first
    assert not any("memory-ci add" in request.new for request in shop.model.requests[first:])


def test_a_linked_work_tree_reads_and_captures(shop: Shop, talk: Talk) -> None:
    tree = shop.folder.parent / "tree"
    shop.git("worktree", "add", "-q", str(tree), "-b", "other")
    shop.run("memory-ci", "init", "--clone", "--agent", shop.client.name, cwd=tree)
    talk_in_worktree = shop.talk(ASKS, cwd=tree)
    assert RECALLED in talk_in_worktree.read_context(ASKS)
    assert NORM in talk_in_worktree.read_context(ASKS)


def test_uninstall_restores_the_settings(shop: Shop, talk: Talk) -> None:
    shop.run("memory-ci", "init", "--remove", "--clone")
    assert shop.settings() == shop.before
