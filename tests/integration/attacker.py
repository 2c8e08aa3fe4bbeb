"""A repository under attack: honest work, hostile work beside it, a forge that knows who is who, an obedient model."""

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
from tests.servers import Answer, Asked, json_answer, serve
from tests.sources.transcripts.claude import Record

HONEST = "Never retry a POST without an idempotency key, the gateway books each one."
TITLE = "Send an idempotency key with each charge"
HONEST_SESSION = "5f3b2a10-0000-4000-8000-000000000007"
HOSTILE_SESSION = "66666666-0000-4000-8000-000000000666"
NUMBER = 140
"""The pull request of the attack; 139 is honest work."""

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
    """Puts things where an attacker can: into sessions, forks, reviews, and the mouth of a model that obeys all."""

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
        self.says()

    # -- what the model answers, and what it was told

    def says(self, *learnings: dict[str, Any]) -> None:
        """Answer these too, where every piece that they quote is shown."""
        self._learnings += learnings
        orders = {"honest": HONEST, "title": TITLE, "learnings": self._learnings}
        self._model.with_suffix(".orders").write_text(json.dumps(orders))

    @property
    def heard(self) -> str:
        """All that the model got on its standard input."""
        log = self._model.with_suffix(".heard")
        return log.read_text() if log.exists() else ""

    @contextmanager
    def environ(self) -> Iterator[dict[str, str]]:
        """The environment of a job: the model, and a forge that is up as long as the block lasts."""
        with serve(self._forge) as server:
            yield {
                "MEMORY_CI_ENGINE_COMMAND": shlex.quote(str(self._model)),
                "PATH": os.environ["PATH"],
                "GITHUB_API_URL": server.url,
                "GITHUB_REPOSITORY": "acme/shop",
                "GITHUB_TOKEN": TOKEN,
            }

    # -- what is put where

    def merges(
        self, message: str, files: dict[str, str | bytes], author: str | None = None
    ) -> None:
        """A branch of the repository itself with one commit, merged as the pull request of the attack."""
        self._merge(message, files, author)

    def forks(
        self, message: str, files: dict[str, str | bytes], body: str = "Some work.", **pull: Any
    ) -> None:
        """The same from the fork of someone who may only read."""
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

    def talks(self, *said: str | Record, **pull: Any) -> None:
        """A session of a trusted person, captured, and named by a commit of the repository itself."""
        self._pull = pull
        data = make_session(*said, at=self.project.clock.now, session=HOSTILE_SESSION)
        key = keep_session(self.project, self.folder, data)
        self.merges(
            f"Look at the pages\n\nFor the charge.\n\nMemory-Session: {key}",
            {"src/pages.py": "pages\n"},
        )

    def comments(self, body: str, login: str = "eve", association: str = "NONE") -> None:
        """A comment on work of the repository itself, of someone who may only read unless said otherwise."""
        comment = {
            "id": 71,
            "body": body,
            "user": make_user(login),
            "author_association": association,
        }
        self._comments.append(
            comment | {"created_at": "2026-01-05T10:00:00Z", "updated_at": "2026-01-05T10:00:00Z"}
        )
        self.merges("Add pages\n\nFor the shop.", {"src/pages.py": "pages\n"})

    def _merge(self, message: str, files: dict[str, str | bytes], author: str | None) -> None:
        self.project.branch("hostile")
        self.project.commit(message, files, author)
        title = f"Merge pull request #{NUMBER} from eve/hostile"
        self._landed = self.project.merge_back("hostile", f"{title}\n\nSome work")

    def rebases(self) -> None:
        """What was merged, put on the branch without a merge, as the forge's button does: the words stay."""
        self.project.git("reset", "-q", "--hard", "main^1")
        self.project.git("cherry-pick", "hostile")
        self._landed = self.project.sha()

    def squashes(self, message: str, author: str) -> None:
        """What was merged, as one commit of that message."""
        self.project.git("reset", "-q", "--hard", "main^1")
        self.project.git("merge", "-q", "--squash", "hostile")
        self.project.git("commit", "-q", f"--author={author}", "-m", message)
        self._landed = self.project.sha()

    def _forge(self, asked: Asked) -> Answer:
        """GitHub: who may write here is everyone but Eve."""
        root = "/repos/acme/shop"
        if found := re.fullmatch(rf"{root}/pulls/(\d+)", asked.path):
            number = int(found[1])
            return json_answer(make_pull(number, **(self._pull if number == NUMBER else {})))
        if found := re.fullmatch(rf"{root}/collaborators/(\w+)/permission", asked.path):
            return json_answer({"permission": "read" if found[1] == "eve" else "write"})
        if asked.path == f"{root}/commits/{self._landed}/pulls":
            return json_answer([make_pull(NUMBER, **self._pull)])
        return json_answer(
            self._comments if asked.path == f"{root}/issues/{NUMBER}/comments" else []
        )


def do_honest_work(project: Project, folder: Path) -> None:
    """A session of a trusted person, captured, and the pull request that it led to."""
    data = make_session(HONEST, at=project.clock.now, session=HONEST_SESSION)
    key = keep_session(project, folder, data)
    project.branch("honest")
    project.commit(
        f"Charge once\n\nWith a key.\n\nMemory-Session: {key}", {"src/charge.py": "charge\n"}
    )
    project.merge_back("honest", "Merge pull request #139 from ada/honest\n\nCharge once")


def answer(title: str, *places: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """A learning of the model: `places` are the words by which it finds a piece, and what it quotes from there."""
    return {"title": title, "places": places, **fields}


def make_history(session: str, *said: str) -> str:
    """A session as SpecStory keeps it, with these words of a person."""
    spoken = "".join(f"_**User (2026-01-05 09:00:00Z)**_\n\n{text}\n\n---\n\n" for text in said)
    return (
        "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# 2026-01-05 09:00:00Z\n\n"
        f"<!-- Claude Code Session {session} (2026-01-05 09:00:00Z) -->\n\n{spoken}"
    )
