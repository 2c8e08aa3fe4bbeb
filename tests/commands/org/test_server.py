"""Tests of `org` on a PostgreSQL server: the same results as with files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.commands.org.index import open_engine, state_directory
from memory_ci.commands.org.records import OrgFilters
from memory_ci.commands.org.search import search_org
from memory_ci.commands.org.sqlite import SqliteEngine
from memory_ci.commands.org.status import load_status
from memory_ci.commands.org.verification import verify_org
from memory_ci.errors import EngineError
from tests.commands.org.organisation import NOW, Organisation

pytestmark = pytest.mark.slow
pytest.importorskip("psycopg", reason="the extra org-postgres is not installed")


@pytest.fixture
def org(tmp_path: Path, make_address: Callable[[], str]) -> Organisation:
    org = Organisation(tmp_path)
    org.address = make_address()
    for name in ("pay", "shop", "infra"):
        org.add(name, f"A note of {name}")
    org.write("pay", "shop public", "infra group-ops")
    return org


def test_a_server_is_synced_verified_and_searched(
    org: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sorted(org.sync().added) == ["infra", "pay", "shop"]
    assert org.sync().unchanged == 3
    assert org.titles() == ["A note of pay", "A note of shop"]
    assert org.titles("group-ops") == ["A note of infra"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(org.root / "another-machine"))
    assert verify_org(org.address, org.environ) == ((), 3)
    status = load_status(org.address)
    assert [
        (audience.audience, audience.repositories, audience.oldest) for audience in status.audiences
    ] == [
        ("group-ops", 1, NOW),
        ("internal", 1, NOW),
        ("public", 1, NOW),
    ]
    assert all(audience.size > 10_000 for audience in status.audiences)
    hits = search_org(
        "a note of the shop",
        org.address,
        ("public", "internal"),
        top=5,
        environ=org.environ,
        today=NOW.date(),
    )
    assert hits[0].repository == "shop"


def test_a_repository_that_becomes_private_is_gone_for_others(org: Organisation) -> None:
    org.sync()
    org.write("pay group-pay", "shop public")
    report = org.sync()
    assert (org.titles(), org.titles("group-pay"), org.titles("group-ops")) == (
        ["A note of shop"],
        ["A note of pay"],
        [],
    )
    assert report.dropped == ("infra",)


def test_a_dry_run_writes_nothing_to_a_server(org: Organisation) -> None:
    assert sorted(org.sync(dry_run=True).added) == ["infra", "pay", "shop"]
    with pytest.raises(EngineError, match="holds no index yet") as caught:
        load_status(org.address)
    assert "org sync LIST" in caught.value.hint
    org.sync()
    org.add("pay", "Another note of pay")
    assert org.sync(dry_run=True).updated == ("pay",)
    assert org.titles() == ["A note of pay", "A note of shop"]


def test_a_server_answers_as_files_do(org: Organisation) -> None:
    org.sync()
    org.address, address = str(org.index), org.address
    org.sync()
    both = [open_engine(address), SqliteEngine(org.index)]
    first, second = (
        [engine.search(["note", "pay"], OrgFilters(), ["public", "internal"], 9)] for engine in both
    )
    assert [
        [(m.located, m.repository, m.commit, round(m.lexical, 9)) for m in found] for found in first
    ] == [
        [(m.located, m.repository, m.commit, round(m.lexical, 9)) for m in found]
        for found in second
    ]
    for engine in both:
        engine.close()


def test_the_cache_of_a_server_is_no_directory_of_its_address(org: Organisation) -> None:
    org.sync()
    assert state_directory(org.address).is_relative_to(Path.home() / ".cache" / "memory-ci")
    assert not list(org.root.glob("postgres*"))
    assert not list(Path().glob("postgres*"))
