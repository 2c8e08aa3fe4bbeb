"""Helpers that act as maintainers on a memory pull request and its branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote


def edit_branch(
    remote: Remote, path: Path, edits: dict[str, tuple[str, str]], message: str = "Mend it"
) -> None:
    """Commit a maintainer's edit on the memory branch: in each file one text is replaced by another."""
    clone = remote.clone(path, "--branch", UPDATE)
    files = {name: clone.show("HEAD", name).replace(*edit) for name, edit in edits.items()}
    clone.commit(message, files)
    clone.git("push", "-q", "origin", UPDATE)


def take_out(remote: Remote, path: Path, title: str) -> None:
    """Commit a maintainer's removal of one entry on the memory branch."""
    clone = remote.clone(path, "--branch", UPDATE)
    remaining_entries = [format_entry(entry) for entry in clone.entries() if entry.title != title]
    clone.commit("Not this one", {"MEMORY.md": "\n".join(remaining_entries)})
    clone.git("push", "-q", "origin", UPDATE)


def squash(remote: Remote, path: Path) -> Project:
    """Merge the memory branch by squash, as the button does, and delete it."""
    clone = remote.clone(path)
    clone.git("merge", "-q", "--squash", f"origin/{UPDATE}")
    bodies = clone.git("log", "--reverse", "--format=* %B", f"HEAD..origin/{UPDATE}")
    clone.commit(f"memory: what recent work taught (#7)\n\n{bodies}\n")
    clone.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")
    return clone


def click(pull: dict[str, Any], title: str, mark: str) -> None:
    """Tick or untick the box before `title`, as a person does on the page of the request."""
    (line,) = [
        line for line in pull["body"].splitlines() if line.startswith("- [") and title in line
    ]
    pull["body"] = pull["body"].replace(line, f"- [{mark}]{line[5:]}").replace("\n", "\r\n")


def titles_on(remote: Remote, rev: str) -> set[str]:
    return {
        entry.title
        for entry in parse_memory_file("MEMORY.md", remote.show(rev, "MEMORY.md").encode()).entries
    }


def decline(forge: GitHubDouble) -> None:
    """Close the newest pull request without a merge, as a person does."""
    forge.pulls[-1]["state"] = "closed"


def do_more_work(publish: Publisher) -> None:
    note = make_entry(7, title="Look at the gateway's dashboard first")
    publish.project.put_fragment(note)
    publish.project.git("push", "-q", "origin", "main")


def merge_held_out(project: Project) -> None:
    """Merge the work of a session that was served nothing, so that its episode has a file."""
    message = "fix: charge a card once\n\nMemory-Holdout: ab12"
    project.merge_work(message, "held", 131, "src/held.py")
