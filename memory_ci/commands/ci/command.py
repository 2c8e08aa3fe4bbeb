"""memory-ci ci"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, get_args

import click
import msgspec

from memory_ci.cli.common import dry_run_option, engine_option, now_option, option
from memory_ci.cli.plain import (
    committed_workspace,
    disarm_workflow_commands,
    echo,
    now,
    progress,
    say,
)
from memory_ci.commands.check.command import show_report
from memory_ci.commands.record.text import (
    list_outcome,
    render_findings,
    render_plan,
    render_summary,
)
from memory_ci.errors import MemoryCIError
from memory_ci.findings import fence, printable, render_stop
from memory_ci.records.config import PublishMode
from memory_ci.secrets import mask_secrets

if TYPE_CHECKING:
    from memory_ci.commands.ci.job import CiRun
    from memory_ci.records.config import EngineName
    from memory_ci.records.plan import RunLine

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("ci")
@option(
    "--provider", choices=["github", "gitlab", "none"], help="Whose job this is; default: found."
)
@option(
    "--extract",
    type=FILE,
    metavar="PLAN.json",
    help="Write the plan to this file, and change nothing.",
)
@option(
    "--apply",
    type=click.File("rb"),
    metavar="PLAN.json",
    help="Perform the plan of this file; no engine is asked.",
)
@option(
    "--summary",
    type=FILE,
    metavar="FILE",
    help="Add the summary to this file. On GitHub: to the job's.",
)
@option(
    "--push",
    choices=get_args(PublishMode),
    help="How memory reaches others; default: publish.mode.",
)
@now_option
@engine_option
@dry_run_option
def ci_command(
    provider: str | None,
    extract: Path | None,
    apply: BinaryIO | None,
    summary: Path | None,
    push: PublishMode | None,
    at_once: bool,
    engine: EngineName | None,
    dry_run: bool,
) -> None:
    """Do what a CI job is for.

    On a pull request or in a merge queue that is `verify`; on the default branch, on a schedule or by hand it is
    `record`, and the index is built. On other branches nothing is done. Without a provider the branch that is checked
    out decides. Events that would give secrets to the words of strangers are refused.

    The last line of standard output is one of JSON that says how the run went (`memory-ci help ci`).

    A run that stopped before its end says so, and by the key `ci.fail_on` of the configuration it ends with status 5.

    Exit status: 0 done or nothing to do, 1 findings, 2 an event that is refused or configuration, 3 a memory file,
    4 repository, 5 engine or network.

    \b
    Example:
      memory-ci ci
      memory-ci ci --provider none --dry-run
      memory-ci ci --extract plan.json
      memory-ci ci --apply plan.json
    """
    from memory_ci.commands.ci.event import find_job, find_provider
    from memory_ci.commands.ci.job import (
        CiOptions,
        append_text,
        describe_failure,
        describe_run,
        format_outputs,
        list_outputs,
        run_ci,
    )
    from memory_ci.memory.episode_files import list_written

    if extract and apply:
        raise click.UsageError("--extract makes a plan, --apply performs one: choose one.")
    where, whose = committed_workspace(), provider or find_provider(os.environ)
    options = CiOptions(engine, push, extract, apply.read() if apply else None, dry_run, at_once)
    began = now().replace(microsecond=0)
    try:
        job = find_job(where, whose, os.environ)  # type: ignore[arg-type] # click's Choice
        with progress("Reading merged work") as advance:
            run = run_ci(where, job, options, began, advance, os.environ)
    except MemoryCIError as error:
        _end(describe_failure(where, error, began, os.environ))
        raise
    _show(run, list_written(where, run.plan) if run.plan else (), is_github=whose == "github")
    _end(describe_run(where, run, began, os.environ))
    page, text = summary or os.environ.get("GITHUB_STEP_SUMMARY"), _render(run)
    if page and text:
        append_text(Path(page), text)
    if whose == "github" and (outputs := os.environ.get("GITHUB_OUTPUT")):
        append_text(
            Path(outputs), format_outputs(list_outputs(run), f"memory-ci-{secrets.token_hex(16)}")
        )
    raise SystemExit(run.exit_code)


def _end(line: RunLine) -> None:
    """The line of JSON for machines, the last of stdout."""
    from memory_ci.commands.ci.job import export_span

    text = (
        msgspec.json.encode(line).decode().replace("#", "\\u0023") + "\n"
    )  # `##[` is a command in a job's log
    echo(text)  # a line that begins with a brace is none, either
    if failure := export_span(line, now(), os.environ):
        say(f"Warning: {failure}", err=True)


def _show(run: CiRun, written: Sequence[str], *, is_github: bool) -> None:
    """The job on stderr; on stdout what it found or did, on GitHub so that nothing in it is obeyed."""
    say(f"{run.job.kind}: {printable(run.job.reason)}", err=True)
    if run.report:
        show_report(run.report, "github" if is_github else "text")
        say("".join(f"{printable(line)}\n" for line in run.remarks), err=True)
    text = render_plan(run.plan, written) if run.plan else ""
    text += "".join(f"  {printable(line)}\n" for line in list_outcome(run.published))
    if is_github:
        echo(fence(disarm_workflow_commands(mask_secrets(text)), secrets.token_hex(16)))
    else:
        say(text)
    if run.stop and is_github:
        echo(render_stop(run.stop.level, f"{run.stop.reason} {run.stop.hint}"))
    elif run.stop:
        say(
            f"{run.stop.level.capitalize()}: the run stopped: {printable(run.stop.reason)}",
            err=True,
        )


def _render(run: CiRun) -> str:
    if run.report:
        return render_findings("Memory: what this change does to it", run.report.findings)
    if run.plan:
        return render_summary(run.plan, run.published, run.index, run.remarks)
    return ""
