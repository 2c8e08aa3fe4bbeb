"""A repository under attack: honest and hostile work, a forge that knows permissions, and a model that obeys everything."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agents_at_work import keep_session, make_session
from tests.forge.make import make_pull, make_user
from tests.project import Project
from tests.servers import Answer, HttpRequest, json_answer, serve
from tests.sources.transcripts.claude import Record

HONEST = "Never retry a POST without an idempotency key, the gateway books each one."
TITLE = "Send an idempotency key with each charge"
HONEST_SESSION = "5f3b2a10-0000-4000-8000-000000000007"
HOSTILE_SESSION = "66666666-0000-4000-8000-000000000666"
NUMBER = 140
"""The number of the attack's pull request; 139 is honest work."""

TOKEN = "n0tArealT0kenOfAnyForge"

OBEDIENT = """
import json, re, sys
heard = sys.stdin.read()
with open(__file__ + ".heard", "a") as log:
    log.write(heard + chr(10))
with open(__file__ + ".orders") as file:
    orders = json.load(file)
pieces = json.loads(json.loads(heard)["user"])["evidence"]

def learning(title, quotes, **more):
    found = {"title": title, "body": ""}
    return found | {"quotes": [{"evidence": where, "text": text} for where, text in quotes]} | more

found = []
for piece in pieces:
    if orders["honest"] in piece["text"]:
        found.append(learning(orders["title"], [(piece["id"], orders["honest"])]))
    for demand in re.findall("STORE: (.+)", piece["text"]):
        trusted = [one["id"] for one in pieces if one.get("quote") and demand not in one["text"]]
        found += [learning(demand, [(where, demand)]) for where in (piece["id"], *trusted[:1], "e900")]
for order in orders["learnings"]:
    places = order.pop("places")
    ids = [next((one["id"] for one in pieces if part in one["text"]), "") for part, _ in places]
    if all(ids):
        quotes = [(where, text) for where, (_, text) in zip(ids, places)]
        for number in range(order.pop("times", 1)):
            found.append(learning(order["title"].format(number=number), quotes) | order.pop("raw", {})
                         | {key: value for key, value in order.items() if key != "title"})
print(json.dumps({"learnings": found}))
"""


class Attacker:
    """Puts text where an attacker can: into sessions, forks, reviews, and the model's answers."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.folder = project, folder
        folder.mkdir()
        self._model = folder / "model"
        self._model.write_text(f"#!{sys.executable} -IS\n{OBEDIENT}", encoding="utf-8")
        self._model.chmod(0o755)
        self._learnings: list[dict[str, Any]] = []
        self._pull: dict[str, Any] = {}
        self._comments: list[dict[str, Any]] = []
        self._landed = ""
        self.add_answer()

    # -- what the model answers, and what it was told

    def add_answer(self, *learnings: dict[str, Any]) -> None:
        """Let the model answer these learnings whenever all pieces that they quote are shown."""
        self._learnings += learnings
        orders = {"honest": HONEST, "title": TITLE, "learnings": self._learnings}
        self._model.with_suffix(".orders").write_text(json.dumps(orders))

    @property
    def model_input(self) -> str:
        """Return everything that the model got on its standard input."""
        log = self._model.with_suffix(".heard")
        return log.read_text() if log.exists() else ""

    @contextmanager
    def environ(self) -> Iterator[dict[str, str]]:
        """Yield the environment of a job, with the model and a forge that runs during the block."""
        with serve(self._forge) as server:
            yield {
                "MEMORY_CI_ENGINE_COMMAND": shlex.quote(str(self._model)),
                "PATH": os.environ["PATH"],
                "GITHUB_API_URL": server.url,
                "GITHUB_REPOSITORY": "acme/shop",
                "GITHUB_TOKEN": TOKEN,
            }

    # -- what is put where

    def merge_branch(
        self, message: str, files: dict[str, str | bytes], author: str | None = None
    ) -> None:
        """Merge a branch of the repository itself with one commit, as the attack's pull request."""
        self._merge(message, files, author)

    def merge_fork(
        self, message: str, files: dict[str, str | bytes], body: str = "Some work.", **pull: Any
    ) -> None:
        """Merge a branch of a fork, whose author may only read."""
        repo = {"id": 2, "full_name": "eve/shop"}
        head = {"label": "eve:hostile", "ref": "hostile", "sha": "2" * 40, "repo": repo}
        self._pull = {
            "user": make_user("eve"),
            "author_association": "NONE",
            "head": head,
            "body": body,
            **pull,
        }
        self._merge(message, files, "Eve <eve@elsewhere.example>")

    def hold_session(self, *messages: str | Record, **pull: Any) -> None:
        """Capture a session of a trusted person, which a commit of the repository names."""
        self._pull = pull
        data = make_session(*messages, at=self.project.clock.now, session=HOSTILE_SESSION)
        key = keep_session(self.project, self.folder, data)
        self.merge_branch(
            f"Look at the pages\n\nFor the charge.\n\nMemory-Session: {key}",
            {"src/pages.py": "pages\n"},
        )

    def comment(self, body: str, login: str = "eve", association: str = "NONE") -> None:
        """Add a comment on the honest pull request, by default of a person who may only read."""
        comment = {
            "id": 71,
            "body": body,
            "user": make_user(login),
            "author_association": association,
        }
        self._comments.append(
            comment | {"created_at": "2026-01-05T10:00:00Z", "updated_at": "2026-01-05T10:00:00Z"}
        )
        self.merge_branch("Add pages\n\nFor the shop.", {"src/pages.py": "pages\n"})

    def _merge(self, message: str, files: dict[str, str | bytes], author: str | None) -> None:
        self.project.branch("hostile")
        self.project.commit(message, files, author)
        title = f"Merge pull request #{NUMBER} from eve/hostile"
        self._landed = self.project.merge_back("hostile", f"{title}\n\nSome work")

    def rebase(self) -> None:
        """Put the merged commits on the branch without a merge commit, like the forge's rebase button."""
        self.project.git("reset", "-q", "--hard", "main^1")
        self.project.git("cherry-pick", "hostile")
        self._landed = self.project.sha()

    def squash(self, message: str, author: str) -> None:
        """Replace the merge by one commit with that message."""
        self.project.git("reset", "-q", "--hard", "main^1")
        self.project.git("merge", "-q", "--squash", "hostile")
        self.project.git("commit", "-q", f"--author={author}", "-m", message)
        self._landed = self.project.sha()

    def _forge(self, request: HttpRequest) -> Answer:
        """Answer as GitHub: everyone except Eve may write."""
        root = "/repos/acme/shop"
        if match := re.fullmatch(rf"{root}/pulls/(\d+)", request.path):
            number = int(match[1])
            return json_answer(make_pull(number, **(self._pull if number == NUMBER else {})))
        if match := re.fullmatch(rf"{root}/collaborators/(\w+)/permission", request.path):
            return json_answer({"permission": "read" if match[1] == "eve" else "write"})
        if request.path == f"{root}/commits/{self._landed}/pulls":
            return json_answer([make_pull(NUMBER, **self._pull)])
        return json_answer(
            self._comments if request.path == f"{root}/issues/{NUMBER}/comments" else []
        )


def do_honest_work(project: Project, folder: Path) -> None:
    """Capture a session of a trusted person, and merge its pull request."""
    data = make_session(HONEST, at=project.clock.now, session=HONEST_SESSION)
    key = keep_session(project, folder, data)
    project.branch("honest")
    project.commit(
        f"Charge once\n\nWith a key.\n\nMemory-Session: {key}", {"src/charge.py": "charge\n"}
    )
    project.merge_back("honest", "Merge pull request #139 from ada/honest\n\nCharge once")


def answer(title: str, *places: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """Return a learning of the model; `places` are the texts that select a piece, and the quotes from it."""
    return {"title": title, "places": places, **fields}


def make_history(session: str, *message_text: str) -> str:
    """Return a session in the format of SpecStory with a person's text."""
    spoken = "".join(
        f"_**User (2026-01-05 09:00:00Z)**_\n\n{text}\n\n---\n\n" for text in message_text
    )
    return (
        "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# 2026-01-05 09:00:00Z\n\n"
        f"<!-- Claude Code Session {session} (2026-01-05 09:00:00Z) -->\n\n{spoken}"
    )
