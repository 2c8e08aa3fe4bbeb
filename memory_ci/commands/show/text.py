"""Why an entry counts what it counts, why it was given or was not, and its neighbourhood as a tree or as DOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci.anchors.text import say_verdict
from memory_ci.cli.terminal import bar
from memory_ci.commands.show.records import CountedFeedback, Edge, Graph, Node, Why
from memory_ci.findings import printable
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.entry import NO_FEEDBACK
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.text import plural, shorten

MAX_TITLE = 120
HIGH, FRESH, LOW = 0.7, 0.9, 0.4  # Of importance and recency, for words.
STANDING: Sequence[tuple[VerdictKind, str]] = (
    ("gone", "The code that it cites is gone."),
    ("changed", "The code that it cites has changed since."),
    ("unverifiable", "The code that it cites cannot be compared."),
    ("moved", "The code that it cites has moved, and is as it was."),
    ("fresh", "The code that it cites is as it was."),
)
MAX_SUMMARY = 80


def render_why(why: Why) -> str:
    """A block of lines, each safe to print whatever the entry and its episodes hold."""
    return "".join(f"{printable(line)}\n" for line in (*_sum_up(why), *_lines(why)))


def _lines(why: Why) -> Iterator[str]:
    yield f"prominence {why.prominence:.3f}, ageing as prominence.decay says: {why.decay}"
    yield from _bars(why.parts)
    events = plural(len(why.heard) - why.touched, "event")
    yield f"utility    {why.utility:.3f} from {events}{' (low)' if why.is_low else ''}"
    yield from (f"  {_say(heard)}" for heard in why.heard)
    rate = f" ({why.used / why.given:.0%})" if why.given else ""
    about = f", {why.touched} about the same thing" if why.touched else ""
    yield f"given      to {plural(why.given, 'job')}, used by {why.used}{rate}{about}"
    if why.memory is not None:
        memory = why.memory
        reviews = f"{plural(memory.reviews, 'review')}, the last on {memory.reviewed_on}"
        yield f"memory     {memory.retrievability:.0%} left, 90% for {memory.stability:.1f} days ({reviews})"
    if why.factors:
        yield "ranking    what it has in common with a task, times"
        yield from _bars(why.factors)
    yield from (f"cites      {say_verdict(verdict)}" for verdict in why.verdicts)
    yield from why.notes


def _say(heard: CountedFeedback) -> str:
    """`2026-11-20 confirmed +0.200 -> 0.700 by ada, pr:128; pr-128 (success): retry failed charges`."""
    who = ", ".join(filter(None, (f"by {heard.by}" if heard.by else "", heard.ref)))
    outcome = f" ({heard.outcome})" if heard.outcome else ""
    about = f"{heard.episode}{outcome}" if heard.episode else ""
    told = ": ".join(filter(None, (about, shorten(heard.summary, MAX_SUMMARY))))
    what = f"{heard.at:%Y-%m-%d} {heard.kind} {heard.delta:+.3f} -> {heard.value:.3f}"
    return "; ".join(filter(None, (" ".join(filter(None, (what, who))), told)))


def _sum_up(why: Why) -> Iterator[str]:
    """What the entry is and where it comes from, and what the numbers below come to, in words."""
    place, entry, parts = why.located, why.located.entry, dict(why.parts)
    yield f"{entry.id[:8]} {shorten(entry.title, MAX_TITLE)}"
    yield f"  {entry.type}, {place.scope.target}, {entry.status}; {place.path}:{place.line}; as on {why.today}"
    origin = [f"from {entry.source}"] if entry.source else []
    origin += [f"learned on {entry.created_at}"] if entry.created_at else []
    times = plural(entry.reinforcement_count, "time")
    yield f"  {', '.join([*origin, f'last reinforced on {entry.last_reinforced}, {times}'])}"
    yield from (f"  evidence: {shorten(line, MAX_TITLE)}" for line in entry.evidence)
    yield ""
    weight = (
        "important"
        if parts["importance"] >= HIGH
        else "of little importance"
        if parts["importance"] < LOW
        else ""
    )
    age = "fresh" if parts["recency"] >= FRESH else "old" if parts["recency"] < LOW else "ageing"
    counted = f"reinforced {times}" if entry.reinforcement_count else "never reinforced"
    judged = (
        plural(len(why.heard) - why.touched, "event") + " of feedback"
        if why.heard
        else "no feedback yet"
    )
    opinion = f", which speaks {'for' if why.utility > NO_FEEDBACK else 'against'} it"
    opinion = opinion if why.utility != NO_FEEDBACK else ""
    yield f"It counts {why.prominence:.2f}: {' and '.join(filter(None, (weight, age)))}, {counted}."
    yield f"It was given to {plural(why.given, 'job')} and used by {why.used}, with {judged}{opinion}."
    kinds = {verdict.kind for verdict in why.verdicts}
    yield next((text for kind, text in STANDING if kind in kinds), "It cites no code.")
    yield ""


def _bars(factors: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A line a factor, its bar in proportion to the largest, or to 1."""
    most = max(1.0, *(value for _, value in factors))
    yield from (f"  {name:<14} {bar(value / most)} {value:.3f}" for name, value in factors)


NODE_WIDTH = 80
ID_WIDTH = 8


def render_tree(graph: Graph) -> str:
    """A line for each edge, under the entry where it was met first; an entry that stands above is only named again.
    `→`: the entry above says it of the one on the line; `←`: the other way; `~`: without direction."""
    nodes = {node.id: node for node in graph.nodes}
    shown, used = {graph.center}, set[Edge]()
    lines = [_describe(nodes[graph.center])]

    def grow(id_: str, indent: str) -> None:
        """The lines below an entry, depth first; each edge stands once."""
        edges = [
            edge for edge in graph.edges if id_ in (edge.source, edge.target) and edge not in used
        ]
        used.update(edges)
        others = [edge.target if edge.source == id_ else edge.source for edge in edges]
        fresh = set(others) - shown
        shown.update(fresh)
        for place, (edge, other) in enumerate(zip(edges, others, strict=True), start=1):
            is_first, is_last = other in fresh, place == len(edges)
            fresh.discard(other)
            arrow = "~" if edge.kind == "similar" else "→" if edge.source == id_ else "←"
            what = _describe(nodes[other]) if is_first else f"{other[:ID_WIDTH]} (above)"
            lines.append(
                f"{indent}{'└─' if is_last else '├─'} {edge.kind} {edge.weight:.2f} {arrow} {what}"
            )
            if is_first:
                grow(other, f"{indent}{'   ' if is_last else '│  '}")

    grow(graph.center, "")
    return "".join(f"{printable(line)}\n" for line in lines)


def render_dot(graph: Graph) -> str:
    """A directed graph in DOT; text of entries is in quoted strings only, in which nothing has a meaning."""
    nodes, edges = [], []
    for node in graph.nodes:
        style = ", style=dashed" if node.is_missing or node.status == "retired" else ""
        style += ", penwidth=2" if node.id == graph.center else ""
        nodes.append(f"  {_quoted(node.id)} [label={_quoted(_describe(node))}{style}];")
    for edge in graph.edges:
        label = _quoted(f"{edge.kind} {edge.weight:.2f}") + (
            ", dir=none" if edge.kind == "similar" else ""
        )
        edges.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={label}];")
    lines = ["digraph memory {", "  node [shape=box];", *nodes, *edges, "}"]
    return "".join(f"{line}\n" for line in lines)


def _describe(node: Node) -> str:
    """`0f6f1f0e Retry a POST only with a key (corrective, project)`."""
    if node.is_missing:
        return f"{node.id[:ID_WIDTH]} (not in memory)"
    status = f", {node.status}" if node.status != "active" else ""
    return f"{node.id[:ID_WIDTH]} {shorten(node.title, NODE_WIDTH)} ({node.type}, {node.scope}{status})"


def _quoted(text: str) -> str:
    """A string of DOT. A backslash begins an escape in labels (`\\N` is the node's name), so each becomes two."""
    safe = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"'


def render_blame(blamed: Sequence[BlamedLines]) -> str:
    """Lines with the work that brought them, what that was given and used, and what was learned of it."""

    def name(named: NamedEntry) -> str:
        return f"{named.id[:8]} {shorten(named.title, 80) or '(no longer in memory)'}"

    lines = []
    for one in blamed:
        span = f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"
        work = (
            f"#{one.number} {one.subject}"
            if one.number and f"#{one.number}" not in one.subject
            else one.subject
        )
        brought = f"{one.commit[:7]} {one.day} {work}" if one.commit else "not committed"
        lines.append(f"{one.path}:{span}  {brought}")
        lines += [
            f"    given    {name(named)}{'  (used)' if named.is_used else ''}"
            for named in one.given
        ]
        lines += [f"    learned  {name(named)}" for named in one.learned]
    return "".join(f"{printable(line)}\n" for line in lines)
