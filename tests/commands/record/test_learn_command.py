"""Tests of `memory-ci learn`: the price comes first, nothing is paid for twice, and commits come at the end."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.text import WAYS_TO_LEARN
from memory_ci.records.plan import Plan
from tests.command_line import Run
from tests.commands.record.batching import serve_batches
from tests.project import Project
from tests.remote import UPDATE, GitHubDouble, make_remote
from tests.servers import serve

pytestmark = pytest.mark.in_project

PROGRAM = """
import json, sys, pathlib
asked = json.load(sys.stdin)
user = json.loads(asked["user"])
log = pathlib.Path(sys.argv[1])
count = len(log.read_text().splitlines()) if log.exists() else 0
if count == int(pathlib.Path(sys.argv[2]).read_text()):
    sys.exit(1)
with log.open("a") as stream:
    stream.write(user["change"] + "\\n")
found = [one for one in user["evidence"] if one.get("quote") and "Each drawer" in one["text"]]
said = "Each drawer has one clerk and one lock"
quotes = [{"evidence": one["id"], "text": said} for one in found[:1]]
print(json.dumps({"learnings": [{"title": said, "quotes": quotes}] if quotes else []}))
"""


@pytest.fixture
def log(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of a program that fails after `limit` prompts; the project has two more changes."""
    project.merge_work("Count twice\n\nA count is made by two of us.", "count", 300, "src/count.py")
    project.merge_work(
        "Lock\n\nEach drawer has one clerk and one lock.", "lock", 301, "src/lock.py"
    )
    program = tmp_path / "model.py"
    program.write_text(PROGRAM, encoding="utf-8")
    limit(tmp_path, 1)
    argv = [sys.executable, str(program), str(tmp_path / "log"), str(tmp_path / "limit")]
    monkeypatch.setenv("MEMORY_CI_ENGINE_COMMAND", shlex.join(argv))
    return tmp_path / "log"


def limit(place: Path, count: int) -> None:
    (place / "limit").write_text(str(count))


def test_the_price_is_shown_and_nothing_is_sent_without_consent(
    project: Project, log: Path, run: Run
) -> None:
    would = run("learn", "--since", "5y", "--engine", "command", "--dry-run")
    assert "windows to ask about" in would.stdout
    assert "price unknown" in would.stdout
    offer = json.loads(
        run("learn", "--since", "5y", "--engine", "command", "--dry-run", "--json").stdout
    )["offer"]
    assert (offer["windows"] >= 2, offer["kept"], offer["is_batch"]) == (True, 0, False)
    refused = run("learn", "--since", "5y", "--engine", "command")
    assert (refused.exit_code, "[learn-unasked]" in refused.stderr, log.exists()) == (
        2,
        True,
        False,
    )


def test_requests_answered_before_a_stop_are_not_sent_again(
    project: Project, log: Path, run: Run, tmp_path: Path
) -> None:
    before, command = project.sha(), ("learn", "--since", "5y", "--engine", "command", "--yes")
    stopped = run(*command)
    assert (stopped.exit_code, "[learn-stopped]" in stopped.stderr, project.sha()) == (
        5,
        True,
        before,
    )
    limit(tmp_path, 99)
    done = run(*command)
    assert ", 1 answered before" in done.stderr
    assert "Committed on main" in done.stdout
    prompts = log.read_text().splitlines()
    assert len(prompts) == len(set(prompts))
    assert "Each drawer has one clerk and one lock" in project.titles()


def test_it_ends_in_one_pull_request_whose_entries_can_be_unticked(
    project: Project, log: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, said = (
        make_remote(project, tmp_path / "shop.git"),
        "Each drawer has one clerk and one lock",
    )
    limit(tmp_path, 99)
    command = ("learn", "--since", "5y", "--engine", "command", "--yes", "--push", "pr", "--json")
    with serve(forge := GitHubDouble(remote, tmp_path / "forge")) as server:
        for name, value in forge.environ(server.url).items():
            monkeypatch.setenv(name, value)
        first = json.loads(run(*command).stdout)
        (pull,) = forge.pulls
        (box,) = [line for line in pull["body"].splitlines() if line.startswith(f"- [x] `{said}`")]
        assert "from [pull request 301](https://github.com/acme/shop/pull/301)" in pull["body"]
        assert f"  - said: `{said}" in pull["body"]
        assert said in remote.show(UPDATE, "MEMORY.md")
        prompts = log.read_text()
        pull["body"] = pull["body"].replace(box, box.replace("[x]", "[ ]"))
        second = json.loads(run(*command).stdout)
        assert said not in remote.show(UPDATE, "MEMORY.md")
        assert said in remote.show(UPDATE, ".memory/rejected.txt")
        assert (second["offer"]["windows"], log.read_text()) == (0, prompts), (
            "what was answered is not asked again"
        )
    assert first["published"]["url"] == pull["html_url"]
    assert len(forge.pulls) == 1


def find_object(project: Project, rev: str) -> Path:
    oid = project.sha(rev)
    return project.path / ".git" / "objects" / oid[:2] / oid[2:]


def test_an_object_that_goes_missing_between_two_answers_loses_none(
    project: Project, log: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(tmp_path, 99)
    lost, kept = find_object(project, "HEAD^{tree}"), tmp_path / "kept"
    line = f'if count == 1: pathlib.Path({str(lost)!r}).replace({str(kept)!r})\nwith log.open("a")'
    program = tmp_path / "model.py"
    program.write_text(PROGRAM.replace('with log.open("a")', line), encoding="utf-8")
    before, command = project.sha(), ("learn", "--since", "5y", "--engine", "command", "--yes")
    stopped = run(*command)
    assert (stopped.exit_code, kept.exists(), project.sha()) == (4, True, before)
    assert f"{lost.parent.name}{lost.name}" in stopped.stderr
    assert "git fetch --refetch" in stopped.stderr
    assert "stored answers are reused" in stopped.stderr
    kept.replace(lost)
    assert ", 3 answered before" in (done := run(*command)).stderr
    assert "Committed on main" in done.stdout
    prompts = log.read_text().splitlines()
    assert len(prompts) == len(set(prompts)) == 3


def test_the_api_is_asked_in_batches(
    project: Project, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anthropic")
    with serve_batches(project) as batching:
        for name, value in batching.environ.items():
            monkeypatch.setenv(name, value)
        sent = run("learn", "--since", "5y", "--yes", "--no-wait")
        assert "in batches" in sent.stderr
        assert "Run again to collect the answers." in sent.stdout
        batching.end()
        lost, kept = find_object(project, "HEAD^{tree}"), tmp_path / "kept"
        lost.replace(kept)
        stopped = run("learn", "--since", "5y")
        assert (
            stopped.exit_code,
            "--refetch" in stopped.stderr,
            "are reused" in stopped.stderr,
        ) == (
            4,
            True,
            True,
        )
        kept.replace(lost)
        assert (
            "Committed on main" in run("learn", "--since", "5y").stdout
        )  # paid for already: nothing to agree to
        assert (len(batching.sent), batching.live, batching.path.exists()) == (1, [], False)
    assert "Lock the till" in project.titles()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the engines of all planned runs."""
    engines: list[str] = []

    def count(*arguments: Any, **options: Any) -> Plan:
        plan = plan_record(*arguments, **options)
        engines.append(plan.engine.name)
        return plan

    monkeypatch.setattr("memory_ci.commands.record.learn.plan_record", count)
    monkeypatch.setattr("memory_ci.commands.record.batches.plan_record", count)
    return engines


def test_a_price_and_one_run_are_planned(
    project: Project, log: Path, run: Run, runs: list[str], tmp_path: Path
) -> None:
    limit(tmp_path, 99)
    assert (
        "Committed on main" in run("learn", "--since", "5y", "--engine", "command", "--yes").stdout
    )
    assert runs == ["command", "command"]


def test_batches_are_sent_as_priced_and_collected_in_one_run(
    project: Project, run: Run, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anthropic")
    with serve_batches(project) as batching:
        for name, value in batching.environ.items():
            monkeypatch.setenv(name, value)
        assert "Run again to collect" in run("learn", "--since", "5y", "--yes", "--no-wait").stdout
        assert len(runs) == 1
        batching.end()
        runs.clear()
        assert "Committed on main" in run("learn", "--since", "5y").stdout
        assert len(runs) == 2
        fetched = [
            request.path for request in batching.model.requests if request.path.endswith("/results")
        ]
        assert len(fetched) == 1


def test_a_question_that_was_answered_is_not_asked_again_when_memory_has_grown(
    project: Project, log: Path, run: Run, tmp_path: Path
) -> None:
    limit(tmp_path, 99)
    command = ("learn", "--since", "5y", "--engine", "command", "--yes")
    assert "Committed on main" in run(*command).stdout
    prompts = log.read_text().splitlines()
    again = run(*command)
    assert "0 windows to ask about, 3 answered before" in again.stderr
    assert log.read_text().splitlines() == prompts
    project.merge_work("Close\n\nA till is closed by a second clerk.", "close", 302, "src/close.py")
    assert "1 window to ask about, 3 answered before" in run(*command).stderr
    assert log.read_text().splitlines() == [*prompts, "#302"]


def test_the_api_is_not_asked_again_when_memory_has_grown(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anthropic")
    with serve_batches(project) as batching:
        for name, value in batching.environ.items():
            monkeypatch.setenv(name, value)
        run("learn", "--since", "5y", "--yes", "--no-wait")
        batching.end()
        assert "Committed on main" in run("learn", "--since", "5y").stdout
        assert (
            "0 windows to ask about" in run("learn", "--since", "5y", "--yes", "--no-wait").stderr
        )
        assert (len(batching.sent), batching.live) == (1, [])


@pytest.mark.first_run
def test_a_run_without_learnings_names_other_sources(project: Project, run: Run) -> None:
    project.merge_work("Count twice\n\nIt is safer.", "count", 300, "src/count.py")
    output = run("record").stdout
    assert "Nothing was learned from these changes." in output
    assert all(command in output for command, _ in WAYS_TO_LEARN)


def test_learning_needs_a_model(project: Project, run: Run) -> None:
    refused = run("learn", "--yes")
    assert (refused.exit_code, "[no-model]" in refused.stderr) == (2, True)


def test_without_a_model_a_dry_run_says_the_price_of_an_example(project: Project, run: Run) -> None:
    pytest.importorskip("anthropic")
    priced = run("learn", "--since", "5y", "--dry-run")
    assert priced.exit_code == 0
    assert "USD\nby anthropic in batches: as an example, no model is set up here\n" in priced.stdout
    assert "[no-model]" in run("learn", "--engine", "rules", "--dry-run").stderr


@pytest.mark.usefixtures("log")
def test_all_learnings_are_printed_on_request(run: Run, tmp_path: Path) -> None:
    limit(tmp_path, 9)
    result = run("learn", "--since", "5y", "--engine", "command", "--yes", "--verbose")
    assert "\nextract: " in result.stdout
