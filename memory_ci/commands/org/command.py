"""The command lines of `memory-ci org`: one index of the memory of many repositories."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from memory_ci.cli.common import DIRECTORY, change_options, json_option, option, show
from memory_ci.cli.plain import now, progress, today
from memory_ci.errors import UsageError
from memory_ci.findings import printable
from memory_ci.text import plural, shorten

if TYPE_CHECKING:
    from memory_ci.commands.org.status import OrgStatus
    from memory_ci.commands.org.sync import OrgReport
    from memory_ci.records.retrieval import Hit

MAX_NAMED = 20  # Repositories that are named for one reason; `--json` names all.


def refuse_password(context: click.Context, option: click.Parameter, value: str) -> str:
    """Refuse an address with a password in the arguments, which other users can see.

    Raises:
        UsageError: bad-org-index.
    """
    source = context.get_parameter_source(option.name or "")
    is_argument = source is ParameterSource.COMMANDLINE and value.startswith("postgres")
    # `postgresql://me:secret@host/org` or `…?password=secret`
    if is_argument and re.search(r"//[^/@]*:[^/@]*@|[?&](?:ssl)?password=", value):
        message = "a password does not belong into arguments"
        hint = (
            "Set MEMORY_CI_ORG_INDEX,"
            " or leave the password to PGPASSWORD or the file of PGPASSFILE."
        )
        raise UsageError(message, slug="bad-org-index", hint=hint)
    return value


index_option = option(
    "--index",
    "--out",
    "index",
    metavar="DIR",
    envvar="MEMORY_CI_ORG_INDEX",
    show_envvar=True,
    required=True,
    callback=refuse_password,
    help=(
        "The index that `org sync` writes: a file and a manifest for each audience,"
        " or postgresql://…"
    ),
)


def places_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that name repositories to a command."""
    places = click.argument(
        "places", nargs=-1, metavar="[LIST|DIR]...", type=click.Path(path_type=Path)
    )
    github = option(
        "--github",
        multiple=True,
        metavar="ORG",
        help="All repositories of an organisation on GitHub.",
    )
    gitlab = option(
        "--gitlab",
        multiple=True,
        metavar="GROUP",
        help="All projects of a group on GitLab and its subgroups.",
    )
    return places(github(gitlab(command)))


READER_JOBS = 8  # Repositories that are read at a time.
GIT_SECONDS = 120  # The time limit of each git process.
MAX_HITS = 10
MATRIX_SIZE = 256  # Jobs of one matrix on GitHub.


@click.group("org")
def org_command() -> None:
    """Search the memory of all repositories of an organisation, each shared with its readers.

    \b
    Example:
      memory-ci org sync repositories.txt --out /srv/memory
      memory-ci org search "retry failed payments" --index /srv/memory
    """


@org_command.command("sync")
@places_options
@index_option
@change_options
def sync_command(
    *,
    places: tuple[Path, ...],
    github: tuple[str, ...],
    gitlab: tuple[str, ...],
    index: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Update the index to the memory on the default branches of all repositories.

    A list has one repository a line: PATH-OR-URL [audience]. The audience is public, internal (the
    default) or group-NAME. A repository that is private at its forge is refused, unless its line
    names a group. An unchanged repository is not fetched, an unreachable repository keeps its
    entries, and a repository that is gone or no longer listed is removed.

    \b
    Example:
      memory-ci org sync repositories.txt --out /srv/memory
      memory-ci org sync ~/src/pay ~/src/shop --out /srv/memory
      GITHUB_TOKEN=… memory-ci org sync --github acme groups.txt --out /srv/memory

    Exit status: 0 all are up to date, 1 some failed or are refused, 5 none can be reached.
    """
    from memory_ci.commands.org.sync import sync_org
    from memory_ci.commands.org.targets import gather_targets

    gather = partial(gather_targets, places, github, gitlab, os.environ)
    with progress("Syncing") as advance:
        report = sync_org(
            index,
            gather,
            os.environ,
            now(),
            jobs=READER_JOBS,
            seconds=GIT_SECONDS,
            dry_run=dry_run,
            advance=advance,
        )
    show(report, _iter_report_lines(report), as_json)
    raise SystemExit(1 if report.failed or report.refused or report.problem else 0)


@org_command.command("search")
@click.argument("task")
@index_option
@option(
    "--audience", "audiences", multiple=True, metavar="NAME", help="Default: public and internal."
)
@json_option
def search_command(task: str, index: str, audiences: tuple[str, ...], as_json: bool) -> None:
    """Print the entries of the organisation's repositories that match a task, best first.

    \b
    Example:
      memory-ci org search "retry failed payments" --index /srv/memory
      memory-ci org search "rotate the key" --audience group-pay
    """
    from memory_ci.commands.org.address import check_audiences, choose_audiences
    from memory_ci.commands.org.search import search_org

    check_audiences(audiences)
    audiences = audiences or choose_audiences(os.environ)
    hits = search_org(task, index, audiences, top=MAX_HITS, environ=os.environ, today=today())
    show(hits, _iter_hit_lines(hits), as_json)
    if not hits and not as_json:
        click.echo("No repository knows of it.", err=True)


@org_command.command("verify")
@index_option
@json_option
def verify_command(index: str, as_json: bool) -> None:
    """Read every repository again and compare it with the index, row for row.

    \b
    Example:
      memory-ci org verify --index /srv/memory

    Exit status: 0 all are equal, 1 some differ.
    """
    from memory_ci.commands.org.verification import verify_org

    with progress("Verifying") as advance:
        differences, count = verify_org(
            index, os.environ, jobs=READER_JOBS, seconds=GIT_SECONDS, advance=advance
        )
    lines = [printable(f"{difference.name}: {difference.what}") for difference in differences]
    if not differences:
        lines = [f"{plural(count, 'repository')}, all rows equal"]
    show(differences, lines, as_json)
    raise SystemExit(1 if differences else 0)


@org_command.command("status")
@index_option
@json_option
def status_command(index: str, as_json: bool) -> None:
    """Print the contents of the index: repositories, entries, sizes, ages, and failures.

    \b
    Example:
      memory-ci org status --index /srv/memory
    """
    from memory_ci.commands.org.status import load_status

    status = load_status(index)
    show(status, _iter_status_lines(status), as_json)


@org_command.command("plan")
@places_options
@option(
    "--state", type=DIRECTORY, metavar="DIR", help="Where to store the result for the next plan."
)
@json_option
def plan_command(
    places: tuple[Path, ...],
    github: tuple[str, ...],
    gitlab: tuple[str, ...],
    state: Path | None,
    as_json: bool,
) -> None:
    """List the repositories with merged changes that no run has read, one address a line.

    A scheduler can run `memory-ci record` in each. Only the tips of branches are fetched, and the
    newest commits where a tip moved since the last plan (--state). JSON has batches that fit a
    matrix of GitHub Actions.

    \b
    Example:
      memory-ci org plan repositories.txt | parallel -j4 ./record-one {}
      memory-ci org plan --github acme --state .plan --json

    Exit status: 0 all were read, 1 some failed or the time was over, 5 none can be reached.
    """
    from memory_ci.commands.org.plan import plan_org
    from memory_ci.commands.org.targets import gather_targets

    gather = partial(gather_targets, places, github, gitlab, os.environ)
    with progress("Asking for tips") as advance:
        plan = plan_org(
            gather,
            os.environ,
            batch=MATRIX_SIZE,
            state=state,
            deadline=None,
            jobs=READER_JOBS,
            advance=advance,
        )
    due_repositories = list(chain.from_iterable(plan.batches))
    show(plan, (printable(repository.address) for repository in due_repositories), as_json)
    due_count = len(due_repositories)
    total = due_count + plan.current + len(plan.failed) + len(plan.unasked)
    click.echo(f"{due_count} of {total} repositories have unread work", err=True)
    for name, reason in plan.failed[:MAX_NAMED]:
        click.echo(printable(f"failed: {name}: {reason}"), err=True)
    if plan.unasked:
        unasked_count = plural(len(plan.unasked), "repository")
        click.echo(f"not searched, because the time was over: {unasked_count}", err=True)
    raise SystemExit(1 if plan.failed or plan.unasked else 0)


def _iter_report_lines(report: OrgReport) -> Iterator[str]:
    """Yield the text of a sync's report: a line of counts, then one for each problem and file."""
    names_by_effect = {
        "added": report.added,
        "updated": report.updated,
        "moved": report.moved,
        "dropped": report.dropped,
    }
    counts = [f"{len(names)} {effect}" for effect, names in names_by_effect.items() if names]
    changes = ", ".join(counts) or "nothing changed"
    would = "would be: " if report.is_dry_run else ""
    total = plural(report.repositories, "repository")
    yield f"{total}: {would}{changes}, {report.unchanged} unchanged"

    for kind, repositories in (("failed", report.failed), ("refused", report.refused)):
        for name, reason in repositories[:MAX_NAMED]:
            yield printable(f"{kind}: {name}: {reason}")
        if len(repositories) > MAX_NAMED:
            yield f"{kind}: {len(repositories) - MAX_NAMED} more"
    for name in report.dropped[:MAX_NAMED]:
        yield printable(f"dropped: {name}")
    if report.unnamed_private:
        private_count = plural(len(report.unnamed_private), "private repository")
        yield f"left out: {private_count} that no line of a list names"
    if report.problem:
        yield printable(f"Warning: {report.problem}; nothing that is missing was dropped")
    if report.unsafe_count or report.excess_count:
        unshared = (
            f"{report.unsafe_count} unsafe, {report.excess_count} too many or in too large a file"
        )
        yield f"not shared: {unshared}"
    for published in report.published:
        state = "new" if published.is_new else "as it was"
        yield f"{published.audience}: {published.path}, {published.size:,} bytes, {state}"


def _iter_hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield two or three lines for each hit: score and title, source, and the start of its text."""
    for rank, hit in enumerate(hits, start=1):
        entry = hit.located.entry
        source = f"{hit.repository} · {entry.id[:8]} · {entry.last_reinforced} · {hit.link}"
        yield printable(f"{rank:>2}. {hit.score:.2f} {shorten(entry.title, 120)}")
        yield printable(f"      {source}")
        if entry.body.strip():
            yield printable(f"      {shorten(entry.body, 240)}")


def _iter_status_lines(status: OrgStatus) -> Iterator[str]:
    """Yield a line for each audience, and for each repository that could not be read.

    The last line counts the entries that are not shared because they are unsafe.
    """
    for audience in status.audiences:
        repositories = plural(audience.repositories, "repository")
        entries = plural(audience.entries, "entry")
        line = f"{audience.audience}: {repositories}, {entries}, {audience.size:,} bytes"
        if audience.oldest:
            line += f", the oldest checked {audience.oldest:%Y-%m-%d %H:%M}"
        yield printable(line)
    for repository in status.failing:
        since = ""
        if repository.failed_at:
            since = f" since {repository.failed_at:%Y-%m-%d %H:%M}"
        yield printable(f"failing{since}: {repository.name}: {repository.reason}")
    if status.unsafe_count:
        yield f"{plural(status.unsafe_count, 'entry')} must not be shown to others"
