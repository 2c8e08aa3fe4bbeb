"""The command line of `ci`, which a CI job runs: it verifies a change, or records merged work."""

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
    disarm_workflow_commands,
    echo,
    now,
    open_committed_workspace,
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
    from memory_ci.commands.ci.event import CiProvider
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
    help="Apply the plan in this file, without an engine.",
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
    *,
    provider: CiProvider | None,
    extract: Path | None,
    apply: BinaryIO | None,
    summary: Path | None,
    push: PublishMode | None,
    at_once: bool,
    engine: EngineName | None,
    dry_run: bool,
) -> None:
    """Run `verify` or `record`, whichever the event of a CI job calls for.

    On a pull request or in a merge queue it runs `verify`; on the default branch, on a schedule or
    when started by hand it runs `record` and builds the index. On other branches it does nothing.
    Without a provider, the checked-out branch decides. Events that would run text of strangers with
    access to secrets are refused.

    The last line of standard output is JSON with the result of the run (`memory-ci help ci`).

    A run that stopped early reports it. Its exit status is 5 after an error that lasts, such as a
    missing permission or a bad answer, and 0 after a rate limit or a network error.

    Exit status: 0 done or nothing to do, 1 findings, 2 an event that is refused or configuration, 3
    a memory file, 4 repository, 5 engine or network.

    \b
    Example:
      memory-ci ci
      memory-ci ci --provider none --dry-run
      memory-ci ci --extract plan.json
      memory-ci ci --apply plan.json
    """
    from memory_ci.commands.ci.event import find_job, find_provider
    from memory_ci.commands.ci.job import CiOptions, run_ci
    from memory_ci.commands.ci.run_line import describe_failure, describe_run
    from memory_ci.memory.episode_files import list_written

    if extract and apply:
        raise click.UsageError("--extract makes a plan, --apply performs one: choose one.")
    workspace = open_committed_workspace()
    ci_provider = provider or find_provider(os.environ)
    is_github = ci_provider == "github"
    options = CiOptions(
        engine=engine,
        push=push,
        extract=extract,
        apply=apply.read() if apply else None,
        dry_run=dry_run,
        now=at_once,
    )
    started = now().replace(microsecond=0)
    try:
        job = find_job(workspace, ci_provider, os.environ)
        with progress("Reading merged work") as advance:
            run = run_ci(workspace, job, options, now=started, progress=advance, environ=os.environ)
    except MemoryCIError as error:
        _print_line(describe_failure(workspace, error, started, os.environ))
        raise
    episode_paths = list_written(workspace, run.plan) if run.plan else ()
    _print_run(run, episode_paths, is_github=is_github)
    _print_line(describe_run(workspace, run, started, os.environ))
    _write_files(run, summary, is_github=is_github)
    raise SystemExit(run.exit_code)


def _write_files(run: CiRun, summary: Path | None, *, is_github: bool) -> None:
    """Append the summary and the outputs of a job to the files that the runner reads.

    Args:
        run: the result of the job.
        summary: the file for the summary; None for the file that GitHub names.
        is_github: whether the job runs in GitHub Actions, which reads outputs.
    """
    from memory_ci.commands.ci.outputs import append_text, format_outputs, list_outputs

    summary_file = summary or os.environ.get("GITHUB_STEP_SUMMARY")
    text = _render_summary(run)
    if summary_file and text:
        append_text(Path(summary_file), text)
    outputs_file = os.environ.get("GITHUB_OUTPUT")
    if is_github and outputs_file:
        delimiter = f"memory-ci-{secrets.token_hex(16)}"
        append_text(Path(outputs_file), format_outputs(list_outputs(run), delimiter))


def _print_line(line: RunLine) -> None:
    """Print a run as one line of JSON, the last of standard output, and export it as a span."""
    from memory_ci.commands.ci.run_line import export_span

    # A runner obeys `##[` in the log of a job; a line that begins with a brace is no command.
    text = msgspec.json.encode(line).decode().replace("#", "\\u0023")
    echo(f"{text}\n")
    failure = export_span(line, now(), os.environ)
    if failure:
        say(f"Warning: {failure}", err=True)


def _print_run(run: CiRun, episode_paths: Sequence[str], *, is_github: bool) -> None:
    """Print the result of a job: its task to stderr, its findings or plan to stdout.

    The runner of GitHub executes commands that it finds in a log (`::add-mask::x`), so they are
    made harmless.

    Args:
        run: the result of the job.
        episode_paths: the paths of the episode files that it wrote.
        is_github: whether the job runs in GitHub Actions.
    """
    say(f"{run.job.kind}: {printable(run.job.reason)}", err=True)
    if run.report:
        show_report(run.report, "github" if is_github else "text")
        say("".join(f"{printable(line)}\n" for line in run.remarks), err=True)
    text = render_plan(run.plan, episode_paths) if run.plan else ""
    text += "".join(f"  {printable(line)}\n" for line in list_outcome(run.published))
    if is_github:
        echo(fence(disarm_workflow_commands(mask_secrets(text)), secrets.token_hex(16)))
    else:
        say(text)
    if run.stop and is_github:
        echo(render_stop(run.stop.level, f"{run.stop.reason} {run.stop.hint}"))
    elif run.stop:
        level = run.stop.level.capitalize()
        say(f"{level}: the run stopped: {printable(run.stop.reason)}", err=True)


def _render_summary(run: CiRun) -> str:
    """Render the findings or the plan of a job as Markdown, for its summary page."""
    if run.report:
        return render_findings("Memory: what this change does to it", run.report.findings)
    if run.plan:
        return render_summary(run.plan, run.published, run.index, run.remarks)
    return ""
