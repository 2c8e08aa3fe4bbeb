"""A double of the Message Batches API for a project: the requests that were sent, and their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci.commands.record.batches import Backfill, Pending, Wait
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.memory.apply import apply_plan
from memory_ci.records.plan import Plan
from tests.extraction.engines.model_double import (
    Answer,
    HttpRequest,
    ModelDouble,
    make_answer,
    make_message,
    serve_model,
)
from tests.project import NOW, Project, copy_project

SUBMIT = "/v1/messages/batches"
LIVE = "/v1/messages"
LESSONS = {
    "#201": ("Ask before sending twice", "ask the gateway before a charge is sent again"),
    "#202": ("Wait for the ledger", "a refund starts only when the ledger has closed its day"),
    "#203": ("Lock the till", "two clerks share one drawer, so each count takes a lock"),
}
"""Of each merged change the title that the model gives, and the words of a person which it quotes."""

Result = dict[str, Any]
Answering = Callable[[Result], Result]
"""From the parameters of a request, as it was sent, to its line of the results without the id."""


def make_batch(number: int, is_ended: bool = False, url: str = "") -> Answer:
    counts = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    body = {
        "id": f"msgbatch_{number}",
        "type": "message_batch",
        "processing_status": "ended" if is_ended else "in_progress",
        "request_counts": counts,
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": "2026-11-22T12:00:00Z",
        "results_url": url or None,
    }
    return Answer(json.dumps(body))


def change_of(parameters: Result) -> str:
    """Return the merged change that a request is about."""
    return str(json.loads(parameters["messages"][0]["content"])["change"])


def make_learnings(parameters: Result) -> str:
    """Return the learning of a change, with a quote from its evidence; nothing for other changes."""
    user = json.loads(parameters["messages"][0]["content"])
    if user["change"] not in LESSONS:
        return '{"learnings": []}'
    title, words = LESSONS[user["change"]]
    place = next(piece["id"] for piece in user["evidence"] if words in piece["text"])
    quotes = [{"evidence": place, "text": words}]
    learning = {"title": title, "body": f"It was learned that {words}.", "quotes": quotes}
    return json.dumps({"learnings": [learning]})


def succeed(parameters: Result) -> Result:
    return {"type": "succeeded", "message": make_message(make_learnings(parameters))}


class Batching:
    """A project whose model is the double; `end` completes the batches that were sent."""

    def __init__(self, project: Project, model: ModelDouble) -> None:
        self.project, self.model = project, model
        self.path = project.path / ".git" / "memory-ci" / "backfill.json"
        for number in range(1, 4):
            model.paths[f"{SUBMIT}/msgbatch_{number}"] = make_batch(number)
        model.paths[LIVE] = make_answer('{"learnings": []}')

    @property
    def environ(self) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": "key-of-the-test-0123456789",
            "ANTHROPIC_BASE_URL": self.model.url,
        }

    @property
    def sent(self) -> list[list[Result]]:
        """Return the requests of each batch."""
        return [
            list(request.body["requests"])
            for request in self.model.requests
            if request.path == SUBMIT
        ]

    @property
    def live(self) -> list[str]:
        """Return the changes that were sent outside of a batch."""
        return [change_of(request.body) for request in self.model.requests if request.path == LIVE]

    def begin(self, **options: Any) -> Backfill:
        return Backfill(
            self.project.workspace,
            RecordOptions(**options),
            NOW,
            lambda done, total: None,
            self.environ,
        )

    def plan(self, wait: Wait | None = None, **options: Any) -> Plan | Pending:
        return self.begin(**options).plan(wait)

    def collect(self, **options: Any) -> Plan:
        """Plan with the answers, apply the plan, and delete the note of the batches, as the command does."""
        backfill = self.begin(**options)
        plan = backfill.plan()
        assert isinstance(plan, Plan)
        apply_plan(self.project.workspace, plan, NOW)
        backfill.finish(plan)
        return plan

    def end(self, answer: Answering = succeed) -> None:
        """Complete the batches; their results come in reverse order."""
        for number, requests in enumerate(self.sent, start=1):
            where = f"{SUBMIT}/msgbatch_{number}"
            lines = [
                {"custom_id": request["custom_id"], "result": answer(request["params"])}
                for request in reversed(requests)
            ]
            self.model.paths[where] = make_batch(
                number, is_ended=True, url=f"{self.model.url}{where}/results"
            )
            body = "".join(json.dumps(line) + "\n" for line in lines)
            self.model.paths[f"{where}/results"] = Answer(
                body, headers=(("content-type", "application/x-jsonl"),)
            )


class SavedBatches(NamedTuple):
    """What a first call left behind: its note of the batches, and the requests to the model."""

    note: str
    requests: list[HttpRequest]
    pending: Pending


def submit_batches(project: Project, folder: Path, **options: Any) -> SavedBatches:
    """Return what a first call leaves behind in a copy of the project."""
    with serve_batches(copy_project(project, folder / "shop")) as batching:
        pending = batching.plan(**options)
        assert isinstance(pending, Pending)
        return SavedBatches(batching.path.read_text(), batching.model.requests, pending)


@contextmanager
def serve_batches(
    project: Project, *answers: Answer, sent: SavedBatches | None = None
) -> Iterator[Batching]:
    """Return three merged changes with explanations, and a model that accepts `answers` of them in a batch.

    With `sent` they are submitted already.
    """
    for label, (title, words) in LESSONS.items():
        name = title.split()[-1].lower()
        project.merge_work(
            f"fix: {name}\n\nFrom now on {words}.\n", name, int(label[1:]), f"src/{name}.py"
        )
    with serve_model(*(answers or tuple(make_batch(number) for number in range(1, 4)))) as model:
        batching = Batching(project, model)
        if sent is not None:
            batching.path.parent.mkdir(exist_ok=True)
            batching.path.write_text(sent.note)
            model.requests.extend(sent.requests)
        yield batching
