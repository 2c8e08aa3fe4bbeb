"""Tests of `verify`: findings about the memory of a change before its merge; nothing is written."""

from __future__ import annotations

import pytest

from memory_ci.commands.check.check import CheckReport
from memory_ci.commands.check.verify import verify_change
from memory_ci.errors import RepositoryError
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.make import make_entry, make_id
from tests.project import Project

ONE = format_entry(make_entry(1, title="One"))
TWO = format_entry(make_entry(2, title="Two"))
RETIRED = format_entry(make_entry(1, title="One", status="retired"))


def memory(*entries: str) -> str:
    return "# Memory\n\n" + "\n".join(entries)


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project whose main has two entries, with the branch `topic` checked out."""
    project.commit("Two entries", {"MEMORY.md": memory(ONE, TWO)})
    project.branch("topic")
    return project


def verify(project: Project, base: str | None = "main", *, is_fork: bool = False) -> CheckReport:
    return verify_change(project.workspace, base, "HEAD", is_fork=is_fork)


def list_findings(project: Project, *, is_fork: bool = False) -> set[tuple[str, str, str]]:
    return {
        (finding.path, finding.code, finding.level)
        for finding in verify(project, is_fork=is_fork).findings
    }


def test_a_change_that_leaves_memory_alone_is_in_order(shop: Project) -> None:
    shop.commit("Work", {"src/other.py": "x\n"})
    before = shop.git("for-each-ref"), shop.status()
    report = verify(shop, None)
    assert report.findings == ()
    assert report.entries == 2
    assert (shop.git("for-each-ref"), shop.status()) == before


def test_findings_are_about_the_commit_and_not_the_work_tree(shop: Project) -> None:
    shop.write("MEMORY.md", "---\nid: 1\ntype: oops\n---\n## Broken\n")
    assert list_findings(shop) == set()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    shop.commit(
        "Bad", {"MEMORY.md": memory(ONE, ONE, TWO) + f"\n{token}\n<<<<<<< a\n=======\n>>>>>>> b\n"}
    )
    assert {code for _, code, _ in list_findings(shop)} >= {
        "duplicate-id",
        "credential",
        "conflict-marker",
    }
    assert not verify(shop).is_ok


def test_an_entry_that_was_removed_and_comes_back_is_an_error(shop: Project) -> None:
    shop.checkout("main")
    shop.commit("Take one out", {"MEMORY.md": memory(TWO)})
    shop.branch("stale")
    shop.commit("Bring it back", {"src/MEMORY.md": memory(ONE)})
    assert list_findings(shop) == {("src/MEMORY.md", "resurrected-entry", "error")}


def test_a_removed_entry_is_known_by_the_history_since_it_was_created(shop: Project) -> None:
    shop.checkout("main")
    today = shop.clock.now.date()
    dated = format_entry(make_entry(3, title="Three", created_at=today))
    shop.commit("Add a third", {"MEMORY.md": memory(ONE, TWO, dated)})
    shop.commit("Take it out", {"MEMORY.md": memory(ONE, TWO)})
    shop.branch("stale")
    shop.commit("Bring it back", {"src/MEMORY.md": memory(dated)})
    assert list_findings(shop) == {("src/MEMORY.md", "resurrected-entry", "error")}


def test_an_entry_that_was_united_with_another_and_comes_back_is_an_error(shop: Project) -> None:
    shop.checkout("main")
    united = format_entry(make_entry(2, title="Two", supersedes=(make_id(9),)))
    shop.commit("Unite", {"MEMORY.md": memory(ONE, united)})
    shop.branch("stale")
    shop.commit("Again", {"src/MEMORY.md": memory(format_entry(make_entry(9)))})
    assert list_findings(shop) == {("src/MEMORY.md", "resurrected-entry", "error")}


def test_a_retired_entry_that_is_active_again_is_a_warning(shop: Project) -> None:
    shop.checkout("main")
    shop.commit("Retire", {"MEMORY.md": memory(RETIRED, TWO)})
    shop.branch("revive")
    shop.commit("Revive", {"MEMORY.md": memory(ONE, TWO)})
    assert list_findings(shop) == {("MEMORY.md", "resurrected-entry", "warning")}
    assert verify(shop).is_ok


def test_an_old_branch_does_not_restore_entries_that_the_base_removed(shop: Project) -> None:
    shop.commit("Work", {"src/other.py": "x\n"})
    shop.checkout("main")
    shop.commit("Take one out", {"MEMORY.md": memory(TWO)})
    shop.checkout("topic")
    assert list_findings(shop) == set()


def test_an_entry_that_a_merge_dropped_is_lost(shop: Project) -> None:
    shop.commit("Work", {"src/other.py": "x\n"})
    shop.checkout("main")
    shop.commit("Three", {"MEMORY.md": memory(ONE, TWO, format_entry(make_entry(3)))})
    shop.checkout("topic")
    shop.git("merge", "-q", "--no-commit", "--no-ff", "main")
    shop.commit("Merge main, badly", {"MEMORY.md": memory(ONE, TWO)})
    assert list_findings(shop) == {("MEMORY.md", "lost-entry", "error")}


def test_an_entry_that_a_later_merge_dropped_is_lost_though_the_branch_had_it(
    shop: Project,
) -> None:
    shop.commit("Work", {"src/other.py": "x\n"})
    shop.checkout("main")
    shop.commit("More", {"README.md": "More\n"})
    shop.checkout("topic")
    shop.git("merge", "-q", "--no-commit", "--no-ff", "main")
    shop.commit("Merge main, badly", {"MEMORY.md": memory(ONE)})
    assert list_findings(shop) == {("MEMORY.md", "lost-entry", "error")}


def test_an_entry_that_a_person_takes_out_is_a_warning(shop: Project) -> None:
    shop.commit("Take one out", {"MEMORY.md": memory(TWO)})
    assert list_findings(shop) == {("MEMORY.md", "removed-entry", "warning")}


def test_a_retired_entry_that_is_taken_out_is_no_finding(shop: Project) -> None:
    shop.commit("Retire one", {"MEMORY.md": memory(RETIRED, TWO)})
    shop.git("branch", "-q", "-f", "main", "topic")
    shop.commit("Take it out", {"MEMORY.md": memory(TWO)})
    assert list_findings(shop) == set()


def test_an_entry_that_is_retired_and_taken_out_by_one_change_is_no_finding(shop: Project) -> None:
    shop.commit("Retire one", {"MEMORY.md": memory(RETIRED, TWO)})
    shop.commit("Take it out", {"MEMORY.md": memory(TWO)})
    assert list_findings(shop) == set()


def test_a_retired_entry_that_a_merge_dropped_is_lost(shop: Project) -> None:
    shop.commit("Work", {"src/other.py": "x\n"})
    shop.checkout("main")
    shop.commit("Retire one", {"MEMORY.md": memory(RETIRED, TWO)})
    shop.checkout("topic")
    shop.git("merge", "-q", "--no-commit", "--no-ff", "main")
    shop.commit("Merge main, badly", {"MEMORY.md": memory(TWO)})
    assert list_findings(shop) == {("MEMORY.md", "lost-entry", "error")}


def test_an_entry_that_moves_or_is_united_is_not_lost(shop: Project) -> None:
    united = format_entry(make_entry(3, supersedes=(make_id(2),)))
    shop.commit("Move and unite", {"MEMORY.md": memory(united), "src/MEMORY.md": memory(ONE)})
    assert list_findings(shop) == set()


def test_an_entry_removed_by_a_record_run_is_not_reported_as_lost(shop: Project) -> None:
    shop.commit("memory: compact 1 entry\n\nMemory-CI-Step: compact\n", {"MEMORY.md": memory(TWO)})
    assert list_findings(shop) == set()


def test_our_trailer_on_a_commit_that_changes_code_excuses_nothing(shop: Project) -> None:
    message = "memory: compact 1 entry\n\nMemory-CI-Step: compact\n"
    shop.commit(message, {"MEMORY.md": memory(TWO), "src/other.py": "x\n"})
    assert list_findings(shop) == {("MEMORY.md", "removed-entry", "warning")}


def test_a_fork_may_add_to_the_inbox_and_nothing_else(shop: Project) -> None:
    shop.put_fragment(make_entry(4, title="Four", scope="project"))
    assert list_findings(shop, is_fork=True) == set()
    shop.commit(
        "More",
        {"MEMORY.md": memory(ONE, TWO) + "\nProse.\n", ".memory-ci.yaml": "extraction: {}\n"},
    )
    foreign = {("MEMORY.md", "fork-memory", "error"), (".memory-ci.yaml", "fork-memory", "error")}
    assert list_findings(shop, is_fork=True) == foreign
    assert list_findings(shop) == set()


@pytest.mark.parametrize(
    "path",
    [
        "memory.md",
        "src/Memory.MD",
        "Institutional.md",
        ".Memory-CI.yaml",
        ".MEMORY/inbox/x.md",
        ".memory/Inbox/x.md",
    ],
)
def test_a_fork_does_not_get_past_by_the_case_of_a_name(shop: Project, path: str) -> None:
    shop.commit("More", {path: "x\n", "docs/memory-notes.md": "x\n"})
    assert {(one, code) for one, code, _ in list_findings(shop, is_fork=True)} == {
        (path, "fork-memory")
    }


@pytest.mark.parametrize("key", ["Memory-CI-Step", "memory-ci-source", "Memory-CI-Counted"])
def test_a_fork_may_not_speak_as_a_record_run(shop: Project, key: str) -> None:
    path = shop.put_fragment(make_entry(4, title="Four", scope="project"))
    shop.commit(f"Take it back\n\n{key}: {shop.sha('main')}\n", {path: None})
    assert list_findings(shop, is_fork=True) == {(".", "own-trailer-from-fork", "error")}
    assert "own-trailer-from-fork" not in {code for _, code, _ in list_findings(shop)}


def test_a_change_of_scopes_hides_nothing_from_the_rules_of_the_base(shop: Project) -> None:
    hide = "scopes:\n  project: ['NOTES.md']\n  team: ['notes/{where}/MEMORY.md']\n"
    shop.commit("Hide it", {"MEMORY.md": memory(ONE), ".memory-ci.yaml": hide})
    codes = list_findings(shop, is_fork=True)
    assert ("MEMORY.md", "fork-memory", "error") in codes
    assert ("MEMORY.md", "removed-entry", "warning") in codes


@pytest.mark.first_run
def test_entries_whose_code_the_change_touches_are_named(project: Project) -> None:
    project.branch("touch")
    project.commit("Rewrite", {"src/client.py": "something else\n"})
    codes = {finding.code for finding in verify(project).findings}
    assert codes & {"anchor-changed", "anchor-gone"}


@pytest.mark.first_run
def test_a_duplicate_id_is_reported_with_the_copy_that_cites_the_code(
    project: Project,
) -> None:
    id_ = next(entry.id for entry in project.entries() if entry.cites)
    copy = format_entry(make_entry(id=id_, title="A copy without cites"))
    project.commit("A copy", {"MEMORY.md": project.show("HEAD", "MEMORY.md") + "\n" + copy})
    project.branch("touch")
    project.commit("Rewrite", {"src/client.py": "something else\n"})
    findings = verify(project).findings
    assert {"duplicate-id"} < {finding.code for finding in findings}
    assert "A copy without cites" not in "".join(
        finding.message for finding in findings if finding.code.startswith("anchor-")
    )


def test_a_fragment_that_is_not_folded_is_part_of_the_index_that_is_built(shop: Project) -> None:
    shop.put_fragment(make_entry(4, title="Four", scope="project"))
    assert verify(shop).findings == ()
    assert shop.show("HEAD", fragment_path(make_id(4)))


def test_without_a_base_and_a_default_branch_the_base_is_asked_for(shop: Project) -> None:
    shop.git("branch", "-m", "main", "trunk")
    with pytest.raises(RepositoryError) as raised:
        verify(shop, None)
    assert raised.value.slug == "unknown-revision"
    assert "--base" in raised.value.hint
