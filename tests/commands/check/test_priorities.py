"""Tests of priorities: people set them; a priority that a bot or an agent sets is a finding."""

from __future__ import annotations

import pytest

from memory_ci.commands.check.check import CheckReport, check_memory
from memory_ci.commands.check.range_findings import add_range_findings
from memory_ci.commands.check.verify import verify_change
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.make import make_entry, make_id
from tests.project import Project

BOT = "memory-ci <memory-ci@noreply.invalid>"
ACTIONS = "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>"
CLAUDE = "Claude <noreply@anthropic.com>"


def memory(*entries: Entry) -> dict[str, str | bytes | None]:
    return {"MEMORY.md": "# Memory\n\n" + "\n".join(map(format_entry, entries))}


def entry(number: int = 1, **fields: object) -> Entry:
    return make_entry(number, title=f"Number {number}", **fields)


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project whose main has two entries, with the branch `topic` checked out."""
    project.commit("Two entries", memory(entry(1), entry(2)))
    project.branch("topic")
    return project


def raised(
    shop: Project, message: str = "Pin it", author: str | None = None, priority: str | None = "pin"
) -> str:
    return shop.commit(message, memory(entry(1, priority=priority), entry(2)), author)


def check(shop: Project, written: str = "main..") -> CheckReport:
    return add_range_findings(shop.workspace, check_memory(shop.workspace), written)


def list_findings(shop: Project, written: str = "main..") -> list[Finding]:
    return [
        each_finding
        for each_finding in check(shop, written).findings
        if each_finding.code == "priority-by-machine"
    ]


def test_a_person_sets_a_priority_and_nothing_is_found(shop: Project) -> None:
    raised(shop)
    assert list_findings(shop) == []


@pytest.mark.parametrize(
    ("message", "author", "who"),
    [
        ("Pin it", BOT, "the bot memory-ci"),
        ("Pin it", ACTIONS, "the bot github-actions[bot]"),
        ("Pin it", "renovate <renovate@example.com>", "the bot renovate"),
        ("Pin it\n\nMemory-CI-Step: extract", None, "the bot Ann Author"),
        (
            "Pin it\n\nMemory-Session: claude-code:7b1c",
            None,
            "an agent in the session claude-code:7b1c",
        ),
        (f"Pin it\n\nCo-authored-by: {CLAUDE}", None, "the agent Claude"),
        (f"Pin it (#7)\n\n* Work\n\nCo-Authored-By: {CLAUDE}\n\n* More", None, "the agent Claude"),
        ("Pin it", CLAUDE, "the agent Claude"),
        ("Pin it", "Ann (aider) <ann@example.com>", "the agent Ann (aider)"),
    ],
    ids=[
        "memory-ci",
        "actions",
        "renovate",
        "step",
        "session",
        "co-author",
        "squash",
        "author",
        "aider",
    ],
)
def test_a_machine_sets_a_priority_and_it_is_an_error_at_the_entry(
    shop: Project, message: str, author: str | None, who: str
) -> None:
    sha = raised(shop, message, author)
    (finding,) = list_findings(shop)
    assert (finding.path, finding.line, finding.level) == ("MEMORY.md", 3, "error")
    assert finding.message.startswith(f"priority pin was set by {who}")
    assert sha[:12] in finding.message
    assert not check(shop).is_ok


@pytest.mark.parametrize(
    "author", ["Claude Monet <claude@example.com>", "Ann Agent <agent@example.com>"]
)
def test_a_person_whose_name_is_like_a_machines_is_a_person(shop: Project, author: str) -> None:
    raised(shop, "Pin it\n\nCo-authored-by: Bob <bob@example.com>", author)
    assert list_findings(shop) == []


def test_taking_a_priority_away_is_as_much_a_persons_decision(shop: Project) -> None:
    raised(shop)
    shop.branch("next")
    raised(shop, author=BOT, priority=None)
    (finding,) = list_findings(shop, "topic..")
    assert "priority normal was set by" in finding.message


def test_a_normal_priority_that_is_written_out_is_no_change(shop: Project) -> None:
    raised(shop, author=BOT, priority="normal")
    assert list_findings(shop) == []


def test_a_new_entry_with_a_priority_by_an_agent_is_found_in_the_inbox_too(shop: Project) -> None:
    new = entry(3, priority="permanent", scope="project")
    shop.commit("Note", {fragment_path(new.id): format_entry(new)}, CLAUDE)
    (finding,) = list_findings(shop)
    assert finding.path == fragment_path(make_id(3))


def test_a_person_settles_a_machine_s_priority_by_removing_or_replacing_it(
    shop: Project,
) -> None:
    raised(shop, author=CLAUDE)
    raised(shop, "Not so", priority=None)
    assert list_findings(shop) == []
    raised(shop, author=CLAUDE)
    raised(shop, "Rather high", priority="high")
    assert list_findings(shop) == []


def test_a_priority_that_a_machine_changed_last_is_the_machine_s(shop: Project) -> None:
    raised(shop)
    raised(shop, author=CLAUDE, priority="permanent")
    assert len(list_findings(shop)) == 1


def test_a_machine_may_move_and_unite_entries_with_the_priority_that_they_have(
    shop: Project,
) -> None:
    raised(shop)
    shop.branch("next")
    shop.commit(
        "Move",
        {"MEMORY.md": "# Memory\n", "src/MEMORY.md": memory(entry(1, priority="pin"))["MEMORY.md"]},
        BOT,
    )
    united = entry(2, priority="pin", supersedes=(make_id(1),))
    shop.commit("Unite", {"src/MEMORY.md": None, **memory(united)}, BOT)
    assert list_findings(shop, "topic..") == []


def test_priorities_changed_on_the_other_side_are_not_this_branch_s(shop: Project) -> None:
    shop.commit("Work", {"src/a.py": "x\n"})
    shop.checkout("main")
    raised(shop, author=BOT)
    shop.checkout("topic")
    assert list_findings(shop) == []
    shop.git("merge", "-q", "--no-ff", "-m", "Merge main", "main")
    assert list_findings(shop) == []


def test_a_priority_set_in_a_merge_belongs_to_the_merge_s_author(shop: Project) -> None:
    shop.commit("Work", {"src/a.py": "x\n"})
    shop.checkout("main")
    shop.commit("More", {"README.md": "More\n"})
    shop.checkout("topic")
    shop.git("merge", "-q", "--no-commit", "--no-ff", "main")
    raised(shop, "Merge main", CLAUDE)
    assert len(list_findings(shop)) == 1


def test_a_merge_by_a_bot_keeps_a_person_s_priority(shop: Project) -> None:
    shop.commit("Work", {"src/a.py": "x\n"})
    shop.checkout("main")
    raised(shop)
    shop.checkout("topic")
    shop.git("merge", "-q", "--no-commit", "--no-ff", "main")
    shop.commit("Merge main", author=BOT)
    assert list_findings(shop, "main~1..") == []


def test_verify_finds_it_before_a_change_is_merged(shop: Project) -> None:
    raised(shop, author=CLAUDE)
    report = verify_change(shop.workspace, "main", "HEAD")
    assert [(each_finding.code, each_finding.level) for each_finding in report.findings] == [
        ("priority-by-machine", "error")
    ]


def test_a_change_cannot_call_its_bots_people(shop: Project) -> None:
    shop.commit("Settings", {".memory-ci.yaml": "extraction:\n  bot_authors: []\n"})
    raised(shop, author="renovate <renovate@example.com>")
    report = verify_change(shop.workspace, "main", "HEAD")
    assert "priority-by-machine" in {each_finding.code for each_finding in report.findings}
