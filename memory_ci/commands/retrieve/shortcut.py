"""`memory-ci retrieve`: its options as a table, and what it does once they are read, by click or by `shortcut`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from memory_ci.cli.plain import (
    Option,
    echo,
    echo_json,
    has_input,
    is_terminal,
    now,
    progress,
    read_words_or_input,
    say,
    today,
    warn,
    workspace,
)
from memory_ci.commands.retrieve.text import (
    ASK,
    FENCE_CHARS,
    HOOK_CHARS,
    render_asking,
    render_context,
    render_hook,
    render_markdown,
)
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.findings import printable
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.records.retrieval import Retrieval

if TYPE_CHECKING:
    from memory_ci.memory.workspace import Workspace


Format = Literal["text", "markdown", "json", "hook"]

SCOPES = tuple(name for name in get_args(ScopeName) if name != "institutional")


def run(
    task: tuple[str, ...],
    form: Format,
    ids: bool,
    explain: bool,
    hook: bool,
    record: bool | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 - the other fields of flows.serve.options.RetrieveOptions, each as its option makes it
) -> None:
    """Answer a task, or a hook; without a task it is read from standard input."""
    asked["paths"] = asked["paths"] or None
    if hook:
        from memory_ci.commands.agents import shortcut as agent

        agent.run("claude-code", "UserPromptSubmit", no_ask=True, user=False, asked=asked)
        return
    shown = (
        "explain" if explain else "json" if as_json or form == "json" else "ids" if ids else form
    )
    if (about := asked["about"]) is not None:
        if task:
            hint = "Ask for the task, or for the file."
            raise UsageError("--about takes no TASK", slug="option-conflict", hint=hint)
        if shown in ("text", "hook") and _is_told(asked):
            return
    where = workspace()
    if about is not None:
        from memory_ci.memory.workspace import repository_path

        asked["about"] = about = repository_path(where, Path(about))
    text = about or read_words_or_input(task, "Say what the task is", "retrieve")
    nudge = ""
    if shown == "hook":
        from memory_ci.sessions.nudge import nudge_agent  # 2 ms that only hooks need

        line = nudge_agent(where, asked["session"], today())
        nudge = f"{line}\n" if line else ""
    is_noted = not explain and (record if record is not None else "CI" in os.environ)
    asked |= {"total_chars": HOOK_CHARS} if form == "hook" else {}
    asked["reserved"] = len(nudge) + len(ASK) * is_noted + FENCE_CHARS * (form == "markdown")
    from memory_ci.commands.retrieve.options import RetrieveOptions
    from memory_ci.commands.retrieve.retrieve import retrieve

    with progress("Asking memory"):
        answer = retrieve(where, text, RetrieveOptions(**asked), today(), os.environ)
    warn(answer.findings)
    for note in answer.notes:
        say(f"Note: {printable(note)}", err=True)
    if answer.held_out:
        told = "This session is held out and given nothing (retrieve.holdout); `--all` shows what is known."
        say(f"Note: {told}", err=True)
    _print(answer, shown, is_noted, nudge)
    _note(where, asked, answer, is_noted, record is not False and not explain)


def _is_told(asked: Mapping[str, Any]) -> bool:
    """Whether the session was told of the file that it asks about, and nothing else is asked for."""
    if (
        asked["session"] is None
        or asked["all_matches"]
        or asked["at"] is not None
        or asked["base"] is not None
    ):
        return False
    from memory_ci.sessions.session_note import bare_workspace, list_untold

    return not list_untold(bare_workspace(Path.cwd()), asked["session"], [Path(asked["about"])])


def _print(answer: Retrieval, shown: str, is_noted: bool, nudge: str) -> None:
    """The answer; as text what was given is asked about, where it is noted."""
    if shown == "explain":
        from memory_ci.commands.retrieve.explanation import render_explanation

        say(render_explanation(answer))
    elif shown == "json":
        echo_json(answer)
    elif shown == "ids":
        from memory_ci.commands.retrieve.retrieve import injected_ids

        echo("".join(f"{entry_id}\n" for entry_id in injected_ids(answer)))
    else:
        context = render_asking(
            render_context(answer), is_noted and bool(answer.hits or answer.norms)
        )
        if shown == "hook":
            context = render_hook(f"{context}{nudge}")
        elif shown == "markdown":
            context = render_markdown(context)
        (say if shown == "text" and is_terminal() else echo)(
            context
        )  # elsewhere it is an agent's to read


def _note(
    where: Workspace, asked: Mapping[str, Any], answer: Retrieval, is_noted: bool, for_session: bool
) -> None:
    """Note what was given: for the trailer of commits, and so that the session is not given it again."""
    if is_noted:
        from memory_ci.commands.retrieve.retrieve import noted_ids
        from memory_ci.sessions.served_ids import record_injected

        with _noting():
            record_injected(where, noted_ids(answer), now())
    if for_session and asked["session"] is not None and asked["at"] is None:
        from memory_ci.sessions.session_note import note_given

        with _noting():
            note_given(where, asked["session"], answer, now(), asked["about"])


@contextmanager
def _noting() -> Iterator[None]:
    try:
        yield
    except MemoryCIError as error:  # what was asked for has been given
        say(f"Warning: what was given is not noted: {error.message} [{error.slug}]", err=True)


OPTIONS = (
    Option(
        "--max-chars",
        "How many characters to print, all counted; the configuration's default is 8000.",
        kind=int,
        metavar="N",
    ),
    Option(
        "--path paths",
        "A file or directory the work touches: of the team scopes only theirs are searched. Without it all are.",
        is_multiple=True,
        metavar="PATH",
    ),
    Option(
        "--diff",
        "Ask as well for the definitions that the work tree changes since REV, as HEAD or the branch it started from.",
        metavar="REV",
    ),
    Option("--type types", "Only this type.", choices=get_args(EntryType), is_multiple=True),
    Option("--domain domains", "Only this domain.", choices=get_args(Domain), is_multiple=True),
    Option("--scope scopes", "Only this scope.", choices=SCOPES, is_multiple=True),
    Option(
        "--status statuses", "Default: all but retired.", choices=get_args(Status), is_multiple=True
    ),
    Option(
        "--stage phases", "Only what was learned then.", choices=get_args(Phase), is_multiple=True
    ),
    Option(
        "--limit", "At most this many entries; default: 10, with --all 50.", kind=int, metavar="N"
    ),
    Option("--session", "The job that asks: its own session's entries count more.", metavar="JOB"),
    Option("--all-sessions", "See the entries of other sessions too.", kind=bool),
    Option(
        "--all all_matches",
        "Print weak matches too, as many as there is room for, and what the session was given before.",
        kind=bool,
    ),
    Option(
        "--about",
        "Instead of a task: the entries that cite this file, and those of its nearest team scope, five at most.",
        metavar="PATH",
    ),
    Option(
        "--role",
        "See only the scopes that `roles` in the configuration gives this role.",
        metavar="NAME",
    ),
    Option(
        "--at",
        "The memory of a commit, or of the end of a day (UTC), ranked as then.",
        metavar="REV|DAY",
    ),
    Option("--base", "For a fork's branch: the memory of where it left REV.", metavar="REV"),
    Option("--tree", "Judge cited code in this revision instead of the work tree.", metavar="REV"),
    Option("--stale", "Show entries whose code is gone, marked.", kind=bool),
    Option(
        "--walk",
        "1: add entries one relation away from those found; the configuration's default is 0.",
        kind=int,
        metavar="0|1",
    ),
    Option("--format form", "What to print.", choices=get_args(Format), default="text"),
    Option("--ids", "Print only the ids, one a line.", kind=bool),
    Option("--explain", "Print why each entry was given or not, instead of its text.", kind=bool),
    Option(
        "--hook", "As `memory-ci hook agent` without its questions, which replaces it.", kind=bool
    ),
    Option(
        "--record",
        "Note what was given to this job, for the trailer of its commits. Default: on in CI.",
        kind=bool,
        negation="--no-record",
    ),
    Option("--json as_json", "Print JSON instead of text.", kind=bool),
)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `run` for these words and options; None where it is click's to say what they are."""
    is_legal = words or values["hook"] or values["about"] or has_input()
    return {**values, "task": words, "occurred_between": None} if is_legal else None
