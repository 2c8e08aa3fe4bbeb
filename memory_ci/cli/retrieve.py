"""`memory-ci retrieve`: its options as a table, and what it does once they are read, by click or by `shortcut`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from memory_ci.cli.plain import (
    Option,
    echo,
    echo_json,
    has_input,
    is_terminal,
    now,
    progress,
    read_input,
    say,
    today,
    utf8,
    warn,
    workspace,
)
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.records.retrieval import Retrieval
from memory_ci.rendering.context import (
    ASK,
    FENCE_CHARS,
    HOOK_CHARS,
    render_asking,
    render_context,
    render_hook,
    render_markdown,
)
from memory_ci.rendering.table import printable

if TYPE_CHECKING:
    from memory_ci.flows.workspace import Workspace


Format = Literal["text", "markdown", "json", "hook"]

SCOPES = tuple(name for name in get_args(ScopeName) if name != "institutional")


class Below(NamedTuple):
    """What follows the hints: a nudge, and whether the given entries are noted, so that use can be asked for."""

    nudge: str
    is_noted: bool


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
        from memory_ci.cli import agent

        agent.run("claude-code", "UserPromptSubmit", no_ask=True, user=False, asked=asked)
        return
    if (about := asked["about"]) is not None:
        if task:
            hint = "Ask for the task, or for the file."
            raise UsageError("--about takes no TASK", slug="option-conflict", hint=hint)
        if form in ("text", "hook") and not (as_json or ids or explain) and _is_told(asked):
            return
    where = workspace()
    if about is not None:
        from memory_ci.flows.workspace import repository_path

        asked["about"] = about = repository_path(where, Path(about))
    text = about or (utf8(" ".join(task)) if task else _read_task())
    is_context = form == "hook" and not (as_json or ids or explain)
    nudge = _nudge(where, asked["session"]) if is_context else ""
    is_noted = not explain and (record if record is not None else "CI" in os.environ)
    asked["reserved"] = len(nudge) + len(ASK) * is_noted + FENCE_CHARS * (form == "markdown")
    with progress("Asking memory"):
        answer = _retrieve(where, text, asked | ({"total_chars": HOOK_CHARS} if form == "hook" else {}))
    warn(answer.findings)
    for note in answer.notes:
        say(f"Note: {printable(note)}", err=True)
    if answer.held_out:
        told = "This session is held out and given nothing (retrieve.holdout); `--all` shows what is known."
        say(f"Note: {told}", err=True)
    _print(answer, "json" if as_json else form, ids, explain, Below(nudge, is_noted))
    if is_noted:
        _record(where, answer)
    if record is not False and not explain:
        _note_session(where, asked, answer)


def _is_told(asked: Mapping[str, Any]) -> bool:
    """Whether the session was told of the file that it asks about, and nothing else is asked for."""
    if asked["session"] is None or asked["all_matches"] or asked["at"] is not None or asked["base"] is not None:
        return False
    from memory_ci.flows.serve.session_note import bare_workspace, list_untold

    return not list_untold(bare_workspace(Path.cwd()), asked["session"], [Path(asked["about"])])


def _retrieve(where: Workspace, task: str, asked: dict[str, Any]) -> Retrieval:
    from memory_ci.flows.serve.options import RetrieveOptions
    from memory_ci.flows.serve.retrieve import retrieve

    return retrieve(where, task, RetrieveOptions(**asked), today(), os.environ)


def _print(answer: Retrieval, form: Format, ids: bool, explain: bool, below: Below) -> None:
    if explain:
        from memory_ci.rendering.why import render_explanation

        say(render_explanation(answer))
    elif form == "json":
        echo_json(answer)
    elif ids:
        from memory_ci.flows.serve.retrieve import injected_ids

        echo("".join(f"{entry_id}\n" for entry_id in injected_ids(answer)))
    else:
        # Elsewhere it is an agent's to read.
        (say if form == "text" and is_terminal() else echo)(_render(answer, form, below))


def _render(answer: Retrieval, form: Format, below: Below) -> str:
    context = render_asking(render_context(answer), below.is_noted and bool(answer.hits or answer.norms))
    if form == "hook":
        return render_hook(f"{context}{below.nudge}")
    return render_markdown(context) if form == "markdown" else context


def _nudge(where: Workspace, session: str | None) -> str:
    """The line below the answer that says that memory has not changed for long, if it is due."""
    from memory_ci.flows.sessions.nudge import nudge_agent  # 2 ms that only hooks need

    line = nudge_agent(where, session, today())
    return f"{line}\n" if line else ""


def _record(where: Workspace, answer: Retrieval) -> None:
    from memory_ci.flows.serve.retrieve import noted_ids
    from memory_ci.flows.serve.served_ids import record_injected

    with _noting():
        record_injected(where, noted_ids(answer), now())


def _note_session(where: Workspace, asked: Mapping[str, Any], answer: Retrieval) -> None:
    """Note what the session was given, so that it is not given again."""
    if asked["session"] is None or asked["at"] is not None:
        return
    from memory_ci.flows.serve.session_note import note_given

    with _noting():
        note_given(where, asked["session"], answer, now(), asked["about"])


@contextmanager
def _noting() -> Iterator[None]:
    try:
        yield
    except MemoryCIError as error:  # what was asked for has been given
        say(f"Warning: what was given is not noted: {error.message} [{error.slug}]", err=True)


def _read_task() -> str:
    if not has_input():
        from click import UsageError

        raise UsageError('Say what the task is: memory-ci retrieve "…", or pipe it in.')
    return read_input()


OPTIONS = (
    Option(
        "--max-chars",
        "max_chars",
        "How many characters to print, all counted; the configuration's default is 8000.",
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
    Option(
        "--diff",
        "diff",
        "Ask as well for the definitions that the work tree changes since REV, as HEAD or the branch it started from.",
        metavar="REV",
    ),
    Option("--type", "types", "Only this type.", choices=get_args(EntryType), is_multiple=True),
    Option("--domain", "domains", "Only this domain.", choices=get_args(Domain), is_multiple=True),
    Option("--scope", "scopes", "Only this scope.", choices=SCOPES, is_multiple=True),
    Option("--status", "statuses", "Default: all but retired.", choices=get_args(Status), is_multiple=True),
    Option("--stage", "phases", "Only what was learned then.", choices=get_args(Phase), is_multiple=True),
    Option("--limit", "limit", "At most this many entries.", kind=int, default=50),
    Option("--session", "session", "The job that asks: its own session's entries count more.", metavar="JOB"),
    Option("--all-sessions", "all_sessions", "See the entries of other sessions too.", kind=bool),
    Option(
        "--all",
        "all_matches",
        "Print weak matches too, as many as there is room for, and what the session was given before.",
        kind=bool,
    ),
    Option(
        "--about",
        "about",
        "Instead of a task: the entries that cite this file, and those of its nearest team scope, five at most.",
        metavar="PATH",
    ),
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
    Option("--hook", "hook", "As `memory-ci hook agent` without its questions, which replaces it.", kind=bool),
    Option(
        "--record",
        "record",
        "Note what was given to this job, for the trailer of its commits. Default: on in CI.",
        kind=bool,
        negation="--no-record",
    ),
    Option("--json", "as_json", "Print JSON instead of text.", kind=bool),
)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `run` for these words and options; None where it is click's to say what they are."""
    return (
        {**values, "task": words, "occurred_between": None}
        if words or values["hook"] or values["about"] or has_input()
        else None
    )
