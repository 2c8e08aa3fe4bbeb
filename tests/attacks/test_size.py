"""Tests of extreme sizes: commands keep their limits of time and memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.agents_at_work import make_session
from tests.attacks.attack import BOUNDED, ERROR, LOST, Area, Case, Launcher, assert_ended_clearly
from tests.attacks.scene import FIXED_TIME, SESSION_TIME
from tests.make import make_entry
from tests.project import Project, copy_project, make_project

pytestmark = pytest.mark.slow

AREA = Area(
    "sizes",
    "lines of 50 MB, a million lines, 80,000 fences, 2,000 alike entries, 10,000 branches, 20,000 tags, 2,000 notes, "
    "a message of 10 MB with 20,000 trailers, transcripts of 100 MB, an event of 60 MB",
    "limits on what is read, streams, and work that grows with the size and not with its square; "
    "held by 1 GiB of memory and 300 seconds of processor time",
)
HOLDS = (LOST, ERROR, BOUNDED)
MEMORY = 1 << 30
"""Limit of address space (RLIMIT_AS) of each command in bytes. Python and its libraries take about 150 MB."""

SECONDS = 300
GOOD = "Zebra crossings need a light at night"
READERS = (
    ("list", "--json"),
    ("check",),
    ("retrieve", "a zebra crossing at night"),
    ("record", "--yes"),
)


class Large:
    """A project with something very large in it."""

    def __init__(self, project: Project, launcher: Launcher, folder: Path) -> None:
        self.project = project
        self.launcher = launcher
        self.folder = folder

    def run(self, *words: str, stdin: bytes = b"") -> str:
        result = self.launcher.run(
            self.project.path, *words, stdin=stdin, env=FIXED_TIME, memory=MEMORY, seconds=SECONDS
        )
        assert_ended_clearly(result, words)
        return result.stdout

    def read(self) -> None:
        """Run the commands that read memory, and check that valid entries are served and not lost."""
        for words in READERS:
            printed = self.run(*words)
            assert words[0] != "retrieve" or GOOD in printed
        assert GOOD in self.project.show("HEAD", "src/MEMORY.md")

    def remember(self, text: str | bytes) -> None:
        self.project.commit("Remember", {"MEMORY.md": text})


def line_of_50_mb(large: Large) -> None:
    large.remember("# Memory\n\n" + "x" * 50_000_000 + "\n")
    large.read()


def line_of_50_mb_in_an_entry(large: Large) -> None:
    large.remember("# Memory\n\n" + format_entry(make_entry(1, body="x" * 50_000_000)))
    large.read()


def million_lines(large: Large) -> None:
    large.remember("# Memory\n\n" + "a line of prose\n" * 1_000_000)
    large.read()


def million_rules(large: Large) -> None:
    large.remember("# Memory\n\n" + "---\n" * 80_000)
    large.read()


def many_fences(large: Large) -> None:
    large.remember("# Memory\n\n" + "```\n~~~\n" * 40_000)
    large.read()


def many_comments(large: Large) -> None:
    large.remember("# Memory\n\n" + "<!-- x\n" * 80_000)
    large.read()


def many_entries_of_different_words(large: Large) -> None:
    entries = (make_entry(n, title=f"Word{n} other{n} thing{n}") for n in range(4_000))
    large.remember("\n".join(map(format_entry, entries)))
    large.read()


def many_alike_entries(large: Large) -> None:
    entries = (
        make_entry(n, title="Retry a charge with a key", body=f"Case {n}.") for n in range(2_000)
    )
    large.remember("\n".join(map(format_entry, entries)))
    large.read()


def chain_of_supersedes(large: Large) -> None:
    first = make_entry(0)
    entries = [first]
    for number in range(1, 2_000):
        before = entries[-1].id
        entries.append(
            make_entry(number, title=f"Word{number} thing{number}", supersedes=(before,))
        )
    large.remember("\n".join(map(format_entry, entries)))
    large.read()


def many_cites(large: Large) -> None:
    cites = tuple(f"src/file-{number}.py::name_{number}" for number in range(5_000))
    large.remember(format_entry(make_entry(1, cites=cites)))
    large.read()


def many_notes(large: Large) -> None:
    for number in range(2_000):
        entry = make_entry(
            number, title=f"Word{number} other{number} thing{number}", scope="project"
        )
        large.project.write(f".memory/inbox/{entry.id}.md", format_entry(entry))
    large.project.git("add", "-A")
    large.project.commit("Notes")
    large.read()


def many_branches(large: Large) -> None:
    tip = large.project.sha()
    lines = "".join(f"create refs/heads/b-{number} {tip}\n" for number in range(10_000))
    large.project.git("update-ref", "--stdin", input=lines.encode())
    large.read()
    large.run("doctor")
    large.run("forget", "Kestrel umbra", "--as", "words", "--plan")


def many_tags_and_sessions(large: Large) -> None:
    tip = large.project.sha()
    lines = [f"create refs/tags/t-{number} {tip}\n" for number in range(20_000)]
    lines += [f"create refs/memory-ci/sessions/codex/s-{number} {tip}\n" for number in range(2_000)]
    large.project.git("update-ref", "--stdin", input="".join(lines).encode())
    large.read()
    large.run("sessions")


def large_message(large: Large) -> None:
    trailers = "".join(
        f"Memory-Used: {number:08x}\nLearning: word{number}\n" for number in range(10_000)
    )
    large.project.commit(
        "feat: much\n\n" + "words and words\n" * 650_000 + "\n" + trailers, {"a": "1\n"}
    )
    large.read()


def many_files_in_a_change(large: Large) -> None:
    large.project.commit(
        "feat: files", {f"gen/file-{number}.txt": f"{number}\n" for number in range(5_000)}
    )
    large.read()


def write_transcript(large: Large, middle: bytes, times: int) -> Path:
    """Write a transcript with a person's words first and last, and large records between."""
    path = large.folder / "transcript.jsonl"
    start = SESSION_TIME
    with path.open("wb") as stream:
        stream.write(make_session("Charge once, please.", at=start))
        for _ in range(times):
            stream.write(middle)
        stream.write(make_session("And lock first.", at=start, first=90))
    return path


def transcript_of_100_mb(large: Large) -> None:
    record = make_session("x " * 500, at=SESSION_TIME, first=50)
    path = write_transcript(large, record, 100_000_000 // len(record))
    large.run("sessions", "--capture", str(path))
    large.run("sessions", str(path))


def transcript_with_a_line_of_50_mb(large: Large) -> None:
    line = json.dumps({"type": "user", "message": {"content": "x" * 50_000_000}}).encode() + b"\n"
    path = write_transcript(large, line, 1)
    large.run("sessions", "--capture", str(path))
    digest = large.project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions/")
    assert "And lock first." in large.project.show(digest, "digest.jsonl")


def transcript_of_empty_lines(large: Large) -> None:
    large.run("sessions", "--capture", str(write_transcript(large, b"\n" * 1_000_000, 1)))


def transcript_that_is_deep(large: Large) -> None:
    large.run(
        "sessions", "--capture", str(write_transcript(large, b'{"a":' * 1_000_000 + b"\n", 1))
    )


def event_of_60_mb(large: Large) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "x" * 60_000_000}
    large.run("hook", "agent", "--for", "claude-code", stdin=json.dumps(event).encode())


def event_that_is_deep(large: Large) -> None:
    large.run("hook", "agent", "--for", "claude-code", stdin=b'{"prompt":' + b"[" * 1_000_000)


def plan_of_60_mb(large: Large) -> None:
    large.run("record", "--apply", "-", stdin=b'{"steps": [' + b'{"step": "extract"},' * 3_000_000)


def note_of_50_mb(large: Large) -> None:
    large.run("add", stdin=b"Title\n\n" + b"x" * 50_000_000)


def query_of_one_megabyte(large: Large) -> None:
    large.run("retrieve", "-", stdin=b"zebra crossing at night " * 40_000)
    large.run("retrieve", "zebra " * 20_000)


SIZES: dict[str, Callable[[Large], None]] = {
    "a line of 50 MB in a memory file": line_of_50_mb,
    "a line of 50 MB in an entry": line_of_50_mb_in_an_entry,
    "a million lines": million_lines,
    "80,000 rules": million_rules,
    "80,000 fences": many_fences,
    "80,000 comments": many_comments,
    "4,000 entries of different words": many_entries_of_different_words,
    "2,000 alike entries": many_alike_entries,
    "2,000 entries that supersede each other": chain_of_supersedes,
    "5,000 cites of one entry": many_cites,
    "2,000 notes": many_notes,
    "10,000 branches": many_branches,
    "20,000 tags and 2,000 sessions": many_tags_and_sessions,
    "a message of 10 MB": large_message,
    "5,000 files in a change": many_files_in_a_change,
    "a transcript of 100 MB": transcript_of_100_mb,
    "a transcript with a line of 50 MB": transcript_with_a_line_of_50_mb,
    "a transcript of a million empty lines": transcript_of_empty_lines,
    "a transcript that is a million deep": transcript_that_is_deep,
    "an event of 60 MB": event_of_60_mb,
    "an event that is a million deep": event_that_is_deep,
    "a plan of 60 MB": plan_of_60_mb,
    "a note of 50 MB": note_of_50_mb,
    "a task of a megabyte": query_of_one_megabyte,
}
CASES = {name: Case(name, name, HOLDS, act) for name, act in SIZES.items()}
ALL_CASES = CASES


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("large") / "shop")
    project.commit("Zoo", {"src/MEMORY.md": format_entry(make_entry(9_999, title=GOOD))})
    return project


@pytest.mark.parametrize("case", CASES)
def test_commands_keep_their_limits_of_time_and_memory(
    case: str, template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    CASES[case].data(Large(copy_project(template, tmp_path / "shop"), launcher, tmp_path))
