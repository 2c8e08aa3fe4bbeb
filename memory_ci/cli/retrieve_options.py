"""The options of `memory-ci retrieve`, as a table: click's options are made from it, and `shortcut` reads by it."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from memory_ci.cli.retrieving import Format
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status

SCOPES = tuple(name for name in get_args(ScopeName) if name != "institutional")


class Option(NamedTuple):
    """One option: its flag, the argument of `retrieving.serve` that it fills, how its value is read.

    `kind` bool takes no value; with a `negation` it is None until one of both is said. `is_multiple`: a tuple of them.
    """

    flag: str
    name: str
    help: str
    kind: type[str | int | bool] = str
    choices: tuple[str, ...] = ()
    is_multiple: bool = False
    default: Any = None
    metavar: str | None = None
    negation: str = ""

    @property
    def initial(self) -> Any:  # noqa: ANN401 - what `kind` says
        """The value where the option is not given."""
        if self.is_multiple:
            return ()
        return False if self.kind is bool and not self.negation else self.default


OPTIONS = (
    Option(
        "--max-chars",
        "max_chars",
        "How much ranked memory to print; the configuration's default is 8000.",
        kind=int,
        metavar="N",
    ),
    Option(
        "--path",
        "paths",
        "A file or directory the work touches: of the team scopes only theirs are searched. Without it all are.",
        is_multiple=True,
        metavar="PATH",
    ),
    Option("--type", "types", "Only this type.", choices=get_args(EntryType), is_multiple=True),
    Option("--domain", "domains", "Only this domain.", choices=get_args(Domain), is_multiple=True),
    Option("--scope", "scopes", "Only this scope.", choices=SCOPES, is_multiple=True),
    Option("--status", "statuses", "Default: all but retired.", choices=get_args(Status), is_multiple=True),
    Option("--stage", "phases", "Only what was learned then.", choices=get_args(Phase), is_multiple=True),
    Option("--limit", "limit", "At most this many entries.", kind=int, default=50),
    Option("--session", "session", "The job that asks: its own session's entries count more.", metavar="JOB"),
    Option("--all-sessions", "all_sessions", "See the entries of other sessions too.", kind=bool),
    Option("--role", "role", "See only the scopes that `roles` in the configuration gives this role.", metavar="NAME"),
    Option("--at", "at", "The memory of a commit, or of the end of a day (UTC), ranked as then.", metavar="REV|DAY"),
    Option("--base", "base", "For a fork's branch: the memory of where it left REV.", metavar="REV"),
    Option("--tree", "tree", "Judge cited code in this revision instead of the work tree.", metavar="REV"),
    Option("--stale", "stale", "Show entries whose code is gone, marked.", kind=bool),
    Option(
        "--walk",
        "walk",
        "1: add entries one relation away from those found; the configuration's default is 0.",
        kind=int,
        metavar="0|1",
    ),
    Option("--format", "form", "What to print.", choices=get_args(Format), default="text"),
    Option("--ids", "ids", "Print only the ids, one a line.", kind=bool),
    Option("--explain", "explain", "Print why each entry was given or not, instead of its text.", kind=bool),
    Option("--hook", "hook", "Be an agent's hook: its JSON on standard input, JSON out, and never fail.", kind=bool),
    Option(
        "--record",
        "record",
        "Note what was given to this job, for the trailer of its commits. Default: on in CI and with --hook.",
        kind=bool,
        negation="--no-record",
    ),
    Option("--json", "as_json", "Print JSON instead of text.", kind=bool),
)
