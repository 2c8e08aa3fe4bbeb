"""How good retrieval is, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory_ci.records.quality import Answered, Comparison, Quality, ndcg_of
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
    """nDCG@10 before and now, and the queries that fell."""
    before, now = ndcg_of(done.before), ndcg_of(done.now)
    verdict = f"fell by more than {done.margin:g}" if done.has_fallen else f"within {done.margin:g}"
    lines = [f"nDCG@10 at {printable(done.rev)} {before:.3f}, now {now:.3f}: {verdict}"]
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
