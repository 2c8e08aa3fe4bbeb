"""The command line of `memory-ci report`."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from memory_ci.cli.common import FILE, json_option, option
from memory_ci.cli.plain import echo_json, now, open_current_workspace, progress
from memory_ci.text import plural


@click.command("report")
@option("--output", type=FILE, metavar="FILE", help="Write the page here.")
@json_option
def report_command(output: Path | None, as_json: bool) -> None:
    """Write one HTML page on entries that memory learned, served and missed.

    The page fetches nothing, so it also opens from a mail or on a phone. The charts need the extra:
    pip install 'memory-ci[report]'. Without it, --json prints the same values.

    \b
    Example:
      memory-ci report --output memory.html
      memory-ci report --json
    """
    from memory_ci.commands.report.page import load_libraries, mask_strings
    from memory_ci.commands.report.report import gather_report, save_report

    if output is None and not as_json:
        raise click.UsageError(
            "Say where the page goes, --output memory.html, or print the values with --json."
        )
    if output is not None:
        load_libraries()  # An error comes before the work, not after it.
    with progress("Gathering the report"):
        overview = gather_report(open_current_workspace(), now(), os.environ)
    if as_json:
        echo_json(mask_strings(msgspec.to_builtins(overview)))
    if output is not None:
        with progress("Drawing the page"):
            size = save_report(overview, output)
        click.echo(
            f"Wrote {output}: {plural(len(overview.entries), 'entry')}, {size // 1000:,} kB",
            err=as_json,
        )
