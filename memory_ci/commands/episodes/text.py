"""The text that `recall` and `premortem` print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memory_ci.commands.retrieve.text import HINTS, PREAMBLE, quote_lines, wrap_blocks
from memory_ci.findings import printable, printable_lines
from memory_ci.records.episode import Recalled, RecalledEpisode, Risk
from memory_ci.records.names import SHA_WIDTH
from memory_ci.text import shorten

if TYPE_CHECKING:
    from memory_ci.records.episode import Recalled


LABEL = re.compile(r" \((?:#\d+|[0-9a-f]{7})\)\Z")
"""How the text of an episode ended when it was its title again."""


MAX_TITLE = 120


MAX_TEXT = 600


PLAN_WIDTH = 2_000
NONE = "(nothing known speaks of this plan; add what you expect to go wrong)"


def render_recalled(recalled: Recalled, *, explain: bool = False) -> str:
    """Each episode in a line, best first, and below it what its text says more; with `explain`, its score too."""
    lines = []
    for hit in recalled.hits:
        lines.append(_episode(hit, recalled.address))
        text = shorten(hit.episode.text, MAX_TEXT)
        said = shorten(LABEL.sub("", hit.episode.text), MAX_TITLE)
        if " " in text and said != shorten(
            hit.episode.situation.summary, MAX_TITLE
        ):  # `Merged.` was said above
            lines.append(f"      {text}")
        if explain:
            lines.append(f"      {_score(hit, recalled.likeness)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def link_to(address: str, number: int | None, sha: str) -> str:
    """The web address of a request, else of a commit; "" where the repository has none."""
    if not address or (number is None and not sha):
        return ""
    is_gitlab = "gitlab" in address
    place = (
        f"commit/{sha[:SHA_WIDTH]}"
        if number is None
        else f"{'merge_requests' if is_gitlab else 'pull'}/{number}"
    )
    return f"{address}/{'-/' if is_gitlab else ''}{place}"


def _episode(hit: RecalledEpisode, address: str) -> str:
    """`pr-128 retry failed charges (2026-11-20, payments: retries, still 1 of 2 files; success)`, then its link."""
    episode, situation = hit.episode, hit.episode.situation
    about = shorten(": ".join(filter(None, (situation.domain, situation.topic))), MAX_TITLE)
    files = len(episode.action.files)
    still = f"still {hit.still} of {files} files" if files and hit.still is not None else ""
    told = ", ".join(filter(None, (episode.occurred_at.date().isoformat(), about, still)))
    outcome = "tried, did not work" if episode.outcome == "failure" else episode.outcome
    title = shorten(situation.summary or episode.text, MAX_TITLE)
    link = link_to(address, episode.action.pr, episode.action.commit)
    return f"{episode.id} {title} ({told}; {outcome}) {link}".rstrip()


def _score(hit: RecalledEpisode, likeness: str) -> str:
    """The score as the product, or the weighted sum, that it is; `likeness` names what words were compared by."""
    weights = ["" if one.weight is None else f"{one.weight:g} x " for one in hit.factors]
    parts = [
        f"{weight}{one.name} {one.value:.3f}"
        for weight, one in zip(weights, hit.factors, strict=True)
    ]
    by = f" (likeness by {likeness})" if likeness else ""
    return f"{hit.score:.4f} = {(' + ' if any(weights) else ' x ').join(parts)}{by}"


def render_premortem(plan: str, risks: Sequence[Risk]) -> str:
    """Markdown: the plan in short, then a list of risks. The plan is quoted, so that nothing in it is ours; no
    character moves a cursor or hides."""
    room, quoted, listed = PLAN_WIDTH, [], []
    for line in plan.strip().splitlines():
        room -= len(line)
        if room < 0:
            quoted.append("> …")
            break
        quoted.append(f"> {line}".rstrip())
    for risk in risks:
        parts = (
            ("Why", risk.why),
            ("Signal", risk.signal),
            ("Mitigation", risk.mitigation),
            ("From", risk.source),
        )
        listed.append(f"- {shorten(risk.title, 300)}")
        listed += [f"  {name}: {shorten(text, 300)}" for name, text in parts if text]
    page = ["# Pre-mortem", "", "## Plan", "", *quoted, "", "## Risks", "", *(listed or [NONE])]
    return printable_lines("".join(f"{line}\n" for line in page))


def render_recall(recalled: Recalled, *, explain: bool = False) -> str:
    """Episodes in the same wrapper, each line marked as a quotation, and below them changes of history; "" for none."""

    by_git = replace(recalled, hits=recalled.changes, likeness="")
    told, found = (
        "\n".join(quote_lines(render_recalled(one, explain=explain))) for one in (recalled, by_git)
    )
    blocks = (told, f"{HINTS}\n{found}" if found else "")
    return wrap_blocks([PREAMBLE, *filter(None, blocks)]) if any(blocks) else ""
