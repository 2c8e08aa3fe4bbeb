"""Tests of `retrieve` as it is called by people, scripts and agents' hooks."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memory_ci.anchors.anchors import format_anchor
from memory_ci.commands import former
from memory_ci.commands.root import main
from memory_ci.records.anchor import Anchor
from memory_ci.sessions.session_note import get_note_path
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def zoo(project: Project) -> Project:
    """Return a project with one entry."""
    project.commit(
        "Zoo", {"MEMORY.md": format_entry(make_entry(1, title="Zebra crossing", body="Wait."))}
    )
    return project


def note_of(project: Project) -> Path:
    return project.path / ".git/memory-ci/retrieved.jsonl"


def call_hook(run: Run, project: Project, **fields: str) -> Result:
    given_values = {
        "hook_event_name": "UserPromptSubmit",
        "cwd": str(project.path),
        "session_id": "79e9becd",
        **fields,
    }
    return run(*former.RETRIEVE_HOOK, stdin=json.dumps(given_values))


# -- formats


def test_each_format_holds_the_same_context(run: Run, zoo: Project) -> None:
    text = run("retrieve", "zebra").stdout
    assert "> Wait." in text
    hook = json.loads(run("retrieve", "zebra", "--format", "hook").stdout)
    assert hook["hookSpecificOutput"] == {
        "hookEventName": "UserPromptSubmit",
        "additionalContext": text,
    }
    assert f"```text\n{text}```\n" in run("retrieve", "zebra", "--format", "markdown").stdout
    assert (
        run("retrieve", "zebra", "--format", "json").stdout
        == run("retrieve", "zebra", "--json").stdout
    )


@pytest.mark.parametrize("form", ["text", "markdown", "hook"])
def test_nothing_recalled_is_nothing_printed(run: Run, zoo: Project, form: str) -> None:
    result = run("retrieve", "quantum", "--format", form)
    assert (result.exit_code, result.stdout) == (0, "")


def test_explain_names_each_factor_and_notes_nothing(run: Run, zoo: Project) -> None:
    result = run("retrieve", "zebra", "--explain", "--record")
    line = result.stdout.splitlines()[2]
    score, _, product = line.strip().partition(" = ")
    values = {
        name: float(value) for name, value in (part.split(" ") for part in product.split(" x "))
    }
    assert list(values)[:4] == ["relevance", "prominence", "age", "scope"]
    total = 1.0
    for value in values.values():
        total *= value
    assert float(score) == pytest.approx(total, abs=0.01)
    assert "raw: words" in result.stdout
    assert not note_of(zoo).exists()


# -- options


def test_notes_go_to_standard_error_and_do_not_fail(run: Run, zoo: Project) -> None:
    result = run(
        "retrieve", "zebra", "--limit", "-3", "--role", "stranger", "--max-chars", "99999999"
    )
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stderr.splitlines()] == [
        "--limit",
        "--max-chars",
        "The",
    ]
    assert run("retrieve", "zebra", "--at", "2020-01-01").stderr.startswith(
        "Note: There was no commit yet"
    )


def test_ids_say_that_entries_had_no_room(run: Run, zoo: Project) -> None:
    entries = [
        make_entry(number, title=f"Zebra {number}", body="stripes " * 59 + "stripes")
        for number in range(1, 4)
    ]
    zoo.write("MEMORY.md", "".join(map(format_entry, entries)))
    result = run("retrieve", "zebra stripes", "--limit", "3", "--max-chars", "1500", "--ids")
    left_out = 3 - len(result.stdout.split())
    assert left_out > 0
    assert "left out for want of room" in result.stderr
    assert not run("retrieve", "zebra stripes", "--ids", "--max-chars", "9000").stderr


def test_hits_over_the_limit_are_not_counted_as_weak(run: Run, zoo: Project) -> None:
    entries = [make_entry(number, title=f"Zebra stripes {number}") for number in range(1, 14)]
    zoo.write("MEMORY.md", "".join(map(format_entry, entries)))
    for limit, served in ((["--limit", "2"], 2), ([], 10)):
        answer = json.loads(run("retrieve", "zebra stripes", "--json", *limit).stdout)
        assert (len(answer["hits"]), answer["over_limit"], answer["weak"]) == (
            served,
            13 - served,
            0,
        )
    assert (
        "2 entries given \u00b7 11 over the limit"
        in run("retrieve", "zebra stripes", "--limit", "2", "--explain").stdout
    )
    foreign = "stripes " + " ".join(f"invoice{number} ledger{number}" for number in range(20))
    for count in ("1", "5"):
        assert json.loads(run("retrieve", foreign, "--json", "--limit", count).stdout)["weak"] == 13


ODD = {
    "empty": b"",
    "megabyte": b"zebra " * 180_000,
    "stop words": b"the of and",
    "operators": b'NEAR("zebra" AND -OR NOT * ^ : {title})',
    "quotes": b'"zebra\' ""',
    "nul": b"ze\0bra zebra",
    "emoji": "\U0001f993 zebra \U0001f469\u200d\U0001f4bb".encode(),
    "right to left": "\u05d6\u05d1\u05e8\u05d4 zebra \u202e".encode(),
    "no utf-8": b"\xff\xfe zebra",
}


@pytest.mark.parametrize("query", ODD.values(), ids=ODD.keys())
def test_any_bytes_are_a_query(run: Run, zoo: Project, query: bytes) -> None:
    result = CliRunner().invoke(main, ["retrieve", "--ids"], input=query)
    assert (result.exit_code, result.exception) == (0, None)
    assert result.stdout.split() == ([make_id(1)] if b"zebra" in query else [])


# -- as a hook


def test_as_a_hook_it_answers_a_prompt_and_notes_served_entries(
    run: Run, zoo: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call_hook(
        run,
        zoo,
        prompt="Where is the zebra?",
        transcript_path="/x.jsonl",
        permission_mode="default",
    )
    answer = json.loads(result.stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "UserPromptSubmit"
    assert "Zebra crossing" in answer["additionalContext"]
    assert json.loads(note_of(zoo).read_text())["ids"] == [make_id(1)]
    assert zoo.status() == ""


def test_at_the_start_of_a_session_it_serves_the_norms(run: Run, zoo: Project) -> None:
    zoo.commit("Norms", {"institutional.md": "# Norms\n\nNever push to main.\n"})
    answer = json.loads(
        call_hook(run, zoo, hook_event_name="SessionStart", source="startup").stdout
    )
    assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "Never push to main." in answer["hookSpecificOutput"]["additionalContext"]
    assert "Zebra" not in answer["hookSpecificOutput"]["additionalContext"]


def test_a_prompt_that_nothing_is_known_about_gets_no_output(run: Run, zoo: Project) -> None:
    result = call_hook(run, zoo, prompt="quantum")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert not note_of(zoo).exists()


def test_an_entry_that_shares_one_word_with_the_task_is_not_served(run: Run, zoo: Project) -> None:
    task = "zebra quantum laser entangles photon"
    silent = run("retrieve", task)
    assert (silent.exit_code, silent.stdout) == (0, "")
    assert silent.stderr == "Note: Nothing close (1 weak match; `--all` shows them).\n"
    data = json.loads(run("retrieve", task, "--json").stdout)
    assert (data["hits"], data["weak"]) == ([], 1)
    assert run("retrieve", task, "--all", "--ids").stdout.split() == [make_id(1)]
    hook = call_hook(run, zoo, prompt=task)
    assert (hook.exit_code, hook.stdout, hook.stderr) == (0, "", "")


def test_an_entry_that_cites_a_given_file_is_served_even_if_weak(run: Run, zoo: Project) -> None:
    entry = make_entry(1, title="Zebra crossing", cites=(f"src/client.py@{zoo.sha()[:12]}",))
    zoo.commit("Cite", {"MEMORY.md": format_entry(entry), "src/client.py": "client\n"})
    task = "zebra quantum laser entangles photon"
    served_ids = [
        run("retrieve", task, "--ids", "--path", path).stdout.split()
        for path in ("src", "src/client.py", "docs")
    ]
    assert served_ids == [[make_id(1)], [make_id(1)], []]


def test_the_output_of_a_hook_stays_below_the_agent_s_limit(run: Run, zoo: Project) -> None:
    many = "\n".join(
        format_entry(make_entry(n, title="Zebra", body=f"{'stripe ' * 250}{n}")) for n in range(60)
    )
    zoo.write("MEMORY.md", many)
    zoo.write(".memory-ci.yaml", "retrieve: {max_chars: 100000}\n")
    answer = json.loads(call_hook(run, zoo, prompt="zebra").stdout)
    assert 7_000 < len(answer["hookSpecificOutput"]["additionalContext"]) <= 10_000


@pytest.mark.parametrize("stdin", ["", "{", "[]", '{"prompt": "x", "cwd": "/no/such/place"}'])
def test_a_hook_never_fails_the_agent(run: Run, zoo: Project, stdin: str) -> None:
    result = run(*former.RETRIEVE_HOOK, stdin=stdin)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("memory-ci: nothing done: ")


def test_a_hook_survives_a_broken_configuration_and_the_lack_of_a_repository(
    run: Run, zoo: Project, tmp_path: Path
) -> None:
    zoo.write(".memory-ci.yaml", "retrieve: [\n")
    for cwd in (zoo.path, tmp_path):
        result = call_hook(run, zoo, prompt="zebra", cwd=str(cwd))
        assert (result.exit_code, result.stdout) == (0, "")
        assert "nothing done" in result.stderr


def test_a_hook_without_standard_input_ends_well(
    zoo: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert CliRunner().invoke(main, [*former.RETRIEVE_HOOK]).exit_code == 0


def test_ten_prompts_of_one_session_get_each_id_once(run: Run, zoo: Project) -> None:
    outputs = [call_hook(run, zoo, prompt="Where is the zebra?").stdout for _ in range(10)]
    assert "Zebra crossing" in outputs[0]
    assert outputs[1:] == [""] * 9
    assert (
        "Zebra crossing"
        in call_hook(run, zoo, prompt="Where is the zebra?", session_id="another").stdout
    )
    start = call_hook(run, zoo, hook_event_name="SessionStart", source="compact").stdout
    assert "Zebra crossing" not in start
    assert "Zebra crossing" in call_hook(run, zoo, prompt="Where is the zebra?").stdout


def test_a_note_that_cannot_be_written_costs_no_answer(run: Run, zoo: Project) -> None:
    get_note_path(zoo.workspace, "s1").parent.parent.mkdir(parents=True, exist_ok=True)
    get_note_path(zoo.workspace, "s1").parent.write_text("in the way")
    result = run("retrieve", "zebra", "--session", "s1")
    assert "Zebra crossing" in result.stdout
    assert (result.exit_code, "are not recorded" in result.stderr) == (0, True)


# -- at a file


@pytest.fixture
def farm(project: Project) -> Project:
    """Return a project with entries that cite a file: of its team, of the team above, and of no team."""
    anchor = Anchor(path="src/api/hen.py", commit="a" * 40)
    citing = make_entry(1, title="Feed the hen", cites=(format_anchor(anchor),))
    named = make_entry(2, title="Look at src/api/hen.py.bak", cites=("src/api/hen.py.bak",))
    nearest = [make_entry(number, title=f"Clean the api {number}") for number in range(10, 16)]
    files = {
        "src/api/hen.py": "def lay(): ...\n",
        "MEMORY.md": "\n".join(map(format_entry, (citing, named))),
        "src/api/MEMORY.md": "\n".join(map(format_entry, nearest)),
        "src/MEMORY.md": format_entry(make_entry(5, title="Clean the source")),
        "institutional.md": format_entry(make_entry(6, title="Never push to main")),
    }
    project.commit("Farm", files)
    return project


def test_about_a_file_cites_come_first_then_the_nearest_team_at_most_five(
    run: Run, farm: Project
) -> None:
    ids = run("retrieve", "--about", "src/api/hen.py", "--ids").stdout.split()
    assert ids[0] == make_id(1)
    assert len(ids) == 5
    assert set(ids[1:]) < set(map(make_id, range(10, 16)))
    more = run("retrieve", "--about", "src/api/hen.py", "--ids", "--limit", "6").stdout.split()
    assert (len(more), more[:5]) == (6, ids)
    assert make_id(5) in run("retrieve", "--about", "src/cow.py", "--ids").stdout
    assert run("retrieve", "--about", "README.md").stdout == ""


def test_a_file_is_named_as_from_here(
    run: Run, farm: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("retrieve", "--about", "src/api/hen.py", "--ids").stdout
    assert run("retrieve", "--about", str(farm.path / "src/api/hen.py"), "--ids").stdout == expected
    monkeypatch.chdir(farm.path / "src")
    assert run("retrieve", "--about", "api/hen.py", "--ids").stdout == expected


def test_a_session_is_served_once_about_a_file_without_opening_the_index_again(
    run: Run, farm: Project
) -> None:
    about_hen = ("retrieve", "--about", "src/api/hen.py", "--session", "s1")
    assert "Feed the hen" in run(*about_hen).stdout
    index = farm.path / ".git/memory-ci/index.db"
    index.unlink()
    assert run(*about_hen).stdout == ""
    assert not index.exists()
    assert "Feed the hen" in run(*about_hen, "--all").stdout


def test_a_task_and_a_file_exclude_each_other(run: Run, farm: Project) -> None:
    result = run("retrieve", "--about", "README.md", "feed the hen")
    assert (result.exit_code, "option-conflict" in result.stderr) == (2, True)
