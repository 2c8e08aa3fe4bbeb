"""A pre-mortem: what may go wrong with a plan, written down before the work, so that a merge can be held against it."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.records.episode import Risk
from memory_ci.rendering.table import printable_lines
from memory_ci.text import shorten

PLAN_WIDTH = 2_000
NONE = "(nothing known speaks of this plan; add what you expect to go wrong)"


def render_premortem(plan: str, risks: Sequence[Risk]) -> str:
    """Markdown: the plan in short, then a list of risks.

    The plan is quoted, so that nothing in it is ours; no character moves a cursor or hides.
    """
    quoted = "\n".join(f"> {line}".rstrip() for line in _first_lines(plan).splitlines())
    listed = "\n".join(_risk(risk) for risk in risks) or NONE
    return printable_lines(f"# Pre-mortem\n\n## Plan\n\n{quoted}\n\n## Risks\n\n{listed}\n")


def _risk(risk: Risk) -> str:
    parts = (("Why", risk.why), ("Signal", risk.signal), ("Mitigation", risk.mitigation), ("From", risk.source))
    lines = [f"- {_one_line(risk.title)}"]
    return "\n".join(lines + [f"  {name}: {_one_line(text)}" for name, text in parts if text])


def _one_line(text: str) -> str:
    return shorten(" ".join(text.split()), 300)


def _first_lines(text: str) -> str:
    """The first lines of a text, within the width of a plan."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        if sum(map(len, kept)) + len(line) > PLAN_WIDTH:
            return "\n".join([*kept, "…"])
        kept.append(line)
    return "\n".join(kept)
