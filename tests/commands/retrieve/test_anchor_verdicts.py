"""Tests of verdicts in `retrieve`: cited code is compared with the caller's tree, and the result is shown."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.retrieve.explanation import render_explanation
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import list_served_ids, retrieve
from memory_ci.commands.retrieve.text import render_context
from memory_ci.errors import RepositoryError
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.workspace import open_workspace
from memory_ci.records.anchor import CodeEdit
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project
from tests.repos import make_repo

POST = """def post(url, key):
    if key is None:
        raise ValueError("no idempotency key")
    return send(url, headers={"Idempotency-Key": key})
"""
CLIENT = f"import time\n\n\n{POST}\n\ndef close():\n    send(None)\n"
TITLE = "`post()` needs an idempotency key"


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project with a client, an entry that cites a function of it, and an entry without cites."""
    project.commit("Write the client", {"src/client.py": CLIENT})
    remember(project, 1, f"src/client.py@{project.sha()[:12]}")
    other_entry = make_entry(
        2, title="Some say that an idempotency key is a string of letters and of much else"
    )
    project.commit("More", {"docs/MEMORY.md": format_entry(other_entry)})
    project.commit(
        "Scopes", {".memory-ci.yaml": "scopes: {project: [MEMORY.md, docs/MEMORY.md]}\n"}
    )
    return project


def remember(project: Project, number: int, *cites: str, title: str = TITLE, **fields: Any) -> None:
    (entry,) = anchor_entries(
        project.workspace, [make_entry(number, title=title, cites=cites, **fields)]
    )
    project.commit("Remember", {"MEMORY.md": format_entry(entry)})


def ask(project: Project, **options: Any) -> Retrieval:
    return project.retrieve("idempotency key", **options)


def hit_of(answer: Retrieval, number: int = 1) -> Hit:
    return next(hit for hit in answer.hits if hit.located.entry.id == make_id(number))


def truth_of(answer: Retrieval, number: int = 1) -> float:
    return dict(hit_of(answer, number).factors)["truth"]


def test_an_edit_of_cited_code_is_marked_and_demoted_and_its_revert_is_not(shop: Project) -> None:
    before = ask(shop)
    assert (list_served_ids(before)[0], truth_of(before)) == (make_id(1), 1.0)
    shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    edited = ask(shop)
    assert truth_of(edited) == 0.5
    assert hit_of(edited).score == pytest.approx(hit_of(before).score / 2)
    sha = shop.sha()[:7]
    mark = f"CHANGED since this was learned: src/client.py:4, `post` edited in {sha}; check before use.\n"
    assert f"\n{mark}" in render_context(edited)
    shop.git("revert", "--no-edit", "HEAD")
    assert render_context(ask(shop)) == render_context(before)


def test_the_request_that_edited_the_code_is_named_and_no_later_one_beside_it(
    shop: Project,
) -> None:
    edited = CLIENT.replace("is None", "is missing")
    shop.branch("strict")
    shop.commit("Be strict", {"src/client.py": edited})
    sha = shop.merge_back("strict", message="Merge pull request #140 from ada/strict\n\nBe strict")
    shop.commit(
        "Beside it (#141)",
        {"src/client.py": f"import os\n\n{edited}\n\ndef other():\n    close()\n"},
    )
    (verdict,) = hit_of(ask(shop)).verdicts
    assert verdict.edit == CodeEdit("post", sha, 140)
    assert (
        f"src/client.py:6, `post` edited in {sha[:7]}, #140; check before use."
        in render_context(ask(shop))
    )
    assert f"`post` edited in {sha[:7]}, #140" in render_explanation(ask(shop))
    shop.write("src/client.py", edited.replace("send(url", "send(url, None"))
    assert ", `post` edited here, not committed; check" in render_context(ask(shop))


def test_the_commit_that_removed_the_code_is_named(shop: Project) -> None:
    sha = shop.commit("Close only (#7)", {"src/client.py": "def close():\n    send(None)\n"})
    shop.commit("Other", {"src/client.py": "def close():\n    return send(None)\n"})
    assert f", `post` removed in {sha[:7]}, #7." in render_context(ask(shop, stale=True))
    gone = shop.commit("Remove", {"src/client.py": None})
    assert f"(the file is not there any more), `post` removed in {sha[:7]}, #7." in render_context(
        ask(shop, stale=True)
    )
    remember(
        shop, 1, f"src/client.py@{shop.sha('HEAD^')[:12]}", title="client.py: an idempotency key"
    )
    assert f"any more), removed in {gone[:7]}." in render_context(ask(shop, stale=True))


def test_a_renamed_file_is_followed_to_the_edit(shop: Project) -> None:
    edit = shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    shop.git("mv", "src/client.py", "src/http.py")
    shop.commit("Rename")
    (verdict,) = hit_of(ask(shop)).verdicts
    assert (verdict.kind, verdict.path, verdict.edit) == (
        "changed",
        "src/http.py",
        CodeEdit("post", edit),
    )


def test_without_a_commit_the_mark_names_no_edit(tmp_path: Path) -> None:
    unborn = Project(make_repo(tmp_path / "unborn").path)
    entry = make_entry(1, title=TITLE, cites=("src/client.py:1@0123456789ab text:0123456789ab",))
    unborn.write("MEMORY.md", format_entry(entry))
    unborn.write("src/client.py", CLIENT)
    (verdict,) = hit_of(ask(unborn)).verdicts
    assert (verdict.kind, verdict.edit) == ("changed", None)


def test_an_entry_with_edited_code_ranks_below_a_fresh_one(shop: Project) -> None:
    assert list_served_ids(ask(shop)) == (make_id(1), make_id(2))
    shop.write("src/client.py", CLIENT.replace("is None", "is missing"))
    assert list_served_ids(ask(shop)) == (make_id(2), make_id(1)), (
        "an edit counts before it is committed"
    )
    assert list_served_ids(ask(shop, tree="HEAD")) == (make_id(1), make_id(2)), (
        "but not in another tree"
    )


def test_an_entry_whose_code_is_gone_is_withheld_unless_it_is_asked_for(shop: Project) -> None:
    shop.commit("Remove", {"src/client.py": None})
    answer = ask(shop)
    assert list_served_ids(answer) == (make_id(2),)
    (withheld,) = answer.withheld
    assert withheld.hit.located.entry.id == make_id(1)
    assert withheld.why == "gone: src/client.py (the file is not there any more)"
    assert answer.notes == (
        "Withheld, because the code cited is gone: 1 entry. --explain names them.",
    )
    stale = ask(shop, stale=True)
    assert (truth_of(stale), stale.withheld) == (0.5, ())
    assert "\nGONE: src/client.py" in render_context(stale)


def test_an_entry_with_moved_code_is_served_with_the_new_path(shop: Project) -> None:
    shop.commit("Rename", {"src/client.py": None, "net/http.py": f"# moved\n{CLIENT}"})
    answer = ask(shop)
    assert truth_of(answer) == 1.0
    assert "\nNow at net/http.py:5 (was src/client.py).\n" in render_context(answer)


def test_an_unverifiable_entry_is_served_with_a_mark(project: Project) -> None:
    entry = make_entry(1, title=TITLE, cites=("src/client.py:1@0123456789ab",))
    project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    answer = ask(project)
    assert truth_of(answer) == 1.0
    assert "\nNOT VERIFIED: src/client.py:1 (" in render_context(answer)


def test_an_entry_that_names_nothing_fades_with_the_share_of_words_that_changed_in_a_file_that_is_cited_whole(
    project: Project,
) -> None:
    project.commit("Write", {"src/data.py": "".join(f"x{n} = 1\n" for n in range(9))})
    remember(
        project, 1, f"src/data.py@{project.sha()[:12]}", title="Every idempotency key is unique"
    )
    project.commit("Edit", {"src/data.py": "".join(f"x{n} = {1 + n // 8}\n" for n in range(9))})
    edited = ask(project)
    assert truth_of(edited) == 0.89
    assert "\nNote: src/data.py (edited since: 11% of its words).\n" in render_context(edited)
    project.commit("Rewrite", {"src/data.py": "".join(f"y{n} = 1\n" for n in range(9))})
    assert truth_of(ask(project)) == 0.5


def test_a_cited_file_is_compared_by_the_definitions_that_the_entry_names(
    project: Project,
) -> None:
    text = f"{CLIENT}\n\ndef fetch(url):\n    return read(url, timeout=30)\n"
    project.commit("Write", {"src/client.py": text})
    remember(
        project,
        1,
        f"src/client.py@{project.sha()[:12]}",
        title="The header `Idempotency-Key` is an idempotency key",
    )
    project.commit(
        "Edit another function",
        {"src/client.py": text.replace("timeout=30", "timeout=60, retries=9")},
    )
    beside_answer = ask(project)
    assert (truth_of(beside_answer), hit_of(beside_answer).verdicts[0].kind) == (1.0, "fresh")
    project.commit("Edit the named one", {"src/client.py": text.replace("key is None", "not key")})
    edited = ask(project)
    assert truth_of(edited) == 0.5
    assert "\nCHANGED since this was learned: src/client.py:4, edited in " in render_context(edited)


@pytest.mark.parametrize(
    ("title", "fields", "is_shown"),
    [
        ("Every idempotency key is unique", {}, True),
        ("Every idempotency key of data.py is unique", {}, False),
        ("Every idempotency key of data.py is unique", {"adoption": "rejected"}, True),
    ],
)
def test_entries_that_name_removed_code_are_withheld_unless_rejected(
    project: Project, title: str, fields: dict[str, Any], is_shown: bool
) -> None:
    project.commit("Write", {"src/data.py": "x = 1\n"})
    remember(project, 1, f"src/data.py@{project.sha()[:12]}", title=title, **fields)
    project.commit("Remove", {"src/data.py": None})
    answer = ask(project)
    assert list_served_ids(answer) == ((make_id(1),) if is_shown else ())
    if is_shown:
        assert truth_of(answer) == 0.5
        assert (
            "CHANGED since this was learned: src/data.py (the file is not there any more)"
            in render_context(answer)
        )


def test_global_memory_is_not_judged_by_the_code_of_this_repository(
    shop: Project, home: Path
) -> None:
    entry = make_entry(
        7, title="A key of idempotency", cites=("src/client.py:1@0123456789ab text:0123456789ab",)
    )
    (home / "MEMORY.md").write_text(format_entry(entry))
    assert truth_of(ask(shop), 7) == 1.0
    assert hit_of(ask(shop), 7).verdicts == ()


def test_a_bare_repository_is_judged_by_its_head(shop: Project, tmp_path: Path) -> None:
    shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    bare = shop.bare(tmp_path / "bare.git")
    answer = retrieve(
        open_workspace(bare.path, is_named=True), "idempotency key", RetrieveOptions(), TODAY
    )
    assert truth_of(answer) == 0.5


def test_an_unknown_tree_is_an_error(shop: Project) -> None:
    with pytest.raises(RepositoryError) as raised:
        ask(shop, tree="nowhere")
    assert raised.value.slug == "unknown-revision"


# -- what it costs


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the git commands that run from now on."""
    started: list[str] = []
    start = subprocess.Popen.__init__

    def counted(self: subprocess.Popen[bytes], args: list[str], *rest: Any, **options: Any) -> None:
        started.append(next(arg for arg in args[1:] if not arg.startswith("-") and "=" not in arg))
        start(self, args, *rest, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    return started


def test_while_nothing_changed_one_process_lists_files_and_one_judges(
    shop: Project, processes: list[str]
) -> None:
    ask(shop)
    processes.clear()
    assert truth_of(ask(shop)) == 1.0
    assert processes == ["ls-files", "ls-files"]


@pytest.mark.parametrize(
    ("title", "judging"),
    [
        ("Send an idempotency key", []),
        ("`Client.post` and docs/api.md want an idempotency key", ["ls-files"]),
        ("`never_there` wants an idempotency key", ["ls-files"]),
    ],
)
def test_where_nothing_is_cited_only_names_of_code_are_looked_for(
    project: Project, processes: list[str], title: str, judging: list[str]
) -> None:
    project.commit(
        "Put", {"MEMORY.md": format_entry(make_entry(1, title=title)), "docs/api.md": "`post` it\n"}
    )
    ask(project)
    processes.clear()
    assert ask(project).hits
    assert processes == ["ls-files", *judging, "for-each-ref"]


def test_many_entries_cost_as_many_processes_as_one(shop: Project, processes: list[str]) -> None:
    sha = shop.sha()[:12]
    entries = [
        make_entry(n, title=f"idempotency key {n}", cites=(f"src/client.py:4-7@{sha}",))
        for n in range(10, 60)
    ]
    shop.commit("Many", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    ask(shop)
    processes.clear()
    assert ask(shop, limit=1000, max_chars=100_000).hits
    assert len(processes) == 2
    shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    ask(shop)
    processes.clear()
    assert all(
        verdict.edit
        for hit in ask(shop, limit=1000, max_chars=100_000).hits
        for verdict in hit.verdicts
    )
    assert (processes.count("log"), processes.count("diff")) == (1, 1), (
        "one question for all that is marked"
    )
