"""Tests of retries: the pauses double, with full jitter; tries and seconds are bounded."""

from __future__ import annotations

from memory_ci.commands.publish.landing import MAX_SECONDS, MAX_TRIES, Pace


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_bound_of_each_wait_doubles_up_to_a_cap() -> None:
    time, bounds = Time(), list[tuple[float, float]]()

    def draw(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    assert list(Pace(lambda: time.now, time.sleep, draw).tries()) == list(range(1, MAX_TRIES + 1))
    assert bounds == [(0, bound) for bound in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0)]
    assert time.now == 0


def test_no_try_begins_after_the_time_is_over() -> None:
    time = Time()
    begun = []
    for number in Pace(lambda: time.now, time.sleep, lambda low, high: high).tries():
        begun.append((number, time.now))
        time.now += 25
    assert [number for number, _ in begun] == [1, 2, 3]
    assert all(at < MAX_SECONDS for _, at in begun)
