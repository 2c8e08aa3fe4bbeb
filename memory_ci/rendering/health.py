"""Health as a table, a line a month, one line for another page; what doctor found, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from memory_ci.records.health import ArmComparison, Diagnosis, EffectReport, Health, Metric, Probe, ProbeState, Share
from memory_ci.rendering.table import printable
from memory_ci.rendering.terminal import bar

NAME_WIDTH, BAR_WIDTH = 12, 10
MAX_SHOWN = 5  # So many titles or entries are named below the advice.


def render_health(health: Health) -> str:
    """The score, then each metric with its weight and what it is reckoned from, then what to do about the weak ones."""
    return "".join(f"{printable(line)}\n" for line in _lines(health))


def render_history(past: Sequence[Health]) -> str:
    """A line for each, as given: the day, the score, the metrics."""
    return "".join(f"{printable(_line(health))}\n" for health in past)


def render_health_line(health: Health) -> str:
    """`Health: 71.3 of 100, yellow. Weakest: coverage 40.0 (4 of 10 …). What to do`, for a job's page; then what was
    found and used of it, the basis of efficiency."""
    weakest = health.weakest
    if weakest is None:
        return f"Health: {_score(health)}."
    said = f"{weakest.name} {_value(weakest)} ({weakest.basis})"
    use = next((f"Use: {one.basis}." for one in health.metrics if one.name == "efficiency" and one != weakest), "")
    return printable(" ".join(filter(None, (f"Health: {_score(health)}. Weakest: {said}.", weakest.advice, use))))


def _lines(health: Health) -> Iterator[str]:
    yield f"Health of memory: {_score(health)}"
    yield f"{_where(health)} on {health.today}, by the definitions of {health.profile}"
    yield ""
    for metric in health.metrics:
        share = bar((metric.value or 0) / 100) if metric.value is not None else " " * BAR_WIDTH
        yield f"{metric.name:<{NAME_WIDTH}}  {share} {_value(metric):>5}  {metric.weight:>2}%  {metric.basis}"
    weak = [metric for metric in health.metrics if metric.advice]
    if weak:
        yield ""
        yield from (line for metric in weak for line in _advise(metric))


def _advise(metric: Metric) -> Iterator[str]:
    """What to do about a weak metric, and the newest of what it lacks."""
    yield f"{metric.name}: {metric.advice}"
    yield from (f"    {name}" for name in metric.missing[:MAX_SHOWN])
    if len(metric.missing) > MAX_SHOWN:
        yield f"    and {len(metric.missing) - MAX_SHOWN} more: `--json` names them"


def _line(health: Health) -> str:
    values = "  ".join(f"{metric.name} {_value(metric)}" for metric in health.metrics)
    return f"{health.today}  {(health.commit or '')[:12]}  {_score(health)}  {values}"


def _score(health: Health) -> str:
    if health.score is None:
        return "n/a, there is nothing to measure"
    return f"{health.score:.1f} of 100, {health.band}{' (partial)' if health.is_partial else ''}"


def _value(metric: Metric) -> str:
    return "n/a" if metric.value is None else f"{metric.value:.1f}"


def _where(health: Health) -> str:
    if health.commit is None:
        return "The work tree"
    return f"Commit {health.commit[:12]}" if health.commit else "Before the first commit,"


def render_effect(report: EffectReport) -> str:
    """A line for each measure: both arms, their difference with its interval, and what it takes to see one."""
    if report.since is None:
        return "No session is known to have been held out: `retrieve.holdout` says which share of them is.\n"
    head = f"Sessions and changes since {report.since}, given memory and held out ({report.holdout:.0%} now)\n\n"
    return head + "".join(f"{_effect(effect)}\n" for effect in report.effects)


def _effect(effect: ArmComparison) -> str:
    shares = f"{effect.name:<18} given {_part(effect.given)}, held out {_part(effect.held_out)}"
    if effect.low is None or effect.high is None:
        return f"{shares}: an arm is empty"
    is_seen = effect.low > 0 or effect.high < 0
    verdict = f"{'more' if effect.low > 0 else 'less'} with memory" if is_seen else "no difference seen"
    needed = f"; a third less is seen with {effect.needed}, {effect.weeks} weeks" if effect.needed else ""
    return f"{shares}: {verdict} [{effect.low:+.2f}, {effect.high:+.2f}]{needed}"


def _part(share: Share) -> str:
    return f"{share.hits} of {share.total}"


def render_holdout(holdout: float) -> str:
    """The line of a report that says that some sessions are given nothing; "" if none are."""
    told = f"Holdout: {holdout:.0%} of sessions are given nothing; `memory-ci health --effect` compares them."
    return told if holdout else ""


COUNTED: tuple[tuple[ProbeState, str], ...] = (
    ("ok", "ok"), ("warn", "to do"), ("fail", "broken"), ("out", "leaving this machine"), ("skip", "skipped")
)  # fmt: skip


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """`state  name  what`, the remedy on a line of its own, and the counts at the end."""
    width = max((len(probe.name) for probe in diagnosis.probes), default=0)
    lines = [line for probe in diagnosis.probes for line in _probe_lines(probe, width)]
    states = Counter(probe.state for probe in diagnosis.probes)
    counts = ", ".join(f"{states[state]} {word}" for state, word in COUNTED if states[state])
    return "".join(f"{printable(line)}\n" for line in (*lines, counts or "nothing was looked at"))


def _probe_lines(probe: Probe, width: int) -> Iterator[str]:
    first, *rest = probe.what.splitlines() or [""]
    yield f"{probe.state:4}  {probe.name:{width}}  {first}".rstrip()
    indent = " " * (width + 8)
    yield from (f"{indent}{line}" for line in rest)
    if probe.remedy:
        yield f"{indent}-> {probe.remedy}"
