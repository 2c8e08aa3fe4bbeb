"""Tests of `org sync`: which parts of each repository it reads, and its cost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memory_ci.commands.org import targets
from memory_ci.commands.org.verification import verify_org
from tests.commands.org.organisation import Organisation, as_remote


def commands(log: Path) -> list[str]:
    lines = [line.partition("built-in: git ")[2] for line in log.read_text().splitlines()]
    return sorted(line.split()[0] for line in lines if line and not line.startswith("upload-pack"))


def test_a_first_sync_indexes_three_repositories(org: Organisation) -> None:
    org.add("pay", "A note on charges")
    org.add("shop", "A note on prices")
    org.add("infra", "A note on keys")
    org.write("pay", "# a comment", "", "shop public  # another", str(org.root / "infra"))
    report = org.sync()
    assert (report.added, report.entries) == (("infra", "pay", "shop"), 3)
    assert org.titles() == ["A note on charges", "A note on keys", "A note on prices"]
    assert org.titles("public") == ["A note on prices"]


def test_an_unchanged_repository_costs_one_question_and_no_fetch(
    org: Organisation, started: Path
) -> None:
    org.write("pay", as_remote(org.add("shop", "A note on prices")))
    org.add("pay", "A note on charges")
    org.sync()
    inode = (org.index / "internal.db").stat().st_ino
    started.write_text("")
    report = org.sync()
    assert report.failed == ()
    assert (report.unchanged, report.published[0].is_new) == (2, False)
    assert commands(started) == ["ls-remote", "ls-remote"]
    assert (org.index / "internal.db").stat().st_ino == inode


def test_a_remote_repository_is_read_without_the_rest_of_it(
    org: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the history nor other files are fetched; the memory files of the configuration are."""
    pay = org.add("pay", "A note on charges")
    pay.commit(
        "More",
        {
            "src/api/MEMORY.md": pay.show("HEAD", "MEMORY.md"),
            "notes/team.md": "",
            "big.bin": "x" * 5000,
        },
    )
    pay.commit("Other", {".memory-ci.yaml": "scopes:\n  project: [notes/team.md]\n"})
    pay.commit("Move", {"notes/team.md": pay.show("HEAD", "MEMORY.md").replace("charges", "teams")})
    held: list[str] = []
    read = targets.read_entries

    def spy(target: object, repo: object, tip: str, repository: object) -> object:
        counted = subprocess.run(
            ["git", "rev-list", "--all", "--count"],
            cwd=repo.cwd,  # type: ignore[attr-defined]
            capture_output=True,
            text=True,
        )
        assert counted.stdout == "1\n"
        ask = ["git", "rev-list", "--objects", "--all", "--missing=print"]
        held.extend(
            subprocess.run(ask, cwd=repo.cwd, capture_output=True, text=True).stdout.splitlines()  # type: ignore[attr-defined]
        )
        return read(target, repo, tip, repository)  # type: ignore[arg-type]

    monkeypatch.setattr(targets, "read_entries", spy)
    org.write(as_remote(pay))
    org.sync()
    missing = [line for line in held if line.startswith("?")]
    assert len(missing) == 2, "big.bin and code.py"
    assert org.titles() == ["A note on charges", "A note on teams"]


def test_a_change_replaces_the_rows_of_one_repository(org: Organisation, started: Path) -> None:
    for name in ("pay", "shop"):
        org.add(name, f"A note of {name}", "A note that stays")
    org.write("pay", "shop")
    org.sync()
    org.add("pay", "A newer note", "A note that stays")
    started.write_text("")
    report = org.sync()
    assert (report.updated, report.unchanged) == (("pay",), 1)
    assert org.titles() == [
        "A newer note",
        "A note of shop",
        "A note that stays",
        "A note that stays",
    ]
    assert verify_org(str(org.index), org.environ) == ((), 2)


def test_another_audience_moves_the_rows(org: Organisation) -> None:
    org.add("pay", "A note on charges")
    org.add("shop", "A note on prices")
    org.write("pay public", "shop")
    org.sync()
    org.write("pay group-pay", "shop")
    report = org.sync()
    assert report.updated + report.moved == ("pay",)
    assert (org.titles(), org.titles("group-pay")) == (["A note on prices"], ["A note on charges"])
    assert not (org.index / "public.db").exists()
    assert not (org.index / "public.json").exists()


def test_a_failing_repository_whose_audience_narrows_leaves_the_wider_audience(
    org: Organisation,
) -> None:
    pay = org.add("pay", "A note on charges")
    org.add("shop", "A note on prices")
    org.write("pay public", "shop")
    org.sync()
    pay.commit("Broken", {".memory-ci.yaml": "scopes: [\n"})
    org.write("pay group-pay", "shop")
    report = org.sync()
    assert report.failed
    assert report.dropped == ("pay",)
    assert org.titles("public", "internal", "group-pay") == ["A note on prices"]


def test_a_repository_without_commits_or_memory_has_no_entries(org: Organisation) -> None:
    from tests.repos import make_repo

    org.add("pay", "A note").commit("None", {"MEMORY.md": ""})
    make_repo(org.root / "empty")
    org.write("pay", "empty")
    report = org.sync()
    assert (report.failed, report.entries) == ((), 0)
    assert org.sync().unchanged == 2
