"""The command `memory-ci`, also as `python -m memory_ci`."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # The import of typing takes as long as Python's own start.
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130  # The exit status of shells after SIGINT (2): 128 + 2.
INFORMATION = ("--help", "-h", "--version")


def main() -> None:
    """Run the command line, unless the environment switches memory-ci off (MEMORY_CI=off).

    Commands that hooks run often take a shortcut, which does not load click.
    """
    is_off = os.environ.get("MEMORY_CI", "").lower() == "off"
    if is_off and not any(argument in INFORMATION for argument in sys.argv):
        sys.stderr.write("memory-ci is off (MEMORY_CI=off): nothing was done.\n")
        return
    if sys.argv[1:] == ["--version"] and _print_version():
        return

    import signal

    # A process that ignores it (`&`, nohup) continues to do so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    from memory_ci.cli.plain import guard_job_log

    guard_job_log(os.environ)
    import gc

    from memory_ci.commands.shortcut import run_shortcut

    # A collection frees nothing in a process of a tenth of a second, and takes 5 % of it.
    gc.disable()
    if run_shortcut(sys.argv[1:], os.environ):
        # All is written and closed; Python's own exit would take as long as its start.
        os._exit(0)
    gc.enable()
    from memory_ci.commands.root import main as group

    group()


def _print_version() -> bool:
    """Print the version in the words of click, without the time to load click.

    Returns:
        Whether it could be printed: standard output may be closed or full. Otherwise the caller
        goes on to click, which fails at the same and reports it.
    """
    from memory_ci import __version__

    if sys.stdout is None:
        return False
    try:
        sys.stdout.write(f"memory-ci, version {__version__}\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def interrupt(_number: int, _frame: object) -> NoReturn:
    """Handle SIGINT: exit at once with status 130, even in the middle of an import.

    With KeyboardInterrupt click would exit with status 1, and Python print a traceback.
    """
    end = b"\x1b[K" if os.isatty(2) else b""  # what is left of a line of progress
    os.write(2, b"Interrupted." + end + b"\n")  # sys.stderr may itself be interrupted
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
