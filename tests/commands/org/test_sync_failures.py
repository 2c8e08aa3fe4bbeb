"""Tests of `org sync`: repositories that fail, vanish, or cannot be reached."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from memory_ci.commands.org import targets
from memory_ci.commands.org.sqlite import SqliteEngine
from memory_ci.commands.org.status import load_status
from memory_ci.commands.org.sync import load_state
from memory_ci.errors import EngineError
from memory_ci.store.memory_files import load_file
from tests.commands.org.organisation import NOW, Organisation, as_remote


def test_a_repository_that_fails_keeps_its_rows_and_is_named(org: Organisation) -> None:
    org.add("pay", "A note on charges")
    shop = org.add("shop", "A note on prices")
    org.write("pay", "shop")
    org.sync()
    shop.commit("Broken", {".memory-ci.yaml": "scopes: [\n", "MEMORY.md": ""})
    report = org.sync()
    assert [name for name, _ in report.failed] == ["shop"]
    assert ".memory-ci.yaml:" in report.failed[0][1]
    assert org.titles() == ["A note on charges", "A note on prices"]
    status = load_status(str(org.index))
    assert [(name, at) for name, at, _ in status.failing] == [("shop", NOW)]
    manifest = json.loads((org.index / "internal.json").read_bytes())
    assert [(row["name"], row["is_failing"]) for row in manifest["repositories"]] == [
        ("pay", False),
        ("shop", True),
    ]
    shop.commit("Mended", {".memory-ci.yaml": ""})
    assert org.sync().failed == ()
    assert org.titles() == ["A note on charges"]


def test_a_removed_repository_is_dropped_and_an_unreachable_one_is_kept(
    org: Organisation,
) -> None:
    for name in ("pay", "shop", "away"):
        org.add(name, f"A note of {name}")
    remote = as_remote(org.repositories["away"])
    org.write("pay", "shop", remote)
    org.sync()
    shutil.rmtree(org.root / "shop")
    (org.root / "away" / ".git" / "HEAD").chmod(0)
    (org.root / "away" / ".git" / "refs").rename(org.root / "refs")
    (org.root / "away" / ".git" / "HEAD").write_text("damaged")
    org.write("pay", "shop", remote, "http://127.0.0.1:9/nowhere.git")
    report = org.sync()
    assert "shop" in report.dropped
    assert "127.0.0.1" in dict(report.failed)["nowhere"]


def test_a_mistyped_path_is_reported_as_failed_and_the_former_repository_as_dropped(
    org: Organisation,
) -> None:
    for name in ("pay", "shop"):
        org.add(name, f"A note of {name}")
    org.repositories["shop"].git("remote", "add", "origin", "https://github.com/acme/shop.git")
    org.write("pay", "shop", "nowhere", "x" * 300)
    report = org.sync()
    assert (report.added, [name for name, _ in report.failed]) == (
        ("pay", "acme/shop"),
        ["nowhere", "x" * 300],
    )
    assert dict(report.failed)["nowhere"] == f"there is no repository at {org.root / 'nowhere'}"
    org.write("pya", "shop")
    report = org.sync()
    assert (report.dropped, [name for name, _ in report.failed]) == (("pay",), ["pya"])
    org.write("pay", "shop")
    org.sync()
    shutil.rmtree(org.root / "shop")
    report = org.sync()
    assert (report.dropped, report.failed) == (("acme/shop",), ())


def test_a_path_may_hold_blanks_where_it_is_there(org: Organisation) -> None:
    org.add("my pay", "A note on charges")
    org.add("my shop", "A note on prices")
    org.write("my pay", "my shop\tpublic")
    assert org.sync().failed == ()
    assert (org.titles("internal"), org.titles("public")) == (
        ["A note on charges"],
        ["A note on prices"],
    )


def test_a_repository_that_no_list_names_any_more_is_dropped(org: Organisation) -> None:
    for name in ("pay", "shop"):
        org.add(name, f"A note of {name}")
    org.write("pay", "shop")
    org.sync()
    org.write("pay")
    assert org.sync().dropped == ("shop",)
    assert org.titles() == ["A note of pay"]
    assert list(load_state(SqliteEngine(org.index))) == [(org.root / "pay").as_uri()]


def test_where_nothing_can_be_reached_nothing_is_dropped(org: Organisation) -> None:
    org.add("pay", "A note on charges")
    org.write("pay")
    org.sync()
    shutil.rmtree(org.root / "pay")
    with pytest.raises(EngineError) as caught:
        org.sync()
    assert caught.value.slug == "org-unreachable"
    assert org.titles() == ["A note on charges"]


def test_a_repository_that_causes_an_internal_error_is_named_and_stops_no_other(
    org: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.add("pay", "A note on charges")
    org.add("shop", "A note on prices")
    org.write("pay", "shop")

    def broken(path: str, data: bytes, *rest: object) -> object:
        if b"prices" in data:
            raise RecursionError("too deep")
        return load_file(path, data, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(targets, "load_file", broken)
    assert org.sync().failed == (("shop", "RecursionError: too deep"),)
    assert org.titles() == ["A note on charges"]


def test_a_path_that_is_not_text_does_not_stop_the_sync(org: Organisation) -> None:
    pay = org.add("pay", "A note on charges")
    name = os.fsdecode(b"caf\xe9")
    pay.write(f"{name}/MEMORY.md", (org.root / "pay" / "MEMORY.md").read_bytes())
    pay.git("add", "-A")
    pay.git("commit", "-qm", "A name of other bytes")
    org.write("pay")
    assert org.sync().failed == ()
    assert org.titles() == ["A note on charges"] * 2
