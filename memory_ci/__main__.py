"""The command `memory-ci`, also as `python -m memory_ci`."""

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130  # The exit status that shells give to what SIGINT (2) ended: 128 + 2.


def main() -> None:
    """Run the command line; nothing where MEMORY_CI is `off`, the switch for whoever runs a fleet."""
    if os.environ.get("MEMORY_CI", "").lower() == "off" and {
        "--help",
        "-h",
        "--version",
    }.isdisjoint(sys.argv):
        sys.stderr.write("memory-ci is off (MEMORY_CI=off): nothing was done.\n")
        return
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # where it is ignored (`&`, nohup) it stays so
        signal.signal(signal.SIGINT, _interrupt)
    from memory_ci.cli.plain import guard_job_log

    guard_job_log(os.environ)
    from memory_ci.commands.shortcut import run_shortcut

    if run_shortcut(sys.argv[1:], os.environ):
        os._exit(
            0
        )  # all is written and closed; to take the modules apart costs as much again as bare Python
    from memory_ci.commands.root import main as group

    group()


def _interrupt(number: int, frame: object) -> NoReturn:
    """End at once, also in the middle of an import; what is open is closed on the way. Of KeyboardInterrupt click would
    make the status 1, and Python a traceback."""
    os.write(2, b"Interrupted.\n")  # not sys.stderr, which we may have interrupted
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
