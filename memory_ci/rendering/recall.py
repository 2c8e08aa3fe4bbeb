"""Episodes that were recalled, a line each; and what became of one that was noted."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.records.episode import Factor, Recalled, RecalledEpisode
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

MAX_TITLE = 120
MAX_TEXT = 300


def render_recalled(recalled: Recalled, *, explain: bool = False) -> str:
    """Each episode in a line, best first, and below it what its text says more; with `explain`, its score too."""
    lines = (line for hit in recalled.hits for line in _lines(hit, recalled.likeness, explain=explain))
    return "".join(f"{printable(line)}\n" for line in lines)


def render_episode(hit: RecalledEpisode) -> str:
    """`pr-128 retry failed charges (2026-11-20, payments: retries, still 1 of 2 files; success)`."""
    episode, situation = hit.episode, hit.episode.situation
    about = shorten(": ".join(filter(None, (situation.domain, situation.topic))), MAX_TITLE)
    files = len(episode.action.files)
    still = f"still {hit.still} of {files} files" if files and hit.still is not None else ""
    told = ", ".join(filter(None, (episode.occurred_at.date().isoformat(), about, still)))
    outcome = "tried, did not work" if episode.outcome == "failure" else episode.outcome
    title = shorten(situation.summary or episode.text, MAX_TITLE)
    return f"{episode.id} {title} ({told}; {outcome})"


def explain_episode(hit: RecalledEpisode, likeness: str) -> str:
    """The score as the product, or the weighted sum, that it is; `likeness` names what words were compared by."""
    is_sum = any(factor.weight is not None for factor in hit.factors)
    parts = (" + " if is_sum else " x ").join(_part(factor) for factor in hit.factors)
    by = f" (likeness by {likeness})" if likeness else ""
    return f"{hit.score:.4f} = {parts}{by}"


def _lines(hit: RecalledEpisode, likeness: str, *, explain: bool) -> Iterator[str]:
    yield render_episode(hit)
    text = shorten(hit.episode.text, MAX_TEXT)
    if text and shorten(text, MAX_TITLE) != shorten(hit.episode.situation.summary, MAX_TITLE):
        yield f"      {text}"
    if explain:
        yield f"      {explain_episode(hit, likeness)}"


def _part(factor: Factor) -> str:
    weight = "" if factor.weight is None else f"{factor.weight:g} x "
    return f"{weight}{factor.name} {factor.value:.3f}"
