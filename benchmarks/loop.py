"""A closed loop: what is retrieved is reinforced, and ranks higher for it. Does that harm, and does it starve the rest?

    python -m benchmarks.loop DIRECTORY

DIRECTORY holds entries.jsonl, queries.jsonl and qrels.jsonl with times (docs/serving.md, evaluation). Queries are asked
in order of time; the first five of each answer are reinforced on the day of the query.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.commands.evaluate.evaluate_retrieval import RetrievalSet, load_set, replay_set
from memory_ci.commands.evaluate.retrieval_metrics import mean, ndcg
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import Ranked, order_hits, rank_task
from memory_ci.records.config import Config, RetrieveConfig
from memory_ci.records.entry import Entry
from memory_ci.search.rank import rank

GIVEN = 5
MOST_GIVEN = 10

MODES = {
    "no reinforcement": None,
    "log (the default)": RetrieveConfig(),
}


class Loop(NamedTuple):
    """nDCG@10 over all queries, and the share of all places that the most given entries took."""

    ndcg: float
    share: float


def main() -> None:
    directory = Path(sys.argv[1])
    data = load_set(*(directory / f"{name}.jsonl" for name in ("entries", "queries", "qrels")))
    print(f"| reinforcement | nDCG@10 | share of the {MOST_GIVEN} most given |\n|---|---|---|")
    for name, settings in MODES.items():
        done = run_loop(data, settings)
        print(f"| {name} | {done.ndcg:.3f} | {done.share:.1%} |")


def run_loop(data: RetrievalSet, settings: RetrieveConfig | None) -> Loop:
    """The replay; without settings nothing is reinforced."""
    config = Config(retrieve=settings or RetrieveConfig())
    given: dict[str, tuple[int, date]] = {}
    scores, places = [], Counter[str]()
    for index, asking in replay_set(data):
        options = RetrieveOptions()
        asked = bound_options(options, config, asking.today)
        found = rank_task(index, asking.text, asked, options, asking.today)
        if settings:
            found = _reinforced(found, given)
        hits, _ = order_hits(found.hits, asked.limit)
        ids = [hit.located.entry.id for hit in hits]
        scores.append(ndcg(ids, asking.grades, 10))
        places.update(ids[:GIVEN])
        given |= {entry: (given.get(entry, (0,))[0] + 1, asking.today) for entry in ids[:GIVEN]}
    most = sum(count for _, count in places.most_common(MOST_GIVEN))
    return Loop(mean(scores), most / places.total())


def _reinforced(found: Ranked, given: dict[str, tuple[int, date]]) -> Ranked:
    """The candidates ranked anew, as if the index had heard of what was given before."""

    def weigh(entry: Entry) -> float:
        count, day = given.get(entry.id, (0, entry.last_reinforced))
        return found.weights.prominence(
            msgspec.structs.replace(entry, reinforcement_count=count, last_reinforced=day)
        )

    ranked = rank(found.matches, msgspec.structs.replace(found.weights, prominence=weigh))
    return msgspec.structs.replace(found, hits=tuple(ranked[: len(found.hits)]))


if __name__ == "__main__":
    main()
