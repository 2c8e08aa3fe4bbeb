"""The command line of `memory-ci eval`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import (
    engine_option,
    json_option,
    option,
    show,
    since_option,
)
from memory_ci.cli.plain import now, open_current_workspace, progress, say, today
from memory_ci.commands.evaluate.text import (
    render_comparison,
    render_evaluation,
    render_qualities,
    render_set,
)
from memory_ci.records.config import EngineConfig, EngineName

if TYPE_CHECKING:
    from memory_ci.commands.evaluate.records import Comparison

WINDOW_COUNT = 40
DRAW_SEED = 1  # The same windows are drawn from the same work.
WORSENING_MARGIN = 0.02  # How far a measure may worsen.
SET_FILES = ("entries.jsonl", "queries.jsonl", "qrels.jsonl")


@click.group("eval")
def eval_command() -> None:
    """Judge extraction on labelled data, and retrieval on queries with known answers.

    \b
    Example:
      memory-ci eval extraction benchmarks/gold/extraction.jsonl
      memory-ci eval retrieval --against origin/main
    """


@eval_command.command()
@click.argument("gold", type=click.Path(path_type=Path, exists=True), metavar="FILE|DIR")
@engine_option
@json_option
def extraction(gold: Path, engine: EngineName | None, as_json: bool) -> None:
    """Run an engine on gold windows, through the same checks as `record`, and count the results.

    The file has one window a line (`memory-ci help evaluation`). A directory holds windows, replies
    and the labels of readers (`memory-ci help evaluation`): no engine is run, and the replies go
    through today's checks. Every share is printed with its base and its confidence interval.

    \b
    Example:
      memory-ci eval extraction benchmarks/gold/extraction.jsonl --engine rules
      memory-ci eval extraction labelled
    """
    from memory_ci.commands.evaluate.evaluate import evaluate_extraction, load_gold
    from memory_ci.commands.evaluate.labelled_set import evaluate_set

    if gold.is_dir():
        set_evaluation = evaluate_set(gold)
        show(set_evaluation, render_set(set_evaluation), as_json)
        return

    with progress("Judging"):
        evaluation = evaluate_extraction(load_gold(gold), EngineConfig(), engine, os.environ)
    show(evaluation, render_evaluation(evaluation), as_json)


@eval_command.command()
@click.argument(
    "place", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False)
)
@option(
    "--against",
    "rev",
    metavar="REV",
    help="Compare with the memory of this revision; exit 1 if it was better.",
)
@json_option
def retrieval(
    place: Path | None,
    rev: str | None,
    as_json: bool,
) -> None:
    """Ask queries with known answers, through the code of `retrieve`, and measure the rankings.

    Without DIR: the golden queries of this repository, `.memory/eval/*.jsonl`. With `--against`
    they protect its memory. DIR has entries.jsonl, queries.jsonl and qrels.jsonl, which says which
    entry answers which query (`memory-ci help evaluation`). Every mean is printed with its 95 %
    interval; times are those of this run.

    \b
    Example:
      memory-ci eval retrieval
      memory-ci eval retrieval --against origin/main
      memory-ci eval retrieval sets/shop
    """
    from memory_ci.commands.evaluate import evaluate_retrieval, retrieval_set
    from memory_ci.records.config import Config

    if place is not None and rev:
        raise click.UsageError(
            "--against compares two states of a repository's memory: give no DIR with it."
        )
    comparison: Comparison | None = None
    if place is not None:
        data = retrieval_set.load_set(*(place / name for name in SET_FILES))
        answers = tuple(evaluate_retrieval.answer_set(data, Config(), time.perf_counter))
    else:
        with progress("Asking"):
            repository = open_current_workspace()
            goldens = evaluate_retrieval.load_golden(repository)
            answers = evaluate_retrieval.answer_golden(
                repository, goldens, today(), time.perf_counter
            )
        if rev is not None:
            comparison = evaluate_retrieval.compare_golden(
                repository, goldens, answers, rev, margin=WORSENING_MARGIN, clock=time.perf_counter
            )

    qualities = evaluate_retrieval.measure(answers)
    text = render_qualities(qualities)
    if comparison:
        text += render_comparison(comparison)
    show({"qualities": qualities, "against": comparison}, text, as_json)
    raise SystemExit(1 if comparison and comparison.worse else 0)


@eval_command.command("draw")
@click.argument("place", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@since_option
@engine_option
@json_option
def draw(place: Path, since: str | None, engine: EngineName | None, as_json: bool) -> None:
    """Draw windows of merged work, ask the model about them, and write a sheet for each reader.

    Label 40 windows in half an hour: `memory-ci help evaluation`. Without a model the windows alone
    are written; put what answers them into replies.jsonl and call it with the same directory again
    for the sheets.

    \b
    Example:
      memory-ci eval draw labelled --since 1y --engine claude-cli
      memory-ci eval extraction labelled
    """
    from memory_ci.commands.evaluate.labelled_set import draw_set, write_sheets
    from memory_ci.commands.evaluate.records import DrawnSet
    from memory_ci.commands.record.run import fetch_sessions
    from memory_ci.commands.record.run_options import RecordOptions

    replies_file = place / "replies.jsonl"
    has_replies = replies_file.exists() and replies_file.stat().st_size > 0
    if has_replies:
        drawn = DrawnSet(sheets=write_sheets(place, DRAW_SEED))
    else:
        repository = open_current_workspace()
        problems = fetch_sessions(repository, None, os.environ)
        options = RecordOptions(since=since, engine=engine, problems=problems)
        with progress("Reading merged work") as advance:
            drawn = draw_set(
                repository,
                options,
                place,
                count=WINDOW_COUNT,
                seed=DRAW_SEED,
                now=now(),
                environ=os.environ,
                progress=advance,
            )

    lines = []
    if drawn.total:
        lines.append(f"{drawn.windows} of {drawn.total} windows, {drawn.answered} answered")
    lines += [f"To fill in: {place / sheet}" for sheet in drawn.sheets]
    show(drawn, lines or [f"No windows to draw; nothing was written to {place}"], as_json)


@eval_command.command("init")
def init() -> None:
    """Derive golden queries from the entries of this repository, into `.memory/eval/derived.jsonl`.

    The queries are titles, paraphrases and cited files of entries, and some queries that memory
    should find nothing for. Write your own queries to another file of that directory: derived.jsonl
    is overwritten each time.

    \b
    Example:
      memory-ci eval init
    """
    from memory_ci.commands.evaluate.evaluate_retrieval import derive_golden_file

    path, count = derive_golden_file(open_current_workspace())
    say(f"{count} queries in {path}")
