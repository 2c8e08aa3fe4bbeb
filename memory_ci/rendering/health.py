"""Health as a table, a line a month, one line for a page; what doctor found; how good retrieval and engines are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from memory_ci.records.health import (
    GATED,
    SIZES,
    Answered,
    ArmComparison,
    Comparison,
    Diagnosis,
    EffectReport,
    Evaluation,
    Health,
    Metric,
    Probe,
    ProbeState,
    Quality,
    SetEvaluation,
    Share,
)
from memory_ci.rendering.table import printable
from memory_ci.rendering.terminal import bar, render_rows
from memory_ci.text import shorten

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
    use = next((f"Use: {one.basis}." for one in health.metrics if one.name == "efficiency" and one != weakest), "")
    return printable(" ".join(filter(None, (f"Health: {_score(health)}. Weakest: {said}.", weakest.advice, use))))


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
    seen = "more with memory" if effect.low > 0 else "less with memory" if effect.high < 0 else "no difference seen"
    needed = f"; a third less is seen with {effect.needed}, {effect.weeks} weeks" if effect.needed else ""
    return f"{shares}: {seen} [{effect.low:+.2f}, {effect.high:+.2f}]{needed}"


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


SHOWN = 20
HITS_EXPLAINED = 3


def render_qualities(qualities: Sequence[Quality]) -> str:
    """A block for each kind of query: every mean with its 95 % interval, then what it took."""
    blocks = []
    for one in qualities:
        rows = [(mean.name, f"{mean.value:.3f}  [{mean.low:.3f}, {mean.high:.3f}]") for mean in one.measures]
        if one.unanswerable:
            rows.append(("false hits", f"{one.false_hits} of {one.unanswerable} without an answer"))
        rows.append(("latency", "p50 {:.1f} ms, p95 {:.1f} ms".format(*one.milliseconds)))
        head = printable(f"{one.kind or 'all'}: {one.queries} with an answer in memory")
        blocks.append(f"{head}\n{render_rows([(f'  {name}', value) for name, value in rows])}")
    return "\n".join(blocks)


def render_answers(answered: Iterable[Answered]) -> str:
    """Each query with its first hits and the factors of their scores; `*` marks what is relevant."""
    lines = []
    for one in answered:
        lines.append(f"{one.verdict:4}  {_short(one.asking.text)}\n")
        for entry, factors in list(zip(one.ranking, one.factors, strict=True))[:HITS_EXPLAINED]:
            product = " x ".join(f"{name} {value:.2f}" for name, value in factors)
            lines.append(f"    {'*' if entry in one.asking.grades else ' '} {printable(entry)}: {product}\n")
    return "".join(lines)


def render_comparison(done: Comparison) -> str:
    """Each measure that gates before and now, and the queries whose nDCG@10 fell."""
    now, worse = {one.name: one.value for one in done.now.measures}, {name for name, _, _ in done.worse}
    lines = [f"at {printable(done.rev)}, and now:"]
    lines += [
        f"  {one.name} {one.value:.3f}, {now[one.name]:.3f}: {'worse by more than' if one.name in worse else 'within'}"
        f" {done.margin:g}{' x 10 of it' if one.name in SIZES else ''}"
        for one in done.before.measures
        if one.name in now and one.name in {*GATED, *SIZES}
    ]
    lines += [f"  {fall.before:.3f} -> {fall.now:.3f}  {_short(fall.name)}" for fall in done.falls[:SHOWN]]
    lines += [f"  and {len(done.falls) - SHOWN} more"] if len(done.falls) > SHOWN else []
    return "".join(f"{line}\n" for line in lines)


def _short(text: str) -> str:
    return printable(shorten(text, 100))


def render_evaluation(done: Evaluation) -> str:
    """The table, then what was missed and what was written wrongly."""
    rows = [
        ("windows", f"{done.windows} ({done.negatives} with nothing to learn)"),
        ("precision of what is written", _share(done.precision)),
        ("gold learnings found", _share(done.recall)),
        ("abstained where nothing was to learn", _share(done.abstention)),
        ("quotes that hold", _share(done.evidence_validity)),
        ("duplicates of existing entries", str(done.duplicates)),
        ("learnings that could not be read", str(done.dropped)),
        ("secrets leaked", str(done.secrets_leaked)),
        ("injections obeyed", str(done.injections_obeyed)),
        ("calls that failed", f"{done.failures}{f' (the first: {done.failed_because})' if done.failures else ''}"),
        ("tokens for each window", f"{done.tokens_per_window:g}"),
    ]
    if done.agreement is not None:
        rows.append(("agreement of two labellers (kappa)", f"{done.agreement:.2f} on {done.labelled_twice} windows"))
    text = f"engine {done.engine}\n{render_rows(rows)}"
    for heading, items in (("Missed", done.misses), ("Written, but not in gold", done.false_positives)):
        text += "".join([f"\n{heading}:\n", *(f"  {_short(item)}\n" for item in items[:SHOWN])]) if items else ""
    return text


def render_set(done: SetEvaluation) -> str:
    """A table: what was replied and written, what each reader approves, and how far they agree."""
    rows = [
        ("windows with a reply", str(done.windows)),
        ("replies without a learning", _share(done.abstained)),
        ("learnings for each window", f"{done.learnings / done.windows:.2f} ({done.learnings} in all)"),
        ("written by the gate of today", _share(done.written)),
        *((f"  not: {_short(reason)}", str(count)) for reason, count in sorted(done.not_written.items())),
        ("tokens for each window", f"about {done.tokens_in:g} in, {done.tokens_out:g} out"),
    ]
    for reader in done.readers:
        rows += [(f"{reader.name} approves of what was replied", _share(reader.replied))]
        rows += [(f"{reader.name} approves of what is written", _share(reader.written))]
    for one, other, kappa, count in done.agreement:
        value = "n/a" if kappa is None else f"{kappa:.2f}"
        rows.append((f"agreement of {one} and {other} (kappa)", f"{value} on {count} learnings"))
    return render_rows(rows)


def _share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "n/a (nothing to count)"
    return f"{share.value:.2f}  ({share.hits} of {share.total}, 95 % interval {share.low:.2f} to {share.high:.2f})"
