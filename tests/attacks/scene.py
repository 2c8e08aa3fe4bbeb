"""A repository in which every writing command has something to write, and the actions of a person after a kill."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from memory_ci.store.edits import format_entry
from tests.agents_at_work import keep_session, make_session
from tests.attacks.attack import Done, Launcher
from tests.make import make_entry, make_id
from tests.project import DECIDED, Project, copy_project, make_project
from tests.repos import make_repo

WORDS = "Kestrel umbra"
"""A title that the command `forget` deletes."""

FIXED_TIME = {"SOURCE_DATE_EPOCH": "1795262400"}
SESSION_TIME = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""A day before NOW: sessions that are much older are not stored."""
BODY = (
    "a retry doubled the charge because the gateway had booked the first request before it answered"
)
UGLY = "importance: 0.50"
RULES = (
    "Two locks must never be held at the same time.",
    "A charge always has a key, because a client retries.",
)
POLICY = "engine:\n  allowed: [rules]\n"
OLD_MEMORY = """# Memory

## [2026-03-01] Corrective Learning
**Prevention:** send an idempotency key with each charge that a customer makes

## [2026-03-02] Decision: builds need the newest compiler
Only that one knows the flags.
"""


class Scene(NamedTuple):
    """A template repository, and the folder that contains it."""

    folder: Path
    project: Project

    def words(self, args: tuple[str, ...]) -> tuple[str, ...]:
        """Return arguments with the paths of this scene."""
        return tuple(arg.replace("{beside}", str(self.folder)) for arg in args)


def make_scene(folder: Path, launcher: Launcher) -> Scene:
    """Make a project in which every writing command has something to write."""
    project = make_project(folder / "shop")
    past = format_entry(make_entry(8, phase="design", title="Sketch first"))
    stage = "# Shop\n\nStage: {}\n"
    project.commit("Design", {"docs/MEMORY.md": past, "INTENT.md": stage.format("design")})
    launcher.run(project.path, "record", "--yes", env=FIXED_TIME)
    project.commit("Build", {"INTENT.md": stage.format("implementation")})
    project.merge_work(DECIDED.format(name="mail"), "mail", 129, "src/mail.py")
    entries = [
        make_entry(n, title="Retry with a key", body=BODY + " again" * (n - 1)) for n in (1, 2)
    ]
    secret = make_entry(6, title=f"Ask the {WORDS} before each release")
    cited = make_entry(7, title="Charge in one place", cites=("src/client.py",))
    memory = "\n".join(map(format_entry, (*entries, secret, cited)))
    project.commit(
        "Near-duplicates", {"MEMORY.md": memory.replace("importance: 0.5\n", UGLY + "\n")}
    )
    session = {"title": "Lock before the queue is read"}
    copies = {n: make_entry(n, session=f"claude:{n}", **session) for n in (3, 4, 5)}
    jobs = {f"job-{n}/MEMORY.md": format_entry(entry) for n, entry in copies.items()}
    project.commit("Three sessions", jobs)
    project.put_fragment(make_entry(9, title="Name the branch after its issue", scope="project"))
    for number, rule in enumerate(RULES):
        project.commit(f"feat: lock {number}\n\n{rule}", {"src/lock.py": f"{number}\n"})
    (folder / "old").mkdir()
    (folder / "old" / "MEMORY.md").write_text(OLD_MEMORY)
    (folder / "PLAN.md").write_text("Retry failed charges in the client.\n")
    data = make_session(f"Never ask the {WORDS} twice.", at=SESSION_TIME)
    keep_session(project, folder, data)
    second_session = "5f3b2a10-0000-4000-8000-000000000099"
    transcript = make_session("Charge once, please.", at=SESSION_TIME, session=second_session)
    (folder / "session.jsonl").write_bytes(transcript)
    platform = make_repo(folder / "policy")
    platform.commit("Policy", {"memory-ci-policy.yaml": POLICY})
    project.git("config", "user.name", "Tess Tester")
    project.git("config", "user.email", "tess@example.com")
    project.git("branch", "before")
    project.branch("upstream")
    project.commit("Work of another", {"src/other.py": "1\n"})
    project.checkout("main")
    project.git("repack", "-adq")
    result = launcher.run(project.path, "extract", "-o", str(folder / "plan.json"), env=FIXED_TIME)
    assert result.status == 0, result.printed
    bare = make_repo(folder / "plain")
    bare.commit("Start", {"src/client.py": "1\n"})
    bare.git("branch", "before")
    bare.git("branch", "upstream")
    return Scene(folder, project)


class Writer(NamedTuple):
    """A writing command.

    Attributes:
        args: its arguments; `{beside}` is the folder with the files that it reads.
        stdin: its standard input.
        plain: start in a repository without memory.
        gone: words that must not be anywhere afterwards.
        prepare: runs before the command.
    """

    args: tuple[str, ...]
    stdin: bytes = b""
    plain: bool = False
    gone: str = ""
    prepare: Callable[[Project, Launcher], object] = lambda project, launcher: None


def install(project: Project, launcher: Launcher) -> None:
    launcher.run(project.path, "init", "--clone", "--agent", "claude-code")


def note_on_a_branch(project: Project, launcher: Launcher) -> None:
    """Append an entry to a file that another branch appends to as well."""
    project.branch("feature")
    text = project.show("HEAD", "MEMORY.md") + "\n" + format_entry(make_entry(11, title="By hand"))
    project.commit("Note by hand", {"MEMORY.md": text})


WRITERS: Mapping[str, Writer] = {
    "record": Writer(("record", "--yes")),
    "apply": Writer(("record", "--apply", "{beside}/plan.json")),
    "ci": Writer(("ci", "--provider", "none")),
    "compact": Writer(("upkeep", "compact")),
    "promote": Writer(("upkeep", "promote")),
    "retire": Writer(("upkeep", "retire")),
    "candidates": Writer(("review", "--candidates", "--since", "99y", "--accept", "1")),
    "review": Writer(("review", "--since", "99y", "--all", "--never", "1")),
    "forget": Writer(("forget", make_id(6), "--yes"), gone="release"),
    "forget words": Writer(("forget", WORDS, "--as", "words", "--yes"), gone=WORDS),
    "add": Writer(("add", "Deploy after the seed has run")),
    "episode": Writer(("episode", "Tried a queue; the worker starved", "--outcome", "failure")),
    "feedback": Writer(("feedback", make_id(7), "confirmed", "--ref", "pr:128")),
    "premortem": Writer(("premortem", "{beside}/PLAN.md")),
    "checkpoint": Writer(("checkpoint", "The gateway answers within a second")),
    "fmt": Writer(("check", "--fix")),
    "check": Writer(("check", "--fix"), prepare=note_on_a_branch),
    "import": Writer(("import", "--from", "legacy", "{beside}/old/MEMORY.md")),
    "export": Writer(("export", "--to", "agents-md")),
    "policy": Writer(("init", "--policy", "{beside}/policy@main")),
    "init": Writer(
        ("init", "--pre-commit", "--ci", "github", "--ci-source", "a/b@v0.2.0"), plain=True
    ),
    "uninit": Writer(("init", "--remove")),
    "install": Writer(("init", "--clone", "--agent", "claude-code", "--agent", "codex")),
    "uninstall": Writer(
        ("init", "--remove", "--clone"),
        prepare=install,
    ),
    "capture": Writer(("sessions", "--capture", "{beside}/session.jsonl")),
    "index": Writer(("index",)),
    "retrieve": Writer(("retrieve", "retry a charge in the client")),
    "extract": Writer(("record", "--plan", "plan-of-mine.json")),
    "report": Writer(("report", "--output", "page.html")),
    "resolve": Writer(("resolve", "--base", "upstream"), prepare=note_on_a_branch),
    "hook sync": Writer(("hook", "sync", "post-merge")),
    "hook agent": Writer(
        ("hook", "agent", "--for", "claude-code"),
        stdin=b'{"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": "retry it"}',
    ),
}


def copy_for(scene: Scene, writer: Writer, path: Path) -> Project:
    template = Project(scene.folder / "plain") if writer.plain else scene.project
    return copy_project(template, path)


# -- what a person does next


def leave(project: Project) -> None:
    """Do nothing: the same command runs again."""


def commit_all_tracked(project: Project) -> None:
    project.write("src/client.py", "mine\n")
    project.git("commit", "-qam", "Mine")


def add_everything(project: Project) -> None:
    project.write("src/client.py", "mine\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "Mine")


def check_out_and_commit(project: Project) -> None:
    project.git("checkout", "-q", "--", ".")
    project.write("src/client.py", "mine\n")
    project.git("commit", "-qam", "Mine")


def stash(project: Project) -> None:
    project.git("stash", "-q")


def switch(project: Project) -> None:
    """Switch to an older branch and back; stay if git refuses because a file would be overwritten."""
    with suppress(AssertionError):
        project.git("switch", "-q", "before")
        project.git("switch", "-q", "-")


def rebase(project: Project) -> None:
    """Rebase the branch onto another; stay if git refuses because a file would be overwritten."""
    with suppress(AssertionError):
        project.git("-c", "rebase.autoStash=true", "rebase", "-q", "upstream")


def reset(project: Project) -> None:
    project.git("reset", "-q", "--hard")


AFTERMATHS: Mapping[str, Callable[[Project], None]] = {
    "a plain rerun": leave,
    "commit -am": commit_all_tracked,
    "add -A and commit": add_everything,
    "checkout . and commit -am": check_out_and_commit,
    "stash": stash,
    "switch": switch,
    "rebase": rebase,
    "reset --hard": reset,
}

# -- what is left


RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,40}")


class State(NamedTuple):
    """The content of a repository.

    Attributes:
        paths: the paths of the tip, with ids replaced.
        titles: the titles of all entries and notes of the tip.
        local: the names of our hooks, settings and refs in this clone.
        sessions: the number of captured sessions.
    """

    paths: frozenset[str]
    titles: frozenset[str]
    local: frozenset[str]
    sessions: int


def finish(project: Project, launcher: Launcher) -> State:
    """Commit the remaining changes as a person would, record them, and return the state."""
    project.git("add", "-A")
    if project.git("status", "--porcelain"):
        project.git("commit", "-qm", "The rest")
    launcher.run(project.path, "record", "--yes", env=FIXED_TIME)
    return read_state(project)


def read_state(project: Project) -> State:
    """Return the state of the last commit and this clone."""
    paths = project.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
    titles: set[str] = set()
    for path in paths:
        if path.endswith(".md"):
            titles |= set(re.findall(r"(?m)^## (.+)$", project.show("HEAD", path)))
    git = project.path / ".git"
    hooks = {f"hook {path.name}" for path in (git / "hooks").glob("*")}
    keys = project.git("config", "--local", "--name-only", "--list").splitlines()
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions/")
    return State(
        frozenset(RANDOM.sub("ID", path) for path in paths),
        frozenset(titles),
        frozenset(hooks | {key for key in keys if "memory-ci" in key}),
        len(refs.splitlines()),
    )


def find_words(project: Project, words: str) -> list[str]:
    """Return the places of words: files of the tip, our refs, and files below the git directory."""
    places: list[str] = []
    tips = project.git("for-each-ref", "--format=%(objectname)", "refs/memory-ci/").split()
    for tip in ("HEAD", *tips):
        for line in project.git("ls-tree", "-r", tip).splitlines():
            oid, _, path = line.split(None, 2)[2].partition("\t")
            if words.casefold() in project.git("cat-file", "blob", oid).casefold():
                places.append(f"{tip}:{path}")
    derived = (path for path in (project.path / ".git" / "memory-ci").rglob("*") if path.is_file())
    return places + [path.name for path in derived if words.encode() in path.read_bytes()]


def run(
    launcher: Launcher, project: Project, scene: Scene, writer: Writer, **fault: object
) -> Done:
    words = scene.words(writer.args)
    return launcher.run(project.path, *words, stdin=writer.stdin, env=FIXED_TIME, **fault)  # type: ignore[arg-type] # of Launcher.run
