"""Tests of the text of health, in a terminal and on a page."""

from __future__ import annotations

from datetime import date

from memory_ci.commands.health.metrics import WEIGHTS, Measurement, weigh_metrics
from memory_ci.commands.health.records import Health
from memory_ci.commands.health.text import render_health, render_health_line, render_history
from memory_ci.records.config import NudgeConfig
from memory_ci.sessions.nudge import render_nudge


def make_health(*values: float | None, basis: str = "basis", commit: str | None = None) -> Health:
    measured = {
        name: Measurement(value, basis) for name, value in zip(WEIGHTS["git"], values, strict=True)
    }
    return weigh_metrics("git", date(2026, 11, 21), commit, measured)


def test_one_line_has_the_targets_the_weakest_metric_and_advice() -> None:
    line = render_health_line(make_health(90, 90, 40, 80, 80, 80))
    assert line == (
        "Health: 5 of 6 metrics reach their targets, weakest coverage 40.0 of 75."
        " Coverage: basis. Let memory catch up with what was merged: `memory-ci record`. Use: basis."
    )


def test_where_facts_are_missing_the_line_counts_the_metrics() -> None:
    line = render_health_line(make_health(90, 90, 40, None, 80, None))
    assert line.startswith(
        "Health: 3 of 6 metrics reach their targets, 2 with too few facts,"
        " weakest coverage 40.0 of 75. Coverage: "
    )


def test_one_line_of_nothing_says_so() -> None:
    assert render_health_line(make_health(*[None] * 6)) == "Health: there is nothing to measure."


def test_control_characters_in_git_s_output_are_removed() -> None:
    health = make_health(90, *[None] * 5, basis="the clone at /x\x1b[2J is shallow")
    texts = (render_health(health), render_health_line(health))
    assert all("\x1b" not in text and "\\x1b[2J" in text for text in texts)


def test_the_measured_commit_is_shown() -> None:
    places = [make_health(*[1] * 6, commit=commit) for commit in (None, "ab" * 20, "")]
    starts = [render_health(place).splitlines()[1].split(" on ")[0] for place in places]
    assert starts == ["The work tree", "Commit abababababab", "Before the first commit,"]


def test_the_five_newest_missing_changes_are_listed_below_the_advice() -> None:
    titles = tuple(f"#{number} \x1b[2JTitle" for number in range(7, 0, -1))
    measured = {name: Measurement(100, "") for name in WEIGHTS["git"]} | {
        "efficiency": Measurement(10, "", missing=titles)
    }
    lines = render_health(weigh_metrics("git", date(2026, 11, 21), None, measured)).splitlines()
    assert lines[-6:-1] == [f"    #{number} \\x1b[2JTitle" for number in (7, 6, 5, 4, 3)]
    assert lines[-1] == "    and 2 more: `--json` names them"


def test_history_is_a_line_each() -> None:
    text = render_history(
        [make_health(*[100] * 6, commit="ab" * 20), make_health(*[None] * 6, commit="cd" * 20)]
    )
    assert text.splitlines()[0].startswith("2026-11-21  abababababab  truth 100.0  recency")
    assert len(text.splitlines()) == 2


def test_the_reminder_names_the_count() -> None:
    assert render_nudge(NudgeConfig()).startswith(
        "memory-ci: 60 or more commits since memory changed."
    )
    assert "1 or more commits since" in render_nudge(NudgeConfig(after=1))
