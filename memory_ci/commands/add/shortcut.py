"""`memory-ci add` with or without click: the table of its options, and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from memory_ci.cli.plain import (
    Option,
    decode_argument,
    echo_json,
    has_input,
    open_current_workspace,
    read_input,
    say,
    today,
)
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.findings import printable
from memory_ci.records.entry import MOMENT, EntryType

if TYPE_CHECKING:
    from memory_ci.commands.add.add import Added
    from memory_ci.memory.workspace import Workspace

BACKTEST_AGE = "1y"  # The history that a new check is shown against.
TEMPLATE = """

# The first line is the title, the rest the body (Markdown). Lines that start with # are left out;
# an empty text adds nothing.
"""

OPTIONS = (
    Option("--body", "Why, when, and what to do: a short paragraph."),
    Option(
        "--type type_", "What kind of learning.", choices=get_args(EntryType), default="procedural"
    ),
    Option(
        "--when",
        "When agents are served it: start, before:commit, before:push, before:pull-request, "
        "before:command COMMAND, before:edit GLOB or after:failure COMMAND.",
        metavar="MOMENT",
    ),
    Option(
        "--check",
        "What a change must be like, as `untouched: [vendor/]`; its back-test is shown first.",
        metavar="CHECK",
    ),
    Option(
        "--scope",
        "project, institutional, team:<directory> or session:<job>.",
        default="project",
        metavar="SCOPE",
    ),
    Option(
        "--source", "Where it comes from: commit:3f2ab91, pr:128, or an address.", metavar="TEXT"
    ),
    Option(
        "--cite cites",
        "Code at HEAD that the entry is about; repeatable.",
        is_multiple=True,
        metavar="PATH[::SYMBOL|:A-B]",
    ),
    Option(
        "--quote",
        "A person's words in this session, verbatim; - reads standard input.",
        metavar="WORDS",
    ),
    Option("--dry-run", "Say what would be done, and change nothing.", kind=bool),
    Option("--json as_json", "Print JSON instead of text.", kind=bool),
)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run` for words and options, None if click has to parse them."""
    return {**values, "title": words[0]} if len(words) == 1 else None


def run(
    title: str | None,
    body: str | None,
    *,
    type_: str,
    when: str | None,
    check: str | None,
    scope: str,
    source: str | None,
    cites: tuple[str, ...],
    quote: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write an entry into the inbox, unless memory has it, and print its file.

    Args:
        title: the title; None: title and body are read from standard input or the editor.
        body: the body.
        type_: the type of the learning.
        when: the moment at which agents are served the entry; None: when it matches their task.
        check: a test of changes, as YAML.
        scope: where it applies.
        source: the change that it comes from.
        cites: places of code that it speaks about.
        quote: words of a person in the session that prove it; "-": standard input has them.
        dry_run: write nothing.
        as_json: print JSON.
    """
    from memory_ci.api import Memory

    if title is None and quote == "-":
        hint = "Give the title as an argument."
        raise UsageError("standard input has the quote", slug="bad-quote", hint=hint)
    if title is None:
        title, _, body = _read_text().strip().partition("\n")
    workspace = open_current_workspace()
    memory = Memory(workspace)
    backtests: list[dict[str, Any]] = []
    if check is not None:
        check = decode_argument(check)
        backtests = _backtest(workspace, check, decode_argument(title), is_shown=not as_json)
    quoted = None
    if quote == "-":
        quoted = read_input()
    elif quote is not None:
        quoted = decode_argument(quote)
    added = memory.add(
        decode_argument(title),
        decode_argument(body or ""),
        type=type_,
        domain="team" if type_ == "directive" else "task",
        when=_require_valid_moment(when),
        check=check,
        scope=scope,
        source=" ".join(decode_argument(source or "").split()) or None,
        cites=[decode_argument(cite) for cite in cites],
        quote=quoted,
        dry_run=dry_run,
    )
    if as_json:
        result = msgspec.structs.asdict(added)
        echo_json({**result, "backtest": backtests[0]} if backtests else result)
    else:
        _show_added(added, dry_run)


def _backtest(
    workspace: Workspace, check: str, title: str, *, is_shown: bool
) -> list[dict[str, Any]]:
    """Try a check on the merged changes of the last year, and return and print the results.

    Where history cannot be read the result is empty, and the entry is written anyway.

    Args:
        workspace: the repository and its configuration.
        check: the check, as YAML.
        title: the title of its entry.
        is_shown: whether the results are printed.

    Raises:
        UsageError: bad-check.
    """
    from memory_ci.memory.rules import make_rule
    from memory_ci.sessions.backtest_text import export_backtests, find_address, render_backtests
    from memory_ci.sessions.backtests import run_backtest
    from memory_ci.store.checkfield import parse_check_text

    rules = [make_rule(parse_check_text(check), title)]
    try:
        results = run_backtest(workspace, rules, BACKTEST_AGE, today())
    except RepositoryError as error:
        say(f"There is no back-test: {error}", err=True)
        return []
    address = find_address(workspace.repo)
    if is_shown:
        say("\n".join(render_backtests(results, address)))
    return export_backtests(results, address)


def _require_valid_moment(when: str | None) -> str | None:
    """Return the value of `--when` if it is valid.

    It is a moment in the work of an agent at which the entry is served: `before:commit`, for
    instance.

    Raises:
        UsageError: bad-moment.
    """
    if when is None or MOMENT.fullmatch(when):
        return when
    message = f"{printable(when)} is no moment"
    hint = "Say start, before:commit, before:push, before:pull-request, before:command COMMAND, "
    hint += "before:edit GLOB or after:failure COMMAND."
    raise UsageError(message, slug="bad-moment", hint=hint)


def _show_added(added: Added, dry_run: bool) -> None:
    """Print the result for an entry, and the next step."""
    path = printable(added.path)
    if not added.is_new:
        say(f"Known already as {added.entry.id} in {path}; nothing written.")
        return
    verb = "Would add" if dry_run else "Added"
    say(f"{verb} {path}\n{added.entry.id[:8]}")
    if added.is_pending:
        say(
            "The next commit of this session's work takes it along, "
            "else the captured session does.",
            err=True,
        )
    elif not dry_run:
        say(
            "Commit it with your work; `memory-ci record` folds it once it is on the branch.",
            err=True,
        )


def _read_text() -> str:
    """Return standard input if something is piped in, else the text written in the editor."""
    if has_input():
        return read_input()
    from click import edit

    edited_text = edit(TEMPLATE, extension=".md") or ""
    return "\n".join(line for line in edited_text.splitlines() if not line.startswith("# "))
