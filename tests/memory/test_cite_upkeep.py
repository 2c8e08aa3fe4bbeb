"""Tests of the upkeep of cites: they follow renames, and entries without code are retired."""

from __future__ import annotations

from datetime import UTC, date, datetime

from memory_ci.lifecycle.upkeep import plan_repoint, plan_stale_retirement
from memory_ci.memory.cite_verdicts import find_days_gone, judge_anchors
from memory_ci.records.anchor import Verdict
from tests.make import make_entry, make_id
from tests.memory.cited_code import CLIENT, located, remember, verdict
from tests.project import Project


def test_a_cite_updated_after_a_rename_is_fresh_and_not_updated_again(shop: Project) -> None:
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


def test_an_entry_is_retired_ninety_days_after_its_code_was_removed(shop: Project) -> None:
    entries = located(
        remember(shop),
        remember(shop, "Keys are needed in client.py", number=2),
        remember(shop, "other.py", "src/other.py", 3),
        remember(shop, "Keys are needed", number=4),
    )
    shop.at(datetime(2026, 3, 1, tzinfo=UTC)).commit("Drop", {"src/client.py": None})
    shop.at(datetime(2026, 6, 1, tzinfo=UTC)).commit("Go on", {"src/other.py": "x = 3\n"})
    verdicts = judge_anchors(shop.workspace, entries, "HEAD")
    since = find_days_gone(shop.workspace, entries, verdicts, "HEAD")
    assert since == {make_id(1): date(2026, 3, 1), make_id(2): date(2026, 3, 1)}
    assert len(plan_stale_retirement(entries, verdicts, since, date(2026, 6, 1))) == 2
    assert plan_stale_retirement(entries, verdicts, since, date(2026, 5, 30)) == ()


def test_an_entry_counts_as_gone_from_the_removal_of_its_last_file(shop: Project) -> None:
    cites = tuple(f"{path}@{shop.sha()[:12]}" for path in ("src/client.py", "src/other.py"))
    entries = located(make_entry(1, title="client.py and other.py go together", cites=cites))
    shop.at(datetime(2026, 3, 1, tzinfo=UTC)).commit("Drop", {"src/client.py": None})
    shop.at(datetime(2026, 4, 1, tzinfo=UTC)).commit("Edit the other", {"src/other.py": "x = 3\n"})
    shop.at(datetime(2026, 6, 1, tzinfo=UTC)).commit("Drop the other", {"src/other.py": None})
    verdicts = judge_anchors(shop.workspace, entries, "HEAD")
    assert find_days_gone(shop.workspace, entries, verdicts, "HEAD") == {
        make_id(1): date(2026, 6, 1)
    }
