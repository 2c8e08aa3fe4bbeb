"""The text of `health`: its table, one line for each month, one line for a page, and the effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memory_ci.cli.terminal import bar
from memory_ci.commands.health.records import (
    ArmComparison,
    AskedAgain,
    EffectReport,
    Health,
    Metric,
)
from memory_ci.findings import printable
from memory_ci.records.check_outcome import RuleCheckOutcome
from memory_ci.records.repetition import RuleOutcome
from memory_ci.sessions.backtest_text import describe_check_outcome
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.memory.stage import ProjectStage

NAME_WIDTH = 12
BAR_WIDTH = 10
MAX_LISTED = 5  # Titles or entries that are named below the advice of a metric.


def render_health(health: Health) -> str:
    """Return each metric with its target and basis, and advice about the weak ones."""
    return _join_lines(_iter_health_lines(health))


def render_history(past: Sequence[Health]) -> str:
    """Return a line for each health, in the same order: the day, the commit, the metrics."""
    lines = []
    for health in past:
        values = "  ".join(f"{metric.name} {_format_value(metric)}" for metric in health.metrics)
        commit = (health.commit or "")[:12]
        lines.append(f"{health.today}  {commit}  {values}")
    return _join_lines(lines)


def _join_lines(lines: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in lines)


def render_health_line(health: Health) -> str:
    """Return health as one line, for the page of a CI job.

    It has how many metrics reach their targets, the counts behind the weakest one and what to do
    about it, and how much served entries are used (the basis of the metric `efficiency`).
    """
    parts = [f"Health: {_summarise_metrics(health)}."]
    weakest = health.weakest
    if weakest is not None and weakest.advice:
        parts += [f"{weakest.name.capitalize()}: {weakest.basis}.", weakest.advice]
    if weakest is not None and weakest.name != "efficiency":
        metrics = {metric.name: metric for metric in health.metrics}
        parts.append(f"Use: {metrics['efficiency'].basis}.")
    return printable(" ".join(parts))


def _summarise_metrics(health: Health) -> str:
    """Return a line: how many metrics reach their targets, and which metric is furthest below."""
    weakest = health.weakest
    if weakest is None or weakest.value is None:
        return "there is nothing to measure"
    values = [
        (metric.value, metric.target) for metric in health.metrics if metric.value is not None
    ]
    reached_count = sum(value >= target for value, target in values)
    unmeasured_count = len(health.metrics) - len(values)
    parts = [f"{reached_count} of {plural(len(health.metrics), 'metric')} reach their targets"]
    if unmeasured_count:
        parts.append(f"{unmeasured_count} with too few facts")
    if weakest.value < weakest.target:
        parts.append(f"weakest {weakest.name} {weakest.value:.1f} of {weakest.target}")
    return ", ".join(parts)


def _iter_health_lines(health: Health) -> Iterator[str]:
    """Yield the table of metrics, advice on those below their targets, and other counts."""
    yield f"Health of memory: {_summarise_metrics(health)}"
    if health.commit is None:
        measured_tree = "The work tree"
    elif health.commit:
        measured_tree = f"Commit {health.commit[:12]}"
    else:
        measured_tree = "Before the first commit,"
    yield f"{measured_tree} on {health.today}, by the definitions of {health.profile}"
    yield ""
    for metric in health.metrics:
        yield _format_metric(metric)
    weak_metrics = [metric for metric in health.metrics if metric.advice]
    if weak_metrics:
        yield ""
    for metric in weak_metrics:
        yield f"{metric.name}: {metric.advice}"
        for name in metric.missing[:MAX_LISTED]:
            yield f"    {name}"
        if len(metric.missing) > MAX_LISTED:
            yield f"    and {len(metric.missing) - MAX_LISTED} more: `--json` names them"
    if health.asked_again is not None:
        yield from _iter_asked_lines(health.asked_again)
    yield from _iter_check_lines(health.checks)


def _iter_asked_lines(asked_again: AskedAgain) -> Iterator[str]:
    """Yield how often people repeated a request that a rule says already, and those rules."""
    yield ""
    share = (
        f"{asked_again.although_written} of {plural(asked_again.repetitions, 'repeated request')}"
    )
    yield f"asked again although written: {share}"
    for rule in asked_again.rules[:MAX_LISTED]:
        place = rule.place
        if ":" not in place:  # Not `path:line`, but the id of an entry.
            place = place[:8]
        yield f"    {place} {rule.title} ({plural(rule.sessions, 'session')} since {rule.since})"
    if asked_again.rules:
        yield "    Reword it, or serve it at its moment: `when: before:commit` in its front matter."
    yield from _iter_outcome_lines(asked_again.outcomes)


def _iter_check_lines(checks: Sequence[RuleCheckOutcome]) -> Iterator[str]:
    """Yield the outcomes of the checks of entries, those that made a difference first.

    A check makes a difference if changes break its rule less often since it exists.
    """
    if not checks:
        return
    yield ""
    effective_count = sum(outcome.made_a_difference for outcome in checks)
    yield f"checks: {len(checks)}, of which {effective_count} made a difference"
    ranked = sorted(
        checks, key=lambda outcome: (not outcome.made_a_difference, -outcome.applicable)
    )
    for outcome in ranked[:MAX_LISTED]:
        yield f"    {outcome.id[:8]} {outcome.title}: {describe_check_outcome(outcome)}"


def _iter_outcome_lines(outcomes: Sequence[RuleOutcome]) -> Iterator[str]:
    """Yield how often served rules were followed, and the rules that sometimes were not."""
    if not outcomes:
        return
    served_count = sum(outcome.sessions for outcome in outcomes)
    followed_count = sum(outcome.followed for outcome in outcomes)
    rules = plural(len(outcomes), "rule")
    yield f"followed when served: {followed_count} of {plural(served_count, 'time')}, {rules}"
    missed_rules = [outcome for outcome in outcomes if outcome.followed < outcome.sessions]
    for outcome in missed_rules[:MAX_LISTED]:
        yield f"    {outcome.id[:8]} {outcome.title} ({_format_missed(outcome)})"


def _format_missed(outcome: RuleOutcome) -> str:
    """Return in how many sessions a rule was not followed: `asked again in 2 of 5 sessions`."""
    event = "asked" if outcome.asked_again else "failed"
    missed_count = outcome.sessions - outcome.followed
    return f"{event} again in {missed_count} of {plural(outcome.sessions, 'session')}"


def _format_metric(metric: Metric) -> str:
    share = " " * BAR_WIDTH if metric.value is None else bar(metric.value / 100)
    value = f"{_format_value(metric):>5}"
    return f"{metric.name:<{NAME_WIDTH}}  {share} {value} of {metric.target}  {metric.basis}"


def _format_value(metric: Metric) -> str:
    return "n/a" if metric.value is None else f"{metric.value:.1f}"


def render_effect(report: EffectReport) -> str:
    """Return the comparison of sessions with and without memory, a line for each outcome.

    A line has both shares, the interval of their difference, and how many sessions are needed to
    detect an effect.
    """
    if report.since is None:
        return (
            "No session is known to have been held out: "
            "`retrieve.holdout` sets the share of them.\n"
        )
    heading = (
        f"Sessions and changes since {report.since}, given memory and held out"
        f" ({report.holdout:.0%} now)\n\n"
    )
    return heading + "".join(f"{_format_effect(effect)}\n" for effect in report.effects)


def _format_effect(effect: ArmComparison) -> str:
    """Return the line of one outcome, such as `reverted`.

    It has how often the outcome occurred in the two arms of the comparison: with memory, and held
    out from it. There is a difference if its interval does not contain 0. At the end is how many
    sessions would be needed to detect that memory lowers the share by a third.
    """
    served = f"{effect.served.hits} of {effect.served.total}"
    held_out = f"{effect.held_out.hits} of {effect.held_out.total}"
    shares = f"{effect.name:<18} given {served}, held out {held_out}"
    if effect.low is None or effect.high is None:
        return f"{shares}: an arm is empty"

    difference = "no difference seen"
    if effect.low > 0:
        difference = "more with memory"
    elif effect.high < 0:
        difference = "less with memory"
    line = f"{shares}: {difference} [{effect.low:+.2f}, {effect.high:+.2f}]"
    if effect.needed_count:
        line += f"; a third less is seen with {effect.needed_count}, {effect.needed_weeks} weeks"
    return line


def render_holdout(holdout: float) -> str:
    """Return the line of a report that says that sessions are held out; "" if none are."""
    if not holdout:
        return ""
    return (
        f"Holdout: {holdout:.0%} of sessions are served nothing; "
        "`memory-ci health --effect` compares them."
    )


def render_stage(stage: ProjectStage) -> str:
    """Return a line on the stage of a project (such as `beta`), which its intent file states.

    If the file states no stage clearly now, the line has the last stage that it stated.
    """
    last_known = ""
    if stage.known:
        commit = stage.known.commit
        last_known = f"{stage.known.phase} since {commit.sha[:7]} ({commit.committed_at:%Y-%m-%d})"

    if stage.stated is not None:
        return f"{stage.path}:{stage.stated.line}: {last_known}"
    if last_known:
        return f"{stage.path}: states no stage clearly; {last_known}, the last that it did"
    return f"{stage.path}: states no stage clearly"
