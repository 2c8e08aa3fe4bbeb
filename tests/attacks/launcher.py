"""Run memory-ci commands in forked children, each with one fault at a chosen write.

Run as `python launcher.py`. Each line of standard input is a JSON job, each line of standard output
its result. A child that is stopped gives a result of its own, and goes on at the next line. The
package is imported once, so that a command costs a fork and not an interpreter.

A fault is injected by an audit hook (PEP 578), which Python calls before each file operation and
each program that it starts. The product knows nothing of it, and no time is measured.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

HANG_SECONDS = 60
"""Seconds after which a hanging job, for example in an open of a pipe, is killed; working jobs need far less."""

CPU_SECONDS = 300
PR_SET_CHILD_SUBREAPER = 36

WRITING_GIT = frozenset(
    """add am branch checkout checkout-index commit commit-tree config fast-import fetch gc hash-object
    merge mktree mktag notes push read-tree rebase reset rm stash symbolic-ref tag update-index
    update-ref worktree write-tree""".split()
)
OBJECTS = frozenset(("hash-object", "mktree", "commit-tree", "write-tree", "read-tree"))
"""Commands that add objects which no ref names yet."""

READING = frozenset(
    ("--get", "--get-all", "--get-regexp", "--list", "--quiet", "--check", "--verify")
)
"""Arguments with which a command of WRITING_GIT only reads."""

FILE_EVENTS = frozenset(
    """os.rename os.remove os.link os.symlink os.mkdir os.truncate shutil.move""".split()
)
DISK = ("enospc", "erofs")
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Fault:
    """Count the writes of a process, and act before the chosen one.

    Args:
        kind: kill (a file that is rewritten in place is left half written), stop, enospc or erofs.
        number: the write before which it acts, from 1; 0 never acts.
        log: the file that gets one line for each write.
        roots: writes to files elsewhere are not counted, because no later command sees them.
    """

    def __init__(self, kind: str, number: int, log: str, roots: tuple[str, ...]) -> None:
        self.kind = kind
        self.number = number
        self.roots = roots
        self.count = 0
        self.process = os.getpid()
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if log else -1

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if os.getpid() != self.process:
            return
        target = describe_write(event, args)
        is_file = event != "subprocess.Popen"
        if not target or (is_file and not target.startswith(self.roots)):
            return
        if self.kind in DISK and not is_file:
            return
        self.count += 1
        if self.log >= 0:
            os.write(self.log, f"{self.count} {event} {target}\n".encode("utf-8", "replace"))
        if self.count == self.number or (self.count > self.number > 0 and self.kind in DISK):
            self.act(event, args)

    def act(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise the disk error, or kill or stop the process; for a kill, first halve a file that is rewritten."""
        if self.kind == "enospc" and event in ("os.remove", "os.rmdir", "os.truncate"):
            return  # a full disk lets files go
        if self.kind == "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.kind == "erofs":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        is_rewritten = event == "open" and int(args[2]) & os.O_TRUNC and os.path.isfile(args[0])  # noqa: PTH113
        if self.kind == "kill" and is_rewritten:
            self.number = -1
            os.truncate(args[0], os.path.getsize(args[0]) // 2)  # noqa: PTH202
        os.kill(os.getpid(), signal.SIGSTOP if self.kind == "stop" else signal.SIGKILL)


def describe_write(event: str, args: tuple[Any, ...]) -> str:
    """Return the file or git command that an audit event is about to write with, or "" if it only reads."""
    if event == "os.mkdir" and os.path.isdir(args[0]):  # noqa: PTH112 - may be bytes
        return ""
    if event in FILE_EVENTS:
        return name_of(args[0])
    if event == "open":
        path, _, flags = args
        is_path = isinstance(path, str | bytes | os.PathLike)
        return name_of(path) if is_path and int(flags or 0) & WRITE_FLAGS else ""
    if event == "sqlite3.connect":
        return name_of(args[0])
    if event == "subprocess.Popen":
        words = [name_of(word) for word in args[1]]
        is_reading = not READING.isdisjoint(words) or WRITING_GIT.isdisjoint(words)
        has_own_index = bool(args[3]) and "GIT_INDEX_FILE" in args[3]
        is_scratch = has_own_index and "update-ref" not in words
        skipped = words[:1] != ["git"] or is_reading or is_scratch
        return "" if skipped or not OBJECTS.isdisjoint(words) else " ".join(words)
    return ""


def name_of(value: object) -> str:
    return os.fsdecode(value) if isinstance(value, str | bytes | os.PathLike) else str(value)


def run_job(job: dict[str, Any]) -> None:
    """Become memory-ci in this process, as the job requests. Does not return."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python itself starts
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    os.chdir(job["cwd"])
    for handle, name, flags in (
        (0, job["stdin"], os.O_RDONLY),
        (1, job["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, job["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        source = os.open(name, flags, 0o600)
        os.dup2(source, handle)
        os.close(source)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.argv = ["memory-ci", *job["args"]]
    signal.alarm(job["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if job["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], job["file_bytes"]))
    if job["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    if job["fault"]:
        fault = Fault(job["fault"], job["number"], job["log"], tuple(job["roots"]))
        sys.addaudithook(fault)
    from memory_ci.__main__ import main

    end_with(main)


def end_with(main: Callable[[], None]) -> None:
    """Call `main` and end the process like Python, without the handlers of the parent."""
    status: object = 0
    try:
        main()
    except SystemExit as stop:
        status = stop.code
    except BaseException:  # noqa: BLE001 - Python would print it, and so must we
        sys.excepthook(*sys.exc_info())
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        status = 120
    if status is not None and not isinstance(status, int):
        os.write(2, f"{status}\n".encode())
        status = 1
    os._exit(int(status or 0))


def import_package() -> None:
    """Import the modules that most commands need, so that a child does not import them again."""
    from memory_ci.commands.table import COMMANDS

    for name in {command.module for command in COMMANDS.values()}:
        importlib.import_module(f"memory_ci.commands.{name}")
    import memory_ci

    for module in pkgutil.walk_packages(memory_ci.__path__, "memory_ci."):
        optional = (
            "report",
            "postgres",
            "server",
            "mcp",
            "anthropic",
            "__main__",
            "vectors",
            "org",
        )
        if not any(part in module.name for part in optional):
            importlib.import_module(module.name)


def reap_orphans(*, is_hung: bool) -> None:
    """Wait for processes that the command has left running: git, and background work."""
    signal.signal(signal.SIGALRM, kill_orphans)
    signal.alarm(1 if is_hung else HANG_SECONDS)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    signal.alarm(0)


def kill_orphans(number: int, frame: FrameType | None) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    signal.alarm(1)  # their children are ours now


def serve() -> None:
    """Answer jobs until standard input ends."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become our children
    import_package()
    replies = os.fdopen(os.dup(1), "w")

    def send(reply: dict[str, object]) -> None:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    while line := sys.stdin.readline():
        job = json.loads(line)
        child = os.fork()
        if not child:
            run_job(job)
        _, status, usage = os.wait4(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            send({"stopped": True})
            sys.stdin.readline()
            os.kill(child, signal.SIGCONT)
            _, status, usage = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        reap_orphans(is_hung=code == -signal.SIGALRM)
        send({"status": code, "rss": usage.ru_maxrss * 1024})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    serve()
