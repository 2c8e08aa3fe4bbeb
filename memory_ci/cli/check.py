"""`memory-ci check` as a hook runs it: what it does when nothing is to be fixed, and how findings are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_ci.cli.plain import Option, echo, workspace
from memory_ci.rendering.table import count_levels, render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.flows.guard.check import CheckReport

OPTIONS = (Option("--staged", "staged", "Check what the next commit would hold.", kind=bool),)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `run` for these words and options."""
    return {**values, "paths": tuple(map(Path, words))}


def run(paths: tuple[Path, ...], staged: bool) -> None:
    """Check the work tree, or what is staged. Ends with status 1 if there are errors."""
    from memory_ci.flows.guard.check import check_memory
    from memory_ci.flows.workspace import STAGED

    report = check_memory(workspace(is_quiet=True), STAGED if staged else None, paths)
    show_findings(report)
    if not report.is_ok:
        raise SystemExit(1)


def show_findings(report: CheckReport) -> None:
    """Findings on stdout, the verdict on stderr."""
    echo("".join(f"{render_finding(finding)}\n" for finding in report.findings))
    counted = count_levels(report.findings)
    found = f"{counted}, " if counted else ""
    echo(f"{found}{plural(report.entries, 'entry')} in {plural(report.files, 'file')} checked\n", err=True)
