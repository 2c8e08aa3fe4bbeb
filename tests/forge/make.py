"""Functions that make responses of GitHub and GitLab in the form of their REST APIs, and clients that do not wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_ci.forge.http import Budget, Transport
from memory_ci.forge.rest import Client

TOKEN = "ghs_" + "n0tArealT0ken" * 3
SHAS = ("1" * 40, "2" * 40, "3" * 40)
MERGE = "f" * 40

Json = dict[str, Any]


class FakeTime:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def make_budget(time: FakeTime | None = None, **limits: Any) -> Budget:
    fake = time or FakeTime()
    return Budget(clock=fake.clock, sleep=fake.sleep, **limits)


def make_client(
    url: str, cache: Path, time: FakeTime | None = None, token: str = TOKEN, **limits: int
) -> Client:
    secrets = {"authorization": f"Bearer {token}"}
    return Client(
        Transport(url, headers={}, secrets=secrets, budget=make_budget(time, **limits)), cache
    )


def make_user(login: str = "ann", kind: str = "User") -> Json:
    return {"login": login, "id": 7, "node_id": "U_7", "type": kind, "site_admin": False}


def make_pull(number: int = 12, **fields: Any) -> Json:
    head = {
        "label": "ann:retry",
        "ref": "retry",
        "sha": SHAS[1],
        "repo": {"id": 1, "full_name": "acme/shop"},
    }
    return {
        "id": 9_000 + number,
        "number": number,
        "state": "closed",
        "title": "Retry only with a key",
        "body": "A POST without a key was sent twice.",
        "user": make_user(),
        "author_association": "MEMBER",
        "labels": [{"id": 1, "name": "bug", "color": "f00"}],
        "created_at": "2026-09-01T10:00:00Z",
        "updated_at": "2026-09-02T12:00:00Z",
        "merged_at": "2026-09-02T12:00:00Z",
        "closed_at": "2026-09-02T12:00:00Z",
        "merge_commit_sha": MERGE,
        "head": head,
        "base": {
            "label": "acme:main",
            "ref": "main",
            "sha": "b" * 40,
            "repo": {"id": 1, "full_name": "acme/shop"},
        },
        **fields,
    }


def make_review(number: int = 199, state: str = "CHANGES_REQUESTED", **fields: Any) -> Json:
    return {
        "id": number,
        "state": state,
        "body": "Send the key with each try.",
        "user": make_user("bob"),
        "author_association": "MEMBER",
        "submitted_at": "2026-09-01T11:00:00Z",
        "commit_id": SHAS[0],
        **fields,
    }


def make_comment(number: int = 17, **fields: Any) -> Json:
    return {
        "id": number,
        "pull_request_review_id": 199,
        "path": "src/client.py",
        "line": None,
        "original_line": 40,
        "body": "This loses the key.",
        "user": make_user("bob"),
        "author_association": "MEMBER",
        "created_at": "2026-09-01T11:00:00Z",
        **fields,
    }


def make_pull_commit(sha: str, date: str = "2026-09-01T09:00:00Z") -> Json:
    signature = {"name": "Ann", "email": "ann@example.com", "date": date}
    return {
        "sha": sha,
        "commit": {"author": signature, "committer": signature, "message": "work"},
        "parents": [],
    }


def make_run(name: str = "unit tests", conclusion: str | None = "failure", **fields: Any) -> Json:
    return {
        "id": 4,
        "name": name,
        "status": "completed",
        "conclusion": conclusion,
        "started_at": "2026-09-01T09:01:00Z",
        "completed_at": "2026-09-01T09:05:00Z",
        "output": {"title": "2 failed", "summary": "test_retry: sent twice", "text": None},
        **fields,
    }
