"""`memory-ci check` as a hook runs it: what it does when nothing is to be fixed, and how findings are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_ci.cli.plain import Option, is_terminal, say, workspace
from memory_ci.findings import count_levels, render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.commands.check.check import CheckReport
    from memory_ci.memory.workspace import Workspace

OPTIONS = (Option("--staged", "Check what the next commit would hold.", kind=bool),)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `run` for these words and options."""
    return {**values, "paths": tuple(map(Path, words))}


def run(paths: tuple[Path, ...], staged: bool) -> None:
    """Check the work tree, or what is staged. Ends with status 1 if there are errors."""
    from memory_ci.commands.check.check import check_memory
    from memory_ci.memory.workspace import STAGED

    where, view = workspace(is_quiet=True), STAGED if staged else None
    report = check_memory(where, view, paths)
    show_findings(report, where, view)
    if not report.is_ok:
        raise SystemExit(1)


def show_findings(
    report: CheckReport, where: Workspace | None = None, view: str | None = None
) -> None:
    """Findings on stdout, a line each, or at a terminal with the lines that they are about as a view has them; the
    verdict on stderr.
    """
    if report.findings and where and is_terminal():
        from memory_ci.cli.terminal import render_finding_block
        from memory_ci.commands.check.check import list_sources

        sources = list_sources(where, view, report.findings)
        say(
            "".join(
                render_finding_block(one, sources.get((one.path, one.line)))
                for one in report.findings
            )
        )
    else:
        say("".join(f"{render_finding(finding)}\n" for finding in report.findings))
    say_verdict(report)


def say_verdict(report: CheckReport) -> None:
    """How many findings of each level, in what."""
    counted = count_levels(report.findings)
    found, more = (f"{counted}, ", "; `memory-ci help CODE` explains one") if counted else ("", "")
    say(
        f"{found}{plural(report.entries, 'entry')} in {plural(report.files, 'file')} checked{more}",
        err=True,
    )
