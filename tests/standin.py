"""A model that stands in: a real program behind the engine `command`, which says what a test lets it find."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.memory.apply import apply_plan
from memory_ci.records.candidate import Judged
from memory_ci.records.plan import Plan
from tests.project import NOW, TODAY, Project

SOURCE = """
import json, sys
asked = json.load(sys.stdin)
with open(__file__ + ".asked", "a") as log:
    log.write(json.dumps(asked) + chr(10))
with open(__file__ + ".orders") as told:
    orders = json.load(told)
if asked["task"] == "premortem":
    print(json.dumps({"risks": orders["risks"]}))
    sys.exit("no weights" if orders["fail_on"] else 0)
pieces = json.loads(asked["user"])["evidence"]
if orders["fail_on"] and any(orders["fail_on"] in piece["text"] for piece in pieces):
    sys.exit("no weights")
found = []
for learning in orders["learnings"]:
    words = learning.pop("words")
    place = next((piece["id"] for piece in pieces if words in piece["text"]), None)
    if place:
        found.append(learning | {"quotes": [{"evidence": place, "text": words}]})
print(json.dumps({"learnings": found}))
"""


class Asked(NamedTuple):
    """One request: the change, the reaches offered, and the pieces as they were sent."""

    change: str
    reaches: tuple[str, ...]
    pieces: tuple[dict[str, Any], ...]

    def texts(self, kind: str) -> list[str]:
        return [piece["text"] for piece in self.pieces if piece["kind"] == kind]


class StandIn:
    """The program, what it is told to answer, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._program = folder / "model"
        self._program.write_text(f"#!{sys.executable} -IS\n{SOURCE}", encoding="utf-8")
        self._program.chmod(0o755)
        self.will_find()

    @property
    def environ(self) -> dict[str, str]:
        return {
            "MEMORY_CI_ENGINE_COMMAND": shlex.quote(str(self._program)),
            "PATH": os.environ["PATH"],
        }

    def will_find(
        self, *learnings: dict[str, Any], risks: tuple[dict[str, str], ...] = (), fail_on: str = ""
    ) -> None:
        """Answer with those learnings whose `words` stand in a piece; fail where one holds `fail_on`."""
        orders = {"learnings": learnings, "risks": risks, "fail_on": fail_on}
        self._program.with_suffix(".orders").write_text(json.dumps(orders))

    @property
    def documents(self) -> list[dict[str, Any]]:
        log = self._program.with_suffix(".asked")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def asked(self) -> list[Asked]:
        return [_asked(document) for document in self.documents]

    def plan(
        self, project: Project, since: str | None = None, sessions: tuple[Path, ...] = ()
    ) -> Plan:
        options = RecordOptions(since, sessions=sessions, engine="command")
        return plan_record(
            project.workspace, options, TODAY, lambda done, total: None, self.environ
        )

    def record(self, project: Project, sessions: tuple[Path, ...] = ()) -> Plan:
        plan = self.plan(project, sessions=sessions)
        apply_plan(project.workspace, plan, NOW)
        return plan


def _asked(document: dict[str, Any]) -> Asked:
    user = json.loads(document["user"])
    reaches = document["schema"]["properties"]["learnings"]["items"]["properties"]["reach"]["enum"]
    return Asked(user["change"], tuple(reaches), tuple(user["evidence"]))


def make_learning(
    words: str, title: str = "Send a key with each POST", **fields: str
) -> dict[str, Any]:
    """A learning as a model writes it, the rest by the defaults of its kind; `words` are what it quotes."""
    return {"title": title, "body": f"It was said: {words}", "words": words} | fields


def by_model(plan: Plan) -> list[Judged]:
    return [one for one in plan.judged if one.candidate.engine != "rules"]
