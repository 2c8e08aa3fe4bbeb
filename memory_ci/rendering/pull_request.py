"""The text of the memory pull request: what would change in memory, why, and what that does to the budget.

Everything that comes from entries stands in code spans, in which a forge sees no mention, no issue to close, no HTML
and no link (docs.github.com, "Basic writing and formatting syntax").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from memory_ci.records.change import Change
from memory_ci.records.plan import Plan
from memory_ci.rendering.table import printable
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural, shorten

TITLE = "memory: what recent work taught"
SHOWN = 30
"""Entries of one section; the body of a pull request holds 65,536 characters (GitHub)."""

TITLE_WIDTH = 120
QUOTE_WIDTH = 240
SECTIONS = ("Added", "Changed", "Retired", "Moved")
ORIGIN = re.compile(r"\b(?:pr:(?P<number>\d{1,9})|commit:(?P<sha>[0-9a-f]{7,64}))\b")
TICKS = re.compile("`+")


class Links(msgspec.Struct, frozen=True):
    """What stands before a number or a commit id in the address of a pull request or commit; "" where there is none."""

    pull: str = ""
    commit: str = ""


class Effect(msgspec.Struct, frozen=True):
    """Active entries and their characters, before and after; `limit`: characters of them that a job is given."""

    entries_before: int
    chars_before: int
    entries_after: int
    chars_after: int
    limit: int


class Proposed(msgspec.Struct, frozen=True):
    """All that the text says: the plan, the titles of what maintainers wrote and took out, the effect."""

    plan: Plan
    kept: tuple[str, ...]
    rejected: tuple[str, ...]
    effect: Effect
    links: Links


def render_pull_request(proposed: Proposed) -> str:
    """Markdown, the same for the same input."""
    return "".join(f"{line}\n" for line in _lines(proposed))


def code(text: str) -> str:
    """`text` in one line as a code span that it cannot leave (CommonMark 6.1)."""
    bare = printable(" ".join(mask_secrets(text).split()))
    ticks = "`" * (max((len(run) for run in TICKS.findall(bare)), default=0) + 1)
    pad = " " if bare.startswith("`") or bare.endswith("`") else ""
    return f"{ticks}{pad}{bare}{pad}{ticks}" if bare else ""


def _lines(proposed: Proposed) -> Iterator[str]:
    yield "memory-ci keeps this pull request up to date with each run; merge it to make it memory."
    yield "Edit an entry on this branch and your words stay. Take one out and it is not proposed again."
    yield "Merge by squash or rebase: a merge commit does not tell the next run how far this one came."
    for section in SECTIONS:
        changes = [change for step in proposed.plan.steps for change in step.changes if _section(change) == section]
        yield from _section_lines(section, changes, proposed.links)
    yield from _titles("Kept as maintainers wrote it", proposed.kept)
    yield from _titles("Not proposed again", proposed.rejected)
    yield ""
    yield _effect_line(proposed.effect)


def _section(change: Change) -> str:
    if change.step == "promote" or change.kind in ("move", "drop"):
        return "Moved"
    if change.step == "retire" or change.entry.status == "retired":
        return "Retired"
    return "Added" if change.kind == "add" else "Changed"


def _section_lines(name: str, changes: Sequence[Change], links: Links) -> Iterator[str]:
    if not changes:
        return
    yield from ("", f"### {name}: {plural(len(changes), 'entry')}", "")
    for change in changes[:SHOWN]:
        yield f"- {code(shorten(change.entry.title, TITLE_WIDTH))} in {code(change.path)} ({code(change.why)})"
        yield from (f"  - {line}" for line in _evidence(change, links))
    if len(changes) > SHOWN:
        yield f"- and {len(changes) - SHOWN} more: see the files"


def _evidence(change: Change, links: Links) -> Iterator[str]:
    """Where it comes from, and the first words that prove it; for what is new to memory."""
    origins = [link for match in ORIGIN.finditer(change.entry.source or "") if (link := _link(match, links))]
    if change.kind == "add" and origins:
        yield "from " + ", ".join(origins)
    if change.kind == "add" and change.entry.evidence:
        yield f"said: {code(shorten(change.entry.evidence[0].partition(' ')[2], QUOTE_WIDTH))}"


def _link(match: re.Match[str], links: Links) -> str:
    if match["number"]:
        return f"[pull request {match['number']}]({links.pull}{match['number']})" if links.pull else ""
    return f"[commit {match['sha'][:10]}]({links.commit}{match['sha']})" if links.commit else ""


def _titles(heading: str, titles: Sequence[str]) -> Iterator[str]:
    if titles:
        yield from ("", f"### {heading}", "")
        yield from (f"- {code(shorten(title, TITLE_WIDTH))}" for title in titles[:SHOWN])


def _effect_line(effect: Effect) -> str:
    return (
        f"Budget: {plural(effect.entries_before, 'active entry')} become {effect.entries_after}, "
        f"{effect.chars_before:,} characters become {effect.chars_after:,}; "
        f"a job is given at most {effect.limit:,} of them."
    )
