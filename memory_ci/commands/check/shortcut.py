"""`memory-ci check` without click, which git's hooks run for speed, and the output of findings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_ci.cli.plain import Option, is_terminal, open_current_workspace, say
from memory_ci.findings import count_levels, render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.commands.check.check import CheckReport
    from memory_ci.memory.workspace import Workspace

OPTIONS = (Option("--staged", "Check the staged files.", kind=bool),)


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run` for the words and options of a command line."""
    return {**values, "paths": tuple(Path(word) for word in words)}


def run(paths: tuple[Path, ...], staged: bool) -> None:
    """Run `memory-ci check`: check memory files, print the findings, exit with 1 for errors.

    Args:
        paths: the files to report on, none for all.
        staged: check the staged files (git's index) instead of the work tree.
    """
    from memory_ci.api import Memory
    from memory_ci.memory.workspace import STAGED

    current_workspace = open_current_workspace(is_quiet=True)
    view = STAGED if staged else None
    report = Memory(current_workspace, view).check(paths)
    show_findings(report, current_workspace, view)
    if not report.is_ok:
        raise SystemExit(1)


def show_findings(
    report: CheckReport, checked_workspace: Workspace | None = None, view: str | None = None
) -> None:
    """Print findings on stdout, and their counts on stderr.

    At a terminal each finding is printed with its line of the file.

    Args:
        report: the findings.
        checked_workspace: the workspace to read lines from; None prints none.
        view: the view of the workspace that was checked.
    """
    if report.findings and checked_workspace and is_terminal():
        from memory_ci.cli.terminal import render_finding_block
        from memory_ci.commands.check.check import list_source_lines

        sources = list_source_lines(checked_workspace, view, report.findings)
        blocks = [
            render_finding_block(finding, sources.get((finding.path, finding.line)))
            for finding in report.findings
        ]
        say("".join(blocks))
    else:
        say("".join(f"{render_finding(finding)}\n" for finding in report.findings))
    say_counts(report)


def say_counts(report: CheckReport) -> None:
    """Print on stderr the number of findings of each level, and of checked files."""
    checked = f"{plural(report.entries, 'entry')} in {plural(report.files, 'file')} checked"
    if report.checks:
        verdicts = Counter(outcome.verdict for outcome in report.checks)
        judged = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        checked += f"; {plural(len(report.checks), 'check')} of the base: {judged}"
    level_counts = count_levels(report.findings)
    if level_counts:
        checked = f"{level_counts}, {checked}; `memory-ci help CODE` explains one"
    say(checked, err=True)
