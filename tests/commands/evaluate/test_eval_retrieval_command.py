"""Tests of `memory-ci eval retrieval` and `eval init` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


def put(project: Project, *numbers: int) -> None:
    titles = {1: "Retry a charge with a key", 2: "Colours of the flag"}
    entries = [format_entry(make_entry(n, title=titles[n])) for n in numbers]
    project.commit("Put", {"MEMORY.md": "\n".join(entries)})


def write_set(directory: Path) -> str:
    rows = {
        "entries": {"id": "key", "text": "Retry with a key"},
        "queries": {"id": "q", "text": "retry"},
        "qrels": {"query": "q", "entry": "key", "relevance": 1},
    }
    for name, row in rows.items():
        (directory / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    return str(directory)


def test_the_files_of_a_set_are_measured(run: Run, tmp_path: Path) -> None:
    done = run("eval", "retrieval", write_set(tmp_path))
    assert done.exit_code == 0
    assert "nDCG@10              1.000  [1.000, 1.000]" in done.stdout
    assert "entries served       1.000" in done.stdout


def test_json_holds_every_measure(run: Run, tmp_path: Path) -> None:
    document = json.loads(run("eval", "retrieval", write_set(tmp_path), "--json").stdout)
    assert document["qualities"][0]["queries"] == 1
    assert document["against"] is None


def test_a_set_is_not_compared_with_a_revision(run: Run, tmp_path: Path) -> None:
    assert run("eval", "retrieval", write_set(tmp_path), "--against", "HEAD").exit_code == 2


def test_the_gate_exits_1_and_names_the_lower_measures(run: Run, project: Project) -> None:
    put(project, 1, 2)
    assert "queries in" in run("eval", "init").stdout
    assert run("eval", "retrieval", "--against", "HEAD").exit_code == 0
    put(project, 2)
    done = run("eval", "retrieval", "--against", "HEAD~1")
    assert done.exit_code == 1
    assert "nDCG@10 1.000, 0.500: worse by more than 0.02" in done.stdout
    assert "1.000 -> 0.000  derived:1" in done.stdout


def test_without_golden_queries_the_hint_says_how_to_make_some(run: Run, project: Project) -> None:
    done = run("eval", "retrieval")
    assert done.exit_code == 2
    assert "memory-ci eval init" in done.stderr


def test_a_query_cannot_move_the_cursor(run: Run, project: Project) -> None:
    put(project, 1)
    golden = {"query": "retry \x1b[2J", "relevant": [make_id(1)], "kind": "\x1b[1m"}
    project.write(".memory/eval/own.jsonl", json.dumps(golden) + "\n")
    done = run("eval", "retrieval")
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
