"""Tests of the manual of the `command` engine: its program runs, and its example replies can be read."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.extraction.engines.program import CommandEngine
from memory_ci.extraction.prompt import build_prompt
from memory_ci.extraction.reply import parse_reply, parse_risks
from memory_ci.memory.apply import apply_plan
from memory_ci.records.candidate import Request
from memory_ci.records.config import EngineConfig
from tests.extraction.engines.make import make_request
from tests.project import NOW, TODAY, Project

MANUAL = Path(__file__).parents[3] / "docs" / "models.md"
REASON = "Each count takes a lock, because two clerks share one drawer"


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language in the chapter about the engine."""
    chapter = (
        MANUAL.read_text("utf-8").partition("\n## A program of your own\n")[2].partition("\n## ")[0]
    )
    return re.findall(rf"^```{language}\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment that names the sample as the program of the engine."""
    (sample,) = blocks("python")
    program = tmp_path / "sample.py"
    program.write_text(sample, encoding="utf-8")
    return {
        "MEMORY_CI_ENGINE_COMMAND": shlex.join([sys.executable, str(program)]),
        "PATH": os.environ["PATH"],
    }


def test_the_sample_of_the_manual_writes_a_learning(
    project: Project, environ: dict[str, str]
) -> None:
    project.merge_work(f"Lock the till\n\n{REASON}.", "till", 140, "src/till.py")
    options = RecordOptions(engine="command")
    plan = plan_record(project.workspace, options, TODAY, lambda done, total: None, environ)
    assert plan.engine.failure == ""
    apply_plan(project.workspace, plan, NOW)
    assert REASON in project.titles()


def test_the_sample_of_the_manual_answers_a_pre_mortem(environ: dict[str, str]) -> None:
    request = Request(change="a plan", evidence=make_request().evidence, task="premortem")
    answer = CommandEngine(EngineConfig(), environ).extract(request)
    assert parse_risks(answer.text) == ((), ())


def test_the_examples_of_the_manual_match_requests_and_replies() -> None:
    sent, learnings, risks = blocks("json")
    document, prompt = json.loads(sent), build_prompt(make_request())
    assert list(document) == ["version", "task", "model", "system", "user", "schema"]
    shown, real = (json.loads(user)["evidence"][0] for user in (document["user"], prompt.user))
    assert set(shown) <= set(real)
    (learning,), reasons = parse_reply(learnings)
    assert (learning.quotes[0].text in shown["text"], reasons) == (True, ())
    (risk,), reasons = parse_risks(risks)
    assert (risk.mitigation, reasons) == ("Send an idempotency key.", ())
