"""Anchors in real repositories: made when entries are written, judged against any view, found where a change is."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memory_ci.anchors import verdicts as verdicts_module
from memory_ci.commands.check.verify import find_touched, read_range
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo import log
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.repo import Repository
from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.memory import cites as anchors_module
from memory_ci.memory.cites import anchor_entries, gone_since, judge_anchors
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import index_path
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import Finding
from memory_ci.search.database import seal
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project

POST = """    def post(self, url, key):
        if key is None:
            raise ValueError("no idempotency key")
        return self.session.post(url, headers={"Idempotency-Key": key})
"""
CLIENT = f"""import time


class Client:
    def get(self, url):
        return self.session.get(url, timeout=30)

{POST}
    def close(self):
        self.session.close()
"""
SPAN = (8, 11)


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a client of some lines, about which nothing is remembered yet."""
    project.commit("Write the client", {"src/client.py": CLIENT, "src/other.py": "x = 1\n"})
    return project


def remember(
    shop: Project,
    title: str = "`Client.post` needs a key",
    path: str = "src/client.py",
    number: int = 1,
) -> Entry:
    """An entry as extraction writes it today, anchored in HEAD, and committed."""
    entry = make_entry(number, title=title, cites=(f"{path}@{shop.sha()[:12]}",))
    (anchored,) = anchor_entries(shop.workspace, [entry])
    shop.commit("Remember", {f"m{number}/MEMORY.md": format_entry(anchored)})
    return anchored


def located(*entries: Entry) -> list[Located]:
    return [Located(entry, "MEMORY.md", 1, ScopeOf("project")) for entry in entries]


def verdict(shop: Project, entry: Entry, view: str | None = "HEAD") -> Verdict:
    (found,) = judge_anchors(shop.workspace, located(entry), view).values()
    return found


def kind(shop: Project, entry: Entry, view: str | None = "HEAD") -> str:
    return verdict(shop, entry, view).kind


# -- making them


def test_a_bare_cite_gains_the_definition_that_the_learning_names(shop: Project) -> None:
    (cite,) = remember(shop).cites
    assert cite.startswith(
        f"src/client.py:8-11@{shop.sha('HEAD~1')[:12]} symbol:Client.post words:"
    )


def test_a_bare_cite_of_a_learning_that_names_nothing_gains_a_hash(shop: Project) -> None:
    (cite,) = remember(shop, "Keys are needed").cites
    assert cite.partition(" ")[0] == f"src/client.py@{shop.sha('HEAD~1')[:12]}"
    assert " words:" in cite


def test_what_cannot_be_anchored_stays_as_it_is(shop: Project) -> None:
    sha = shop.sha()[:12]
    cites = (
        f"src/none.py@{sha}",
        "src/client.py@0123456789ab",
        "see the wiki",
        f"src@{sha}",
        f"../x@{sha}",
        f"a\rb@{sha}",
    )
    entry = make_entry(1, cites=cites)
    assert anchor_entries(shop.workspace, [entry]) == (entry,)
    assert anchor_entries(shop.workspace, []) == ()
    again = remember(shop)
    assert anchor_entries(shop.workspace, [again]) == (again,)


# -- fresh, moved: never stale


def test_an_anchor_is_fresh_where_nothing_changed(shop: Project) -> None:
    entry = remember(shop)
    shop.commit("Elsewhere", {"src/other.py": "x = 2\n"})
    assert verdict(shop, entry) == Verdict("fresh", "src/client.py", *SPAN)
    assert kind(shop, entry, None) == "fresh"


@pytest.mark.parametrize("title", ["`Client.post` needs a key", "Keys are needed"])
@pytest.mark.parametrize(
    "text",
    [
        CLIENT.replace("\n", "\r\n"),
        CLIENT.replace("import time\n\n\n", "import time\n"),
        CLIENT.replace("(url, headers={", "(\n            url, headers={ "),
        CLIENT.replace("    ", "  "),
    ],
)
def test_reformatting_is_not_staleness(shop: Project, title: str, text: str) -> None:
    entry = remember(shop, title)
    shop.commit("Format", {"src/client.py": text})
    assert kind(shop, entry) in ("fresh", "moved")


@pytest.mark.parametrize("title", ["`Client.post` needs a key", "Keys are needed"])
@pytest.mark.parametrize("path", ["net/client.py", "src/http client:2@x.py"])
def test_renaming_is_not_staleness(shop: Project, title: str, path: str) -> None:
    entry = remember(shop, title)
    shop.commit("Rename", {"src/client.py": None, path: CLIENT})
    found = verdict(shop, entry)
    assert (found.kind, found.path) == ("moved", path)


def test_a_renamed_and_reformatted_file_is_moved(shop: Project) -> None:
    entries = remember(shop), remember(shop, "Keys are needed", number=2)
    shop.commit(
        "Rename",
        {"src/client.py": None, "net/http.py": "\n" + CLIENT.replace("(url, key)", "(url,  key)")},
    )
    verdicts = judge_anchors(shop.workspace, located(*entries), "HEAD").values()
    assert {(found.kind, found.path) for found in verdicts} == {("moved", "net/http.py")}


def test_a_file_renamed_and_then_rewritten_bit_by_bit_is_followed(shop: Project) -> None:
    entry = remember(shop, "Keys are needed")
    shop.commit("Rename", {"src/client.py": None, "net/http.py": CLIENT})
    shop.commit("Rename again", {"net/http.py": None, "net/wire.py": CLIENT + "# more\n"})
    shop.commit("Rewrite", {"net/wire.py": "def post():\n    pass\n"})
    found = verdict(shop, entry)
    assert (found.kind, found.path) == ("changed", "net/wire.py")


def test_a_rename_in_the_work_tree_is_seen_before_it_is_committed(shop: Project) -> None:
    whole, post = remember(shop, "Keys are needed"), remember(shop, number=2)
    shop.git("mv", "src/client.py", "src/http.py")
    assert {kind(shop, entry, None) for entry in (whole, post)} == {"moved"}
    shop.write("src/http.py", CLIENT.replace("timeout=30", "timeout=60"))
    assert (kind(shop, whole, None), kind(shop, post, None)) == ("changed", "moved")


def test_a_function_moved_to_another_module_is_moved(shop: Project) -> None:
    entry = remember(shop)
    sender = f"class Client:\n{POST}"
    shop.commit("Split", {"src/client.py": CLIENT.replace(POST, ""), "src/sender.py": sender})
    assert verdict(shop, entry) == Verdict("moved", "src/sender.py", 2, 5, "was src/client.py")
    assert kind(shop, entry, None) == "moved"


def test_lines_that_shift_are_moved(shop: Project) -> None:
    entry = remember(shop)
    shop.commit("Licence", {"src/client.py": "# (c)\n" + CLIENT})
    assert verdict(shop, entry) == Verdict("moved", "src/client.py", 9, 12, "was line 8")


# -- changed, gone, unverifiable


def test_an_edit_is_seen_in_the_work_tree_and_in_the_revision_that_has_it(shop: Project) -> None:
    entry = remember(shop)
    shop.write("src/client.py", CLIENT.replace("is None", "is missing"))
    assert (kind(shop, entry, None), kind(shop, entry)) == ("changed", "fresh")
    shop.git("commit", "-qam", "Edit")
    assert (kind(shop, entry), kind(shop, entry, "HEAD~1")) == ("changed", "fresh")


def test_a_removed_file_and_a_removed_function_are_gone(shop: Project) -> None:
    entry = remember(shop)
    shop.commit("Drop the function", {"src/client.py": CLIENT.replace(POST, "")})
    assert kind(shop, entry) == "gone"
    shop.commit("Drop the file", {"src/client.py": None})
    assert (kind(shop, entry), kind(shop, entry, None)) == ("gone", "gone")


def test_a_copy_that_was_there_before_is_not_where_removed_code_went(shop: Project) -> None:
    shop.commit("Copy", {"dist/client.py": CLIENT, "dist/wire.py": CLIENT})
    symbol, whole = remember(shop), remember(shop, "Keys are needed", number=2)
    shop.commit("Drop", {"src/client.py": None})
    assert (kind(shop, symbol), kind(shop, whole)) == ("gone", "gone")
    shop.commit("Move it after all", {"src/sender.py": CLIENT})
    assert verdict(shop, symbol) == Verdict("moved", "src/sender.py", *SPAN, "was src/client.py")


def test_lines_that_left_for_another_file_are_found_there(shop: Project) -> None:
    first, other = (
        "Call the office before you change the rates of a contract.",
        "Never send the keys by mail, as ever.",
    )
    shop.commit("Write", {"docs/a.md": f"# A\n\n{first}\n\n{other}\n"})
    (entry,) = anchor_entries(
        shop.workspace, [make_entry(1, cites=(f"docs/a.md:3@{shop.sha()[:12]}",))]
    )
    shop.commit("Move", {"docs/a.md": f"# A\n\n{other}\n", "docs/b.md": f"# B\n\n{first}\n"})
    assert verdict(shop, entry) == Verdict("moved", "docs/b.md", 3, 3, "was docs/a.md")


def test_what_an_entry_names_in_a_whole_file_is_followed_to_another_file(shop: Project) -> None:
    entry = remember(shop, 'The header "Idempotency-Key" is needed')
    method = CLIENT[CLIENT.index("    def post") : CLIENT.index("    def close")]
    moved = CLIENT.replace(method, "")
    shop.commit("Move", {"src/client.py": moved, "src/base.py": f"class Client:\n{method}"})
    assert verdict(shop, entry) == Verdict("moved", "src/base.py", note="was src/client.py")


def test_a_whole_file_that_moved_and_was_edited_beside_what_the_entry_names_is_hashed_once_more(
    shop: Project,
) -> None:
    entry = remember(shop, 'The header "Idempotency-Key" is needed')
    shop.commit(
        "Rename", {"src/client.py": None, "net/http.py": CLIENT.replace("timeout=30", "timeout=60")}
    )
    verdicts = judge_anchors(shop.workspace, located(entry), "HEAD")
    (change,) = plan_repoint(located(entry), verdicts, shop.sha())
    (again,) = anchor_entries(shop.workspace, [change.entry])
    assert re.fullmatch(rf"net/http\.py@{shop.sha()[:12]} words:[0-9a-f]{{12}}", again.cites[0])
    assert again.cites[0].rpartition(":")[2] != entry.cites[0].rpartition(":")[2]
    assert kind(shop, again) == "fresh"


def test_entries_that_cite_one_file_whole_are_judged_each_by_what_it_names(shop: Project) -> None:
    entries = [
        remember(shop, title, number=n)
        for n, title in enumerate(('"Idempotency-Key"', '"timeout"', "Keys"), 1)
    ]
    build_index(shop.workspace, None)
    shop.commit("Edit", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    for _ in range(2):  # judged, and kept
        found = judge_anchors(shop.workspace, located(*entries), "HEAD")
        assert [found[entry.id, entry.cites[0]].kind for entry in entries] == [
            "fresh",
            "changed",
            "changed",
        ]


def test_in_a_clone_without_the_commit_the_hash_decides(shop: Project, tmp_path: Path) -> None:
    entry = remember(shop)
    bare = make_entry(2, cites=(entry.cites[0].partition(" ")[0],))
    shop.commit("Elsewhere", {"src/client.py": "# (c)\n" + CLIENT})
    shop.git("clone", "-q", "--depth=1", f"file://{shop.path}", str(tmp_path / "shallow"))
    clone = Project(tmp_path / "shallow", shop.clock)
    assert (kind(clone, entry), kind(clone, bare)) == ("moved", "unverifiable")
    clone.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    assert kind(clone, entry) == "changed"


def test_a_symbolic_link_is_not_called_gone(shop: Project) -> None:
    (shop.path / "client.py").symlink_to("src/client.py")
    shop.git("add", "client.py")
    entry = make_entry(
        1, title="See client.py", cites=(f"client.py@{shop.commit('Link', {'a.md': 'x'})[:12]}",)
    )
    (entry,) = anchor_entries(shop.workspace, [entry])
    assert kind(shop, entry) == "unverifiable"


def test_a_bare_repository_is_judged_at_its_head(shop: Project, tmp_path: Path) -> None:
    entry = remember(shop)
    assert kind(Project(shop.bare(tmp_path / "bare.git").path), entry, None) == "fresh"


def test_a_file_too_large_to_read_is_fresh_by_its_id_and_else_unverifiable(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors_module, "MAX_CODE_BYTES", 40)
    entry = make_entry(1, cites=(f"src/client.py@{shop.sha()} text:9f31c2d09f31",))
    assert kind(shop, entry) == "fresh"
    shop.commit("Edit", {"src/client.py": CLIENT + "# more\n"})
    assert kind(shop, entry) == "unverifiable"


def test_an_unknown_view_is_an_error_and_no_anchors_are_no_question(shop: Project) -> None:
    entry = remember(shop)
    with pytest.raises(RepositoryError, match="names no commit"):
        judge_anchors(shop.workspace, located(entry), "nowhere")
    assert judge_anchors(shop.workspace, located(make_entry(1, cites=("the wiki",))), "HEAD") == {}


def test_nothing_changed_costs_two_processes_for_any_number_of_entries(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [make_entry(n, cites=(f"src/client.py:{n}@{shop.sha()[:12]}",)) for n in range(1, 13)]
    workspace, trace = shop.workspace, tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    assert {found.kind for found in judge_anchors(workspace, located(*entries), None).values()} == {
        "fresh"
    }
    assert trace.read_text().count("trace: built-in: git ") == 2


# -- verdicts that are kept


@pytest.fixture
def kept(shop: Project) -> list[Located]:
    """Entries of an indexed project whose code was edited, renamed, moved and removed since."""
    shop.commit(
        "Add",
        {
            "src/old.py": "def send(a):\n    return a\n\n\ndef drop(a):\n    return -a\n",
            "src/gone.py": POST,
        },
    )
    entries = [
        remember(shop),
        remember(shop, "`send` gives back what it gets", "src/old.py", 2),
        remember(shop, "`drop` turns the sign", "src/old.py", 3),
        remember(shop, "src/gone.py posts", "src/gone.py", 4),
        remember(shop, "`Client.get` has a timeout", number=5),
    ]
    edited = (
        CLIENT.replace("no idempotency", "no")
        .replace("def get(", "def fetch(")
        .replace("=30", "=60")
    )
    shop.commit("Edit", {"src/client.py": edited})
    shop.commit(
        "Rename",
        {"src/old.py": None, "src/new.py": "def send(a):\n    return a\n", "src/gone.py": None},
    )
    shop.commit("Move", {"src/far.py": "def drop(a):\n    return -a\n"})
    build_index(shop.workspace, None)
    return located(*entries)


def kinds(shop: Project, entries: list[Located], view: str | None = None) -> list[str]:
    verdicts = judge_anchors(shop.workspace, entries, view)
    return [verdicts[place.entry.id, place.entry.cites[0]].kind for place in entries]


JUDGED = ["changed", "moved", "moved", "gone", "changed"]


def test_what_was_judged_is_neither_compared_nor_sought_again(
    shop: Project, kept: list[Located], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kinds(shop, kept) == JUDGED
    workspace, trace = shop.workspace, tmp_path / "trace"
    monkeypatch.setattr(verdicts_module, "judge", None)
    monkeypatch.setenv("GIT_TRACE", str(trace))
    verdicts = judge_anchors(workspace, kept, None)
    assert [verdicts[place.entry.id, place.entry.cites[0]].kind for place in kept] == JUDGED
    assert trace.read_text().count("trace: built-in: git ") == 2


def test_the_renames_of_history_are_asked_once_for_a_commit(
    shop: Project, kept: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kinds(shop, kept) == JUDGED
    monkeypatch.setattr(anchors_module, "list_renames", None)
    shop.write("src/far.py", "x = 1\n")
    assert kinds(shop, kept) == ["changed", "moved", "gone", "gone", "changed"]
    monkeypatch.undo()
    shop.git("checkout", "-q", ".")
    shop.commit(
        "Rename",
        {"src/far.py": None, "src/new.py": None, "src/newest.py": "def send(a):\n    return a\n"},
    )
    assert kinds(shop, kept) == ["changed", "moved", "gone", "gone", "changed"]


def test_an_edit_of_the_cited_file_or_of_one_that_is_sought_is_seen(
    shop: Project, kept: list[Located]
) -> None:
    assert kinds(shop, kept) == JUDGED
    shop.commit(
        "Mend", {"src/client.py": CLIENT, "src/far.py": "def drop(a):\n    return -a * 2 - a * 3\n"}
    )
    assert kinds(shop, kept) == ["fresh", "moved", "changed", "gone", "fresh"]
    shop.commit("Return", {"src/back.py": POST})
    assert kinds(shop, kept) == ["fresh", "moved", "changed", "moved", "fresh"]


def test_what_the_work_tree_says_is_not_told_of_a_commit(
    shop: Project, kept: list[Located]
) -> None:
    shop.write("src/client.py", CLIENT)
    shop.write("src/back.py", POST)
    for _ in range(2):
        assert kinds(shop, kept) == ["fresh", "moved", "moved", "moved", "fresh"]
        assert kinds(shop, kept, "HEAD") == JUDGED
    shop.git("checkout", "-q", ".")
    (shop.path / "src/back.py").unlink()
    assert kinds(shop, kept) == JUDGED


def test_a_work_tree_that_is_written_meanwhile_is_judged_again(
    shop: Project, kept: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What git finds in a file that is put back at once must not stay what is said of the old one."""

    def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
        shop.write("src/far.py", "")
        return log.find_mentions(repo, rev, words)

    monkeypatch.setattr(anchors_module, "find_mentions", find_mentions)
    assert kinds(shop, kept) != JUDGED
    monkeypatch.undo()
    shop.git("checkout", "-q", ".")
    assert kinds(shop, kept) == JUDGED


def test_a_file_that_is_written_before_it_is_read_is_judged_again(
    shop: Project, kept: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_texts(repo: Repository, files: Iterable[TreeFile]) -> dict[TreeFile, str]:
        shop.write("src/client.py", CLIENT)
        return real(repo, files)

    real = anchors_module.read_texts
    shop.write("src/client.py", CLIENT.replace("key is None", "not key"))
    monkeypatch.setattr(anchors_module, "read_texts", read_texts)
    assert kinds(shop, kept)[0] == "fresh"
    monkeypatch.undo()
    shop.write("src/client.py", CLIENT.replace("key is None", "not key"))
    assert kinds(shop, kept)[0] == "changed"


@pytest.mark.parametrize(
    ("outcome", "is_resealed"),
    [('[{"kind": "fresh", "path": "x"}, ""]', False), ("[{}]", True), (b"\xff", True)],
)
def test_verdicts_that_others_wrote_are_not_believed(
    shop: Project, kept: list[Located], outcome: object, is_resealed: bool
) -> None:
    """Those of a file that is not as we left it go; what is no verdict is none."""
    path = index_path(shop.workspace)
    assert kinds(shop, kept) == JUDGED
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE verdicts SET outcome = ?", (outcome,))
    if is_resealed:
        seal(path)
    assert kinds(shop, kept) == JUDGED
    build_index(shop.workspace, None)
    assert kinds(shop, kept) == JUDGED


def test_another_source_of_the_judges_judges_anew(
    shop: Project, kept: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kinds(shop, kept) == JUDGED
    monkeypatch.setattr(anchors_module, "_read_judges", lambda: "other")
    monkeypatch.setattr("memory_ci.anchors.verdicts.judge", lambda *_: Verdict("fresh", "x"))
    assert set(kinds(shop, kept)) == {"fresh"}


def test_every_module_that_decides_on_a_verdict_is_among_the_judges() -> None:
    judges, root = set(anchors_module.JUDGES), Path(anchors_module.__file__).parent.parent
    assert {"anchors/verdicts", "memory/cites", "memory/dead_names"} <= judges
    for name in judges - {"memory/cites"}:  # which makes anchors and upholds them as well
        imported = re.findall(
            r"^from memory_ci\.anchors\.(\w+)", (root / f"{name}.py").read_text("utf-8"), re.M
        )
        assert {f"anchors/{one}" for one in imported} <= judges, name
    assert anchors_module._read_judges()


def test_no_index_is_made_for_verdicts_and_a_pipe_beside_one_holds_nobody_up(
    shop: Project, kept: list[Located]
) -> None:
    path = index_path(shop.workspace)
    os.mkfifo(path.with_name("index.db-journal"))
    assert kinds(shop, kept) == JUDGED
    path.with_name("index.db-journal").unlink()
    path.unlink()
    assert kinds(shop, kept) == JUDGED
    assert not path.exists()


# -- upkeep


def test_the_repoint_of_a_rename_is_fresh_and_repoints_no_more(shop: Project) -> None:
    entry = remember(shop)
    head = shop.commit("Rename", {"src/client.py": None, "net/http.py": "# (c)\n" + CLIENT})
    (change,) = plan_repoint(
        located(entry), judge_anchors(shop.workspace, located(entry), head), head
    )
    assert verdict(shop, change.entry) == Verdict("fresh", "net/http.py", 9, 12)
    assert (
        plan_repoint(
            located(change.entry), judge_anchors(shop.workspace, located(change.entry), head), head
        )
        == ()
    )


def test_what_has_been_gone_since_its_removal_is_retired_after_ninety_days(shop: Project) -> None:
    entries = located(
        remember(shop),
        remember(shop, "Keys are needed in client.py", number=2),
        remember(shop, "other.py", "src/other.py", 3),
        remember(shop, "Keys are needed", number=4),
    )
    shop.at(datetime(2026, 3, 1, tzinfo=UTC)).commit("Drop", {"src/client.py": None})
    shop.at(datetime(2026, 6, 1, tzinfo=UTC)).commit("Go on", {"src/other.py": "x = 3\n"})
    verdicts = judge_anchors(shop.workspace, entries, "HEAD")
    since = gone_since(shop.workspace, entries, verdicts, "HEAD")
    assert since == {make_id(1): date(2026, 3, 1), make_id(2): date(2026, 3, 1)}
    assert len(plan_stale_retirement(entries, verdicts, since, date(2026, 6, 1))) == 2
    assert plan_stale_retirement(entries, verdicts, since, date(2026, 5, 30)) == ()


def test_an_entry_is_gone_since_the_last_of_its_files_went(shop: Project) -> None:
    cites = tuple(f"{path}@{shop.sha()[:12]}" for path in ("src/client.py", "src/other.py"))
    entries = located(make_entry(1, title="client.py and other.py go together", cites=cites))
    shop.at(datetime(2026, 3, 1, tzinfo=UTC)).commit("Drop", {"src/client.py": None})
    shop.at(datetime(2026, 4, 1, tzinfo=UTC)).commit("Edit the other", {"src/other.py": "x = 3\n"})
    shop.at(datetime(2026, 6, 1, tzinfo=UTC)).commit("Drop the other", {"src/other.py": None})
    verdicts = judge_anchors(shop.workspace, entries, "HEAD")
    assert gone_since(shop.workspace, entries, verdicts, "HEAD") == {make_id(1): date(2026, 6, 1)}


# -- what a range touches


def touched(shop: Project, since: str) -> list[Finding]:
    return list(find_touched(*read_range(shop.workspace, f"{since}..HEAD")))


def test_a_change_to_anchored_lines_is_a_warning_at_the_line_that_changed(shop: Project) -> None:
    entry = remember(shop)
    start = shop.sha()
    shop.commit(
        "Edit", {"src/client.py": "# (c)\n" + CLIENT.replace("no idempotency key", "a key, please")}
    )
    (finding,) = touched(shop, start)
    assert (finding.code, finding.path, finding.line, finding.level) == (
        "anchor-changed",
        "src/client.py",
        11,
        "warning",
    )
    assert f'{entry.id[:8]} "`Client.post` needs a key"' in finding.message


def test_a_change_beside_the_anchored_lines_and_a_reformat_are_silent(shop: Project) -> None:
    remember(shop)
    start = shop.sha()
    shop.commit("Beside", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    shop.commit(
        "Format",
        {"src/client.py": CLIENT.replace("timeout=30", "timeout=60").replace("    ", "\t")},
    )
    assert touched(shop, start) == []


def test_a_change_to_a_file_that_is_anchored_whole_is_a_notice(shop: Project) -> None:
    remember(shop, "Keys are needed")
    start = shop.sha()
    shop.commit("Edit", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    assert [(f.code, f.line, f.level) for f in touched(shop, start)] == [
        ("anchor-changed", 6, "notice")
    ]


def test_the_notice_of_a_file_that_is_anchored_whole_stands_at_the_part_that_the_entry_names(
    shop: Project,
) -> None:
    remember(shop, 'The header "Idempotency-Key" is needed')
    start = shop.sha()
    beside = CLIENT.replace("timeout=30", "timeout=60")
    shop.commit("Edit beside", {"src/client.py": beside})
    assert touched(shop, start) == []
    shop.commit("Edit", {"src/client.py": beside.replace("key is None", "not key")})
    assert [(f.code, f.line, f.level) for f in touched(shop, start)] == [
        ("anchor-changed", 8, "notice")
    ]


def test_a_rename_is_one_finding_for_all_entries(shop: Project) -> None:
    for number in range(1, 6):
        remember(shop, f"Keys are needed {number}", number=number)
    start = shop.sha()
    shop.commit("Rename", {"src/client.py": None, "net/http.py": CLIENT})
    (finding,) = touched(shop, start)
    assert (finding.code, finding.path, finding.level) == ("anchor-moved", "net/http.py", "notice")
    assert "was src/client.py" in finding.message
    assert finding.message.endswith("and 2 entries more")


def test_a_removal_is_a_warning(shop: Project) -> None:
    remember(shop)
    remember(shop, "Other things", "src/other.py", 2)
    start = shop.sha()
    shop.commit("Drop", {"src/client.py": CLIENT.replace(POST, ""), "src/other.py": None})
    found = [(f.code, f.path, f.line, f.level) for f in touched(shop, start)]
    assert found == [
        ("anchor-gone", "src/client.py", 9, "warning"),
        ("anchor-gone", "src/other.py", 1, "warning"),
    ]


def test_what_was_stale_before_the_range_is_not_blamed_on_it(shop: Project) -> None:
    remember(shop)
    remember(shop, "Other things", "src/other.py", 2)
    shop.commit(
        "Before", {"src/client.py": CLIENT.replace("is None", "is missing"), "src/other.py": None}
    )
    start = shop.sha()
    shop.commit("Elsewhere", {"README.md": "Shop 2\n"})
    assert touched(shop, start) == []


def test_what_the_other_side_changed_meanwhile_is_not_blamed_on_the_range(shop: Project) -> None:
    remember(shop)
    shop.branch("topic")
    shop.commit("Topic", {"README.md": "Shop 2\n"})
    shop.checkout("main")
    shop.commit("Meanwhile", {"src/client.py": CLIENT.replace("is None", "is missing")})
    assert list(find_touched(*read_range(shop.workspace, "main..topic"))) == []


def test_the_line_is_that_of_the_range_whatever_the_other_side_did(shop: Project) -> None:
    remember(shop, "Keys are needed")
    shop.branch("topic")
    shop.commit("Topic", {"src/client.py": CLIENT.replace("is None", "is missing")})
    shop.checkout("main")
    shop.commit("Meanwhile", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    assert [
        finding.line for finding in find_touched(*read_range(shop.workspace, "main..topic"))
    ] == [9]


def test_a_file_that_the_range_itself_brought_is_silent(shop: Project) -> None:
    start = shop.sha()
    code = "def send(job):\n    job.open()\n    return job.send_to(printer, copies=2)\n"
    shop.commit("New", {"src/new.py": code})
    remember(shop, "send() makes copies", path="src/new.py")
    shop.commit("Edit", {"src/new.py": code.replace("2", "3")})
    assert touched(shop, start) == []


def test_a_file_name_that_no_cite_can_hold_stops_nothing(shop: Project) -> None:
    entry = remember(shop)
    start = shop.sha()
    shop.commit("Odd", {"src/client.py": None, "src/odd\nname.py": CLIENT})
    assert kind(shop, entry) == "gone"
    assert [finding.code for finding in touched(shop, start)] == ["anchor-gone"]


def test_an_entry_that_is_retired_or_anchored_in_the_range_itself_is_silent(shop: Project) -> None:
    start = shop.sha()
    shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    remember(shop)
    retired = make_entry(2, status="retired", cites=(f"src/client.py@{start}",))
    shop.commit("Retire", {"m2/MEMORY.md": format_entry(retired)})
    assert touched(shop, start) == []


@pytest.mark.parametrize("written", ["", "main", "..", "..HEAD", "main...HEAD"])
def test_what_is_no_range_is_refused(shop: Project, written: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_range(shop.workspace, written)
    assert raised.value.slug == "bad-range"
