"""The text of `show`, and of its `--why`, `--graph` and `--blame`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memory_ci.anchors.text import format_verdict
from memory_ci.cli.terminal import bar
from memory_ci.commands.show.records import CountedFeedback, Edge, Graph, Node, RankExplanation
from memory_ci.findings import printable
from memory_ci.memory.lookup import ShownEntry
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.entry import NO_FEEDBACK, name_entry
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.text import plural, shorten

MAX_TITLE = 120
MAX_SUMMARY = 80
# Importance and recency, each from 0 to 1: the bounds at which their words change. Chosen by hand.
HIGH_IMPORTANCE = 0.7
FRESH_RECENCY = 0.9
LOW_IMPORTANCE = 0.4
LOW_RECENCY = 0.4
VERDICT_SENTENCES: Sequence[tuple[VerdictKind, str]] = (
    ("gone", "The code that it cites is gone."),
    ("changed", "The code that it cites has changed since."),
    ("unverifiable", "The code that it cites cannot be compared."),
    ("moved", "The code that it cites has moved, and is as it was."),
    ("fresh", "The code that it cites is as it was."),
)
"""A sentence for the worst of the verdicts, the worst first."""


def render_why(explanation: RankExplanation) -> str:
    """Return the text of `show --why`: an entry, its weight in words, and the figures behind it."""
    lines = [
        *_describe_entry(explanation),
        "",
        *_describe_weight_and_use(explanation),
        "",
        *_list_rank_figures(explanation),
    ]
    return "".join(f"{printable(line)}\n" for line in lines)


def _describe_entry(explanation: RankExplanation) -> Iterator[str]:
    """Yield lines on an entry, its place in memory, and its origin."""
    located = explanation.located
    entry = located.entry
    yield f"{entry.id[:8]} {shorten(entry.title, MAX_TITLE)}"
    kind = f"{entry.type}, {located.scope.target}, {entry.status}"
    yield f"  {kind}; {located.path}:{located.line}; as on {explanation.today}"
    origins = []
    if entry.source:
        origins.append(f"from {entry.source}")
    if entry.created_at:
        origins.append(f"learned on {entry.created_at}")
    times_reinforced = plural(entry.reinforcement_count, "time")
    origins.append(f"last reinforced on {entry.last_reinforced}, {times_reinforced}")
    yield f"  {', '.join(origins)}"
    for line in entry.evidence:
        yield f"  evidence: {shorten(line, MAX_TITLE)}"


def _describe_weight_and_use(explanation: RankExplanation) -> Iterator[str]:
    """Yield sentences on the weight, the use, the feedback and the cited code of an entry."""
    entry = explanation.located.entry
    weight = _describe_importance_and_recency(dict(explanation.prominence_factors))
    reinforced = "never reinforced"
    if entry.reinforcement_count:
        reinforced = f"reinforced {plural(entry.reinforcement_count, 'time')}"
    yield f"Its prominence is {explanation.prominence:.2f}: {weight}, {reinforced}."

    feedback = "no feedback yet"
    if explanation.feedback:
        feedback = f"{plural(explanation.judging_count, 'event')} of feedback"
    if explanation.utility != NO_FEEDBACK:
        side = "for" if explanation.utility > NO_FEEDBACK else "against"
        feedback += f", on balance {side} it"
    jobs = plural(explanation.served_count, "job")
    yield f"It was served to {jobs} and used by {explanation.used_count}, with {feedback}."

    yield _describe_verdicts(explanation)


def _describe_verdicts(explanation: RankExplanation) -> str:
    """Return a sentence on the worst change of the code that an entry cites."""
    kinds = {verdict.kind for verdict in explanation.verdicts}
    for kind, sentence in VERDICT_SENTENCES:
        if kind in kinds:
            return sentence
    return "It cites no code."


def _describe_importance_and_recency(factors: Mapping[str, float]) -> str:
    """Return importance and recency, each from 0 to 1, in words: `important and fresh`."""
    words = []
    if factors["importance"] >= HIGH_IMPORTANCE:
        words.append("important")
    elif factors["importance"] < LOW_IMPORTANCE:
        words.append("of little importance")
    if factors["recency"] >= FRESH_RECENCY:
        words.append("fresh")
    elif factors["recency"] < LOW_RECENCY:
        words.append("old")
    else:
        words.append("ageing")
    return " and ".join(words)


def _list_rank_figures(explanation: RankExplanation) -> Iterator[str]:
    """Yield the numbers that the rank of an entry depends on, a table of labels and values."""
    yield f"prominence {explanation.prominence:.3f}"
    yield from _draw_bars(explanation.prominence_factors)
    events = plural(explanation.judging_count, "event")
    low_mark = " (low)" if explanation.has_low_utility else ""
    yield f"utility    {explanation.utility:.3f} from {events}{low_mark}"
    yield from (f"  {_describe_feedback(feedback)}" for feedback in explanation.feedback)

    jobs = plural(explanation.served_count, "job")
    usage = f"served     to {jobs}, used by {explanation.used_count}"
    if explanation.served_count:
        usage += f" ({explanation.used_count / explanation.served_count:.0%})"
    if explanation.related_count:
        usage += f", {explanation.related_count} about the same thing"
    yield usage

    if explanation.rank_factors:
        yield "ranking    what it has in common with a task, times"
        yield from _draw_bars(explanation.rank_factors)
    yield from (f"cites      {format_verdict(verdict)}" for verdict in explanation.verdicts)
    yield from explanation.notes


def _describe_feedback(feedback: CountedFeedback) -> str:
    """Return one line on an event of feedback: its effect on the utility, its author and work.

    Example:
    `2026-11-20 confirmed +0.200 -> 0.700 by ada, pr:128; pr-128 (success): retry failed charges`.
    """
    effect = f"{feedback.at:%Y-%m-%d} {feedback.kind} {feedback.delta:+.3f} -> {feedback.value:.3f}"
    author = f"by {feedback.by}" if feedback.by else ""
    origin = _join_non_empty(", ", author, feedback.ref)
    outcome = f" ({feedback.outcome})" if feedback.outcome else ""
    episode = f"{feedback.episode}{outcome}" if feedback.episode else ""
    work = _join_non_empty(": ", episode, shorten(feedback.summary, MAX_SUMMARY))
    return _join_non_empty("; ", _join_non_empty(" ", effect, origin), work)


def _join_non_empty(separator: str, *parts: str) -> str:
    return separator.join(part for part in parts if part)


def _draw_bars(factors: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield a line for each factor, with a bar in proportion to the largest, or to 1."""
    largest = max(1.0, *(value for _, value in factors))
    for name, value in factors:
        yield f"  {name:<14} {bar(value / largest)} {value:.3f}"


def render_entry(shown: ShownEntry) -> str:
    """Return an entry for a person: its title, its text, its other fields, and its place."""
    located = shown.located
    entry = located.entry
    paragraphs = [
        [name_entry(entry)],
        entry.body.splitlines(),
        list(_list_facts(shown)),
        [f"{entry.id}  {located.path}:{located.line}"],
    ]
    texts = []
    for lines in paragraphs:
        if lines:
            texts.append("".join(f"{printable(line)}\n" for line in lines))
    return "\n".join(texts)


def _list_facts(shown: ShownEntry) -> Iterator[str]:
    """Yield lines on the fields of an entry, without those that are empty."""
    entry = shown.located.entry
    status = "" if entry.status == "active" else f", {entry.status}"
    scope = shown.located.scope.target
    weight = f"prominence {shown.prominence:.2f}, which --why explains"
    yield f"{entry.type}, {scope}{status}; {weight}"
    if entry.when:
        yield f"served to agents at the moment {entry.when}"
    learned = f"learned on {entry.created_at}" if entry.created_at else ""
    source = f"from {entry.source}" if entry.source else ""
    origin = _join_non_empty(", ", learned, source)
    if origin:
        yield origin
    lists = (
        ("cites", entry.cites),
        ("evidence", entry.evidence),
        ("relations", entry.relations),
        ("supersedes", entry.supersedes),
    )
    for label, values in lists:
        if values:
            yield f"{label}:"
        yield from (f"- {value}" for value in values)


NODE_WIDTH = 80
ID_WIDTH = 8


def render_tree(graph: Graph) -> str:
    """Return the graph around an entry as a tree, with a line for each edge.

    A line is below the entry at one end of its edge, and names the entry at the other end. The
    arrow `→` says that the entry above states the relation, `←` that the other does; `~` has no
    direction. An entry that has a line further up is only named again.
    """
    return "".join(f"{printable(line)}\n" for line in _Tree(graph).lines)


class _Tree:
    """The lines of a graph, depth first; each edge is drawn once."""

    def __init__(self, graph: Graph) -> None:
        self._edges = graph.edges
        self._nodes = {node.id: node for node in graph.nodes}
        self._reserved_ids = {graph.center}  # nodes that are described, or will be further up
        self._drawn_edges: set[Edge] = set()
        self.lines = [_describe_node(self._nodes[graph.center])]
        self._draw_edges_of(graph.center, "")

    def _draw_edges_of(self, node_id: str, indent: str) -> None:
        """Add a line for each edge of a node that has none yet.

        If the node at the other end of an edge has no line further up, the lines of its own edges
        follow at once, indented; else the line says `(above)`.

        Args:
            node_id: the node, which has a line already.
            indent: the beginning of the new lines.
        """
        edges = [
            edge
            for edge in self._edges
            if node_id in (edge.source, edge.target) and edge not in self._drawn_edges
        ]
        self._drawn_edges.update(edges)
        # All neighbours are reserved before the recursion: a node is described below the node that
        # is nearest to the root, not below one that the recursion happens to reach first.
        undescribed_ids = {_other_end(edge, node_id) for edge in edges} - self._reserved_ids
        self._reserved_ids.update(undescribed_ids)

        for number, edge in enumerate(edges, start=1):
            other_id = _other_end(edge, node_id)
            is_last = number == len(edges)
            branch = "└─" if is_last else "├─"
            prefix = (
                f"{indent}{branch} {edge.kind} {edge.weight:.2f} {_choose_arrow(edge, node_id)}"
            )
            if other_id not in undescribed_ids:
                self.lines.append(f"{prefix} {other_id[:ID_WIDTH]} (above)")
                continue
            undescribed_ids.remove(other_id)  # A second edge to the same node only names it.
            self.lines.append(f"{prefix} {_describe_node(self._nodes[other_id])}")
            self._draw_edges_of(other_id, indent + ("   " if is_last else "│  "))


def _other_end(edge: Edge, node_id: str) -> str:
    return edge.target if edge.source == node_id else edge.source


def _choose_arrow(edge: Edge, node_id: str) -> str:
    if edge.kind == "similar":
        return "~"
    return "→" if edge.source == node_id else "←"


def _describe_node(node: Node) -> str:
    """Return `0f6f1f0e Retry a POST only with a key (corrective, project)`."""
    short_id = node.id[:ID_WIDTH]
    if node.is_missing:
        return f"{short_id} (not in memory)"
    status = f", {node.status}" if node.status != "active" else ""
    return f"{short_id} {shorten(node.title, NODE_WIDTH)} ({node.type}, {node.scope}{status})"


def render_blame(blamed: Sequence[BlamedLines]) -> str:
    """Return the text of `show --blame`: for each block of lines the work that wrote it.

    Below the work are the entries that it was served, and those that were learned from it.
    """
    lines = []
    for block in blamed:
        line_range = str(block.first)
        if block.last > block.first:
            line_range += f"-{block.last}"
        lines.append(f"{block.path}:{line_range}  {_describe_work(block)}")
        for served in block.served_entries:
            used = "  (used)" if served.is_used else ""
            lines.append(f"    served   {_name_entry(served)}{used}")
        lines += [f"    learned  {_name_entry(learned)}" for learned in block.learned_entries]
    return "".join(f"{printable(line)}\n" for line in lines)


def _describe_work(block: BlamedLines) -> str:
    """Return the commit that wrote a block, as `9d0c3f2 2026-11-20 #128 Retry failed charges`."""
    if not block.commit:
        return "not committed"
    subject = block.subject
    if block.number and f"#{block.number}" not in subject:
        subject = f"#{block.number} {subject}"
    return f"{block.commit[:7]} {block.day} {subject}"


def _name_entry(named: NamedEntry) -> str:
    return f"{named.id[:8]} {shorten(named.title, 80) or '(no longer in memory)'}"
