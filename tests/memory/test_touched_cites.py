"""Tests of finding cited code that a range of commits touches."""

from __future__ import annotations

import pytest

from memory_ci.commands.check.range_findings import find_entries_with_changed_code, read_range
from memory_ci.errors import UsageError
from memory_ci.records.report import Finding
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.memory.cited_code import CLIENT, POST, kind, remember
from tests.project import Project


def list_touched(shop: Project, since: str) -> list[Finding]:
    """Return the findings for the commits since a revision."""
    return list(find_entries_with_changed_code(*read_range(shop.workspace, f"{since}..HEAD")))


def test_a_change_to_anchored_lines_is_a_warning_at_the_line_that_changed(shop: Project) -> None:
    entry = remember(shop)
    start = shop.sha()
    shop.commit(
        "Edit", {"src/client.py": "# (c)\n" + CLIENT.replace("no idempotency key", "a key, please")}
    )
    (finding,) = list_touched(shop, start)
    assert (finding.code, finding.path, finding.line, finding.level) == (
        "anchor-changed",
        "src/client.py",
        11,
        "warning",
    )
    assert f'{entry.id[:8]} "`Client.post` needs a key"' in finding.message


def test_changes_outside_the_anchored_lines_and_reformatting_are_not_findings(
    shop: Project,
) -> None:
    remember(shop)
    start = shop.sha()
    shop.commit("Beside", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    shop.commit(
        "Format",
        {"src/client.py": CLIENT.replace("timeout=30", "timeout=60").replace("    ", "\t")},
    )
    assert list_touched(shop, start) == []


def test_a_change_to_a_file_that_is_anchored_whole_is_a_notice(shop: Project) -> None:
    remember(shop, "Keys are needed")
    start = shop.sha()
    shop.commit("Edit", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    assert [(f.code, f.line, f.level) for f in list_touched(shop, start)] == [
        ("anchor-changed", 6, "notice")
    ]


def test_the_notice_of_a_whole_file_is_at_the_lines_that_the_entry_names(
    shop: Project,
) -> None:
    remember(shop, 'The header "Idempotency-Key" is needed')
    start = shop.sha()
    edited_text = CLIENT.replace("timeout=30", "timeout=60")
    shop.commit("Edit beside", {"src/client.py": edited_text})
    assert list_touched(shop, start) == []
    shop.commit("Edit", {"src/client.py": edited_text.replace("key is None", "not key")})
    assert [(f.code, f.line, f.level) for f in list_touched(shop, start)] == [
        ("anchor-changed", 8, "notice")
    ]


def test_a_rename_is_one_finding_for_all_entries(shop: Project) -> None:
    for number in range(1, 6):
        remember(shop, f"Keys are needed {number}", number=number)
    start = shop.sha()
    shop.commit("Rename", {"src/client.py": None, "net/http.py": CLIENT})
    (finding,) = list_touched(shop, start)
    assert (finding.code, finding.path, finding.level) == ("anchor-moved", "net/http.py", "notice")
    assert "was src/client.py" in finding.message
    assert finding.message.endswith("and 2 entries more")


def test_a_removal_is_a_warning(shop: Project) -> None:
    remember(shop)
    remember(shop, "Other things", "src/other.py", 2)
    start = shop.sha()
    shop.commit("Drop", {"src/client.py": CLIENT.replace(POST, ""), "src/other.py": None})
    findings = [(f.code, f.path, f.line, f.level) for f in list_touched(shop, start)]
    assert findings == [
        ("anchor-gone", "src/client.py", 9, "warning"),
        ("anchor-gone", "src/other.py", 1, "warning"),
    ]


def test_staleness_from_before_the_range_is_not_attributed_to_it(shop: Project) -> None:
    remember(shop)
    remember(shop, "Other things", "src/other.py", 2)
    shop.commit(
        "Before", {"src/client.py": CLIENT.replace("is None", "is missing"), "src/other.py": None}
    )
    start = shop.sha()
    shop.commit("Elsewhere", {"README.md": "Shop 2\n"})
    assert list_touched(shop, start) == []


def test_changes_merged_from_main_are_not_attributed_to_the_range(shop: Project) -> None:
    remember(shop)
    shop.branch("topic")
    shop.commit("Topic", {"README.md": "Shop 2\n"})
    shop.checkout("main")
    shop.commit("Meanwhile", {"src/client.py": CLIENT.replace("is None", "is missing")})
    assert list(find_entries_with_changed_code(*read_range(shop.workspace, "main..topic"))) == []


def test_the_line_is_that_of_the_range_despite_changes_on_main(shop: Project) -> None:
    remember(shop, "Keys are needed")
    shop.branch("topic")
    shop.commit("Topic", {"src/client.py": CLIENT.replace("is None", "is missing")})
    shop.checkout("main")
    shop.commit("Meanwhile", {"src/client.py": CLIENT.replace("timeout=30", "timeout=60")})
    assert [
        finding.line
        for finding in find_entries_with_changed_code(*read_range(shop.workspace, "main..topic"))
    ] == [9]


def test_a_file_that_the_range_added_is_not_a_finding(shop: Project) -> None:
    start = shop.sha()
    code = "def send(job):\n    job.open()\n    return job.send_to(printer, copies=2)\n"
    shop.commit("New", {"src/new.py": code})
    remember(shop, "send() makes copies", path="src/new.py")
    shop.commit("Edit", {"src/new.py": code.replace("2", "3")})
    assert list_touched(shop, start) == []


def test_a_file_name_that_cites_cannot_contain_is_ignored(shop: Project) -> None:
    entry = remember(shop)
    start = shop.sha()
    shop.commit("Odd", {"src/client.py": None, "src/odd\nname.py": CLIENT})
    assert kind(shop, entry) == "gone"
    assert [finding.code for finding in list_touched(shop, start)] == ["anchor-gone"]


def test_retired_entries_and_entries_anchored_in_the_range_are_not_findings(shop: Project) -> None:
    start = shop.sha()
    shop.commit("Edit", {"src/client.py": CLIENT.replace("is None", "is missing")})
    remember(shop)
    retired = make_entry(2, status="retired", cites=(f"src/client.py@{start}",))
    shop.commit("Retire", {"m2/MEMORY.md": format_entry(retired)})
    assert list_touched(shop, start) == []


@pytest.mark.parametrize("written", ["", "main", "..", "..HEAD", "main...HEAD"])
def test_text_that_is_not_a_range_is_refused(shop: Project, written: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_range(shop.workspace, written)
    assert raised.value.slug == "bad-range"
