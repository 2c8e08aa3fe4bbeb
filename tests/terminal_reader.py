"""Run the commands of a documentation page at a pseudo-terminal, and compare their output with the page.

Blocks of kind `console` are run. In them a line "…" matches any lines, and "…" in a line any words. Where a line
ends with a question and an answer (`[s]: k`), the answer is typed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COLUMNS = 100
END_OF_INPUT = "\x04"
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ", re.MULTILINE)
ANSWER = re.compile(r"(?m)(?:(?<=\]: )|(?<=\] ))\w$")
PROMPT = re.compile(rb"[\]?:] +$")
PROGRESS = re.compile(r"[^\n\r]*\r(?!\n)|\x1b\[K")
ID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[a-f]*\d)[0-9a-f]{6,64}\b"
COMMIT = r"(?<=\bcommit:)[0-9a-f]{6}\b"  # A few have no digit, as words have none.
DATE_OR_TIME = r"\b20\d\d-\d\d(?:-\d\d)?\b|\b\d\d:\d\d\b"
LINE = r"(?<=\.md:)\d+"
SCORE = r"\b0\.\d\d\b"
TOKENS = r"(?<=about )\d+(?= tokens)"
VARIES = re.compile("|".join((ID, COMMIT, DATE_OR_TIME, LINE, SCORE, TOKENS)))
"""Text that differs between runs: ids, dates, line numbers, scores (they fall with age), prompt sizes."""


class Step(NamedTuple):
    """A command of a page, and its output in the page."""

    command: str
    printed: list[str]


def read_blocks(page: str, title: str = "") -> list[re.Match[str]]:
    """Return the fenced blocks of the sections whose heading begins with a title, or of all."""
    text = (ROOT / page).read_text("utf-8")
    blocks = list(FENCE.finditer(text))
    fenced = {line for block in blocks for line in range(block.start(), block.end())}
    starts = [match.start() for match in SECTION.finditer(text) if match.start() not in fenced]
    ends = [*starts, len(text)][1:]
    chosen = [
        (start, end)
        for start, end in zip(starts, ends, strict=True)
        if text.startswith(f"## {title}", start)
    ]
    assert chosen or not title, f"{page} has no section {title}"
    spans = chosen if title else [(0, len(text))]
    return [block for block in blocks if any(start < block.start() < end for start, end in spans)]


def read_steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield Step(re.sub(r" {4,}#.*", "", command), [line for line in printed if line.strip()])


class TerminalReader:
    """Runs commands at a pseudo-terminal, and keeps the ids that differ from the page.

    Attributes:
        place: the current directory of the commands.
        root: the directory that is `/srv` in a page.
    """

    def __init__(self, place: Path, root: Path, environ: dict[str, str]) -> None:
        self.place = place
        self.root = root
        # A pager would wait for keys, pages show no colours, and in CI memory-ci would not treat this as a terminal.
        self._environ = {
            **{key: value for key, value in environ.items() if key not in ("CI", "COLUMNS")},
            **{"TERM": "xterm", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat"},
        }
        self._ids: dict[str, str] = {}

    def run(self, command: str, answers: Sequence[str] = ()) -> list[str]:
        """Return the lines that a command prints at a terminal, without progress.

        The placeholder OWNER in a command becomes the account that holds memory-ci.
        """
        for page_id, actual_id in self._ids.items():
            command = command.replace(page_id, actual_id)
        command = command.replace("OWNER/", "acme/")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        waiting = [*answers, END_OF_INPUT]
        output = b""
        with subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.place,
            env=self._environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        ):
            os.close(theirs)
            while chunk := _read(ours):
                output += chunk
                if waiting and PROMPT.search(output):
                    os.write(ours, waiting.pop(0).encode())
        os.close(ours)
        text = PROGRESS.sub("", output.decode().replace("\r\n", "\n"))
        text = text.replace(str(self.root), "/srv").replace(str(Path.home()), "~")
        assert "Traceback" not in text, text
        assert "Usage:" not in text, text
        return [line for line in text.splitlines() if line.strip()]

    def set(self, variable: str, value: str) -> None:
        self._environ[variable] = value

    def follow(self, step: Step) -> None:
        """Run a step, and compare its output with the page."""
        answers = [f"{answer}\n" for answer in ANSWER.findall("\n".join(step.printed))]
        printed = self.run(step.command, answers)
        self._learn_ids(step.printed, printed)
        if step.printed:
            compare(step, printed)

    def translate(self, text: str) -> str:
        """Replace the ids of a page's text by those of this run."""
        for page_id, actual_id in self._ids.items():
            text = re.sub(rf"\b{page_id}\b(?!-)", actual_id, text)
        return text

    def _learn_ids(self, page_lines: list[str], printed: list[str]) -> None:
        """Map the ids of the page's lines to the ids of the same printed lines."""
        actual = {blur(line): re.findall(ID, line) for line in printed}
        for line in page_lines:
            pairs = zip(re.findall(ID, line), actual.get(blur(line), []), strict=False)
            self._ids.update({before: after for before, after in pairs if before not in self._ids})


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the other side is closed
        return b""


def blur(line: str) -> str:
    return " ".join(VARIES.sub("*", re.sub(r"^\d+ \|", "* |", line)).split())


def compare(step: Step, printed: list[str]) -> None:
    """Compare the words of a step's output, not their order: entries of one commit are sorted by random ids."""
    is_part = any("…" in line.split() for line in step.printed)
    expected = Counter(word for line in step.printed for word in blur(line).split() if word != "…")
    actual = Counter(word for line in printed for word in blur(line).split())
    missing, unexpected = expected - actual, actual - expected
    output = "\n".join(printed)
    assert not missing, f"{step.command} does not print {sorted(missing)}:\n{output}"
    assert is_part or not unexpected, f"{step.command} prints more, {sorted(unexpected)}:\n{output}"
