"""memory-ci eval"""

from __future__ import annotations

import os
from pathlib import Path

import click

from memory_ci.cli.common import echo_json, engine_option, json_option
from memory_ci.records.config import EngineConfig, EngineName
from memory_ci.rendering.evaluation import render_evaluation


@click.group()
def command() -> None:
    """Judge an engine on labelled data.

    \b
    Example:
      memory-ci eval extraction benchmarks/gold/extraction.jsonl
    """


@command.command()
@click.argument("gold", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@engine_option
@json_option
def extraction(gold: Path, engine: EngineName | None, as_json: bool) -> None:
    """Run an engine on gold windows, through the same checks as `record`, and count what came of it.

    The file has one window a line (docs/evaluation.md). Every share is printed with what it is of and its interval.

    \b
    Example:
      memory-ci eval extraction benchmarks/gold/extraction.jsonl --engine rules
    """
    from memory_ci.flows.evaluate import evaluate_extraction, load_gold

    done = evaluate_extraction(load_gold(gold), EngineConfig(), engine, os.environ)
    if as_json:
        echo_json(done)
    else:
        click.echo(render_evaluation(done), nl=False)
