"""Tests of every command as a user meets it: output, exit status, and files that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project
from tests.repos import make_repo

pytestmark = pytest.mark.in_project


def test_init_writes_missing_files_and_nothing_twice(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "new")
    monkeypatch.chdir(repo.path)
    (repo.path / "MEMORY.md").write_text("mine\n")
    preview = run("init", "--dry-run")
    assert "would be written .memory-ci.yaml" in preview.stdout
    assert not (repo.path / ".memory-ci.yaml").exists()
    assert run("init").exit_code == 0
    assert (repo.path / "MEMORY.md").read_text() == "mine\n"
    assert "written" not in run("init").stdout
    assert run("check").exit_code == 0
    assert run("retrieve", "anything").stdout == "", "the introduction is not memory"


def test_record_lists_learned_entries_and_then_has_nothing_to_commit(
    run: Run, project: Project
) -> None:
    preview = run("record", "--dry-run")
    assert "Learned: 2 entries" in preview.stdout
    assert len(project.entries()) == 0
    first = run("record")
    assert first.exit_code == 0
    assert "memory: extract 2 learnings from #128" in first.stdout
    assert "Nothing to commit." in run("record").stdout
    assert len(project.entries()) == 2


def test_record_json_has_the_plan_and_the_commits(run: Run, project: Project) -> None:
    document = json.loads(run("record", "--json").stdout)
    assert document["applied"]["tip"] == project.sha()
    assert document["plan"]["engine"]["name"] == "rules"
    assert {item["verdict"] for item in document["plan"]["judged"]} >= {"written"}


def test_extract_and_apply_are_the_two_halves_of_record(
    run: Run, project: Project, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert run("record", "--plan", str(plan)).exit_code == 0
    assert (
        json.loads(run("record", "--plan", "-").stdout)["steps"]
        == json.loads(plan.read_text())["steps"]
    )
    assert "Would commit on main:" in run("record", "--apply", str(plan), "--dry-run").stdout
    assert len(project.entries()) == 0
    assert run("record", "--apply", str(plan)).exit_code == 0
    assert len(project.entries()) == 2
    again = run("record", "--apply", str(plan))
    assert again.exit_code == 4
    assert "[ref-moved]" in again.stderr


def test_check_prints_file_and_line_and_exits_1(run: Run, project: Project) -> None:
    project.write("MEMORY.md", "# Memory\n\n---\nid: 1\ntype: oops\n---\n## Broken\n")
    result = run("check")
    assert result.exit_code == 1
    assert "MEMORY.md:5: type: 'oops' is not one of" in result.stdout
    assert "[bad-value]" in result.stdout
    document = json.loads(run("check", "--json").stdout)
    assert not document["ok"]
    assert {"path", "line", "code", "message", "level"} <= document["findings"][0].keys()
    assert run("check", "--staged").exit_code == 0


def test_a_warning_alone_leaves_check_green(run: Run, project: Project) -> None:
    text = format_entry(make_entry(1)).replace("## Learning", "Learning")
    project.write("MEMORY.md", text)
    result = run("check")
    assert (result.exit_code, "[no-title]" in result.stdout) == (0, True)


def test_the_verdict_of_check_calls_a_notice_a_notice(run: Run, project: Project) -> None:
    project.write("MEMORY.md", format_entry(make_entry(1)))
    for number in (1, 2, 3):
        run("feedback", make_id(1), "rejected", "--ref", f"pr:{number}")
    result = run("check")
    assert "[low-utility]" in result.stdout
    assert result.stderr.startswith("1 notice, 1 entry in ")


@pytest.mark.first_run
def test_list_show_and_log_find_an_entry_by_the_start_of_its_id(run: Run, project: Project) -> None:
    (entry, _) = project.entries()
    assert entry.id[:8] in run("list").stdout
    assert run("list", "--type", "directive").stdout == ""
    shown_result = run("show", entry.id[:8])
    assert shown_result.stdout == format_entry(entry)
    assert "prominence" in shown_result.stderr
    assert json.loads(run("show", entry.id, "--json").stdout)["located"]["entry"]["id"] == entry.id
    project.commit(
        "Reword", {"MEMORY.md": project.show("HEAD", "MEMORY.md").replace(entry.title, "Reworded")}
    )
    project.commit("Remove", {"MEMORY.md": "# Memory\n"})
    log = [row["what"] for row in json.loads(run("show", "--log", entry.id[:8], "--json").stdout)]
    assert [what.partition(" ")[0] for what in log] == ["removed", "title", "added"]
    assert run("show", entry.id).exit_code == 2
    assert run("show", entry.id, "--at", "HEAD~1").exit_code == 0
    listed = json.loads(run("list", "--at", "HEAD~2", "--json").stdout)
    assert [(each_item["served"], each_item["used"]) for each_item in listed] == [(0, 0)] * 2


def test_an_id_that_fits_two_entries_or_none_is_an_error_that_helps(
    run: Run, project: Project
) -> None:
    project.write("MEMORY.md", format_entry(make_entry(1)) + "\n" + format_entry(make_entry(2)))
    both = run("show", "0000000")
    assert (both.exit_code, make_id(2) in both.stderr) == (2, True)
    assert "[unknown-entry]" in run("show", "ffff").stderr
    assert "[unknown-entry]" in run("show", "--log", "ffff").stderr


def test_an_entry_is_found_by_an_id_that_it_replaced(run: Run, project: Project) -> None:
    project.write("MEMORY.md", format_entry(make_entry(1, supersedes=(make_id(9),))))
    assert run("show", make_id(9)[:8]).stdout.startswith(f"---\nid: {make_id(1)}")


@pytest.mark.first_run
def test_retrieve_has_text_ids_and_json(run: Run, project: Project) -> None:
    ids = run("retrieve", "charge retried", "--ids").stdout.split()
    assert {entry.id for entry in project.entries()} >= set(ids) != set()
    document = json.loads(run("retrieve", "charge retried", "--json").stdout)
    assert [hit["located"]["entry"]["id"] for hit in document["hits"]] == ids
    assert document["hits"][0]["factors"][0][0] == "relevance"
    assert run("retrieve", stdin="charge retried").stdout.startswith("<recalled-memory>")
    for odd in ("", '"', "a OR", "AND", "x" * 100_000, "\u202e", "NEAR(", "-", "*"):
        assert run("retrieve", "--", odd).exit_code == 0


@pytest.mark.first_run
def test_retrieve_notes_served_entries_only_on_request_or_in_ci(
    run: Run, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = project.path / ".git/memory-ci/retrieved.jsonl"
    run("retrieve", "charge")
    assert not note.exists()
    monkeypatch.setenv("CI", "true")
    run("retrieve", "charge", "--no-record")
    assert not note.exists()
    run("retrieve", "charge")
    (ids,) = [json.loads(line)["ids"] for line in note.read_text().splitlines()]
    assert ids == run("retrieve", "charge", "--ids").stdout.split()


@pytest.mark.first_run
def test_entries_used_by_a_job_are_reinforced_after_the_merge(run: Run, project: Project) -> None:
    (entry_id,) = run(
        "retrieve", "client knows the key", "--limit", "1", "--ids", "--record"
    ).stdout.split()
    project.branch("next")
    message = project.write(".git/COMMIT_EDITMSG", f"Do it\n\nMemory-Used: {entry_id[:8]}\n")
    assert run("hook", "prepare-commit-msg", str(message), "message").exit_code == 0
    project.commit(message.read_text(), {"src/client.py": "next\n"})
    project.merge_back("next", message="Merge pull request #129 from ada/next\n\nNext")
    assert "memory: reinforce 1 entry for #129" in run("record").stdout
    assert {entry.id: entry.reinforcement_count for entry in project.entries()}[entry_id] == 1


def test_the_hook_never_blocks_a_commit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("hook", "prepare-commit-msg", "missing").exit_code == 0


def test_index_builds_prints_its_key_and_spares_the_files_of_others(
    run: Run, project: Project, tmp_path: Path
) -> None:
    assert run("index").exit_code == 0
    key = run("index", "--key").stdout.strip()
    assert json.loads(run("index", "--json").stdout)["key"] == key
    assert run("index", "--db", str(tmp_path / "memory.db"), "--at", "HEAD").exit_code == 0
    other_file = tmp_path / "notes.db"
    other_file.write_text("mine\n")
    refused = run("index", "--db", str(other_file))
    assert (refused.exit_code, "[not-an-index]" in refused.stderr, other_file.read_text()) == (
        2,
        True,
        "mine\n",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(run: Run, shell: str) -> None:
    assert "_MEMORY_CI_COMPLETE" in run("help", "completion", shell).stdout


def test_outside_of_a_repository_every_command_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = (
        ["init"],
        ["add", "x"],
        ["check"],
        ["list"],
        ["show", "x"],
        ["show", "--log", "x"],
        ["record"],
        ["record", "--plan", "-"],
        ["index"],
        ["retrieve", "x"],
    )
    for command in commands:
        result = run(*command)
        assert (result.exit_code, "[not-a-repository]" in result.stderr) == (4, True), command
        assert "Hint:" in result.stderr


def test_a_repository_without_a_commit_has_no_memory_yet(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo(tmp_path / "new").path)
    assert run("retrieve", "x").stdout == ""
    assert run("list").stdout == ""
    assert run("check").exit_code == 0
    assert "[unborn-branch]" in run("record").stderr


def test_a_wrong_configuration_names_file_line_and_key(run: Run, project: Project) -> None:
    project.write(".memory-ci.yaml", "# mine\nretrieve:\n  max_chars: many\n")
    result = run("retrieve", "x")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "Error: .memory-ci.yaml:3: retrieve.max_chars must be a whole number"
    )
    project.write(".memory-ci.yaml", "# mine\nretrieve:\n  max_char: 100\n")
    result = run("retrieve", "x")
    assert result.exit_code == 0
    warning = "Warning: .memory-ci.yaml:3: unknown key 'retrieve.max_char' [unknown-key] Did you mean 'max_chars'?\n"
    assert result.stderr.startswith(warning)


def test_the_version_and_an_overview_of_the_commands(run: Run) -> None:
    assert run("--version").stdout.startswith("memory-ci, version ")
    overview = run("--help").stdout
    assert "retrieve" in overview
    assert "  hook" not in overview
    assert run("recrod").exit_code == 2


@pytest.mark.parametrize("group", ["org", "hook"])
def test_a_group_without_a_command_shows_its_help_at_a_terminal(
    run: Run, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.commands.root.terminal_width", lambda *_: 80)
    output = run(group).output
    assert output.startswith(f"Usage: memory-ci {group}")
    assert "Error:" not in output


def test_input_that_is_no_utf8_is_read_with_replacements(run: Run, project: Project) -> None:
    surrogate = b"caf\xe9 zebra".decode("utf-8", "surrogateescape")
    assert run("retrieve", "--json", surrogate).exit_code == 0
    assert run("add", surrogate).exit_code == 0
    assert "caf\ufffd" in run("retrieve", "zebra").stdout
    assert "[unknown-entry]" in run("show", "--log", surrogate).stderr


@pytest.mark.first_run
def test_a_record_that_cannot_be_kept_costs_a_warning_and_not_the_answer(
    run: Run, project: Project
) -> None:
    (project.path / ".git" / "memory-ci" / "retrieved.jsonl").mkdir(parents=True)
    result = run("retrieve", "charge", "--record")
    assert result.exit_code == 0
    assert "<recalled-memory>" in result.stdout
    assert "[write-failed]" in result.stderr


def test_a_clock_that_is_no_time_is_a_usage_error(
    run: Run, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "99999999999999999")
    assert run("list").exit_code == 2


def test_the_entries_of_the_job_that_asks_count_more(run: Run, project: Project) -> None:
    for number in (1, 2):
        path = f".teaparty/jobs/j{number}/institutional.md"
        project.commit("Job", {path: format_entry(make_entry(number, title="Zebra crossing"))})
    assert run("retrieve", "zebra", "--ids", "--session", "j2").stdout.split()[0] == make_id(2)
    assert run("retrieve", "zebra", "--ids", "--session", "j1").stdout.split()[0] == make_id(1)
