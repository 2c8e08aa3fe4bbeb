"""The options of `memory-ci retrieve` and its run, with click or without."""

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
    open_current_workspace,
    progress,
    read_words_or_input,
    say,
    today,
    warn,
)
from memory_ci.commands.retrieve.text import (
    FENCE_CHARS,
    HOOK_CHARS,
    USAGE_REQUEST,
    append_usage_request,
    render_context,
    render_hook,
    render_markdown,
)
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.findings import printable
from memory_ci.records.retrieval import Retrieval
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.memory.workspace import Workspace


Format = Literal["text", "markdown", "json", "hook"]
Output = Literal["text", "markdown", "json", "hook", "explain", "ids"]


def run(
    task: tuple[str, ...],
    *,
    form: Format,
    ids: bool,
    explain: bool,
    record: bool | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - fields of RetrieveOptions, each as its option makes it
) -> None:
    """Print the memory for a task, which is read from standard input if it is missing.

    Args:
        task: the words of the task.
        form: the format. `ids`, `explain` and `as_json` choose another kind of output.
        ids: print only the ids of the entries.
        explain: print why each entry is served or not.
        record: note the served entries, for the trailer of commits; None: in CI only.
        as_json: print JSON, whatever the format.
        **options: the fields of RetrieveOptions.
    """
    options["paths"] = options["paths"] or None
    output = _choose_output(form, ids=ids, explain=explain, as_json=as_json)
    is_about = options["about"] is not None
    if is_about:
        if task:
            hint = "Ask for the task, or for the file."
            raise UsageError("--about takes no TASK", slug="option-conflict", hint=hint)
        if output in ("text", "hook") and _was_file_served(options):
            return

    current_workspace = open_current_workspace()
    if is_about:
        from memory_ci.memory.workspace import repository_path

        options["about"] = repository_path(current_workspace, Path(options["about"]))
    query = options["about"] or read_words_or_input(task, "Name the task", "retrieve")
    reminder = ""
    if output == "hook":
        reminder = _make_reminder(current_workspace, options["session"])
    may_record = "CI" in os.environ if record is None else record
    notes_served = may_record and not explain
    if form == "hook":
        options["total_chars"] = HOOK_CHARS
    added_chars = _count_added_chars(form, notes_served=notes_served)
    options["reserved"] = len(reminder) + added_chars

    from memory_ci.api import Memory
    from memory_ci.commands.retrieve.options import RetrieveOptions

    memory = Memory(current_workspace)
    with progress("Asking memory"):
        retrieval = memory.retrieve(query, options=RetrieveOptions(**options))
    _print_warnings(retrieval)
    _print_retrieval(retrieval, output, notes_served, reminder)
    if notes_served:
        _note_for_commits(current_workspace, retrieval)
    if record is not False and not explain:
        _note_for_session(current_workspace, options, retrieval)


def _choose_output(form: Format, *, ids: bool, explain: bool, as_json: bool) -> Output:
    """Return the kind of output. If options conflict, --explain wins, then --json, then --ids."""
    if explain:
        return "explain"
    if as_json:
        return "json"
    if ids and form != "json":
        return "ids"
    return form


def _count_added_chars(form: Format, *, notes_served: bool) -> int:
    """Return the characters that are printed in addition to the context."""
    request = len(USAGE_REQUEST) if notes_served else 0
    fence = FENCE_CHARS if form == "markdown" else 0
    return request + fence


def _was_file_served(options: Mapping[str, Any]) -> bool:
    """Return whether the session was served the memory about the file in question before.

    It is looked up in the notes on the session, without opening the memory. The answer is no if
    weak matches, or the memory of another moment, are asked for.

    Args:
        options: the fields of RetrieveOptions by name; `about` is the file.
    """
    if options["session"] is None or options["all_matches"]:
        return False
    if options["at"] is not None or options["base"] is not None:
        return False
    from memory_ci.sessions.session_note import list_unserved_files, open_bare_workspace

    path = Path(options["about"])
    return not list_unserved_files(open_bare_workspace(Path.cwd()), options["session"], [path])


def _make_reminder(current_workspace: Workspace, session: str | None) -> str:
    """Return a line that reminds the agent of memory; "" if none is due."""
    from memory_ci.sessions.nudge import nudge_agent  # Here, for it takes 2 ms.

    line = nudge_agent(current_workspace, session, today())
    return f"{line}\n" if line else ""


def _print_warnings(retrieval: Retrieval) -> None:
    """Print findings and notes on a retrieval to standard error."""
    warn(retrieval.findings)
    for note in retrieval.notes:
        say(f"Note: {printable(note)}", err=True)
    if retrieval.held_out:
        note = (
            "This session is held out and served nothing (retrieve.holdout); "
            "`--all` shows the matching entries."
        )
        say(f"Note: {note}", err=True)


def _print_retrieval(
    retrieval: Retrieval, output: Output, notes_served: bool, reminder: str
) -> None:
    """Print a retrieval.

    Args:
        retrieval: the retrieval.
        output: the kind of output.
        notes_served: served entries are noted, so the agent is requested to name those it uses.
        reminder: a line that reminds the agent of memory, or "".
    """
    if output == "explain":
        from memory_ci.commands.retrieve.explanation import render_explanation

        say(render_explanation(retrieval))
        return
    if output == "json":
        echo_json(retrieval)
        return
    if output == "ids":
        from memory_ci.commands.retrieve.retrieve import list_served_ids

        if retrieval.hits_dropped:
            count = plural(len(retrieval.hits_dropped), "entry")
            say(f"Note: {count} left out for want of room.", err=True)
        echo("".join(f"{entry_id}\n" for entry_id in list_served_ids(retrieval)))
        return

    serves_entries = bool(retrieval.hits or retrieval.norms)
    context = append_usage_request(render_context(retrieval), notes_served and serves_entries)
    if output == "hook":
        context = render_hook(f"{context}{reminder}")
    elif output == "markdown":
        context = render_markdown(context)
    if output == "text" and is_terminal():
        say(context)
        if not (context or retrieval.notes or retrieval.held_out):
            say("Memory holds nothing on this.", err=True)
    else:  # An agent reads it.
        echo(context)


def _note_for_commits(current_workspace: Workspace, retrieval: Retrieval) -> None:
    """Note the served entries for the trailer of commits."""
    from memory_ci.commands.retrieve.retrieve import list_noted_ids
    from memory_ci.sessions.served_ids import record_served

    with _warn_if_not_noted():
        record_served(current_workspace, list_noted_ids(retrieval), now())


def _note_for_session(
    current_workspace: Workspace, options: Mapping[str, Any], retrieval: Retrieval
) -> None:
    """Note the served entries, to not serve them to the session again."""
    if options["session"] is None or options["at"] is not None:
        return
    from memory_ci.sessions.session_note import note_served

    with _warn_if_not_noted():
        note_served(current_workspace, options["session"], retrieval, now(), options["about"])


@contextmanager
def _warn_if_not_noted() -> Iterator[None]:
    """Turn an error in the block into a warning."""
    try:
        yield
    except MemoryCIError as error:  # The entries themselves have been served.
        reason = f"{error.message} [{error.slug}]"
        say(f"Warning: the served entries are not recorded: {reason}", err=True)


OPTIONS = (
    Option(
        "--max-chars",
        "How many characters to print, all counted; the configuration's default is 8000.",
        kind=int,
        metavar="N",
    ),
    Option(
        "--path paths",
        "A file or directory the work touches: of the team scopes only theirs are searched. "
        "Without it all are.",
        is_multiple=True,
        metavar="PATH",
    ),
    Option(
        "--diff",
        "Ask as well for the definitions that the work tree changes since REV, "
        "as HEAD or the branch it started from.",
        metavar="REV",
    ),
    Option(
        "--limit",
        "At most this many entries; default: 10, with --about 5, with --all 50.",
        kind=int,
        metavar="N",
    ),
    Option("--session", "The job that asks: its own session's entries count more.", metavar="JOB"),
    Option(
        "--all all_matches",
        "Print weak matches too, within the budget, and entries the session was served before.",
        kind=bool,
    ),
    Option(
        "--about",
        "Instead of a task: the entries that cite this file, and those of its nearest team scope.",
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
    Option("--format form", "What to print.", choices=get_args(Format), default="text"),
    Option("--ids", "Print only the ids, one a line.", kind=bool),
    Option("--explain", "Print why each entry was served or not, instead of its text.", kind=bool),
    Option(
        "--record",
        "Record the entries served to this job, for the trailer of its commits. Default: on in CI.",
        kind=bool,
        negation="--no-record",
    ),
    Option("--json as_json", "Print JSON instead of text.", kind=bool),
)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run`; None if click has to report an error."""
    has_task = words or values["about"] or has_input()
    return {**values, "task": words} if has_task else None
