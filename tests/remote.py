"""Remotes to publish to: bare repositories that refuse pushes, doubles of GitHub and GitLab, git over HTTP."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci.commands.publish.landing import Pace
from memory_ci.commands.publish.publish import PublishOptions, publish
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.records.config import PublishMode
from memory_ci.records.plan import Plan, Published
from tests.project import NOW, TODAY, Project, copy_project
from tests.repos import Clock, RepoBuilder
from tests.servers import Answer, Handler, HttpRequest, json_answer, serve

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
    """A bare repository that clones push to."""

    def refuse(self, ref: str, words: str) -> None:
        """Refuse pushes to `ref` as a forge does, from a pre-receive hook."""
        self.run_before_receive(f'test "$ref" = "{ref}" && echo "{words}" >&2 && exit 1')

    def run_before_receive(self, test: str) -> None:
        """Run a line of shell for each pushed ref, in a pre-receive hook; it exits with 1 to refuse the push."""
        script = f"#!/bin/sh\nwhile read old new ref; do\n  {test}\ndone\nexit 0\n"
        hook = self.path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(script)
        hook.chmod(0o755)

    def note_options(self) -> Path:
        """Accept push options, and return the file that will hold a line "REF OPTION" for each."""
        self.git("config", "receive.advertisePushOptions", "true")
        log, hook = self.path / "options", self.path / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(NOTE_OPTIONS)
        hook.chmod(0o755)
        return log

    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines())

    def clone(self, path: Path, *options: str) -> Project:
        self.git("clone", "-q", *options, f"file://{self.path}", str(path))
        return Project(path, Clock(self.clock.now))


def make_remote(project: Project, path: Path) -> Remote:
    """Make a bare clone of a project, and set it as the project's origin."""
    bare = project.bare(path)
    project.git("remote", "add", "origin", str(path))
    return Remote(bare.path, Clock(project.clock.now))


class Waits:
    """A pace that does not sleep, and records the upper bounds of its waits."""

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
    """Runs publish on a project.

    Attributes:
        before: functions that run between the fetch of the tip and the push, one for each try.
        failure: changes the plan before it is published.
        waits: records the waits between tries.
    """

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
    """A double of the GitHub API for `acme/shop`: it keeps pull requests, and makes commits in a bare repository.

    Attributes:
        stale: functions that run before a commit is made, so that the expected head is outdated.
        refusal: the message with which commits and comments are refused.
        answers: answers to requests by the last part of their path, instead of the usual ones.
        requests: the requests for labels, reviewers and auto-merge.
    """

    def __init__(self, remote: Remote, scratch: Path) -> None:
        self.remote, self.scratch = remote, scratch
        self.pulls: list[dict[str, Any]] = []
        self.stale: list[Any] = []
        self.refusal = ""
        self.comments: list[dict[str, Any]] = []
        self.graphql_answer: Answer | None = None
        self.reviews: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, Any]] = []

    def environ(self, url: str) -> dict[str, str]:
        return {"GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": "acme/shop", "GITHUB_API_URL": url}

    def __call__(self, request: HttpRequest) -> Answer:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return json_answer({"message": "Bad credentials"}, 401)
        resource = request.path.rpartition("/")[2]
        if resource == "permission":
            return json_answer({"permission": "read" if "/reader/" in request.path else "write"})
        if resource == "reviews":
            return json_answer(
                [review for review in self.reviews if f"/pulls/{review['pull']}/" in request.path]
            )
        if resource == "graphql" and "enablePullRequestAutoMerge" in request.json["query"]:
            resource = "auto-merge"
        if resource in ("labels", "requested_reviewers", "auto-merge"):
            self.requests.append((resource, request.json))
            return self.answers.get(resource, json_answer({} if resource != "labels" else []))
        if request.path == "/graphql":
            return self.graphql_answer or self._commit(request.json["variables"]["input"])
        if request.path.startswith("/repos/acme/shop/issues/"):
            return self._comment(request)
        if request.path == "/repos/acme/shop/pulls":
            return self._list(request) if request.method == "GET" else self._open(request)
        if request.method == "GET":
            return json_answer({"message": "Not Found"}, 404)
        number = int(request.path.rpartition("/")[2])
        self.pulls[number - 1] |= request.json
        return json_answer(self.pulls[number - 1])

    def _comment(self, request: HttpRequest) -> Answer:
        """List comments, add one as the app that the token belongs to, or change the text of one."""
        if request.method == "GET":
            return json_answer(self.comments)
        if self.refusal:
            return json_answer({"message": self.refusal}, 403)
        if request.method == "POST":
            user = {"id": 41898282, "type": "Bot"}
            self.comments.append(
                {
                    "id": len(self.comments) + 1,
                    "user": user,
                    "created_at": NOW.isoformat(),
                    **request.json,
                }
            )
            return json_answer(self.comments[-1], 201)
        comment = next(
            comment
            for comment in self.comments
            if comment["id"] == int(request.path.rpartition("/")[2])
        )
        comment |= request.json
        return json_answer(comment)

    def _list(self, request: HttpRequest) -> Answer:
        """List the pull requests of a branch and a base in a state, newest first."""
        query = request.query
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
        """Add a review of a pull request, by default by a member of the team."""
        user = {"login": login, "type": type}
        review = {
            "id": len(self.reviews) + 1,
            "state": state,
            "user": user,
            "author_association": association,
        }
        self.reviews.append({**review, "pull": pull})

    def comment(self, text: str, *, is_stranger: bool = False, login: str = "ann") -> None:
        """Add a comment with the fields of both forges, by default by a member of the team."""
        person = {
            "id": 666 if is_stranger else 7,
            "login": login,
            "username": login,
            "type": "User",
        }
        comment = {
            "id": len(self.comments) + 1,
            "created_at": NOW.isoformat(),
            "body": text,
            "user": person,
        }
        self.comments.append(
            {**comment, "author": person, "author_association": "NONE" if is_stranger else "MEMBER"}
        )

    def _open(self, request: HttpRequest) -> Answer:
        """Open a pull request."""
        if "open" in self.answers:
            return self.answers["open"]
        number = len(self.pulls) + 1
        pull = {
            "number": number,
            "state": "open",
            "html_url": f"https://github.com/acme/shop/pull/{number}",
            "created_at": NOW.isoformat(),
            **request.json,
        }
        self.pulls.append(pull)
        return json_answer(pull, 201)

    def _commit(self, arguments: dict[str, Any]) -> Answer:
        """Answer createCommitOnBranch: make the commit if the branch is at the expected head."""
        if self.stale:
            self.stale.pop(0)()
        branch, expected = arguments["branch"]["branchName"], arguments["expectedHeadOid"]
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
        oid = self._make(branch, arguments)
        return json_answer({"data": {"createCommitOnBranch": {"commit": {"oid": oid}}}})

    def _make(self, branch: str, arguments: dict[str, Any]) -> str:
        """Commit the changes of a request in a clone, push them, and return the id of the commit."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        clone = self.remote.clone(self.scratch, "--branch", branch)
        changes, message = arguments["fileChanges"], arguments["message"]
        files: dict[str, Any] = {
            addition["path"]: base64.b64decode(addition["contents"])
            for addition in changes["additions"]
        }
        files |= {deletion["path"]: None for deletion in changes["deletions"]}
        oid = clone.commit(f"{message['headline']}\n\n{message['body']}\n", files)
        clone.git("push", "-q", "origin", f"HEAD:{branch}")
        return oid


class SavedRequest(NamedTuple):
    """The state after a first run opened a memory pull request: tests begin with a copy of it.

    Attributes:
        project: the project of the run.
        remote: its remote, with the memory branch.
        pulls: the pull requests of the forge.
        published: what the run returned.
    """

    project: Project
    remote: Remote
    pulls: list[dict[str, Any]]
    published: Published

    def restore(self, project: Project, remote: Remote, forge: GitHubDouble) -> None:
        """Put another project, its remote and its forge into this state."""
        for saved, place in ((self.project, project), (self.remote, remote)):
            shutil.rmtree(place.path)
            shutil.copytree(saved.path, place.path, symlinks=True)
            place.clock.now = saved.clock.now
        project.git("remote", "set-url", "origin", str(remote.path))
        forge.pulls[:] = deepcopy(self.pulls)


def open_request(
    template: Project,
    folder: Path,
    prepare: Callable[[Project], None] | None = None,
    double: Callable[[Remote, Path], GitHubDouble] = GitHubDouble,
) -> SavedRequest:
    """Open a memory pull request for a copy of a project, and return the state after that.

    Args:
        template: the project.
        folder: the directory for the copy and its remote.
        prepare: makes further commits on `main`, which are pushed before the run.
        double: makes the double of the forge.
    """
    project = copy_project(template, folder / "shop")
    if prepare is not None:
        prepare(project)
    remote = make_remote(project, folder / "shop.git")
    forge = double(remote, folder / "forge")
    with serve(forge) as server:
        published = Publisher(project, forge.environ(server.url))("pr")
    return SavedRequest(project, remote, forge.pulls, published)


class GitLabDouble(GitHubDouble):
    """A double of the GitLab API that shows the pull requests as merge requests of project 42."""

    def environ(self, url: str) -> dict[str, str]:
        return {"GITLAB_TOKEN": TOKEN, "CI_PROJECT_ID": "42", "CI_API_V4_URL": url}

    def __call__(self, request: HttpRequest) -> Answer:
        number = request.path.removeprefix("/projects/42/merge_requests").lstrip("/")
        if request.path.startswith("/projects/42/members/all/"):
            return json_answer({"access_level": 10 if request.path.endswith("/666") else 40})
        if request.headers.get("private-token") != TOKEN or not request.path.startswith(
            "/projects/42/merge_requests"
        ):
            return json_answer({"message": "404 Not Found"}, 404)
        number, _, part = number.partition("/")
        if part == "notes":
            return json_answer(self.comments)
        if part:
            return json_answer({"approved_by": []} if part == "approvals" else [])
        if request.method == "GET":
            state = request.query["state"]
            return json_answer(
                [
                    self._show(pull)
                    for pull in reversed(self.pulls)
                    if state in ("all", self._state(pull))
                ]
            )
        named = {"description": "body", "source_branch": "head", "target_branch": "base"}
        fields = {
            named.get(key, key): value
            for key, value in request.json.items()
            if key != "state_event"
        }
        if request.json.get("state_event") == "close":
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
        projects = {"source_project_id": 42, "target_project_id": 42}
        text = {"web_url": pull["html_url"], "description": pull["body"]}
        return {"iid": pull["number"], "state": self._state(pull), **text, **projects}


def git_over_http(
    root: Path, token: str, authorizations: list[str], *, is_read_only: bool = False
) -> Handler:
    """Return a handler that passes requests with a token to `git http-backend`.

    Args:
        root: the directory of the repositories.
        token: the password that a request must have.
        authorizations: the handler appends the authorization header of each request.
        is_read_only: refuse pushes.
    """
    expected = "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()

    def answer(request: HttpRequest) -> Answer:
        authorization = request.headers.get("authorization", "")
        authorizations.append(authorization)
        if authorization != expected:
            status = 403 if authorization else 401
            return Answer(status, b"", {"www-authenticate": 'Basic realm="git"'})
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
        completed = subprocess.run(
            ["git", "http-backend"],
            env=environ,
            input=request.body,
            capture_output=True,
            check=True,
        )
        head, _, body = completed.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return Answer(int(headers.pop("Status", "200").split()[0]), body, headers)

    return answer
