"""A replayed year of the review queue: what waits, what is served, and how much a person reads.

    python -m benchmarks.review_year HISTORY [WEEKS]

HISTORY is a git repository; it is cloned, and nothing is written into it. The last 52 weeks of its first-parent history
are replayed: each change as one commit with the messages of all that it brought, as a squash merge makes it. At the
end of each week `record` runs with the rules engine, the queue asks, and either nobody answers, or a script does: it
accepts (or keeps) the first question and declines (or retires) the others. The script reads nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_ci.commands.record.learner import ignore_progress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.review.command import render_questions
from memory_ci.commands.review.queue import list_queue
from memory_ci.commands.review.review import Answers, answer
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.workspace import Workspace, load_memory, open_workspace
from memory_ci.records.candidate import Answer, Question

WHO = {"NAME": "Ann", "EMAIL": "ann@example.com"}
MEMORY = (".memory-ci.yaml", "MEMORY.md", "institutional.md", ".memory")
QUARTER = 13  # Weeks of a row of the table.


class Replay:
    """A clone whose branch `main` is made of the changes of a history, with memory beside their files."""

    def __init__(self, history: Path, scratch: Path) -> None:
        self.path = scratch / "work"
        subprocess.run(
            ["git", "clone", "-q", "--no-checkout", str(history), str(self.path)], check=True
        )
        log = self.git(
            "log", "--first-parent", "--reverse", "--format=%H %P %ct", "HEAD"
        ).splitlines()
        self.changes = [(words[0], words[1:-1], int(words[-1])) for words in map(str.split, log)]
        self.end = datetime.fromtimestamp(self.changes[-1][2], UTC)

    def git(
        self, *args: str, text: str | None = None, environ: Mapping[str, str] | None = None
    ) -> str:
        env = {**os.environ, **(environ or {})}
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            input=text,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def begin(self, at: int) -> None:
        """A branch with the files of a change, and memory-ci set up."""
        self.git("config", "user.name", WHO["NAME"])
        self.git("config", "user.email", WHO["EMAIL"])
        self.git(
            "sparse-checkout", "set", "--no-cone", *(f"/{name}" for name in MEMORY)
        )  # the rest is not looked at
        self.git("checkout", "-q", "--orphan", "replay", self.changes[at][0])
        (self.path / ".memory-ci.yaml").write_text("{}\n")
        self.git("add", "-f", "--sparse", ".memory-ci.yaml")
        self.git("commit", "-q", "-m", "Begin", environ=self._environ(self.changes[at][2]))

    def bring(self, at: int) -> None:
        """One change as one commit: the files that it has, beside those of memory."""
        sha, parents, when = self.changes[at]
        told = self.git("log", "--reverse", "--format=%B", f"{sha}^1..{sha}") if parents else ""
        kept = self.git("ls-files", "-s", "--", *MEMORY)
        self.git("read-tree", sha)
        self.git("update-index", "--index-info", text=f"{kept}\n" if kept else "")
        tree = self.git("write-tree")
        commit = self.git(
            "commit-tree", tree, "-p", "HEAD", text=told or "Empty", environ=self._environ(when)
        )
        self.git("reset", "-q", "--hard", commit)

    def _environ(self, when: int) -> dict[str, str]:
        names = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in WHO.items()
        }
        return {**names, "GIT_AUTHOR_DATE": f"{when} +0000", "GIT_COMMITTER_DATE": f"{when} +0000"}


def replay_year(history: Path, weeks: int, *, answers: bool) -> list[dict[str, int]]:
    """A row of counts for each week."""
    with tempfile.TemporaryDirectory() as scratch:
        replay = Replay(history, Path(scratch))
        start = replay.end - timedelta(weeks=weeks)
        at = next(at for at, change in enumerate(replay.changes) if change[2] > start.timestamp())
        replay.begin(max(0, at - 1))
        rows = []
        for week in range(weeks):
            now = start + timedelta(weeks=week + 1)
            while at < len(replay.changes) and replay.changes[at][2] <= now.timestamp():
                replay.bring(at)
                at += 1
            rows.append(_week(open_workspace(replay.path), now, answers=answers))
            print(
                f"{'answered' if answers else 'silent'} week {week + 1}: {rows[-1]}",
                file=sys.stderr,
                flush=True,
            )
        return rows


def _week(where: Workspace, now: datetime, *, answers: bool) -> dict[str, int]:
    plan = plan_record(where, RecordOptions(engine="rules"), now.date(), ignore_progress)
    apply_plan(where, plan, now)
    queue = list_queue(where, RecordOptions(), now, {})
    shown = queue.week.shown
    said: dict[Answer, list[Question]] = {}
    if answers:
        for number, one in enumerate(shown):
            yes = one.answers[0]
            no: Answer = "never" if yes == "accept" else "retire"
            said.setdefault(no if number else yes, []).append(one)
    given = Answers(said, skipped=() if answers else shown)
    answer(where, queue, given, now, dry_run=False, in_actions=False)
    active = [
        place.entry for place in load_memory(where, None).located if place.entry.status == "active"
    ]
    task = "; ".join(
        entry.title for entry in active[-20:]
    )  # of all that could be asked, what finds most
    served = retrieve(where, task or "none", RetrieveOptions(), now.date())
    return {
        "found": len(queue.found),
        "asked": len(shown),
        "waiting": queue.week.waiting,
        "accepted": len(said.get("accept", ())),
        "words": sum(len(line.split()) for line in render_questions(shown, 0)),
        "active": len(active),
        "served": sum(
            len(hit.located.entry.title) + len(hit.located.entry.body) for hit in served.hits
        ),
    }


def main(history: Path, weeks: int = 52) -> None:
    print(
        "| weeks | answers | found | asked | waiting | accepted | words read | words per accepted | entries | served |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for answers in (True, False):
        print_rows(
            replay_year(history, weeks, answers=answers), "five a week" if answers else "nobody"
        )


def print_rows(rows: list[dict[str, int]], who: str) -> None:
    """The table, a line for each quarter: sums of what was asked, the most that was served, the rest as it ended."""
    for first in range(0, len(rows), QUARTER):
        part = rows[first : first + QUARTER]
        asked, accepted, words = (
            sum(row[name] for row in part) for name in ("asked", "accepted", "words")
        )
        each = str(round(words / accepted)) if accepted else ""
        last, served = part[-1], max(row["served"] for row in part)
        print(
            f"| {first + 1}-{first + len(part)} | {who} | {last['found']} | {asked} | {last['waiting']} "
            f"| {accepted} | {words} | {each} | {last['active']} | {served} |",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
