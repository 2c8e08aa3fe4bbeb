"""Functions that make turns of people and commands of agents, by default one session a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from memory_ci.records.repetition import CommandRun, PersonTurn, StandingRequest
from memory_ci.repetition.requests import find_standing_requests

START = datetime(2026, 9, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def make_turn(
    text: str, day: int = 1, *, session: str = "", person: str = "", then: str = ""
) -> PersonTurn:
    """Return a turn; its session is that of the day unless one is given."""
    return PersonTurn(session or f"s{day}", START + day * DAY, person, text, then)


def make_turns(*texts: str) -> list[PersonTurn]:
    """Return turns, each of its own session and day."""
    return [make_turn(text, day) for day, text in enumerate(texts, start=1)]


def make_run(
    command: str, output: str = "", *, day: int = 1, minute: int = 0, ok: bool | None = None
) -> CommandRun:
    """Return a command in the session of a day; it succeeded if it has no output."""
    at = START + day * DAY + timedelta(minutes=minute)
    return CommandRun(f"s{day}", at, command, output, ok=not output if ok is None else ok)


def find_texts(turns: Iterable[PersonTurn], limit: int = 10) -> list[str]:
    return [request.text for request in find_standing_requests(turns, limit)]


def find_one(turns: Iterable[PersonTurn]) -> StandingRequest:
    (request,) = find_standing_requests(turns, 10)
    return request
