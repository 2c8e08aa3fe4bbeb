"""The whole loop as a text: a session and a review become memory on a runner, the next job is given it, and uses it.

    make recording          # writes benchmarks/results/loop.md

Everything is on this machine: a bare repository, a double of GitHub's API on 127.0.0.1, and `act`, which runs the
workflow of docs/ci.md. Where act has no program, the same steps are run with the runner's environment. Dates are fixed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from tests.forge.make import make_pull, make_pull_commit, make_review, make_user
from tests.integration.act import ACT, CAN_RUN, Act, Ran, name_pinned
from tests.integration.runner import ActionRunner
from tests.remote import TOKEN
from tests.servers import Answer, HttpRequest, json_answer, serve
from tests.sources.transcripts import claude

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "benchmarks" / "results" / "loop.md"
GUIDE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
HERE = {"full_name": "acme/shop", "default_branch": "main", "fork": False}
START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
SECONDS = 60
"""Longer than any command of the story takes."""

PAGE = "## Memory: "
ESCAPES = re.compile(r"\\(?=[^\w\s])|&#8203;")

INTRODUCTION = """\
# A recording of the whole loop

Made by `make recording`. Everything is on one machine: the remote is a bare repository, GitHub's API a double on
127.0.0.1, Claude Code and the second agent are scripts of a few lines. No model takes part. Dates are fixed, so that a
second recording differs from the first only where memory-ci does. {how}
"""
WITH_ACT = "The jobs ran on `act`, which runs workflows without GitHub."
WITHOUT_ACT = "There is no `act` for this machine: the steps of the actions ran with the variables of a runner."

FIX = """fix(payments): charge a card once

Customers were charged twice when the gateway was slow.

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge, and retry only with the same key.
"""
ANSWER = """fix(payments): give up after three tries

Decision: retries live in src/payments/client.py rather than in each caller, because only the client knows the key.
"""
STEERED = "No. Never retry a POST to the gateway without an idempotency key: it books each one."
REVIEW = "/remember The gateway forgets an idempotency key after 24 hours, so a retry later than that books again."
ISSUE = {
    "title": "Refunds are lost when the gateway times out",
    "body": "Retry them as charges are retried in the payments client.",
}
AGENT = """#!/bin/sh
# Stands for an agent: reads what it was given, works, and says which entry it used.
set -eu
used=$(sed -n '/^## The client retried/{n;s/^id \\([0-9a-f]*\\) .*/\\1/p;}' "$2")
git checkout -q -b refunds
echo 'def refund(url, key): ...' > src/payments/refunds.py
git add src
git -c user.name=agent -c user.email=agent@example.com commit -q \\
  -m 'feat(payments): retry a refund with the key of its charge' -m "Memory-Used: $used"
git push -q origin refunds
"""


class Scene(NamedTuple):
    """What a run on the runner came to."""

    jobs: Mapping[str, str]
    summary: str


class Recorder:
    """Writes Markdown; the scratch directory is called `~`, as if it were the home of who tells."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.lines, self.now = scratch, list[str](), START

    def say(self, heading: str, text: str = "") -> None:
        self.lines += [f"## {heading}", "", *([text, ""] if text else [])]

    def show(self, text: str, language: str = "console") -> None:
        told = text.replace(str(self.scratch), "~").strip("\n")
        fence = "````" if "```" in told else "```"
        self.lines += [
            f"{fence}{language}",
            *(line.rstrip() for line in told.splitlines()),
            fence,
            "",
        ]

    def run(self, place: Path, *args: str, told: str = "", data: str | None = None) -> str:
        """Run a command and write it down with what it printed; `told` stands for it where it is long."""
        output = self.quietly(place, *args, data=data)
        self.show(f"$ {told or shlex.join(args)}\n{output}")
        return output

    def quietly(self, place: Path, *args: str, data: str | None = None) -> str:
        done = subprocess.run(
            args,
            cwd=place,
            env=self.environment(),
            input=data,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(args)}: {done.stdout}{done.stderr}")
        self.now += timedelta(minutes=1)
        return done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        """Nothing of the user's own settings, and the time of the story."""
        outside = ("GIT_", "GITHUB_", "ANTHROPIC_", "CLAUDE", "CI", "MEMORY_CI_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
        return {
            **kept,
            **self.clock(),
            "PATH": f"{self.scratch / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.scratch),
            "GIT_CONFIG_GLOBAL": str(self.scratch / ".gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "MEMORY_CI_EMBEDDER": "none",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def clock(self) -> dict[str, str]:
        when = self.now.isoformat(timespec="seconds")
        return {
            "SOURCE_DATE_EPOCH": str(int(self.now.timestamp())),
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when,
        }


class Forge:
    """GitHub's API for the two pull requests of the story."""

    def __init__(self) -> None:
        self.pulls: dict[str, dict[str, Any]] = {}
        self.reviews: dict[str, list[Any]] = {}
        self.commits: dict[str, list[Any]] = {}

    def __call__(self, request: HttpRequest) -> Answer:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return json_answer({"message": "Bad credentials"}, 401)
        if not (found := re.fullmatch(r"/repos/acme/shop/pulls/(\d+)(/\w+)?", request.path)):
            return self._other(request.path)
        number, part = found.groups()
        parts = {"/reviews": self.reviews, "/commits": self.commits}
        if part:
            return json_answer(parts.get(part, {}).get(number, []))
        return (
            json_answer(self.pulls[number])
            if number in self.pulls
            else json_answer({"message": "Not Found"}, 404)
        )

    def _other(self, path: str) -> Answer:
        if path.endswith("/permission"):
            return json_answer({"permission": "write"})
        if path.endswith("/check-runs"):
            return json_answer({"total_count": 0, "check_runs": []})
        return json_answer({"statuses": []} if path.endswith("/status") else [])


class Story:
    """The places of the story: a developer's clone, the remote, the forge and the runner."""

    def __init__(self, recorder: Recorder, forge: Forge, api: str) -> None:
        self.recorder, self.forge, self.api = recorder, forge, api
        self.shop, self.remote = recorder.scratch / "shop", recorder.scratch / "shop.git"
        self.act: Act | None = None

    def git(self, *args: str) -> str:
        return self.recorder.quietly(self.shop, "git", *args).strip()

    def write(self, path: str, text: str) -> None:
        file = self.shop / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def merge(self, branch: str, number: int, title: str, reviews: list[Any]) -> None:
        """What the merge button does, and what the forge knows of it afterwards."""
        shas = self.git("rev-list", "--reverse", f"origin/main..{branch}").splitlines()
        dates = [self.git("show", "-s", "--format=%cI", sha) for sha in shas]
        self.git("checkout", "-q", "main")
        self.git(
            "merge",
            "-q",
            "--no-ff",
            branch,
            "-m",
            f"Merge pull request #{number} from acme/{branch}\n\n{title}",
        )
        self.git("push", "-q", "origin", "main")
        merged = self.recorder.now.isoformat(timespec="seconds")
        pull = make_pull(
            number, title=title, body="", merged_at=merged, closed_at=merged, updated_at=merged
        )
        pull["created_at"], pull["labels"] = START.isoformat(timespec="seconds"), []
        pull["head"] = {**pull["head"], "ref": branch}
        self.forge.pulls[str(number)], self.forge.reviews[str(number)] = pull, reviews
        self.forge.commits[str(number)] = [
            make_pull_commit(sha, date) for sha, date in zip(shas, dates, strict=True)
        ]
        self.recorder.run(self.shop, "git", "log", "--graph", "--oneline", "-8")

    # -- the runner

    def run_workflow(self) -> Scene:
        """The workflow of docs/ci.md, on the push of main."""
        sha = self.git("rev-parse", "origin/main")
        if self.act is None:
            return self._run_without_act()
        (copied,) = re.findall(r"```yaml\n( +# What was merged .*?)```", GUIDE, re.DOTALL)
        workflow = dedent(copied).replace("push: auto\n", "push: auto\n      install: skip\n")
        ran = self._on_act(workflow, "push", {"repository": HERE}, sha)
        return Scene(ran.jobs, ran.summary)

    def run_agent(self) -> Scene:
        """An agent's job, with the steps of docs/ci.md, started by an issue."""
        sha = self.git("rev-parse", "origin/main")
        payload = {"action": "opened", "issue": ISSUE, "repository": HERE}
        if self.act is None:
            place, runner = self._runner("agent", {"GITHUB_EVENT_NAME": "issues"})
            task = f"{ISSUE['title']}\n{ISSUE['body']}"
            done = runner.run(ROOT / "action" / "retrieve", install="skip", task=task)
            self.recorder.quietly(place, "my-agent", "--context", done.outputs["file"])
            return Scene({"agent": "success"}, done.outputs["memory"])
        (steps,) = re.findall(
            r"```yaml\n( +- uses: actions/checkout@v6\n.*?my-agent.*?)```", GUIDE, re.DOTALL
        )
        steps = steps.replace("actions/checkout@v6", name_pinned("actions/checkout"))
        steps = re.sub(r"(action/retrieve@\S+\n)", r"\1        with: {install: skip}\n", steps)
        head = (
            "on: issues\npermissions: {}\njobs:\n  agent:\n    runs-on: ubuntu-24.04\n    steps:\n"
        )
        ran = self._on_act(head + steps, "issues", payload, sha)
        return Scene(ran.jobs, ran.outputs["memory"])

    def _on_act(self, workflow: str, event: str, payload: dict[str, Any], sha: str) -> Ran:
        if self.act is None:
            raise RuntimeError("there is no runner")
        self.act.variables |= self.recorder.clock()
        ran = self.act.run(workflow, event, payload, sha)
        if set(ran.jobs.values()) != {"success"}:
            raise RuntimeError(ran.printed)
        return ran

    def _run_without_act(self) -> Scene:
        """The two jobs one after the other, each in a clone of its own."""
        event = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}
        plan = str(self.recorder.scratch / "plan.json")
        for job, given in (
            ("extract", {"extract": plan}),
            ("apply", {"apply": plan, "push": "auto"}),
        ):
            place, runner = self._runner(job, event)
            runner.run(ROOT / "action", install="skip", github_token=TOKEN, **given)
            summary = (place.parent / "summary.md").read_text(encoding="utf-8")
        return Scene({"extract": "success", "apply": "success"}, summary)

    def _runner(self, job: str, variables: Mapping[str, str]) -> tuple[Path, ActionRunner]:
        scratch = Path(tempfile.mkdtemp(dir=self.recorder.scratch, prefix=f"{job}-"))
        place, payload = scratch / "here", scratch / "event.json"
        self.recorder.quietly(scratch, "git", "clone", "-q", f"file://{self.remote}", "here")
        payload.write_text(json.dumps({"repository": HERE}), encoding="utf-8")
        named = {
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_API_URL": self.api,
            "GITHUB_EVENT_PATH": str(payload),
        }
        return place, ActionRunner(
            place, scratch, {**self.recorder.environment(), **named, **variables}
        )

    def show_commits(self, since: str) -> None:
        self.git("pull", "-q", "--ff-only", "origin", "main")
        told = "git log --reverse --format='%h %an: %s' BEFORE..main"
        self.recorder.run(
            self.shop, "git", "log", "--reverse", "--format=%h %an: %s", f"{since}..main", told=told
        )


def record_loop(scratch: Path, *, use_act: bool) -> str:
    """The text of the recording."""
    scratch.mkdir(exist_ok=True)
    recorder, forge = Recorder(scratch), Forge()
    with serve(forge) as server:
        story = Story(recorder, forge, server.url)
        _prepare(story)
        if use_act:
            names = {"GITHUB_API_URL": server.url, "GITHUB_GRAPHQL_URL": f"{server.url}/graphql"}
            story.act = Act(scratch / "act", f"file://{story.remote}", names)
            _put_program(scratch / "act" / "bin" / "my-agent", AGENT)
        tell(story)
    introduction = INTRODUCTION.format(how=WITH_ACT if use_act else WITHOUT_ACT)
    return "\n".join([introduction, *recorder.lines]).rstrip("\n") + "\n"


def _prepare(story: Story) -> None:
    """What is there before the story begins: programs on the PATH, who commits, an empty remote."""
    scratch = story.recorder.scratch
    program = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m memory_ci "$@"\n'
    _put_program(scratch / "bin" / "memory-ci", program)
    _put_program(scratch / "bin" / "my-agent", AGENT)
    settings = {"user.name": "Ada", "user.email": "ada@example.com", "init.defaultBranch": "main"}
    for name, value in settings.items():
        story.recorder.quietly(scratch, "git", "config", "--global", name, value)
    story.recorder.quietly(scratch, "git", "init", "-q", "--bare", str(story.remote))
    story.recorder.quietly(scratch, "git", "init", "-q", str(story.shop))
    story.git("remote", "add", "origin", str(story.remote))


def _put_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def tell(story: Story) -> None:
    """The scenes, in order."""
    begin(story)
    work(story)
    learn(story)
    corrective = use(story)
    reinforce(story, corrective)


def begin(story: Story) -> None:
    """A fresh repository gets memory."""
    recorder = story.recorder
    recorder.say("A fresh repository, and the files memory starts with")
    story.write("src/payments/client.py", "def post(url): ...\n")
    story.git("add", ".")
    story.git("commit", "-q", "-m", "Add the payments client")
    recorder.run(story.shop, "memory-ci", "init")
    recorder.run(story.shop, "memory-ci", "init", "--clone", "--agent", "claude-code")
    story.git("add", ".memory-ci.yaml", "MEMORY.md", "institutional.md", ".gitattributes")
    story.git("commit", "-q", "-m", "Add memory")
    recorder.run(story.shop, "git", "push", "-q", "-u", "origin", "main")


def work(story: Story) -> None:
    """A branch, on which an agent works in a session, and a review of it."""
    recorder = story.recorder
    recorder.say(
        "A branch, worked on by an agent",
        "A person tells Claude Code what to do, and stops it once:\n\n> "
        + STEERED
        + "\n\nAt the end of the session"
        " the hook that was installed keeps a digest of it; the push brings that along.",
    )
    story.git("checkout", "-q", "-b", "retry")
    started = recorder.now
    story.write("src/payments/client.py", "def post(url, key): ...\n")
    story.git("commit", "-q", "-a", "-m", FIX)
    _end_session(story, started)
    recorder.run(story.shop, "memory-ci", "sessions", "--captured")
    recorder.run(story.shop, "git", "push", "-q", "-u", "origin", "retry")
    recorder.say(
        "A review, its answer, and the merge",
        f"Bob requests changes to #128 and writes:\n\n> {REVIEW}",
    )
    asked_at = recorder.now.isoformat(timespec="seconds")
    recorder.now += timedelta(minutes=9)
    story.write("src/payments/client.py", "TRIES = 3\n\n\ndef post(url, key): ...\n")
    story.git("commit", "-q", "-a", "-m", ANSWER)
    story.git("push", "-q", "origin", "retry")
    review = make_review(
        199, body=REVIEW, submitted_at=asked_at, commit_id=story.git("rev-parse", "retry^")
    )
    approval = make_review(
        200, "APPROVED", body="LGTM", submitted_at=recorder.now.isoformat(timespec="seconds")
    )
    story.merge(
        "retry", 128, "Charge a card once", [review, {**approval, "user": make_user("bob")}]
    )


def _end_session(story: Story, started: datetime) -> None:
    """Claude Code's part: it has written a transcript, and runs the command of its SessionEnd hook with JSON."""
    session = "5f3b2a10-0000-4000-8000-000000000128"
    call = claude.make_call(
        "Edit", call="toolu_1", file_path=str(story.shop / "src/payments/client.py")
    )
    records = [
        claude.make_user(
            "A slow gateway makes us charge customers twice. Find out why, and mend it.", 1
        ),
        claude.make_agent(
            {"type": "text", "text": "I let the client retry each POST."}, call, number=2
        ),
        claude.make_user(
            [claude.make_result(f"{claude.SAID}{STEERED}", call="toolu_1", is_error=True)], 3
        ),
        claude.make_agent({"type": "text", "text": "Each charge now carries a key."}, number=4),
    ]
    common = {"sessionId": session, "cwd": str(story.shop), "gitBranch": "retry"}
    dated = [
        {**record, **common, "timestamp": (started + timedelta(seconds=5 * number)).isoformat()}
        for number, record in enumerate(records)
    ]
    transcript = story.recorder.scratch / ".claude" / "projects" / "shop" / f"{session}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(claude.make_lines(*dated))
    when = story.recorder.now.timestamp()
    os.utime(transcript, (when, when))
    settings = json.loads(
        (story.shop / ".claude" / "settings.local.json").read_text(encoding="utf-8")
    )
    command = settings["hooks"]["SessionEnd"][0]["hooks"][0]["command"]
    given = {"transcript_path": str(transcript), "session_id": session, "cwd": str(story.shop)}
    story.recorder.quietly(story.shop, "sh", "-c", command, data=json.dumps(given))


def learn(story: Story) -> None:
    """The runner makes memory of what was merged."""
    recorder, before = story.recorder, story.git("rev-parse", "main")
    recorder.say(
        "The runner executes the workflow",
        "Without a model it writes what authors and reviewers marked; what the person told the agent is a candidate.",
    )
    _show_scene(recorder, story.run_workflow())
    recorder.say("One commit on main")
    story.show_commits(before)
    recorder.run(story.shop, "memory-ci", "list")
    recorder.run(story.shop, "git", "show", "main:.memory/episodes/2026-11/pr-128.md")


def use(story: Story) -> str:
    """The next job is given what was learned, and names what it used; the id of that."""
    recorder = story.recorder
    recorder.say(
        "A second job retrieves",
        f"An issue starts an agent: “{ISSUE['title']}”. `action/retrieve` gives it this:",
    )
    scene = story.run_agent()
    recorder.show(scene.summary, "markdown")
    recorder.say(
        "Its commit carries the trailer",
        "The hook wrote `Memory-Retrieved`; `Memory-Used` is the agent's own.",
    )
    story.git("fetch", "-q", "origin")
    message = recorder.run(
        story.shop, "git", "show", "-s", "--format=%an, %ad%n%n%B", "--date=short", "origin/refunds"
    )
    recorder.say("It is merged as #129")
    story.git("branch", "-q", "refunds", "origin/refunds")
    story.merge("refunds", 129, "Retry a refund with the key of its charge", [])
    (used,) = re.findall(r"^Memory-Used: (\S+)$", message, re.MULTILINE)
    return str(used)


def reinforce(story: Story, used: str) -> None:
    """The next run sees what helped."""
    recorder, before = story.recorder, story.git("rev-parse", "main")
    recorder.say("The next run reinforces it")
    _show_scene(recorder, story.run_workflow())
    story.show_commits(before)
    recorder.run(story.shop, "memory-ci", "show", used[:8], "--why")


def _show_scene(recorder: Recorder, scene: Scene) -> None:
    """The jobs, and the page of the last one as a reader sees it: without the signs that are there for safety."""
    jobs = ", ".join(f"{name}: {result}" for name, result in scene.jobs.items())
    page = PAGE + scene.summary.rpartition(PAGE)[2]
    recorder.show(f"jobs: {jobs}\n\n{ESCAPES.sub('', page)}", "markdown")


def main() -> None:
    """Write benchmarks/results/loop.md, or the file that is named."""
    use_act = CAN_RUN and ACT.exists()
    if not use_act:
        print("No act for this machine; the actions' own steps are run instead.", file=sys.stderr)
    target = Path(sys.argv[1]) if sys.argv[1:] else OUTPUT
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        target.write_text(record_loop(Path(scratch).resolve(), use_act=use_act), encoding="utf-8")


if __name__ == "__main__":
    main()
