"""A program that replaces the language model: the engine `command` runs it, and a test sets its replies."""

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
request = json.load(sys.stdin)
with open(__file__ + ".requests", "a") as log:
    log.write(json.dumps(request) + chr(10))
with open(__file__ + ".orders") as file:
    orders = json.load(file)
if request["task"] == "premortem":
    print(json.dumps({"risks": orders["risks"]}))
    sys.exit("no weights" if orders["fail_on"] else 0)
pieces = json.loads(request["user"])["evidence"]
if orders["fail_on"] and any(orders["fail_on"] in piece["text"] for piece in pieces):
    sys.exit("no weights")
replies = []
for learning in orders["learnings"]:
    words = learning.pop("words")

    evidence = next((piece["id"] for piece in pieces if words in piece["text"]), None)

    if evidence:

        replies.append(learning | {"quotes": [{"evidence": evidence, "text": words}]})
print(json.dumps({"learnings": replies}))
"""


class ModelRequest(NamedTuple):
    """A request to the model: the change, the reaches it may choose from, and the pieces of evidence."""

    change: str
    reaches: tuple[str, ...]
    pieces: tuple[dict[str, Any], ...]

    def texts(self, kind: str) -> list[str]:
        return [piece["text"] for piece in self.pieces if piece["kind"] == kind]


class StandIn:
    """The program that replaces the model: its replies and its requests."""

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
        """Set the replies: each learning whose `words` are in a piece of evidence; a failure for the text `fail_on`."""
        orders = {"learnings": learnings, "risks": risks, "fail_on": fail_on}
        self._program.with_suffix(".orders").write_text(json.dumps(orders))

    @property
    def documents(self) -> list[dict[str, Any]]:
        log = self._program.with_suffix(".requests")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def requests(self) -> list[ModelRequest]:
        return [_read_request(document) for document in self.documents]

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


def _read_request(document: dict[str, Any]) -> ModelRequest:
    user = json.loads(document["user"])
    reaches = document["schema"]["properties"]["learnings"]["items"]["properties"]["reach"]["enum"]
    return ModelRequest(user["change"], tuple(reaches), tuple(user["evidence"]))


def make_learning(
    words: str, title: str = "Send a key with each POST", **fields: str
) -> dict[str, Any]:
    """Return a learning as a model writes it, which quotes `words`."""
    return {"title": title, "body": f"It was said: {words}", "words": words} | fields


def by_model(plan: Plan) -> list[Judged]:
    return [judged for judged in plan.judged if judged.candidate.engine != "rules"]
