"""Tests of `health --effect`: simulated sessions with and without memory, and captured sessions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest

from memory_ci.commands.health.effect import (
    ArmOutcome,
    compare_arms,
    find_sample_size,
    measure_effect,
)
from memory_ci.commands.health.health import list_health_remarks
from memory_ci.commands.health.records import ArmComparison
from memory_ci.commands.health.text import render_effect
from memory_ci.records.proportion import compute_share, newcombe_interval
from memory_ci.sessions.capture import capture
from memory_ci.sessions.session_note import hash_session_id, is_held_out, note_served
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import NOW, TODAY, Project

PART = 0.3


def simulate(rate: float, factor: float, number: int, seed: int) -> ArmComparison:
    """Simulate sessions with and without memory, by the hash of their id; memory multiplies the rate by `factor`."""
    dice = random.Random(seed)  # noqa: S311 - the same each time
    arms = [is_held_out(hash_session_id(f"{seed}-{item}"), PART) for item in range(number)]
    sessions = [
        ArmOutcome(is_held, dice.random() < rate * (1 if is_held else factor)) for is_held in arms
    ]
    return compare_arms("steered", sessions, 10, PART)


def is_seen(effect: ArmComparison) -> bool:
    return effect.low is not None and effect.high is not None and not effect.low <= 0 <= effect.high


def test_an_effect_of_a_third_is_seen_with_the_power_that_is_promised() -> None:
    number = find_sample_size(0.3, PART)
    effects = [simulate(0.3, 2 / 3, number, seed) for seed in range(200)]
    assert 0.7 <= sum(map(is_seen, effects)) / 200 <= 0.9
    assert all(effect.high is not None and effect.high < 0 for effect in effects if is_seen(effect))


def test_where_memory_does_nothing_a_difference_is_claimed_by_chance_only() -> None:
    assert sum(is_seen(simulate(0.3, 1, 500, seed)) for seed in range(200)) <= 20


def test_the_interval_equals_newcombe_s_example() -> None:
    """Newcombe 1998, table II, method 10: 56/70 and 48/80."""
    assert newcombe_interval(compute_share(56, 70), compute_share(48, 80)) == pytest.approx(
        (0.0524, 0.3339), abs=0.001
    )


def test_the_fewer_are_held_out_the_longer_it_takes() -> None:
    assert (
        find_sample_size(1 / 3, 0.5) < find_sample_size(1 / 3, 0.3) < find_sample_size(1 / 3, 0.1)
    )
    assert find_sample_size(1 / 3, 0.1) == pytest.approx(1500, rel=0.1)


def test_an_empty_arm_says_so() -> None:
    effect = compare_arms("steered", [ArmOutcome(False, True), ArmOutcome(False, False)], 1, PART)
    assert (effect.low, effect.needed_count) == (None, None)
    assert compare_arms("steered", [], 1, PART).served.total == 0


def hold(project: Project) -> None:
    entry = make_entry(
        1, title="Retries of a charge need an idempotency key", created_at=date(2026, 11, 1)
    )
    settings = ".memory-ci.yaml", f"retrieve:\n  holdout: {PART}\n"
    project.commit("Remember", {"MEMORY.md": format_entry(entry), settings[0]: settings[1]})


def take(project: Project, path: Path, session: str, words: Sequence[str]) -> None:
    lines = [
        {
            "type": "user",
            "uuid": f"{session}{number}",
            "parentUuid": None,
            "sessionId": session,
            "timestamp": (NOW - timedelta(minutes=30 - number)).isoformat(),
            "cwd": str(project.path),
            "version": "2.1.132",
            "isSidechain": False,
            "userType": "external",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(words)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capture(project.workspace, path, NOW)


def test_captured_sessions_count_in_the_arm_of_their_hash(project: Project, tmp_path: Path) -> None:
    hold(project)
    assert render_effect(measure_effect(project.workspace, TODAY)).startswith("No session is known")
    names = [f"session-{number}" for number in range(12)]
    held = [name for name in names if is_held_out(hash_session_id(name), PART)]
    assert 0 < len(held) < len(names)
    for name in names:
        second_prompt = (
            "You must never send retries of a charge without an idempotency key."
            if name in held
            else "Thank you."
        )
        take(
            project,
            tmp_path / f"{name}.jsonl",
            name,
            ["You must always charge the card.", second_prompt],
        )
    note_served(project.workspace, held[0], project.retrieve("charge a card", session=held[0]), NOW)
    report = measure_effect(project.workspace, TODAY + timedelta(days=14))
    steered, again, requested, _ = report.effects
    assert (steered.held_out.hits, steered.held_out.total) == (len(held), len(held))
    assert (steered.served.hits, steered.served.total) == (0, len(names) - len(held)), (
        "the first turn is the task"
    )
    assert again.held_out.hits == len(held)
    assert requested.served.total == 0
    assert (
        f"steered            given 0 of {len(names) - len(held)}, held out {len(held)}"
        in render_effect(report)
    )
    assert "less with memory" in render_effect(report)


def test_a_report_says_while_sessions_are_held_out(project: Project) -> None:
    hold(project)
    remark = (
        "Holdout: 30% of sessions are served nothing; `memory-ci health --effect` compares them."
    )
    assert remark in list_health_remarks(project.workspace, "HEAD", TODAY)
    project.commit("Off", {".memory-ci.yaml": "{}\n"})
    assert not any(
        "Holdout" in line for line in list_health_remarks(project.workspace, "HEAD", TODAY)
    )
