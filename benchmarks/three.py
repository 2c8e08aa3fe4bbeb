"""Health and doctor on three repositories: fresh, healthy, and broken in five planted ways each.

python -m benchmarks.three
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

LEARNED = (
    (
        "client",
        "Learning: retries belong to the client, because only the client knows the idempotency key.",
    ),
    (
        "ledger",
        "Gotcha: the ledger rounds half to even, so totals are compared in cents and never as floats.",
    ),
    (
        "queue",
        "Constraint: workers must take the queue's lock before they drain it, or a job runs twice.",
    ),
)
BAD_ENTRY = """
---
id: 0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11
type: procedural
domain: task
importance: very
reinforcement_count: 0
last_reinforced: '2020-01-01'
status: active
---
## An entry whose importance is no number
"""


class Shop:
    """A repository of its own; each commit is a minute after the one before."""

    def __init__(self, path: Path) -> None:
        self.path, self.minute = path, 0
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.com")
        self.commit("Start", {"src/client.py": "client\n"})

    def environ(self) -> Mapping[str, str]:
        day = f"2026-11-20T10:{self.minute:02d}:00+00:00"
        here = {
            "GIT_AUTHOR_DATE": day,
            "GIT_COMMITTER_DATE": day,
            "SOURCE_DATE_EPOCH": "1795262400",
        }
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GIT_", "GITHUB_", "CI"))
        }
        return {**kept, **here, "HOME": str(self.path.parent), "MEMORY_CI_EMBEDDER": "none"}

    def git(self, *args: str, **environ: str) -> str:
        self.minute += 1
        env = {**self.environ(), **environ}
        done = subprocess.run(
            ["git", *args], cwd=self.path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str, files: Mapping[str, str], **environ: str) -> None:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-q", "-m", message, **environ)

    def memory_ci(self, *args: str) -> str:
        """What the command prints, and its exit status where that is not 0."""
        command = [sys.executable, "-m", "memory_ci", *args]
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.environ(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        status = f"(exit status {done.returncode})\n" if done.returncode else ""
        return (
            (done.stdout + status)
            .replace(str(self.path.parent), "~")
            .replace(sys.executable, "python")
        )


def make_healthy(path: Path) -> Shop:
    """Set up, with merged work that was learned from, recorded and installed."""
    shop = Shop(path)
    shop.memory_ci("init")
    shop.commit("Add memory", {})
    for number, (name, words) in enumerate(LEARNED, start=1):
        shop.git("checkout", "-q", "-b", name)
        shop.commit(f"Mend the {name}\n\n{words}", {f"src/{name}.py": f"{name}, mended\n"})
        shop.git("checkout", "-q", "main")
        shop.git(
            "merge",
            "-q",
            "--no-ff",
            "-m",
            f"Merge pull request #{number} from ann/{name}\n\nMend the {name}",
            name,
        )
    shop.memory_ci("record", "--engine", "rules")
    shop.memory_ci("init", "--clone")
    shop.commit("Merge memory by entries", {})
    shop.memory_ci("record", "--engine", "rules")
    return shop


def break_it(shop: Shop) -> None:
    """An interpreter that is gone, an unreadable entry, no attributes, a rewritten branch, a clock in the future."""
    hook = shop.path / ".git" / "hooks" / "pre-push"
    hook.write_text(
        hook.read_text("utf-8").replace(sys.executable, "/gone/bin/python"), encoding="utf-8"
    )
    (shop.path / "MEMORY.md").open("a", encoding="utf-8").write(BAD_ENTRY)
    (shop.path / ".gitattributes").unlink()
    shop.git("add", "-A")
    shop.git("commit", "-q", "--amend", "-m", "Rewritten")
    shop.git("checkout", "-q", "--orphan", "other")
    shop.commit("Start again", {})
    shop.git("branch", "-q", "-M", "other", "main")
    shop.commit(
        "From the future", {"late.txt": "late\n"}, GIT_COMMITTER_DATE="2031-01-01T00:00:00+00:00"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        broken = make_healthy(Path(scratch) / "broken")
        break_it(broken)
        shops = {
            "Fresh": Shop(Path(scratch) / "fresh"),
            "Healthy": make_healthy(Path(scratch) / "healthy"),
        }
        for name, shop in {**shops, "Broken in five ways": broken}.items():
            for command in ("health", "doctor"):
                print(
                    f"## {name}: memory-ci {command}\n\n```\n{shop.memory_ci(command).rstrip()}\n```\n"
                )


if __name__ == "__main__":
    main()
