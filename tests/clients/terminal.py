"""An agent in a pseudo-terminal, with typed input."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c", b"\x1b[?u": b"\x1b[?0u"}
"""Answers of a terminal to queries: the cursor's position, its type, and how it reports keys."""

ESCAPES = re.compile(
    rb"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|.)", re.DOTALL
)
TYPED = 0.8  # Seconds between a text and Enter, so that it is no paste.


class Terminal:
    """A program at a terminal of 50 lines and 150 columns."""

    def __init__(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self.seen = b""
        self._pid, self._handle = pty.fork()
        if self._pid == 0:
            try:
                os.chdir(cwd)
                os.execvpe(command[0], [*command], dict(environ))  # noqa: S606 - no shell is meant
            finally:
                os._exit(127)  # a copy of pytest would go on with the tests
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Read the output for some seconds, or until a condition holds; return whether it held."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if until():
                return True
            if not select.select([self._handle], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self._handle, 1 << 16)
            except OSError:
                return until()
            if not data:
                return until()
            self.seen += data
            for question, answer in ANSWERS.items():
                for _ in range(data.count(question)):
                    self._write(answer)
        return until()

    def type(self, text: str) -> None:
        """Type a text and Enter."""
        self._write(text.encode())
        self.wait(TYPED)
        self._write(b"\r")

    def press(self, key: bytes) -> None:
        self._write(key)

    def screen(self) -> str:
        """Return all output without colours and cursor movements."""
        return ESCAPES.sub(b"", self.seen).decode("utf-8", "replace")

    def is_alive(self) -> bool:
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(self._pid, os.WNOHANG) == (0, 0)
        return False

    def close(self) -> None:
        """End the program and its children."""
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGHUP)
        self.wait(2, lambda: not self.is_alive())
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._handle, data)
