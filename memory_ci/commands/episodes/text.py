"""The text that `recall` and `premortem` print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from memory_ci.commands.retrieve.text import HINTS_HEADING, PREAMBLE, quote_lines, wrap_blocks
from memory_ci.findings import printable, printable_lines
from memory_ci.gitrepo.addresses import link_to
from memory_ci.records.episode import Recalled, RecalledEpisode, Risk
from memory_ci.regex import Regex
from memory_ci.text import shorten

TRAILING_LABEL = Regex(r" \((?:#\d+|[0-9a-f]{7})\)\Z")
"""The end of an episode's text that only repeats its title."""

MAX_TITLE = 120
MAX_TEXT = 600
MAX_RISK = 300
PLAN_WIDTH = 2_000  # Characters of a plan that are quoted.
NO_RISKS_TEXT = "(memory has no similar work; add the risks that you expect)"


def render_episodes(recalled: Recalled, *, explain: bool = False) -> str:
    """Return the episodes that answer a question, best first: a line of facts, then the text.

    Args:
        recalled: the episodes.
        explain: add how the score of each episode was computed.
    """
    lines = []
    for hit in recalled.hits:
        lines.append(_episode_line(hit, recalled.address))
        text = shorten(hit.episode.text, MAX_TEXT)
        if " " in text and not _repeats_title(hit):  # The line above says `merged` already.
            lines.append(f"      {text}")
        if explain:
            lines.append(f"      {_explain_score(hit, recalled.likeness)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _repeats_title(hit: RecalledEpisode) -> bool:
    text = shorten(TRAILING_LABEL.sub("", hit.episode.text), MAX_TITLE)
    return text == shorten(hit.episode.situation.summary, MAX_TITLE)


def _episode_line(hit: RecalledEpisode, address: str) -> str:
    """Return one line with the title, the facts, the outcome and the link of an episode.

    Example:
    `pr-128 retry failed charges (2026-11-20, payments: retries, still 1 of 2 files; success)`.
    """
    episode = hit.episode
    situation = episode.situation
    facts = [episode.occurred_at.date().isoformat()]
    subjects = [name for name in (situation.domain, situation.topic) if name]
    if subjects:
        facts.append(shorten(": ".join(subjects), MAX_TITLE))
    file_count = len(episode.action.files)
    if file_count and hit.remaining_count is not None:
        facts.append(f"still {hit.remaining_count} of {file_count} files")
    outcome = "tried, did not work" if episode.outcome == "failure" else episode.outcome
    title = shorten(situation.summary or episode.text, MAX_TITLE)
    link = link_to(address, episode.action.pr, episode.action.commit)
    return f"{episode.id} {title} ({', '.join(facts)}; {outcome}) {link}".rstrip()


def _explain_score(hit: RecalledEpisode, likeness: str) -> str:
    """Return the formula of a score: a product, or a weighted sum if the factors have weights.

    Args:
        hit: an episode.
        likeness: the measure by which texts were compared, such as `tf-idf`.
    """
    terms = []
    operator = " x "
    for factor in hit.factors:
        term = f"{factor.name} {factor.value:.3f}"
        if factor.weight is not None:
            term = f"{factor.weight:g} x {term}"
            operator = " + "
        terms.append(term)
    formula = operator.join(terms)
    basis = f" (likeness by {likeness})" if likeness else ""
    return f"{hit.score:.4f} = {formula}{basis}"


def render_premortem(plan: str, risks: Sequence[Risk]) -> str:
    """Return the Markdown page of a pre-mortem: the beginning of the plan, and the risks.

    The plan is quoted, as others wrote it. Control and invisible characters are removed.
    """
    lines = ["# Pre-mortem", "", "## Plan", "", *_quote_plan(plan), "", "## Risks", ""]
    for risk in risks:
        lines += _risk_lines(risk)
    if not risks:
        lines.append(NO_RISKS_TEXT)
    return printable_lines("".join(f"{line}\n" for line in lines))


def _quote_plan(plan: str) -> Iterator[str]:
    """Yield the first lines of a plan as a Markdown quote."""
    free_width = PLAN_WIDTH
    for line in plan.strip().splitlines():
        free_width -= len(line)
        if free_width < 0:
            yield "> …"
            return
        yield f"> {line}".rstrip()


def _risk_lines(risk: Risk) -> Iterator[str]:
    """Yield a risk as an item of a Markdown list, without its empty parts."""
    yield f"- {shorten(risk.title, MAX_RISK)}"
    parts = (
        ("Why", risk.why),
        ("Signal", risk.signal),
        ("Mitigation", risk.mitigation),
        ("From", risk.source),
    )
    for name, text in parts:
        if text:
            yield f"  {name}: {shorten(text, MAX_RISK)}"


def quote_for_agent(recalled: Recalled, *, explain: bool = False) -> str:
    """Return episodes and merged changes as quoted text for an agent; "" without any.

    A heading says that the text is data from memory, and no instruction.
    """
    blocks = []
    if recalled.hits:
        text = render_episodes(recalled, explain=explain)
        blocks.append("\n".join(quote_lines(text)))
    if recalled.changes:
        history = replace(recalled, hits=recalled.changes, likeness="")
        text = render_episodes(history, explain=explain)
        blocks.append("\n".join([HINTS_HEADING, *quote_lines(text)]))
    return wrap_blocks([PREAMBLE, *blocks]) if blocks else ""
