"""How good retrieval and engines are, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory_ci.records.health import GATED, SIZES, Answered, Comparison, Evaluation, Quality, SetEvaluation, Share
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

SHOWN = 20
HITS_EXPLAINED = 3


def render_qualities(qualities: Sequence[Quality]) -> str:
    """A block for each kind of query: every mean with its 95 % interval, then what it took."""
    return "\n".join(_block(quality) for quality in qualities)


def render_answers(answered: Iterable[Answered]) -> str:
    """Each query with its first hits and the factors of their scores; `*` marks what is relevant."""
    return "".join(f"{line}\n" for one in answered for line in _explained(one))


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


def _block(quality: Quality) -> str:
    rows = [
        (measure.name, f"{measure.value:.3f}  [{measure.low:.3f}, {measure.high:.3f}]") for measure in quality.measures
    ]
    if quality.unanswerable:
        rows.append(("false hits", f"{quality.false_hits} of {quality.unanswerable} without an answer"))
    rows.append(("latency", "p50 {:.1f} ms, p95 {:.1f} ms".format(*quality.milliseconds)))
    width = max(len(name) for name, _ in rows)
    head = f"{quality.kind or 'all'}: {quality.queries} with an answer in memory"
    return "".join(
        f"{line}\n" for line in [printable(head), *(f"  {name.ljust(width)}  {value}" for name, value in rows)]
    )


def _explained(one: Answered) -> list[str]:
    lines = [f"{one.verdict:4}  {_short(one.asking.text)}"]
    for entry, factors in list(zip(one.ranking, one.factors, strict=True))[:HITS_EXPLAINED]:
        mark = "*" if entry in one.asking.grades else " "
        product = " x ".join(f"{name} {value:.2f}" for name, value in factors)
        lines.append(f"    {mark} {printable(entry)}: {product}")
    return lines


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
    width = max(len(name) for name, _ in rows)
    lines = [f"engine {done.engine}", *(f"{name.ljust(width)}  {value}" for name, value in rows)]
    for heading, items in (("Missed", done.misses), ("Written, but not in gold", done.false_positives)):
        lines += [f"\n{heading}:", *(f"  {_short(item)}" for item in items[:SHOWN])] if items else []
    return "\n".join(lines) + "\n"


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
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name.ljust(width)}  {value}\n" for name, value in rows)


def _share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "n/a (nothing to count)"
    return f"{share.value:.2f}  ({share.hits} of {share.total}, 95 % interval {share.low:.2f} to {share.high:.2f})"
