"""Tests of the PostgreSQL engine: its databases, its connections, and who may read them."""

from __future__ import annotations

import os
import random
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra org-postgres is not installed")

from memory_ci.commands.org import server, statements  # noqa: E402
from memory_ci.commands.org.index import open_engine  # noqa: E402
from memory_ci.commands.org.records import OrgFilters  # noqa: E402
from memory_ci.commands.org.server import close_idle  # noqa: E402
from memory_ci.errors import EngineError, RepositoryError, UsageError  # noqa: E402
from memory_ci.extras import how_to_install  # noqa: E402
from tests.commands.org.engines import Place, make_entries, make_place, make_repository, writing  # noqa: E402
from tests.make import make_located  # noqa: E402

ALL = OrgFilters()
BOTH = ("public", "internal")
SECRET = "hunter2-hunter2"
pytestmark = pytest.mark.slow


@pytest.fixture
def address(make_address: Callable[[], str]) -> str:
    return make_address()


@pytest.fixture
def place(address: str) -> Iterator[Place]:
    place = make_place("postgres", address)
    yield place
    place.close()


def ask(address: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def of(address: str, audience: str, role: str = "operator") -> str:
    """Return the address of an audience's database (with "" of the operator's) for a role."""
    database = address.partition("@/")[2].partition("?")[0]
    at = address.replace("operator@", f"{role}@")
    return at.replace(f"/{database}?", f"/{database}_{audience}?") if audience else at


@pytest.fixture
def outsider(address: str, place: Place) -> str:
    """Return a reader in the role of `internal` only; the other audience has three entries."""
    database = address.partition("@/")[2].partition("?")[0]
    ask(of(address, "", "postgres"), f'CREATE ROLE "{database}_internal" NOLOGIN')
    ask(
        of(address, "", "postgres"),
        f'CREATE ROLE {database}_job LOGIN IN ROLE "{database}_internal"',
    )
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
        engine.sync(
            make_repository("x", "group-x"),
            "1",
            make_entries(2, "Retry zanzibar", "Second", "Third"),
        )
    return f"{database}_job"


def test_a_role_reads_its_audience_and_changes_nothing(address: str, outsider: str) -> None:
    job = of(address, "", outsider)
    with closing(open_engine(job)) as engine:
        matches = engine.search(["retry"], ALL, ["internal", "group-x"], 10)
        assert [match.repository.name for match in matches] == ["a"]
        assert engine.count(["retry", "zanzibar"], ["internal", "group-x"]) == (
            1,
            {"retry": 1, "zanzibar": 0},
        )
        with pytest.raises(EngineError, match="cannot be opened"):
            engine.heads()
    for statement in (
        "DELETE FROM memory_org.entries",
        "CREATE TABLE memory_org.mine ()",
        "CREATE TEMP TABLE mine ()",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(of(address, "internal", outsider), statement)


@pytest.mark.parametrize("audience", ["", "group-x"])
def test_a_role_may_not_connect_to_another_audience_nor_to_the_operator(
    address: str, outsider: str, audience: str
) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        ask(of(address, audience, outsider), "SELECT 1")


def test_the_catalogue_tells_a_role_nothing_of_other_audiences(address: str, outsider: str) -> None:
    """Tables, estimated row counts, word statistics and sizes of a database are visible only in it."""
    inside = of(address, "internal", outsider)
    (visible,) = ask(
        inside,
        "SELECT (SELECT max(reltuples) FROM pg_class WHERE relname = 'entries'),"
        " (SELECT count(*) FROM pg_class WHERE relname = 'entries'),"
        " (SELECT count(*) FROM pg_stat_all_tables WHERE relname = 'entries'),"
        " (SELECT count(*) FROM information_schema.tables WHERE table_name = 'entries'),"
        " (SELECT count(*) FROM pg_stats WHERE pg_stats::text LIKE '%zanzibar%'),"
        " (SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%zanzibar%' AND pid <> pg_backend_pid())",
    )
    assert visible == (1, 1, 1, 1, 0, 0)
    database = address.partition("@/")[2].partition("?")[0]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(inside, f"SELECT pg_database_size('{database}_group-x')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(inside, "SELECT pg_read_file('PG_VERSION')")


def test_a_forbidden_audience_looks_like_a_missing_one(address: str, outsider: str) -> None:
    def read_catalogue(audience: str) -> tuple[str, str]:
        engine = open_engine(of(address, "", outsider))
        with closing(engine), pytest.raises(EngineError) as caught:
            engine.search(["retry"], ALL, [audience], 10)
        return caught.value.message, caught.value.hint

    assert read_catalogue("group-x") == read_catalogue("group-none")
    assert "group" not in "".join(read_catalogue("group-x"))


def test_the_best_hits_equal_those_of_the_sqlite_engine(place: Place, tmp_path: Path) -> None:
    """Most entries with a word are not scored, because a bound shows that they are not among the best."""
    draw = random.Random(3)  # noqa: S311 - no secret
    vocabulary = [
        f"{a}{b}o"
        for a in "bdfgklmnprst"
        for b in ("ar", "el", "in", "os", "ut", "ize", "ating", "été")
    ]
    weights = [1 / (rank + 2) for rank in range(len(vocabulary))]

    def words(count: int) -> str:
        return " ".join(draw.choices(vocabulary, weights, k=count))

    entries = [
        make_located(n, title=words(3), body=words(draw.randrange(3, 30))) for n in range(600)
    ]
    other_place = make_place("sqlite", str(tmp_path / "files"))
    for item in (place, other_place):
        with writing(item) as engine:
            engine.sync(make_repository("a"), "1", entries)
    engines = [item.read(None) for item in (place, other_place)]
    for number in range(20):
        terms = [*words(6).split(), words(1)[:3] + "*", words(2).replace(" ", "-")]
        first, second = (
            [
                (m.located.entry.id, round(m.lexical, 9))
                for m in engine.search(terms * 2, ALL, BOTH, 3 + number)
            ]
            for engine in engines
        )
        assert first == second
    other_place.close()


def test_words_that_are_gone_are_counted_no_more(address: str, place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry zanzibar", "Retry twice"))
    with writing(place) as engine:
        engine.sync(make_repository("a"), "2", make_entries(2, "Retry twice", "Retry lusaka"))
    words = dict(ask(of(address, "internal"), "SELECT word, entries FROM memory_org.words"))
    assert {word: words.get(word, 0) for word in ("retri", "zanzibar", "lusaka")} == {
        "retri": 2,
        "zanzibar": 0,
        "lusaka": 1,
    }
    assert 0 not in words.values()
    (totals,) = ask(of(address, "internal"), "SELECT entries, words FROM memory_org.totals")
    assert (
        totals
        == ask(of(address, "internal"), "SELECT count(*), sum(size) FROM memory_org.entries")[0]
    )


def test_a_failed_sync_changes_nothing(
    address: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry first"))
        monkeypatch.setattr(statements, "ADD_REPOSITORY", "SELECT 1/0, %s, %s, %s, %s, %s")
        with pytest.raises(EngineError, match="division by zero"):
            engine.sync(make_repository("a"), "2", make_entries(5, "Retry second"))
        assert engine.heads()["forge.example#a"].commit == "1"
    matches = place.read(None).search(["retry"], ALL, ["internal"], 10)
    assert [match.located.entry.title for match in matches] == ["Retry first"]


def test_a_writer_upgrades_an_older_version_and_readers_refuse_it(
    address: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    newer = (*server.MIGRATIONS, "ALTER TABLE memory_org.entries ADD COLUMN more text")
    monkeypatch.setattr(server, "MIGRATIONS", newer)
    with pytest.raises(EngineError, match="version 1, this memory-ci is for 2") as caught:
        place.read(None).search(["retry"], ALL, ["internal"], 10)
    assert (caught.value.slug, "org sync" in caught.value.hint) == ("org-version", True)
    with writing(place) as engine:
        assert list(engine.heads()) == ["forge.example#a"]
    assert place.read(None).search(["retry"], ALL, ["internal"], 10)
    assert ask(of(address, "internal"), "SELECT more FROM memory_org.entries") == [(None,)]


@pytest.mark.parametrize("is_writer", [True, False])
def test_a_newer_version_is_refused(
    address: str, place: Place, is_writer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    ask(of(address, "internal"), "INSERT INTO memory_org.version VALUES (7)")
    with pytest.raises(EngineError, match="version 7") as caught:
        (place.write() if is_writer else place.read(None)).search(["retry"], ALL, ["internal"], 10)
    assert (caught.value.slug, caught.value.hint) == ("org-version", "Upgrade memory-ci here.")


def test_one_writer_works_at_a_time_on_whatever_machine(address: str, place: Place) -> None:
    with writing(place) as engine:
        assert engine.heads() == {}
        with pytest.raises(RepositoryError, match="another sync") as caught:
            place.write().heads()
        assert caught.value.slug == "org-locked"
    with writing(place) as engine:
        assert engine.heads() == {}


class Clock:
    """The time of the reader, which only a test changes."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(server, "time", clock)
    return clock


def test_a_statement_ends_at_the_deadline(
    place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    reader = place.read(clock.now + 3_600)
    assert reader.count(["retry"], ["internal"])[0] == 1
    monkeypatch.setattr(
        statements,
        "COUNT_ENTRIES_AND_WORDS",
        "SELECT 1, 1, (SELECT pg_sleep(3600)::text WHERE %s::text[] IS NOT NULL)",
    )
    clock.now += 3_599.999
    with pytest.raises(TimeoutError) as caught:
        reader.search(["retry"], ALL, ["internal"], 10)
    assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled), (
        "the server has ended it"
    )


def test_a_server_that_stops_in_the_middle_is_left_at_the_deadline(
    address: str, place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    timers: list[Callable[[], None]] = []

    def make_timer(
        seconds: float, function: Callable[..., None], arguments: tuple[object, ...]
    ) -> SimpleNamespace:
        timers.append(lambda: function(*arguments))
        return SimpleNamespace(start=lambda: None, cancel=lambda: None)

    monkeypatch.setattr(server, "Timer", make_timer)
    reader = place.read(clock.now + 1.0)
    assert reader.count(["retry"], ["internal"])[0] == 1
    database = address.partition("@/")[2].partition("?")[0]
    serving = ask(
        address,
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}_internal'",  # noqa: S608
    )

    def pass_deadline() -> None:
        clock.now += 2
        for end in timers:
            end()

    for (pid,) in serving:
        os.kill(pid, signal.SIGSTOP)
    Thread(target=pass_deadline).start()
    with pytest.raises(TimeoutError):
        reader.search(["retry"], ALL, ["internal"], 10)
    for (pid,) in serving:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_says_nothing_is_left_at_the_deadline(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = (
            f"postgresql://me:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/org?sslmode=disable"
        )
        with (
            closing(open_engine(address, deadline=clock.now + 0.001)) as engine,
            pytest.raises(TimeoutError),
        ):
            engine.search(["retry"], ALL, ["internal"], 10)


def test_no_message_holds_the_password(address: str) -> None:
    host = address.partition("host=")[2]
    for wrong in (
        f"postgresql://me:{SECRET}@{SECRET}.invalid:x/org",
        f"postgresql://nobody:{SECRET}@/org?host={host}",
        f"postgresql://nobody:{SECRET}@/org?host={host}&password={SECRET}&port=1",
        f"postgresql://me:{SECRET}@127.0.0.1:1/org",
    ):
        with (
            pytest.raises((EngineError, UsageError)) as caught,
            closing(open_engine(wrong, is_writer=True)) as engine,
        ):
            engine.heads()
        text = f"{caught.value.message} {caught.value.hint} {caught.value.__cause__ or ''}"
        assert SECRET not in text
        assert caught.value.slug in ("bad-org-index", "org-server")


def test_a_connection_is_used_again_unless_it_is_broken(address: str, place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    close_idle()
    database = address.partition("@/")[2].partition("?")[0]
    count = f"SELECT pid FROM pg_stat_activity WHERE application_name = 'memory-ci' AND datname = '{database}_internal'"  # noqa: S608

    def search() -> list[tuple[Any, ...]]:
        with closing(open_engine(address)) as engine:
            assert engine.search(["retry"], ALL, ["internal"], 10)
        return ask(address, count)

    first = search()
    assert (len(first), search()) == (1, first)
    ask(address, f"SELECT pg_terminate_backend({first[0][0]})")
    assert search() != first


def test_without_the_driver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with suppress(KeyError):
        monkeypatch.delitem(__import__("sys").modules, "memory_ci.commands.org.postgres")
        monkeypatch.delitem(__import__("sys").modules, "memory_ci.commands.org.server")
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(UsageError) as caught:
        open_engine("postgresql://host/org")
    assert (caught.value.slug, caught.value.hint) == (
        "missing-extra",
        f"Install it: {how_to_install('org-postgres')}",
    )
