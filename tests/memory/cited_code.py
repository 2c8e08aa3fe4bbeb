"""Functions that add entries which cite code, and judge their cites."""

from __future__ import annotations

from memory_ci.memory.cite_verdicts import judge_anchors
from memory_ci.memory.cites import anchor_entries
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project

POST = """    def post(self, url, key):
        if key is None:
            raise ValueError("no idempotency key")
        return self.session.post(url, headers={"Idempotency-Key": key})
"""

CLIENT = f"""import time


class Client:
    def get(self, url):
        return self.session.get(url, timeout=30)

{POST}
    def close(self):
        self.session.close()
"""


def remember(
    shop: Project,
    title: str = "`Client.post` needs a key",
    path: str = "src/client.py",
    number: int = 1,
) -> Entry:
    """Commit an entry whose cite is anchored at HEAD, and return it."""
    entry = make_entry(number, title=title, cites=(f"{path}@{shop.sha()[:12]}",))
    (anchored,) = anchor_entries(shop.workspace, [entry])
    shop.commit("Remember", {f"m{number}/MEMORY.md": format_entry(anchored)})
    return anchored


def located(*entries: Entry) -> list[Located]:
    return [Located(entry, "MEMORY.md", 1, ScopeOf("project")) for entry in entries]


def verdict(shop: Project, entry: Entry, view: str | None = "HEAD") -> Verdict:
    """Return the verdict on the only cite of an entry."""
    (cite_verdict,) = judge_anchors(shop.workspace, located(entry), view).values()
    return cite_verdict


def kind(shop: Project, entry: Entry, view: str | None = "HEAD") -> str:
    """Return the kind of the verdict on the only cite of an entry."""
    return verdict(shop, entry, view).kind
