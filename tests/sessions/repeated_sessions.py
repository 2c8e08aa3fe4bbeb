"""Functions that capture sessions in which people repeat requests, one session a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from memory_ci.records.repetition import PersonTurn
from memory_ci.sessions.repetitions import Repeated, find_repeated
from memory_ci.sessions.session_archive import SessionArchive, read_archive
from tests.agents_at_work import WORDS, keep_session, make_session
from tests.project import Project
from tests.sources.transcripts.claude import Record, make_agent, make_call, make_result, make_user

DRAFT = (
    "Please open a draft PR.",
    "Good. Open a draft PR, please.",
    "Open a draft PR first.",
    "Then please open a draft PR",
    "Can you open a draft PR?",
)
DAY = timedelta(days=1)


def session_id(number: int) -> str:
    return f"5f3b2a10-0000-4000-8000-{number:012d}"


def keep_asking(
    project: Project, folder: Path, *requests: str | list[str | Record], first: int = 1
) -> None:
    """Capture a session for each text, or list of turns and records, on consecutive days."""
    for number, turns in enumerate(requests, start=first):
        data = make_session(
            *([turns] if isinstance(turns, str) else turns),
            at=project.clock.now + number * DAY,
            session=session_id(number),
            first=number * 100,
        )
        keep_session(project, folder, data)


def run_command(command: str, output: str = "", number: int = 1) -> list[Record]:
    """Return the records of a shell call and its result; it failed if it has output."""
    call = f"toolu_{number}"
    return [
        make_agent(make_call("Bash", call, command=command), number=number),
        make_user([make_result(output or "ok", call, is_error=bool(output))], number + 1),
    ]


def fail_in(
    numbers: Iterable[int], command: str, output: str, text: str = WORDS
) -> list[list[str | Record]]:
    """Return sessions in which a person writes a text and a command fails."""
    return [[text, *run_command(command, output, number * 100 + 10)] for number in numbers]


def read_all(project: Project) -> SessionArchive:
    return read_archive(project.workspace, project.sha())


def list_typed(project: Project) -> list[str]:
    return [turn.text for turn in read_all(project).turns]


def list_people(turns: tuple[PersonTurn, ...]) -> set[str]:
    return {turn.person for turn in turns}


def find_all(project: Project) -> list[Repeated]:
    return find_repeated(project.workspace.at(project.sha()), read_all(project))


def find_titles(project: Project) -> list[str]:
    return [item.candidate.title for item in find_all(project)]
