"""Remotes that a run publishes to: bare repositories with rules, a forge that opens pull requests, git over HTTP."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memory_ci.commands.publish.landing import Pace
from memory_ci.commands.publish.publish import PublishOptions, publish
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.records.config import PublishMode
from memory_ci.records.plan import Plan, Published
from tests.project import NOW, TODAY, Project
from tests.repos import Clock, RepoBuilder
from tests.servers import Answer, Asked, Handler, json_answer

UPDATE = "memory-ci/update"
TOKEN = "ghs_" + "n0tArealT0ken" * 3


NOTE_OPTIONS = """#!/bin/sh
read old new ref
turn=0
while [ "$turn" -lt "${GIT_PUSH_OPTION_COUNT:-0}" ]; do
  eval "option=\\$GIT_PUSH_OPTION_$turn"
  echo "$ref $option" >> "$GIT_DIR/options"
  turn=$((turn + 1))
done
"""


class Remote(RepoBuilder):
    """A bare repository that others push to."""

    def refuse(self, ref: str, words: str) -> None:
        """Refuse pushes to `ref` as a forge does, from a pre-receive hook."""
        self.judge(f'test "$ref" = "{ref}" && echo "{words}" >&2 && exit 1')

    def judge(self, test: str) -> None:
        """Judge each ref that is pushed by a line of shell, which exits with 1 to refuse it."""
        script = f"#!/bin/sh\nwhile read old new ref; do\n  {test}\ndone\nexit 0\n"
        hook = self.path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(script)
        hook.chmod(0o755)

    def note_options(self) -> Path:
        """Take push options, and write each into the file that is given back: a line with its ref before it."""
        self.git("config", "receive.advertisePushOptions", "true")
        noted, hook = self.path / "options", self.path / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(NOTE_OPTIONS)
        hook.chmod(0o755)
        return noted

    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines())

    def clone(self, path: Path, *options: str) -> Project:
        self.git("clone", "-q", *options, f"file://{self.path}", str(path))
        return Project(path, Clock(self.clock.now))


def make_remote(project: Project, path: Path) -> Remote:
    """A remote with what the project has; it becomes the project's origin."""
    bare = project.bare(path)
    project.git("remote", "add", "origin", str(path))
    return Remote(bare.path, Clock(project.clock.now))


class Waits:
    """A pace that waits for nothing, and remembers what it would have waited."""

    def __init__(self) -> None:
        self.bounds: list[float] = []
        self.now = 0.0

    def pace(self) -> Pace:
        return Pace(lambda: self.now, self._sleep, self._draw)

    def _draw(self, low: float, high: float) -> float:
        self.bounds.append(high)
        return high

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


class Publisher:
    """Runs publish on a project; `before` is done once, between the fetch of the tip and the push."""

    def __init__(self, project: Project, environ: Mapping[str, str] | None = None) -> None:
        self.project, self.environ = project, dict(environ or {})
        self.before: list[Any] = []
        self.now = NOW
        self.failure: Callable[[Plan], Plan] | None = None
        self.waits = Waits()

    def __call__(
        self,
        mode: PublishMode | None = None,
        since: str | None = None,
        ref: str | None = None,
        *,
        at_once: bool = False,
    ) -> Published:
        workspace = self.project.workspace

        def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
            options = RecordOptions(since, ref, accepted_keys=accepted)
            plan = plan_record(workspace, options, TODAY, lambda done, total: None)
            if self.before:
                self.before.pop(0)()
            return plan if self.failure is None else self.failure(plan)

        return publish(
            workspace,
            PublishOptions(mode, ref, at_once, since is not None),
            make_plan,
            self.now,
            self.environ,
            pace=self.waits.pace(),
        )


class GitHubDouble:
    """Pull requests and commits of `acme/shop`, over a bare repository; commits are made with git, beside the hooks."""

    def __init__(self, remote: Remote, scratch: Path) -> None:
        self.remote, self.scratch = remote, scratch
        self.pulls: list[dict[str, Any]] = []
        self.stale: list[Any] = []
        self.refusal = ""
        self.comments: list[dict[str, Any]] = []
        self.graphql_answer: Answer | None = None
        self.reviews: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Any]] = []

    def environ(self, url: str) -> dict[str, str]:
        return {"GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": "acme/shop", "GITHUB_API_URL": url}

    def __call__(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return json_answer({"message": "Bad credentials"}, 401)
        what = asked.path.rpartition("/")[2]
        if what == "permission":
            return json_answer({"permission": "read" if "/reader/" in asked.path else "write"})
        if what == "reviews":
            return json_answer(
                [one for one in self.reviews if f"/pulls/{one['pull']}/" in asked.path]
            )
        if what == "graphql" and "enablePullRequestAutoMerge" in asked.json["query"]:
            what = "auto-merge"
        if what in ("labels", "requested_reviewers", "auto-merge"):
            self.asked.append((what, asked.json))
            return self.answers.get(what, json_answer({} if what != "labels" else []))
        if asked.path == "/graphql":
            return self.graphql_answer or self._commit(asked.json["variables"]["input"])
        if asked.path.startswith("/repos/acme/shop/issues/"):
            return self._comment(asked)
        if asked.path == "/repos/acme/shop/pulls":
            return self._list(asked) if asked.method == "GET" else self._open(asked)
        if asked.method == "GET":
            return json_answer({"message": "Not Found"}, 404)
        number = int(asked.path.rpartition("/")[2])
        self.pulls[number - 1] |= asked.json
        return json_answer(self.pulls[number - 1])

    def _comment(self, asked: Asked) -> Answer:
        """Comments on any request: listed, written by the app whose token this is, given another text."""
        if asked.method == "GET":
            return json_answer(self.comments)
        if self.refusal:
            return json_answer({"message": self.refusal}, 403)
        if asked.method == "POST":
            user = {"id": 41898282, "type": "Bot"}
            self.comments.append(
                {
                    "id": len(self.comments) + 1,
                    "user": user,
                    "created_at": NOW.isoformat(),
                    **asked.json,
                }
            )
            return json_answer(self.comments[-1], 201)
        comment = next(
            one for one in self.comments if one["id"] == int(asked.path.rpartition("/")[2])
        )
        comment |= asked.json
        return json_answer(comment)

    def _list(self, asked: Asked) -> Answer:
        query = asked.query
        head, base, state = (
            query.get("head", "").removeprefix("acme:"),
            query.get("base"),
            query["state"],
        )
        newest_first = (
            pull for pull in reversed(self.pulls) if (pull["head"], pull["base"]) == (head, base)
        )
        return json_answer([pull for pull in newest_first if pull["state"] == state])

    def review(
        self,
        state: str,
        login: str = "ann",
        association: str = "MEMBER",
        type: str = "User",
        *,
        pull: int = 1,
    ) -> None:
        """A review of a request, by a member of the team unless said otherwise."""
        user = {"login": login, "type": type}
        said = {
            "id": len(self.reviews) + 1,
            "state": state,
            "user": user,
            "author_association": association,
        }
        self.reviews.append({**said, "pull": pull})

    def comment(self, text: str, *, is_stranger: bool = False, login: str = "ann") -> None:
        """A comment on a request, by a member of the team unless said otherwise, as both forges show it."""
        person = {
            "id": 666 if is_stranger else 7,
            "login": login,
            "username": login,
            "type": "User",
        }
        said = {
            "id": len(self.comments) + 1,
            "created_at": NOW.isoformat(),
            "body": text,
            "user": person,
        }
        self.comments.append(
            {**said, "author": person, "author_association": "NONE" if is_stranger else "MEMBER"}
        )

    def _open(self, asked: Asked) -> Answer:
        if "open" in self.answers:
            return self.answers["open"]
        number = len(self.pulls) + 1
        pull = {
            "number": number,
            "state": "open",
            "html_url": f"https://github.com/acme/shop/pull/{number}",
            "created_at": NOW.isoformat(),
            **asked.json,
        }
        self.pulls.append(pull)
        return json_answer(pull, 201)

    def _commit(self, asked: dict[str, Any]) -> Answer:
        if self.stale:
            self.stale.pop(0)()
        branch, expected = asked["branch"]["branchName"], asked["expectedHeadOid"]
        if self.remote.sha(f"refs/heads/{branch}") != expected:
            words = f'Expected branch to point to "{expected}" but it did not. Pull and try again.'
            return json_answer(
                {
                    "data": {"createCommitOnBranch": None},
                    "errors": [{"type": "STALE_DATA", "message": words}],
                }
            )
        if self.refusal:
            return json_answer(
                {"data": None, "errors": [{"type": "FORBIDDEN", "message": self.refusal}]}
            )
        oid = self._make(branch, asked)
        return json_answer({"data": {"createCommitOnBranch": {"commit": {"oid": oid}}}})

    def _make(self, branch: str, asked: dict[str, Any]) -> str:
        shutil.rmtree(self.scratch, ignore_errors=True)
        clone = self.remote.clone(self.scratch, "--branch", branch)
        changes, message = asked["fileChanges"], asked["message"]
        files: dict[str, Any] = {
            one["path"]: base64.b64decode(one["contents"]) for one in changes["additions"]
        }
        files |= {one["path"]: None for one in changes["deletions"]}
        oid = clone.commit(f"{message['headline']}\n\n{message['body']}\n", files)
        clone.git("push", "-q", "origin", f"HEAD:{branch}")
        return oid


class GitLabDouble(GitHubDouble):
    """The same requests as GitLab shows them, as merge requests of project 42."""

    def environ(self, url: str) -> dict[str, str]:
        return {"GITLAB_TOKEN": TOKEN, "CI_PROJECT_ID": "42", "CI_API_V4_URL": url}

    def __call__(self, asked: Asked) -> Answer:
        number = asked.path.removeprefix("/projects/42/merge_requests").lstrip("/")
        if asked.path.startswith("/projects/42/members/all/"):
            return json_answer({"access_level": 10 if asked.path.endswith("/666") else 40})
        if asked.headers.get("private-token") != TOKEN or not asked.path.startswith(
            "/projects/42/merge_requests"
        ):
            return json_answer({"message": "404 Not Found"}, 404)
        number, _, part = number.partition("/")
        if part == "notes":
            return json_answer(self.comments)
        if part:
            return json_answer({"approved_by": []} if part == "approvals" else [])
        if asked.method == "GET":
            state = asked.query["state"]
            return json_answer(
                [
                    self._show(one)
                    for one in reversed(self.pulls)
                    if state in ("all", self._state(one))
                ]
            )
        named = {"description": "body", "source_branch": "head", "target_branch": "base"}
        fields = {
            named.get(key, key): value for key, value in asked.json.items() if key != "state_event"
        }
        if asked.json.get("state_event") == "close":
            fields["state"] = "closed"
        if not number:
            self.pulls.append(
                {"number": len(self.pulls) + 1, "state": "open", "html_url": "https://gitlab/1"}
            )
        pull = self.pulls[int(number or 0) - 1]
        pull |= fields
        return json_answer(self._show(pull), 200 if number else 201)

    def _state(self, pull: dict[str, Any]) -> str:
        return (
            "merged"
            if pull.get("merged_at")
            else {"open": "opened"}.get(pull["state"], pull["state"])
        )

    def _show(self, pull: dict[str, Any]) -> dict[str, Any]:
        own = {"source_project_id": 42, "target_project_id": 42}
        text = {"web_url": pull["html_url"], "description": pull["body"]}
        return {"iid": pull["number"], "state": self._state(pull), **text, **own}


def git_over_http(
    root: Path, token: str, asked: list[str], *, is_read_only: bool = False
) -> Handler:
    """Gives requests with this token to `git http-backend` for `root`; the headers that came are in `asked`."""
    expected = "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()

    def answer(request: Asked) -> Answer:
        given = request.headers.get("authorization", "")
        asked.append(given)
        if given != expected:
            return Answer(403 if given else 401, b"", {"www-authenticate": 'Basic realm="git"'})
        if is_read_only and "receive-pack" in request.target:
            return Answer(403, b"Permission denied")
        path, _, query = request.target.partition("?")
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "memory",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(request.body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"],
            env=environ,
            input=request.body,
            capture_output=True,
            check=True,
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return Answer(int(headers.pop("Status", "200").split()[0]), body, headers)

    return answer
