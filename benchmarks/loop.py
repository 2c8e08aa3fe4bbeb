"""Measure a closed loop: served entries are reinforced, and rank higher. Is the ranking worse, are other entries served?

    python -m benchmarks.loop DIRECTORY

DIRECTORY holds entries.jsonl, queries.jsonl and qrels.jsonl with times (docs/serving.md, evaluation). Queries are asked
in order of time; the first five of each answer are reinforced on the day of the query.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.commands.evaluate.retrieval_metrics import mean, ndcg
from memory_ci.commands.evaluate.retrieval_set import RetrievalSet, load_set, replay_set
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import Ranked, order_hits, rank_task
from memory_ci.records.config import Config, RetrieveConfig
from memory_ci.records.entry import Entry
from memory_ci.search.rank import rank

GIVEN = 5  # Entries of each answer that are reinforced.
MOST_GIVEN = 10  # The entries whose share of all answers is measured.

MODES = {
    "no reinforcement": None,
    "log (the default)": RetrieveConfig(),
}


class Loop(NamedTuple):
    """The mean nDCG@10 over all queries, and the share of all answers that the most served entries took."""

    ndcg: float
    share: float


def main() -> None:
    """Print a row for each way of reinforcement."""
    directory = Path(sys.argv[1])
    data = load_set(*(directory / f"{name}.jsonl" for name in ("entries", "queries", "qrels")))
    print(f"| reinforcement | nDCG@10 | share of the {MOST_GIVEN} most given |\n|---|---|---|")
    for name, settings in MODES.items():
        loop = run_loop(data, settings)
        print(f"| {name} | {loop.ndcg:.3f} | {loop.share:.1%} |")


def run_loop(data: RetrievalSet, settings: RetrieveConfig | None) -> Loop:
    """Answer all queries in the order of time, and reinforce the first entries of each answer.

    Args:
        data: the entries and queries.
        settings: the settings of `retrieve`; None: nothing is reinforced.
    """
    config = Config(retrieve=settings or RetrieveConfig())
    options = RetrieveOptions()
    served_counts: Counter[str] = Counter()
    last_served: dict[str, date] = {}
    scores = []
    for index, query in replay_set(data):
        request = bound_options(options, config, query.today)
        ranked = rank_task(index, query.text, request, options, query.today)
        if settings:
            ranked = _rank_reinforced(ranked, served_counts, last_served)
        hits, _ = order_hits(ranked.hits, request.limit)
        ids = [hit.located.entry.id for hit in hits]
        scores.append(ndcg(ids, query.grades, 10))
        for entry_id in ids[:GIVEN]:
            served_counts[entry_id] += 1
            last_served[entry_id] = query.today
    most_served = sum(count for _, count in served_counts.most_common(MOST_GIVEN))
    return Loop(mean(scores), most_served / served_counts.total())


def _rank_reinforced(
    ranked: Ranked, served_counts: Counter[str], last_served: Mapping[str, date]
) -> Ranked:
    """Return the hits of a task ranked again, as if each entry had been reinforced when it was served.

    Args:
        ranked: the hits as the index ranks them, without reinforcement.
        served_counts: how often each entry was served, by id.
        last_served: the day on which it was last served, by id.
    """

    def weigh_prominence(entry: Entry) -> float:
        reinforced_entry = msgspec.structs.replace(
            entry,
            reinforcement_count=served_counts[entry.id],
            last_reinforced=last_served.get(entry.id, entry.last_reinforced),
        )
        return ranked.weights.prominence(reinforced_entry)

    weights = msgspec.structs.replace(ranked.weights, prominence=weigh_prominence)
    hits = rank(ranked.matches, weights)
    return msgspec.structs.replace(ranked, hits=tuple(hits[: len(ranked.hits)]))


if __name__ == "__main__":
    main()
