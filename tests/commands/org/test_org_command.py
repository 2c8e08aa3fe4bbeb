"""Tests of `memory-ci org` (sync, search, status, verify) as a user runs it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.command_line import Run
from tests.commands.org.organisation import Organisation, as_remote
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def org(tmp_path: Path) -> Organisation:
    org = Organisation(tmp_path)
    org.add("pay", "Retry a failed payment only with an idempotency key")
    org.add("keys", "Rotate the deploy key before the freeze")
    org.write("pay", "keys public")
    return org


def test_two_commands_sync_and_answer(run: Run, org: Organisation) -> None:
    synced = run("org", "sync", str(org.list), "--out", str(org.index))
    assert synced.exit_code == 0
    assert synced.stdout.startswith("2 repositories: 2 added, 0 unchanged\n")
    found_result = run("org", "search", "retry failed payments", "--index", str(org.index))
    assert "Retry a failed payment only with an idempotency key" in found_result.stdout
    assert " pay · " in found_result.stdout
    listed = json.loads(
        run("org", "search", "retry failed payments", "--index", str(org.index), "--json").stdout
    )
    assert [hit["repository"] for hit in listed] == ["pay"]
    chosen = run(
        "org", "search", "retry failed payments", "--index", str(org.index), "--audience", "public"
    )
    assert (chosen.stdout, chosen.stderr) == ("", "No repository knows of it.\n")


def test_the_index_may_be_named_relative_to_the_directory(
    run: Run, org: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.write(as_remote(org.repositories["pay"]), "keys")
    monkeypatch.chdir(org.root)
    assert run("org", "sync", "repositories.txt", "--out", "index").exit_code == 0
    assert run("org", "verify", "--index", "index").exit_code == 0
    assert run("org", "sync", "pay", "keys", "--out", "other").exit_code == 0


def test_the_exit_status_says_whether_all_was_read(run: Run, org: Organisation) -> None:
    run("org", "sync", str(org.list), "--out", str(org.index))
    org.write("pya", "keys public")
    typo = run("org", "sync", str(org.list), "--out", str(org.index), "--dry-run")
    assert (typo.exit_code, "dropped: pay\n" in typo.stdout, "failed: pya: " in typo.stdout) == (
        1,
        True,
        True,
    )
    org.write("pay", "keys public")
    org.repositories["keys"].commit("Broken", {".memory-ci.yaml": "scopes: [\n"})
    partly = run("org", "sync", str(org.list), "--out", str(org.index))
    assert (partly.exit_code, "failed: keys: " in partly.stdout) == (1, True)
    assert "failing since 2" in run("org", "status", "--index", str(org.index)).stdout
    shutil.rmtree(org.root / "pay")
    shutil.rmtree(org.root / "keys")
    nothing = run("org", "sync", str(org.list), "--out", str(org.index))
    assert nothing.exit_code == 5
    assert "org-unreachable" in nothing.stderr


def test_status_and_verify(run: Run, org: Organisation, monkeypatch: pytest.MonkeyPatch) -> None:
    run("org", "sync", str(org.list), "--out", str(org.index))
    monkeypatch.setenv("MEMORY_CI_ORG_INDEX", str(org.index))
    assert "internal: 1 repository, 1 entry, " in run("org", "status").stdout
    status = json.loads(run("org", "status", "--json").stdout)
    assert [audience["audience"] for audience in status["audiences"]] == ["internal", "public"]
    equal = run("org", "verify")
    assert (equal.exit_code, equal.stdout) == (0, "2 repositories, all rows equal\n")
    org.add("pay", "Newer")
    behind = run("org", "verify")
    assert behind.exit_code == 1
    assert behind.stdout.startswith("pay: is at ")


def test_the_index_has_two_names_and_a_variable(run: Run, org: Organisation) -> None:
    assert run("org", "sync", str(org.list), "--index", str(org.index)).exit_code == 0
    assert run("org", "status", "--out", str(org.index)).exit_code == 0
    missing = run("org", "status", str(org.index))
    assert missing.exit_code == 2
    assert "MEMORY_CI_ORG_INDEX" in missing.stderr


@pytest.mark.parametrize(
    ("argv", "slug"),
    [
        (["search", "x", "--index", "nowhere"], "org-missing"),
        (["search", "x", "--index", "nowhere", "--audience", "all"], "bad-audience"),
        (["sync", "--out", "index"], "bad-list"),
        (["sync", "no-such-file", "--out", "index"], "bad-list"),
        (["sync", ".", "--out", "index"], "bad-list"),
    ],
)
def test_errors_explain_invalid_calls(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], slug: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("org", *argv)
    assert result.exit_code in (2, 5)
    assert f"[{slug}]" in result.stderr


def test_retrieve_has_it_in_the_answer_and_in_its_explanation(
    run: Run, org: Organisation, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("org", "sync", str(org.list), "--out", str(org.index))
    monkeypatch.setenv("MEMORY_CI_ORG_INDEX", str(org.index))
    output = run("retrieve", "retry a failed payment with the idempotency key").stdout
    assert "From pay: file://" in output
    explained = run(
        "retrieve", "--explain", "retry a failed payment with the idempotency key"
    ).stdout
    assert "x organisation 0.800" in explained
    assert run("retrieve", "--ids", "retry a failed payment with the idempotency key").stdout == ""


def test_commands_that_have_no_index_do_not_load_it(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = [name for name in sys.modules if name.startswith("memory_ci.commands.org")]
    for name in loaded:  # put back afterwards: classes of modules that are loaded twice are unequal
        monkeypatch.delitem(sys.modules, name)
    run("retrieve", "retry a charge")
    assert "memory_ci.commands.org.address" not in sys.modules
