"""Tests of audiences: who may read which repository, and that a reader learns nothing about other audiences."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.org.address import choose_audiences
from memory_ci.commands.org.search import search_org
from memory_ci.errors import EngineError
from tests.commands.org.organisation import NOW, GitHubListing, Organisation
from tests.forge.make import TOKEN
from tests.servers import serve

SECRET = "zanzibar"


@pytest.fixture
def org(tmp_path: Path) -> Organisation:
    return Organisation(tmp_path)


@pytest.fixture
def github(org: Organisation) -> Iterator[GitHubListing]:
    listing = GitHubListing(org)
    with serve(listing) as server:
        org.environ |= {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN}
        yield listing


def put_three(org: Organisation, github: GitHubListing) -> None:
    for number, (name, visibility) in enumerate(
        (("open", "public"), ("inner", "internal"), ("shut", "private"))
    ):
        org.add(name, f"A note of {name}")
        github.put(number, name, visibility)


def test_audiences_follow_from_the_visibility_at_the_forge(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    report = org.sync([], ["acme"])
    assert (org.titles("public"), org.titles("internal")) == (
        ["A note of open"],
        ["A note of inner"],
    )
    assert (report.unnamed_private, report.refused) == (("acme/shut",), ())


def test_a_private_repository_enters_the_group_that_its_line_names(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    org.write("https://github.com/acme/shut.git group-pay", "https://github.com/acme/open internal")
    report = org.sync([org.list], ["acme"])
    assert report.refused == ()
    assert org.titles("group-pay") == ["A note of shut"]
    assert org.titles("internal") == ["A note of inner", "A note of open"]


@pytest.mark.parametrize("audience", ["", " internal", " public"])
def test_a_private_repository_that_is_listed_without_a_group_is_refused_by_name(
    org: Organisation, github: GitHubListing, audience: str
) -> None:
    put_three(org, github)
    org.write(f"https://github.com/acme/shut{audience}", "open")
    report = org.sync()
    ((name, why),) = report.refused
    assert name == "acme/shut"
    assert "group-NAME" in why
    assert SECRET not in why
    assert "A note of shut" not in org.titles("public", "internal")


def test_an_internal_repository_is_not_made_public_by_a_line(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    org.write("https://github.com/acme/inner public")
    assert (
        dict(org.sync([org.list], ["acme"]).refused)["acme/inner"]
        == "is internal at its forge, not public"
    )


def test_one_made_private_is_gone_from_the_shared_index_at_the_next_sync(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    org.add("open", f"A note of {SECRET}")
    org.add("other", "A note of others")
    github.put(9, "other")
    org.sync([], ["acme"])
    assert SECRET.encode() in (org.index / "public.db").read_bytes()
    github.put(0, "open", "private")
    report = org.sync([], ["acme"])
    assert report.dropped == ("acme/open",)
    assert SECRET.encode() not in (org.index / "public.db").read_bytes()
    assert "open" not in (org.index / "public.json").read_text()


def test_one_made_private_is_gone_even_where_no_other_can_be_reached(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    org.sync([], ["acme"])
    github.put(0, "open", "private")
    del github.listed["open"]["pushed_at"]
    github.listed["inner"]["clone_url"] = "http://127.0.0.1:9/inner.git"
    with pytest.raises(EngineError) as caught:
        org.sync([], ["acme"])
    assert caught.value.slug == "org-unreachable"
    assert org.titles("public", "internal") == ["A note of inner"]


def test_a_renamed_repository_keeps_its_rows_and_is_not_fetched(
    org: Organisation, github: GitHubListing
) -> None:
    put_three(org, github)
    org.sync([], ["acme"])
    del github.listed["open"]
    github.put(0, "renamed", place="open")
    report = org.sync([], ["acme"])
    assert (report.moved, report.dropped, report.added) == (("acme/renamed",), (), ())
    (hit,) = search_org("note", str(org.index), ("public",), top=5, environ={}, today=NOW.date())
    assert (hit.repository, hit.link) == ("acme/renamed", "https://github.com/acme/renamed")


def test_repositories_without_a_push_since_the_last_sync_are_not_asked(
    org: Organisation, github: GitHubListing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.add("open", "A note of open")
    github.put(0, "open", stamp="2026-09-01T10:00:00Z")
    org.sync([], ["acme"])
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "git.log"))
    assert org.sync([], ["acme"]).unchanged == 1
    assert not (tmp_path / "git.log").exists()
    org.add("open", "A newer note")
    github.put(0, "open", stamp="2026-09-02T10:00:00Z")
    assert org.sync([], ["acme"]).updated == ("acme/open",)


def test_a_forge_that_does_not_answer_changes_nothing(
    org: Organisation, github: GitHubListing, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_three(org, github)
    monkeypatch.setattr("memory_ci.forge.rest.PAUSES", ())
    org.sync([], ["acme"])
    github.is_down = True
    org.environ["GITHUB_API_URL"] = "http://127.0.0.1:9"
    with pytest.raises(EngineError):
        org.sync([], ["acme"])
    assert org.titles("public") == ["A note of open"]


def build(root: Path, *, with_private: bool) -> Organisation:
    org = Organisation(root)
    org.add("open", "A note on charges", "A note on the gateway")
    org.add("inner", f"An inner note on {SECRET} charges", f"{SECRET} again")
    for number in range(5 * with_private):
        org.add(
            f"shut{number}", f"A shut note on {SECRET} charges and the gateway", "A note on charges"
        )
    private = [f"shut{number} group-pay" for number in range(5)] if with_private else []
    org.write("open public", *(["inner"] if with_private else []), *private)
    org.sync()
    return org


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Organisation, Organisation]:
    """Return two organisations with the same public repository, one of them with private repositories as well."""
    root = tmp_path_factory.mktemp("leak") / "org"
    alone = build(root, with_private=False)
    root.rename(root.with_name("alone"))
    alone.index, alone.root = root.with_name("alone") / "index", root.with_name("alone")
    return alone, build(root, with_private=True)


@pytest.mark.parametrize("name", ["public.db", "public.json"])
def test_public_files_are_byte_identical_with_and_without_private_repositories(
    both: tuple[Organisation, Organisation], name: str
) -> None:
    """Texts, counts, ids, statistics and sizes must not depend on private repositories."""
    alone, among = ((org.index / name).read_bytes() for org in both)
    assert alone == among


def test_a_change_of_private_repositories_does_not_touch_the_public_files(tmp_path: Path) -> None:
    org = build(tmp_path / "org", with_private=True)
    before = {name: (org.index / name).read_bytes() for name in ("public.db", "internal.db")}
    org.add("shut1", f"Another {SECRET} note")
    org.sync()
    org.write("open public", "inner", "shut1 group-pay")
    org.sync()
    assert {name: (org.index / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("name", ["public", "internal"])
def test_no_file_of_an_audience_names_another(
    both: tuple[Organisation, Organisation], name: str
) -> None:
    data = (both[1].index / f"{name}.db").read_bytes() + (
        both[1].index / f"{name}.json"
    ).read_bytes()
    for word in (
        b"shut",
        b"group-pay",
        *([b"inner", SECRET.encode()] if name == "public" else [b"gateway"]),
    ):
        assert word not in data


def test_words_and_counts_of_an_audience_are_its_own(
    both: tuple[Organisation, Organisation],
) -> None:
    with closing(
        sqlite3.connect(f"file:{both[1].index / 'public.db'}?mode=ro&immutable=1", uri=True)
    ) as connection:
        assert connection.execute("SELECT count(*) FROM entries_fts_docsize").fetchall() == [(2,)]
        assert connection.execute("SELECT count(*) FROM repositories").fetchall() == [(1,)]


def answer(org: Organisation, task: str, *audiences: str) -> Any:
    try:
        return search_org(task, str(org.index), audiences, top=10, environ={}, today=NOW.date())
    except EngineError as error:
        return error.message.replace(str(org.index), "INDEX")


@pytest.mark.parametrize(
    "task", [SECRET, f"{SECRET} charges", "a note on charges", "the gateway", "shut", "inner"]
)
def test_a_reader_of_the_public_is_answered_alike(
    both: tuple[Organisation, Organisation], task: str
) -> None:
    alone, among = (answer(org, task, "public") for org in both)
    assert alone == among
    assert all(SECRET not in hit.located.entry.title for hit in among)


def test_an_audience_without_access_looks_like_a_missing_one(
    tmp_path: Path,
) -> None:
    """A reader has only the file of its own audience; a query for another audience returns nothing."""
    org = build(tmp_path / "org", with_private=True)
    (org.index / "group-pay.db").unlink()
    assert answer(org, SECRET, "group-pay") == answer(org, SECRET, "group-none") == ()
    (org.index / "public.db").unlink()
    (org.index / "internal.db").unlink()
    assert answer(org, SECRET, "group-pay") == answer(org, SECRET, "group-none")


def test_operator_data_is_in_a_separate_directory(
    both: tuple[Organisation, Organisation],
) -> None:
    index = both[1].index
    assert (index / "operator").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in index.iterdir()) == [
        *("group-pay.db", "group-pay.json", "internal.db", "internal.json"),
        *("operator", "public.db", "public.json"),
    ]
    assert json.loads((index / "public.json").read_bytes())["repositories"][0]["name"] == "open"


def test_the_environment_decides_who_is_asked_and_a_configuration_can_only_narrow() -> None:
    environ = {"MEMORY_CI_ORG_AUDIENCES": "public, group-pay"}
    assert choose_audiences({}) == ("public", "internal")
    assert choose_audiences(environ) == ("public", "group-pay")
    assert choose_audiences(environ, ("group-pay", "group-secret", "internal")) == ("group-pay",)
    assert choose_audiences({}, ("group-secret",)) == ()


def test_a_token_is_not_asked_for_where_a_list_has_directories_only(org: Organisation) -> None:
    org.add("pay", "A note")
    org.write("pay")
    org.environ["GITHUB_API_URL"] = "http://example.com/not-secure"
    assert org.sync().entries == 1
