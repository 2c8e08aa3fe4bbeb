"""The outputs of a CI job: values that later steps and jobs of a workflow read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from memory_ci.commands.ci.job import CiRun
from memory_ci.errors import RepositoryError
from memory_ci.records.plan import Change, Plan


def list_outputs(run: CiRun) -> dict[str, str]:
    """Return the outputs of a job by name; each job has all of them, each of one line."""
    outputs = {
        "job": run.job.kind,
        "findings": "0",
        "memory-only": str(run.is_memory_only).lower(),
        "learned": str(len(list_learned(run.plan))),
        "commits": "0",
        "tip": "",
        "pull-request": "",
        "index-key": "",
        "failure": "",
    }
    if run.report:
        outputs["findings"] = str(len(run.report.findings))
    if run.published:
        outputs["commits"] = str(len(run.published.subjects))
        outputs["tip"] = run.published.tip
        outputs["pull-request"] = run.published.url
    if run.index:
        outputs["index-key"] = run.index.key
    if run.plan:
        outputs["failure"] = run.plan.engine.failure
    return outputs


def list_learned(plan: Plan | None) -> list[Change]:
    """Return the changes by which a plan adds learnings."""
    if plan is None:
        return []
    return [change for step in plan.steps if step.step == "extract" for change in step.changes]


def format_outputs(outputs: Mapping[str, str], delimiter: str) -> str:
    r"""Format outputs for the file that GitHub's runner reads.

    Args:
        outputs: the values by name.
        delimiter: a random word, so that no value can end itself and begin another output.

    >>> format_outputs({"tip": "abc"}, "x1")
    'tip<<x1\nabc\nx1\n'
    """
    return "".join(
        f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in outputs.items()
    )


def append_text(path: Path, text: str) -> None:
    """Append to a file that the runner reads after the step.

    Raises:
        RepositoryError: write-failed.
    """
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise RepositoryError(message, slug="write-failed") from error
