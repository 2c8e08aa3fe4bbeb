"""A program that publishes the record of one merged change, as one of several concurrent CI jobs.

Run as `python one_writer.py CLONE LABEL SINCE`; prints how many pushes it tried.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from memory_ci.commands.publish.publish import PublishOptions, publish
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.memory.workspace import open_unconfigured
from memory_ci.records.plan import Plan, PlannedStep

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def main(clone: str, label: str, since: str) -> None:
    """Publish the change with a label from a clone, and print the number of tries."""
    workspace = open_unconfigured(Path(clone))

    def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
        """Return the plan of a record run, limited to the change with the label."""
        plan = plan_record(
            workspace, RecordOptions(since, ref), NOW.date(), lambda done, total: None
        )
        changes = [
            change
            for step in plan.steps
            for change in step.changes
            if change.why == f"from {label}"
        ]
        step = PlannedStep(step="extract", changes=tuple(changes))
        return msgspec.structs.replace(plan, counted=(), steps=(step,))

    published = publish(workspace, PublishOptions("push"), make_plan, NOW, {})
    sys.stdout.write(f"{published.tries}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
