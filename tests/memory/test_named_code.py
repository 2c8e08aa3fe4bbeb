"""Tests of cites from words: code that an entry names and the tree contains is cited."""

from __future__ import annotations

import pytest

from memory_ci.commands.add.add import add_entry, draft_entry
from memory_ci.commands.check.fix import adopt_by_hand, format_memory
from memory_ci.commands.import_.importer import ImportOptions, import_memory
from memory_ci.errors import UsageError
from memory_ci.memory.named_code import cite_named, read_cite
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project

CLIENT = """class Client:
    def post(self, url):
        return self.send(url)

    def close_all(self):
        return None


def retry_twice(call):
    return call() or call()
"""
FILES = {
    "src/client.py": CLIENT,
    "src/other.py": "class Other:\n    def close_all(self):\n        return 1\n",
    "src/door.py": "class OpenDoor:\n    key = None\n",
    "app.toml": "a = 1\n",
}


@pytest.fixture
def shop(project: Project) -> Project:
    project.commit("Write code", FILES)
    return project


def list_cites(shop: Project, title: str, body: str = "", **fields: object) -> list[str]:
    (entry,) = cite_named(shop.workspace, [make_entry(1, title=title, body=body, **fields)], "HEAD")
    return [cite.replace(f"@{shop.sha()[:12]}", "").partition(" words:")[0] for cite in entry.cites]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Never call retry_twice from a handler", ["src/client.py:9-10 symbol:retry_twice"]),
        ("`Client.post` needs a key", ["src/client.py:2-3 symbol:Client.post"]),
        ("post() needs a key", ["src/client.py:2-3 symbol:Client.post"]),
        ("`post` it to nobody", []),
        ("OpenDoor has no key", []),
        ("`OpenDoor` has no key", ["src/door.py:1-2 symbol:OpenDoor"]),
        ("OpenDoor() has no key", ["src/door.py:1-2 symbol:OpenDoor"]),
        ("close_all waits", []),
        ("close_all of src/other.py waits", ["src/other.py:2-3 symbol:Other.close_all"]),
        ("src/client.py:9-10 calls twice", ["src/client.py:9-10 symbol:retry_twice"]),
        ("Set a in app.toml first", ["app.toml"]),
        ("Never merge on Fridays, e.g. README.md or MEMORY.md", []),
        ("no_such_name and src/none.py", []),
    ],
)
def test_code_that_the_words_name_and_the_tree_contains_is_cited(
    shop: Project, title: str, expected: list[str]
) -> None:
    assert list_cites(shop, title) == expected
    assert list_cites(shop, "A title", f"Because: {title}") == expected


def test_entries_with_cites_rejected_and_retired_entries_get_no_cite(shop: Project) -> None:
    assert list_cites(shop, "retry_twice", cites=("a remark",)) == ["a remark"]
    assert (
        list_cites(shop, "retry_twice", adoption="rejected")
        == list_cites(shop, "retry_twice", status="retired")
        == []
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("src/client.py", "src/client.py@"),
        ("src/client.py::Client.post", "src/client.py:2-3@"),
        ("src/client.py:9-10", "src/client.py:9-10@"),
        ("app.toml:1", "app.toml:1@"),
    ],
)
def test_a_cite_is_written_as_people_write_places(
    shop: Project, written: str, expected: str
) -> None:
    cite = read_cite(shop.workspace, written)
    assert cite.startswith(expected + shop.sha()[:12])
    assert " words:" in cite


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("src/none.py", "HEAD has no file src/none.py"),
        ("src/client.py::Client.put", "src/client.py has no definition Client.put"),
        ("src/client.py:9-99", "has no lines 9-99: it has 10 lines"),
        ("", "HEAD has no file"),
    ],
)
def test_a_cite_that_is_not_found_is_reported(shop: Project, written: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        read_cite(shop.workspace, written)
    assert message in error.value.message


def test_every_way_to_write_an_entry_gives_the_same_cites(shop: Project) -> None:
    """The ways are add, import, the fold of the inbox, fmt and check --fix."""
    draft = draft_entry(
        make_id(7),
        TODAY,
        ("retry_twice hides faults", ""),
        type="procedural",
        domain="task",
        importance=0.5,
    )
    added = add_entry(shop.workspace, draft)
    assert "symbol:retry_twice" in added.entry.cites[0]
    old = shop.path / "old.md"
    old.write_text("# Memory\n\n## [2026-03-01] Lesson\nNever call retry_twice in a loop.\n")
    (imported,) = import_memory(shop.workspace, [old], ImportOptions("legacy"), TODAY).imported
    assert "symbol:retry_twice" in (shop.path / imported.entry_path).read_text()
    old.unlink()
    entry = make_entry(8, title="Say retry_twice when it may fail", scope="project")
    shop.commit("Note", {f".memory/inbox/{entry.id}.md": format_entry(entry)})
    shop.record()
    (folded,) = [candidate for candidate in shop.entries() if candidate.id == entry.id]
    assert "symbol:retry_twice" in folded.cites[0]


def test_fmt_and_fix_add_cites_to_handwritten_entries(shop: Project) -> None:
    entry = make_entry(9, title="retry_twice is for reads")
    (shop.path / "MEMORY.md").write_text(format_entry(entry))
    assert format_memory(shop.workspace, dry_run=True).changed == ()
    assert format_memory(shop.workspace).changed == ("MEMORY.md",)
    assert "symbol:retry_twice" in (shop.path / "MEMORY.md").read_text()
    assert format_memory(shop.workspace).changed == ()
    (shop.path / "MEMORY.md").write_text("## retry_twice is for writes\n\nNever.\n")
    assert len(adopt_by_hand(shop.workspace, TODAY)) == 1
    assert "symbol:retry_twice" in (shop.path / "MEMORY.md").read_text()
