"""Tests of verdicts on cites: fresh, moved, changed, gone and unverifiable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.lifecycle.upkeep import plan_repoint
from memory_ci.memory import cites
from memory_ci.memory.cite_verdicts import judge_anchors
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.index import build_index
from memory_ci.records.anchor import Verdict
from tests.make import make_entry
from tests.memory.cited_code import CLIENT, POST, kind, located, remember, verdict
from tests.project import Project

SPAN = (8, 11)


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
    cite_verdict = verdict(shop, entry)
    assert (cite_verdict.kind, cite_verdict.path) == ("moved", path)


def test_a_renamed_and_reformatted_file_is_moved(shop: Project) -> None:
    entries = remember(shop), remember(shop, "Keys are needed", number=2)
    shop.commit(
        "Rename",
        {"src/client.py": None, "net/http.py": "\n" + CLIENT.replace("(url, key)", "(url,  key)")},
    )
    verdicts = judge_anchors(shop.workspace, located(*entries), "HEAD").values()
    assert {(cite_verdict.kind, cite_verdict.path) for cite_verdict in verdicts} == {
        ("moved", "net/http.py")
    }


def test_a_file_renamed_and_then_rewritten_bit_by_bit_is_followed(shop: Project) -> None:
    entry = remember(shop, "Keys are needed")
    shop.commit("Rename", {"src/client.py": None, "net/http.py": CLIENT})
    shop.commit("Rename again", {"net/http.py": None, "net/wire.py": CLIENT + "# more\n"})
    shop.commit("Rewrite", {"net/wire.py": "def post():\n    pass\n"})
    cite_verdict = verdict(shop, entry)
    assert (cite_verdict.kind, cite_verdict.path) == ("changed", "net/wire.py")


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


def test_an_edit_changes_the_verdict_in_the_work_tree_and_in_its_commit(shop: Project) -> None:
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


def test_an_older_copy_is_not_the_new_place_of_removed_code(shop: Project) -> None:
    shop.commit("Copy", {"dist/client.py": CLIENT, "dist/wire.py": CLIENT})
    symbol, whole = remember(shop), remember(shop, "Keys are needed", number=2)
    shop.commit("Drop", {"src/client.py": None})
    assert (kind(shop, symbol), kind(shop, whole)) == ("gone", "gone")
    shop.commit("Move it after all", {"src/sender.py": CLIENT})
    assert verdict(shop, symbol) == Verdict("moved", "src/sender.py", *SPAN, "was src/client.py")


def test_lines_that_left_for_another_file_are_found_there(shop: Project) -> None:
    first, second = (
        "Call the office before you change the rates of a contract.",
        "Never send the keys by mail, as ever.",
    )
    shop.commit("Write", {"docs/a.md": f"# A\n\n{first}\n\n{second}\n"})
    (entry,) = anchor_entries(
        shop.workspace, [make_entry(1, cites=(f"docs/a.md:3@{shop.sha()[:12]}",))]
    )
    shop.commit("Move", {"docs/a.md": f"# A\n\n{second}\n", "docs/b.md": f"# B\n\n{first}\n"})
    assert verdict(shop, entry) == Verdict("moved", "docs/b.md", 3, 3, "was docs/a.md")


def test_code_named_in_a_whole_file_cite_is_followed_to_another_file(shop: Project) -> None:
    entry = remember(shop, 'The header "Idempotency-Key" is needed')
    method = CLIENT[CLIENT.index("    def post") : CLIENT.index("    def close")]
    moved = CLIENT.replace(method, "")
    shop.commit("Move", {"src/client.py": moved, "src/base.py": f"class Client:\n{method}"})
    assert verdict(shop, entry) == Verdict("moved", "src/base.py", note="was src/client.py")


def test_a_moved_file_with_edits_outside_the_named_code_gets_a_new_anchor(
    shop: Project,
) -> None:
    entry = remember(shop, 'The header "Idempotency-Key" is needed')
    shop.commit(
        "Rename", {"src/client.py": None, "net/http.py": CLIENT.replace("timeout=30", "timeout=60")}
    )
    verdicts = judge_anchors(shop.workspace, located(entry), "HEAD")
    (change,) = plan_repoint(located(entry), verdicts, shop.sha())
    (reanchored,) = anchor_entries(shop.workspace, [change.entry])
    assert re.fullmatch(
        rf"net/http\.py@{shop.sha()[:12]} words:[0-9a-f]{{12}}", reanchored.cites[0]
    )
    assert reanchored.cites[0].rpartition(":")[2] != entry.cites[0].rpartition(":")[2]
    assert kind(shop, reanchored) == "fresh"


def test_cites_of_a_whole_file_are_judged_by_the_names_in_each_entry(shop: Project) -> None:
    entries = [
        remember(shop, title, number=n)
        for n, title in enumerate(('"Idempotency-Key"', '"timeout"', "Keys"), 1)
    ]
    build_index(shop.workspace, None)
    shop.commit("Edit", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    for _ in range(2):  # judged, and kept
        verdict_of = judge_anchors(shop.workspace, located(*entries), "HEAD")
        assert [verdict_of[entry.id, entry.cites[0]].kind for entry in entries] == [
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


def test_a_symbolic_link_is_not_gone(shop: Project) -> None:
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


def test_a_large_file_is_fresh_if_its_object_id_is_unchanged_and_else_unverifiable(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cites, "MAX_CODE_BYTES", 40)
    entry = make_entry(1, cites=(f"src/client.py@{shop.sha()} text:9f31c2d09f31",))
    assert kind(shop, entry) == "fresh"
    shop.commit("Edit", {"src/client.py": CLIENT + "# more\n"})
    assert kind(shop, entry) == "unverifiable"


def test_an_unknown_revision_is_an_error_and_no_anchors_need_no_git(shop: Project) -> None:
    entry = remember(shop)
    with pytest.raises(RepositoryError, match="names no commit"):
        judge_anchors(shop.workspace, located(entry), "nowhere")
    assert judge_anchors(shop.workspace, located(make_entry(1, cites=("the wiki",))), "HEAD") == {}


def test_judging_unchanged_files_takes_two_git_processes_for_any_number_of_entries(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [make_entry(n, cites=(f"src/client.py:{n}@{shop.sha()[:12]}",)) for n in range(1, 13)]
    workspace, trace = shop.workspace, tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    assert {
        cite_verdict.kind
        for cite_verdict in judge_anchors(workspace, located(*entries), None).values()
    } == {"fresh"}
    assert trace.read_text().count("trace: built-in: git ") == 2
