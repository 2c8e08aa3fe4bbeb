"""Replay a year of the review queue: how much waits, how much is served, and how much a person reads.

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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

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

IDENTITY = {"NAME": "Ann", "EMAIL": "ann@example.com"}
MEMORY = (".memory-ci.yaml", "MEMORY.md", "institutional.md", ".memory")
QUARTER = 13  # Weeks of a row of the table.


class ReplayedChange(NamedTuple):
    """A first-parent commit of the history.

    Attributes:
        parents: the ids of its parents.
        time: when it was committed, in seconds since 1970.
    """

    sha: str
    parents: list[str]
    time: int


class Replay:
    """A clone of a history, in whose branch `replay` its changes are committed again beside memory files."""

    def __init__(self, history: Path, scratch: Path) -> None:
        """Clone a history into a directory below `scratch`."""
        self.path = scratch / "work"
        subprocess.run(
            ["git", "clone", "-q", "--no-checkout", str(history), str(self.path)], check=True
        )
        log = self.git("log", "--first-parent", "--reverse", "--format=%H %P %ct", "HEAD")
        self.changes: list[ReplayedChange] = []
        for line in log.splitlines():
            sha, *parents, time = line.split()
            self.changes.append(ReplayedChange(sha, parents, int(time)))
        self.end = datetime.fromtimestamp(self.changes[-1].time, UTC)

    def git(
        self, *args: str, text: str | None = None, environ: Mapping[str, str] | None = None
    ) -> str:
        """Run git in the clone and return its output.

        Args:
            *args: its arguments.
            text: its standard input.
            environ: variables in addition to those of this process.
        """
        process = subprocess.run(
            ["git", *args],
            cwd=self.path,
            input=text,
            env={**os.environ, **(environ or {})},
            check=True,
            capture_output=True,
            text=True,
        )
        return process.stdout.strip()

    def begin(self, change: ReplayedChange) -> None:
        """Create the branch with the files of a change, and set up memory-ci in it."""
        self.git("config", "user.name", IDENTITY["NAME"])
        self.git("config", "user.email", IDENTITY["EMAIL"])
        # Only memory files are checked out: nobody reads the others.
        self.git("sparse-checkout", "set", "--no-cone", *(f"/{name}" for name in MEMORY))
        self.git("checkout", "-q", "--orphan", "replay", change.sha)
        (self.path / ".memory-ci.yaml").write_text("{}\n")
        self.git("add", "-f", "--sparse", ".memory-ci.yaml")
        self.git("commit", "-q", "-m", "Begin", environ=_make_git_environ(change.time))

    def commit_change(self, change: ReplayedChange) -> None:
        """Commit the files of a change beside those of memory, with the messages of all its commits."""
        message = ""
        if change.parents:
            message = self.git("log", "--reverse", "--format=%B", f"{change.sha}^1..{change.sha}")
        memory_files = self.git("ls-files", "-s", "--", *MEMORY)
        self.git("read-tree", change.sha)
        self.git("update-index", "--index-info", text=f"{memory_files}\n" if memory_files else "")
        tree = self.git("write-tree")
        commit = self.git(
            "commit-tree",
            tree,
            "-p",
            "HEAD",
            text=message or "Empty",
            environ=_make_git_environ(change.time),
        )
        self.git("reset", "-q", "--hard", commit)


def _make_git_environ(time: int) -> dict[str, str]:
    """Return the variables that set the author, the committer and their times for git."""
    environ = {}
    for role in ("AUTHOR", "COMMITTER"):
        for key, value in IDENTITY.items():
            environ[f"GIT_{role}_{key}"] = value
        environ[f"GIT_{role}_DATE"] = f"{time} +0000"
    return environ


def replay_year(history: Path, weeks: int, *, answers: bool) -> list[dict[str, int]]:
    """Replay the last weeks of a history, and return the counts of each week.

    Args:
        history: the git repository.
        weeks: the number of weeks.
        answers: whether a script answers the questions of each week.
    """
    mode = "answered" if answers else "silent"
    with tempfile.TemporaryDirectory() as scratch:
        replay = Replay(history, Path(scratch))
        start = replay.end - timedelta(weeks=weeks)
        earlier = list(takewhile(lambda change: change.time <= start.timestamp(), replay.changes))
        pending = replay.changes[len(earlier) :]
        replay.begin(earlier[-1] if earlier else replay.changes[0])
        rows = []
        for week in range(1, weeks + 1):
            now = start + timedelta(weeks=week)
            while pending and pending[0].time <= now.timestamp():
                replay.commit_change(pending.pop(0))
            row = _run_week(open_workspace(replay.path), now, answers=answers)
            rows.append(row)
            print(f"{mode} week {week}: {row}", file=sys.stderr, flush=True)
        return rows


def _run_week(workspace: Workspace, now: datetime, *, answers: bool) -> dict[str, int]:
    """Record the changes of a week, answer its questions, and return the counts of the week.

    Args:
        workspace: the repository.
        now: the end of the week.
        answers: whether a script answers: yes to the first question, and no to the others.
    """
    plan = plan_record(workspace, RecordOptions(engine="rules"), now.date(), ignore_progress)
    apply_plan(workspace, plan, now)
    queue = list_queue(workspace, RecordOptions(), now, {})
    shown = queue.week.questions
    questions_by_answer = _choose_answers(shown) if answers else {}
    chosen = Answers(questions_by_answer, skipped=() if answers else shown)
    answer(workspace, queue, chosen, now, dry_run=False, in_actions=False)
    located_entries = load_memory(workspace, None).located
    active = [located.entry for located in located_entries if located.entry.status == "active"]
    # The task that finds most: the titles of the newest entries.
    task = "; ".join(entry.title for entry in active[-20:])
    retrieval = retrieve(workspace, task or "none", RetrieveOptions(), now.date())
    served = [hit.located.entry for hit in retrieval.hits]
    return {
        "found": len(queue.questions),
        "asked": len(shown),
        "waiting": queue.week.waiting_count,
        "accepted": len(questions_by_answer.get("accept", ())),
        "words": sum(len(line.split()) for line in render_questions(shown, 0)),
        "active": len(active),
        "served": sum(len(entry.title) + len(entry.body) for entry in served),
    }


def _choose_answers(questions: Sequence[Question]) -> dict[Answer, list[Question]]:
    """Return questions by the answer of the script: yes to the first question, no to the others."""
    questions_by_answer: defaultdict[Answer, list[Question]] = defaultdict(list)
    for number, question in enumerate(questions):
        yes = question.answers[0]
        no: Answer = "never" if yes == "accept" else "retire"
        questions_by_answer[no if number else yes].append(question)
    return dict(questions_by_answer)


def main(history: Path, weeks: int = 52) -> None:
    """Print the table, first with answers and then without."""
    print(
        "| weeks | answers | found | asked | waiting | accepted | words read | words per accepted | entries | served |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for answers in (True, False):
        print_rows(
            replay_year(history, weeks, answers=answers), "five a week" if answers else "nobody"
        )


def print_rows(rows: list[dict[str, int]], who: str) -> None:
    """Print a line for each quarter: sums of questions, the most that was served, and the other counts at its end.

    Args:
        rows: the counts of each week.
        who: who answers.
    """
    for first in range(0, len(rows), QUARTER):
        quarter = rows[first : first + QUARTER]
        asked = sum(row["asked"] for row in quarter)
        accepted = sum(row["accepted"] for row in quarter)
        words = sum(row["words"] for row in quarter)
        words_per_accepted = str(round(words / accepted)) if accepted else ""
        served = max(row["served"] for row in quarter)
        last = quarter[-1]
        print(
            f"| {first + 1}-{first + len(quarter)} | {who} | {last['found']} | {asked} | {last['waiting']} "
            f"| {accepted} | {words} | {words_per_accepted} | {last['active']} | {served} |",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
