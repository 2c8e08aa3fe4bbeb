"""Health as a table, a line a month, one line for a page; what doctor found; how good retrieval and engines are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci.cli.terminal import bar
from memory_ci.commands.health.records import ArmComparison, EffectReport, Health, Metric
from memory_ci.findings import printable

NAME_WIDTH, BAR_WIDTH = 12, 10
MAX_SHOWN = 5  # So many titles or entries are named below the advice.


def render_health(health: Health) -> str:
    """The score, then each metric with its weight and what it is reckoned from, then what to do about the weak ones."""
    return "".join(f"{printable(line)}\n" for line in _lines(health))


def render_history(past: Sequence[Health]) -> str:
    """A line for each, as given: the day, the score, the metrics."""
    lines = []
    for one in past:
        values = "  ".join(f"{metric.name} {_value(metric)}" for metric in one.metrics)
        lines.append(f"{one.today}  {(one.commit or '')[:12]}  {_score(one)}  {values}")
    return "".join(f"{printable(line)}\n" for line in lines)


def render_health_line(health: Health) -> str:
    """`Health: 71.3 of 100, yellow. Weakest: coverage 40.0 (4 of 10 …). What to do`, for a job's page; then what was
    found and used of it, the basis of efficiency."""
    weakest = health.weakest
    if weakest is None:
        return f"Health: {_score(health)}."
    said = f"{weakest.name} {_value(weakest)} ({weakest.basis})"
    use = next(
        (
            f"Use: {one.basis}."
            for one in health.metrics
            if one.name == "efficiency" and one != weakest
        ),
        "",
    )
    return printable(
        " ".join(filter(None, (f"Health: {_score(health)}. Weakest: {said}.", weakest.advice, use)))
    )


def _lines(health: Health) -> Iterator[str]:
    commit = f"Commit {health.commit[:12]}" if health.commit else "Before the first commit,"
    yield f"Health of memory: {_score(health)}"
    where = "The work tree" if health.commit is None else commit
    yield f"{where} on {health.today}, by the definitions of {health.profile}"
    yield ""
    for metric in health.metrics:
        share = bar((metric.value or 0) / 100) if metric.value is not None else " " * BAR_WIDTH
        yield f"{metric.name:<{NAME_WIDTH}}  {share} {_value(metric):>5}  {metric.weight:>2}%  {metric.basis}"
    weak = [metric for metric in health.metrics if metric.advice]
    yield from [""] if weak else []
    for metric in weak:
        yield f"{metric.name}: {metric.advice}"
        yield from (f"    {name}" for name in metric.missing[:MAX_SHOWN])
        if len(metric.missing) > MAX_SHOWN:
            yield f"    and {len(metric.missing) - MAX_SHOWN} more: `--json` names them"


def _score(health: Health) -> str:
    if health.score is not None:
        return f"{health.score:.1f} of 100, {health.band}"
    lacking = [metric.name for metric in health.metrics if metric.value is None]
    if len(lacking) == len(health.metrics):
        return "n/a, there is nothing to measure"
    return f"no score, too few facts for {' and '.join(lacking)}"


def _value(metric: Metric) -> str:
    return "n/a" if metric.value is None else f"{metric.value:.1f}"


def render_effect(report: EffectReport) -> str:
    """A line for each measure: both arms, their difference with its interval, and what it takes to see one."""
    if report.since is None:
        return "No session is known to have been held out: `retrieve.holdout` says which share of them is.\n"
    head = f"Sessions and changes since {report.since}, given memory and held out ({report.holdout:.0%} now)\n\n"
    return head + "".join(f"{_effect(effect)}\n" for effect in report.effects)


def _effect(effect: ArmComparison) -> str:
    given, held_out = (f"{one.hits} of {one.total}" for one in (effect.given, effect.held_out))
    shares = f"{effect.name:<18} given {given}, held out {held_out}"
    if effect.low is None or effect.high is None:
        return f"{shares}: an arm is empty"
    seen = (
        "more with memory"
        if effect.low > 0
        else "less with memory"
        if effect.high < 0
        else "no difference seen"
    )
    needed = (
        f"; a third less is seen with {effect.needed}, {effect.weeks} weeks"
        if effect.needed
        else ""
    )
    return f"{shares}: {seen} [{effect.low:+.2f}, {effect.high:+.2f}]{needed}"


def render_holdout(holdout: float) -> str:
    """The line of a report that says that some sessions are given nothing; "" if none are."""
    told = f"Holdout: {holdout:.0%} of sessions are given nothing; `memory-ci health --effect` compares them."
    return told if holdout else ""
