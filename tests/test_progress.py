"""Tests of progress reports, with and without a listener."""

from __future__ import annotations

from memory_ci import progress


def test_a_listener_is_called_for_each_item_before_it_is_processed() -> None:
    reports: list[tuple[str, int, int]] = []
    with progress.listen(lambda *report: reports.append(report)):
        for number in progress.count("Reading files", [1, 2]):
            reports.append(("read", number, 0))
    assert reports == [
        ("Reading files", 0, 2),
        ("read", 1, 0),
        ("Reading files", 1, 2),
        ("read", 2, 0),
    ]


def test_reports_after_the_block_reach_no_listener() -> None:
    reports: list[str] = []
    with progress.listen(lambda label, _done, _total: reports.append(label)):
        pass
    progress.report("Reading files")
    assert reports == []
