"""Sessions, recalled episodes, a pre-mortem and a reminder, for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_ci.records.config import NudgeConfig
from memory_ci.records.episode import Recalled, RecalledEpisode, Risk
from memory_ci.records.event import MID_TURN, Session
from memory_ci.records.names import SHA_WIDTH
from memory_ci.rendering.table import printable, printable_lines
from memory_ci.rendering.terminal import render_rows
from memory_ci.text import shorten

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

HEADINGS = (
    "format", "agent", "id", "started", "records", "human (mid-turn)", "rejections (reason)", "interrupts",
    "compactions", "sub-agent", "duplicates", "bad lines", "unknown",
)  # fmt: skip


def render_sessions(sessions: Sequence[Session]) -> str:
    """One line a session under a line of headings; nothing for none."""
    return render_rows([HEADINGS, *(_row(session) for session in sessions)]) if sessions else ""


def _row(session: Session) -> tuple[str, ...]:
    counts = session.counts
    # The start of a UUID tells sessions apart; of other ids, which begin with a file's name, the end does.
    cells = (
        session.format,
        session.agent,
        session.id[:8] if UUID.fullmatch(session.id) else session.id[-24:],
        session.started.strftime("%Y-%m-%d %H:%M") if session.started else "-",
        str(counts.records),
        f"{counts.human_turns} ({counts.mid_turn})",
        f"{counts.rejections} ({counts.rejections_with_reason})",
        str(counts.interrupts),
        str(counts.compactions),
        str(counts.subagent_events),
        str(counts.duplicates),
        str(counts.bad_lines),
        ", ".join(f"{name} {count}" for name, count in counts.unknown.items()) or "-",
    )
    return tuple(printable(cell) for cell in cells)


def render_human(sessions: Sequence[Session]) -> str:
    """What people said, each turn with its file and line; further lines of a turn are indented."""
    lines = []
    for session in sessions:
        lines.append(f"{session.key} ({session.format})")
        for event in session.events:
            label = f"[{event.kind}{f' {event.tool}' if event.tool else ''}] "
            if event.kind == "text":
                label = "[mid-turn] " if MID_TURN in event.labels else ""
            first, *rest = event.text.splitlines() or [""]
            lines.append(f"  {event.origin.path}:{event.origin.line}: {label}{first}")
            lines += [f"    {line}" for line in rest]
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


LABEL = re.compile(r" \((?:#\d+|[0-9a-f]{7})\)\Z")
"""How the text of an episode ended when it was its title again."""

MAX_TITLE = 120
MAX_TEXT = 600


def render_recalled(recalled: Recalled, *, explain: bool = False) -> str:
    """Each episode in a line, best first, and below it what its text says more; with `explain`, its score too."""
    lines = []
    for hit in recalled.hits:
        lines.append(_episode(hit, recalled.address))
        text = shorten(hit.episode.text, MAX_TEXT)
        said = shorten(LABEL.sub("", hit.episode.text), MAX_TITLE)
        if " " in text and said != shorten(hit.episode.situation.summary, MAX_TITLE):  # `Merged.` was said above
            lines.append(f"      {text}")
        if explain:
            lines.append(f"      {_score(hit, recalled.likeness)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def link_to(address: str, number: int | None, sha: str) -> str:
    """The web address of a request, else of a commit; "" where the repository has none."""
    if not address or (number is None and not sha):
        return ""
    is_gitlab = "gitlab" in address
    place = f"commit/{sha[:SHA_WIDTH]}" if number is None else f"{'merge_requests' if is_gitlab else 'pull'}/{number}"
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
    parts = [f"{weight}{one.name} {one.value:.3f}" for weight, one in zip(weights, hit.factors, strict=True)]
    by = f" (likeness by {likeness})" if likeness else ""
    return f"{hit.score:.4f} = {(' + ' if any(weights) else ' x ').join(parts)}{by}"


PLAN_WIDTH = 2_000
NONE = "(nothing known speaks of this plan; add what you expect to go wrong)"


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
        parts = (("Why", risk.why), ("Signal", risk.signal), ("Mitigation", risk.mitigation), ("From", risk.source))
        listed.append(f"- {shorten(risk.title, 300)}")
        listed += [f"  {name}: {shorten(text, 300)}" for name, text in parts if text]
    page = ["# Pre-mortem", "", "## Plan", "", *quoted, "", "## Risks", "", *(listed or [NONE])]
    return printable_lines("".join(f"{line}\n" for line in page))


def render_nudge(settings: NudgeConfig) -> str:
    """One line: how much went by, and what can be done. It holds no text of anyone else's."""
    what = "commits" if settings.unit == "commits" else "merged changes"
    since = f"memory-ci: {settings.after} or more {what} since memory changed."
    return f"{since} What would the next job like to know? `memory-ci add` notes it."


def render_asking_to_mark(has_quote: bool, is_end: bool = False) -> str:
    """What an agent is asked that a person corrects, at the prompt or at the end of the turn."""
    quote = ' --quote "WORDS OF THE PERSON, EXACTLY"' if has_quote else ""
    if is_end:
        head, tail = "a person corrected you, and nothing was noted", "now. If not, end without a word about this."
    else:
        head, tail = "this prompt may be a correction", "at the end of this turn. If not, do nothing about it."
    rule = "If it will still hold next month for others who work here, run"
    return f'memory-ci: {head}. {rule} `memory-ci add "RULE IN ONE SENTENCE" --body "WHY"{quote}` {tail}'


def render_asking_for_feedback(ids: Sequence[str]) -> str:
    """What an agent is asked whose person says that what memory gave it before does not hold."""
    commands = ", ".join(f"`memory-ci feedback {one[:8]} rejected`" for one in ids)
    return f"memory-ci: if this is about an entry that you were given, say so: {commands}. If not, do nothing about it."
