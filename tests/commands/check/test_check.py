"""Tests of `check`: it reads each memory file of a view and rewrites none."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.check.check import check_memory
from memory_ci.errors import UsageError
from memory_ci.memory import workspace as workspace_module
from memory_ci.memory.workspace import STAGED
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project
from tests.repos import make_repo

BROKEN = "---\nid: 1\ntype: oops\n---\n## Broken\n"


def list_findings(project: Project, view: str | None = None) -> set[tuple[str, int, str]]:
    return {(finding.path, finding.line, finding.code) for finding in project.check(view).findings}


def test_a_new_project_and_recorded_entries_pass_check(project: Project) -> None:
    assert project.check().is_ok
    project.record()
    report = project.check()
    assert report.findings == ()
    assert report.entries == 2


def test_a_duplicate_id_in_any_files_is_an_error(project: Project) -> None:
    project.write("MEMORY.md", format_entry(make_entry(1)))
    project.write("src/MEMORY.md", "# Sources\n\n" + format_entry(make_entry(1, title="Other")))
    assert list_findings(project) == {("src/MEMORY.md", 3, "duplicate-id")}


def test_the_staged_text_counts_and_not_the_work_tree(project: Project) -> None:
    project.write("MEMORY.md", BROKEN)
    project.git("add", "MEMORY.md")
    project.write("MEMORY.md", format_entry(make_entry(1)))
    assert project.check().is_ok
    assert not project.check(STAGED).is_ok
    project.git("checkout", "-q", "HEAD", "--", "MEMORY.md")
    project.write("MEMORY.md", BROKEN)
    assert project.check(STAGED).is_ok


def test_with_commit_dash_a_the_index_of_that_commit_is_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("MEMORY.md", BROKEN)
    other_index = project.path / ".git" / "index.other"
    other_index.write_bytes((project.path / ".git" / "index").read_bytes())
    project.git("add", "MEMORY.md")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index.other")
    assert project.check(STAGED).is_ok
    monkeypatch.setenv("GIT_INDEX_FILE", str(project.path / ".git" / "index"))
    assert not project.check(STAGED).is_ok


def test_a_revision_can_be_checked_and_a_path_chosen(project: Project) -> None:
    sha = project.commit("Break", {"MEMORY.md": BROKEN, "src/MEMORY.md": BROKEN})
    project.commit("Mend", {"MEMORY.md": "# Memory\n", "src/MEMORY.md": None})
    assert project.check().is_ok
    assert {path for path, _, _ in list_findings(project, sha)} == {"MEMORY.md", "src/MEMORY.md"}
    project.write("src/MEMORY.md", BROKEN)
    assert check_memory(project.workspace, None, [project.path / "MEMORY.md"]).is_ok
    with pytest.raises(UsageError) as raised:
        check_memory(project.workspace, None, [project.path / "README.md"])
    assert raised.value.slug == "not-a-memory-file"


def relate(*kinds_and_numbers: tuple[str, int]) -> str:
    return format_entry(
        make_entry(9, relations=tuple(f"{kind} {make_id(n)}" for kind, n in kinds_and_numbers))
    )


def test_a_relation_to_a_retired_entry_that_was_taken_out_is_no_finding(project: Project) -> None:
    entry = relate(("contradicts", 1), ("supports", 2))
    project.commit(
        "Old", {"docs/MEMORY.md": format_entry(make_entry(1)) + "\n" + format_entry(make_entry(2))}
    )
    retired = format_entry(make_entry(1, status="retired")) + "\n" + format_entry(make_entry(2))
    project.commit("Retire", {"docs/MEMORY.md": retired, "MEMORY.md": f"# Memory\n\n{entry}"})
    project.write("docs/MEMORY.md", format_entry(make_entry(2)))
    assert list_findings(project) == set()
    project.commit("Take the retired one out", {"docs/MEMORY.md": format_entry(make_entry(2))})
    assert (
        list_findings(project),
        list_findings(project, STAGED),
        list_findings(project, "HEAD"),
    ) == (set(), set(), set())
    project.commit("Take the other out", {"docs/MEMORY.md": "# Memory\n"})
    (finding,) = check_memory(project.workspace).findings
    assert (finding.code, make_id(2) in finding.message) == ("dangling-relation", True)
    assert list_findings(project, "HEAD~1") == set()


def test_a_relation_without_history_is_a_finding(tmp_path: Path) -> None:
    project = Project(make_repo(tmp_path / "new").path)
    project.write("MEMORY.md", f"# Memory\n\n{relate(('supports', 1))}")
    assert {code for _, _, code in list_findings(project)} == {"dangling-relation"}


def test_history_is_asked_only_for_a_relation_that_leads_nowhere(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.memory.lookup.list_commits_mentioning", None)
    project.commit(
        "Both",
        {"MEMORY.md": f"# Memory\n\n{format_entry(make_entry(1))}\n{relate(('supports', 1))}"},
    )
    assert list_findings(project) == set()


def test_a_link_to_a_memory_file_is_that_file(project: Project) -> None:
    (project.path / "link.md").symlink_to("MEMORY.md")
    assert check_memory(project.workspace, None, [project.path / "link.md"]).files == 1


def test_committed_conflict_markers_are_red_and_the_rest_is_served(project: Project) -> None:
    sides = "<<<<<<< HEAD\n" + format_entry(make_entry(2)) + "=======\n>>>>>>> topic\n"
    project.write("MEMORY.md", format_entry(make_entry(1, title="Zebra")) + sides)
    assert {code for _, _, code in list_findings(project)} == {"conflict-marker"}
    assert [hit.located.entry.id for hit in project.retrieve("zebra").hits] == [make_id(1)]


def test_a_credential_is_named_by_line_and_kind_and_never_repeated(project: Project) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    project.write("MEMORY.md", f"# Memory\n\nThe token is {key}.\n")
    project.write(f"{key}/MEMORY.md", "# Team\n")
    report = project.check()
    assert {(finding.line, finding.code) for finding in report.findings} == {
        (3, "credential"),
        (1, "credential"),
    }
    assert key not in repr(report)


def test_a_file_over_the_limit_and_an_unreadable_one_are_findings(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "MAX_FILE_BYTES", 1000)
    project.write("MEMORY.md", "x" * 1001)
    project.write("src/MEMORY.md", format_entry(make_entry(1, title="Zebra")))
    assert list_findings(project) == {("MEMORY.md", 1, "file-unreadable")}
    assert project.retrieve("zebra").hits


def test_an_inbox_file_holds_one_entry_with_a_scope_that_exists(project: Project) -> None:
    project.write(
        ".memory/inbox/two.md", format_entry(make_entry(1)) + "\n" + format_entry(make_entry(2))
    )
    project.write(".memory/inbox/lost.md", format_entry(make_entry(3, scope="galaxy")))
    assert list_findings(project) == {
        (".memory/inbox/two.md", 1, "bad-fragment"),
        (".memory/inbox/lost.md", 1, "bad-scope"),
    }


def test_a_strange_file_name_is_checked_like_any_other(project: Project) -> None:
    project.commit("Strange", {'odd "dir\n\t/MEMORY.md': BROKEN})
    assert {path for path, _, _ in list_findings(project)} == {'odd "dir\n\t/MEMORY.md'}


def test_checking_changes_no_file(project: Project) -> None:
    project.write("MEMORY.md", BROKEN)
    before = {path: path.read_bytes() for path in Path(project.path).glob("*.md")}
    project.check()
    assert {path: path.read_bytes() for path in Path(project.path).glob("*.md")} == before


def test_before_a_commit_only_its_changed_episodes_are_read(project: Project) -> None:
    project.commit("Broken long ago", {".memory/episodes/2026-01/pr-1.md": "---\nid: pr-1\n"})
    assert project.check(STAGED).is_ok
    project.write(".memory/episodes/2026-01/pr-2.md", "---\nid: pr-2\n")
    project.git("add", ".memory")
    assert [finding.path for finding in project.check(STAGED).findings] == [
        ".memory/episodes/2026-01/pr-2.md"
    ]
    assert len(project.check().findings) == 2
