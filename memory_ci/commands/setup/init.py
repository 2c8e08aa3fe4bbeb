"""Init: the files a repository starts with, our hooks for pre-commit, and CI. Uninit: out again, byte for byte.

What is written is planned as a whole first, so that what cannot be merged is refused before anything is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from memory_ci import __version__
from memory_ci.commands.setup import ci_files
from memory_ci.commands.setup.agents import AgentOptions, plan_agents, put_agent
from memory_ci.commands.setup.ci_files import (
    BY_HAND,
    WHOLE,
    Release,
    fence,
    is_changed,
    list_blocks,
    take_out,
)
from memory_ci.commands.setup.clients import AGENTS
from memory_ci.commands.setup.hooks import PRE_COMMIT
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.repo import find_setting, follow_symbolic, head_branch
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.store.files import remove_file, write_file
from memory_ci.store.steps import InstallStep, read_text
from memory_ci.store.yamltext import YamlTextError, list_tokens

GITHUB = ".github/workflows/memory.yml"
GITLAB = ".gitlab-ci.yml"
Ci = Literal["github", "gitlab", "none"]
CHANGED = "what `init` wrote there was changed: it stays as it is"
TAKEN = "our lines are out, and the rest is as it was"
INSTALLED = "memory-ci/init"
"""In the git directory: says that `init` ran `install`, so that `uninit` takes that out, too."""

CONFIG_TEXT = """\
# memory-ci: every key is optional; these are the defaults. All keys: memory-ci help settings.

# extraction:
#   max_entries_per_change: 3       # how many learnings one merged change may add
#   trusted_authors: ['*']          # whose marks become memory: globs over "Name <e-mail>"

# retrieve:
#   max_chars: 8000                 # how much ranked memory an agent's job is given
#   institutional_max_chars: 4000   # how much of institutional.md, which is always given
"""
PROJECT_TEXT = """\
# Memory

<!-- What this project has learned, one entry each. `memory-ci record` adds to it from merged work;
     `memory-ci add` puts an entry into the inbox. Edit entries as you like: the files are the truth. -->
"""
INSTITUTIONAL_TEXT = """\
# Institutional memory

<!-- Norms that always hold. Every agent's job is given all of this, so keep it short. -->
"""
FILES = {
    CONFIG_FILE: CONFIG_TEXT,
    "MEMORY.md": PROJECT_TEXT,
    "institutional.md": INSTITUTIONAL_TEXT,
}


class InitWish(msgspec.Struct, frozen=True):
    """What is to be set up besides the files of memory; hooks and CI run `release`."""

    pre_commit: bool = False
    ci: Ci = "none"
    release: Release | None = None


MEMORY_ALONE = InitWish()


class InitStep(msgspec.Struct, frozen=True):
    """One file and what became of it; `remark` is what a person should know or do, `diff` what changes in it."""

    path: str
    result: Literal["written", "kept", "removed", "left"]
    remark: str = ""
    diff: str = ""


class FileEdit(NamedTuple):
    """A file as it is and as it will be, None for no file."""

    path: str
    before: str | None
    after: str | None
    remark: str = ""
    is_left: bool = False

    def step(self) -> InitStep:
        if self.before == self.after:
            return InitStep(self.path, "left" if self.is_left else "kept", self.remark)
        names = "/dev/null" if self.before is None else f"a/{self.path}", f"b/{self.path}"
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = [
            line if line.endswith("\n") else f"{line}\n" for line in unified_diff(old, new, *names)
        ]
        return InitStep(
            self.path, "removed" if self.after is None else "written", self.remark, "".join(lines)
        )


def init_repository(
    workspace: Workspace, wish: InitWish = MEMORY_ALONE, *, dry_run: bool = False
) -> tuple[InitStep, ...]:
    """Write the files that are missing, and put ours into those of pre-commit and CI. Again, it changes nothing.

    Raises UsageError (cannot-merge) and RepositoryError (bare-repository, outside-repository, not-a-file) before
    anything is written; RepositoryError (write-failed).
    """
    return _apply(work_tree(workspace), list(_plan(workspace, wish)), dry_run)


def uninit_repository(workspace: Workspace, *, dry_run: bool = False) -> tuple[InitStep, ...]:
    """Take out what `init` wrote where nobody changed it; memory stays. Raises as `init_repository`."""
    return _apply(
        work_tree(workspace),
        list(_plan_out(work_tree(workspace), workspace.config.export.path)),
        dry_run,
    )


def _apply(root: Path, edits: Sequence[FileEdit], dry_run: bool) -> tuple[InitStep, ...]:
    for edit in edits if not dry_run else ():
        if edit.before == edit.after:
            continue
        if edit.after is not None:
            write_file(root / edit.path, edit.after.encode("utf-8", "surrogateescape"), root)
            continue
        remove_file(root / edit.path)
        with suppress(OSError):  # not empty: others have files there
            for folder in list(Path(edit.path).parents)[:-1]:
                (root / folder).rmdir()
    return tuple(edit.step() for edit in edits)


def _plan(workspace: Workspace, wish: InitWish) -> Iterator[FileEdit]:
    root, release = work_tree(workspace), wish.release
    for path, text in FILES.items():
        before = "" if (root / path).exists() else None  # whatever it holds
        yield FileEdit(path, before, text if before is None else before)
    if release is None:
        return
    if wish.pre_commit:
        item = ci_files.pre_commit_item(release)
        whole = f"{ci_files.TYPES_LINE}repos:\n{item}"
        edit = _merge(
            root, PRE_COMMIT, whole, item, lambda text: ci_files.add_pre_commit(text, release)
        )
        own = ci_files.list_keys(edit.after or "").get("default_install_hook_types", ci_files.TYPES)
        missing = [name for name in ci_files.TYPES if name not in own]
        remark = (
            f"add to its default_install_hook_types: {', '.join(missing)}"
            if missing
            else edit.remark
        )
        yield edit._replace(remark=remark)
    if wish.ci == "gitlab":
        whole = f"include:\n{ci_files.gitlab_item(release)}"
        yield _merge(root, GITLAB, whole, whole, lambda text: ci_files.add_gitlab(text, release))
    if wish.ci == "github":
        text = ci_files.github_workflow(release, default_branch(workspace))
        others = [
            path.relative_to(root).as_posix()
            for path in sorted((root / GITHUB).parent.glob("*.y*ml"))
        ]
        calling = next(
            (one for one in others if one != GITHUB and _calls_us(read_text(root / one))), None
        )
        if calling is None:
            yield _merge(root, GITHUB, text, text, None)
        else:
            yield FileEdit(calling, "", "", "it runs memory-ci already")


def _merge(
    root: Path, path: str, whole: str, part: str, add: Callable[[str], str] | None
) -> FileEdit:
    """The file with ours in it. Raises UsageError (cannot-merge), with what to paste."""
    before = _read(root, path)
    if before is None:
        return FileEdit(path, None, fence(whole, WHOLE))
    if is_changed(before):
        return FileEdit(path, before, before, CHANGED)
    rest = take_out(before)
    try:
        if rest is None:
            after = fence(whole, WHOLE)
        elif _calls_us(rest):
            return FileEdit(path, before, before, "it runs memory-ci already")
        elif add is None:
            raise YamlTextError(0, "it is there, and is not ours to replace")
        else:
            after = add(rest)
    except YamlTextError as error:
        message = f"{path}:{error.line + 1}: memory-ci cannot be put in: {error.reason}"
        hint = f"Put this in yourself, then run the same command again:\n\n{part}"
        raise UsageError(message, slug="cannot-merge", hint=hint) from error
    return FileEdit(path, before, before if list_blocks(after) == list_blocks(before) else after)


def _calls_us(text: str) -> bool:
    """Whether a YAML file calls memory-ci. One that cannot be read does not."""
    try:
        return any(
            token.kind == "Scalar" and BY_HAND.search(token.value) for token in list_tokens(text)
        )
    except YamlTextError:
        return False


def _plan_out(root: Path, exported: str) -> Iterator[FileEdit]:
    made = {**FILES, SCRIPT_FILE: SCRIPT, COPILOT_FILE: COPILOT}
    for path, text in made.items():
        before = _read(root, path)
        if before == text:
            yield FileEdit(path, before, None)
        elif before is not None and (path in FILES or OURS in before):
            remark = "it holds what others wrote" if path in FILES else CHANGED
            yield FileEdit(path, before, before, remark, is_left=True)
    if any((root / ".memory").glob("*")):
        yield FileEdit(".memory", "", "", "memory stays", is_left=True)
    if "<!-- memory-ci export: begin" in read_text(root / exported):
        yield FileEdit(exported, "", "", "what memory was exported to it stays", is_left=True)
    for path in (PRE_COMMIT, GITHUB, GITLAB):
        before = _read(root, path)
        after = take_out(before) if before is not None else None
        if before != after:
            yield FileEdit(
                path,
                before,
                after,
                CHANGED if after and list_blocks(after) else TAKEN if after else "",
            )
        elif before is not None and (list_blocks(before) or _calls_us(before)):
            remark = (
                CHANGED
                if list_blocks(before)
                else "memory-ci is called there, and `init` did not write that"
            )
            yield FileEdit(path, before, before, remark, is_left=True)


def _read(root: Path, path: str) -> str | None:
    """The text of a file, None for no file. Raises RepositoryError: not-a-file, outside-repository."""
    if (root / path).is_symlink():
        message, hint = f"{path} is a symbolic link", "Put a regular file in its place."
        raise RepositoryError(message, slug="outside-repository", hint=hint)
    return read_text(root / path) if (root / path).exists() else None


# -- what is likely to be wanted


def default_branch(workspace: Workspace) -> str:
    """The default branch as the clone knows it, else the one that is checked out."""
    found = follow_symbolic(workspace.repo, "refs/remotes/origin/HEAD").removeprefix(
        "refs/remotes/origin/"
    )
    return (
        found
        if found != "HEAD"
        else (head_branch(workspace.repo) or "main").removeprefix("refs/heads/")
    )


def guess_ci(workspace: Workspace) -> Ci:
    """The CI that files or the remote's address speak of."""
    root, url = work_tree(workspace), find_setting(workspace.repo, "remote.origin.url") or ""
    if (root / GITLAB).exists() or re.search("gitlab", url, re.IGNORECASE):
        return "gitlab"
    return (
        "github"
        if (root / ".github").is_dir() or re.search("github", url, re.IGNORECASE)
        else "none"
    )


def guess_agents(root: Path, home: Path) -> tuple[str, ...]:
    """The agents that have a folder of their own here or in the home."""
    shared = (".github", ".vscode", ".config")
    found = []
    for agent in AGENTS:
        files = [
            (top, file)
            for part in agent.parts
            for top, file in ((root, part.file), (home, part.user))
        ]
        own = [
            top / Path(file).parts[0] for top, file in files if file.startswith(".") and "/" in file
        ]
        if any(folder.is_dir() and not folder.name.startswith(shared) for folder in own):
            found.append(agent.name)
    return tuple(found)


# -- Cloud agents: fresh containers without our program and our git hooks, and often without network after their set-up

SCRIPT_FILE = ".memory-ci-setup.sh"
OURS = "# memory-ci init --cloud"
SCRIPT = (
    Path(__file__).with_name("cloud_setup.sh").read_text("utf-8").replace("@VERSION@", __version__)
)
COPILOT_FILE = ".github/workflows/copilot-setup-steps.yml"
COPILOT = Path(__file__).with_name("copilot_setup_steps.yml").read_text("utf-8")


def call(name: str) -> str:
    """The set-up step of a cloud agent."""
    return f"sh {SCRIPT_FILE} {name}"


class Cloud(NamedTuple):
    """A cloud agent: whose committed hooks it runs, a file with its set-up step, and what to do where it has none."""

    hooks: tuple[str, ...] = ()
    file: str = ""
    text: str = ""
    remark: str = ""


SCRIPT_OF_ITS_OWN = "put `{call}` into the setup script of the environment"
CLOUDS = {
    "claude-web": Cloud(("claude-code",), remark=SCRIPT_OF_ITS_OWN),
    "copilot-cloud": Cloud(
        ("copilot",), COPILOT_FILE, COPILOT, f"add the step `- run: {{call}}` to {COPILOT_FILE}"
    ),
    "codex-cloud": Cloud(remark=SCRIPT_OF_ITS_OWN),
    "jules": Cloud(remark="put `{call}` into the initial setup of the repository in Jules"),
}


def set_up_cloud(
    workspace: Workspace, name: str, note: Path, *, dry_run: bool = False
) -> tuple[InstallStep, ...]:
    """Write the set-up step, the committed hooks that the agent runs, and the lines of AGENTS.md. Raises
    RepositoryError: bare-repository, write-failed; UsageError (agent-settings) before anything is written."""
    root = work_tree(workspace)
    wish = AgentOptions(place="shared", is_mcp=False)
    edits = plan_agents(root, (*CLOUDS[name].hooks, "agents-md"), wish, note)
    steps = []
    for file, text in {SCRIPT_FILE: SCRIPT, CLOUDS[name].file: CLOUDS[name].text}.items():
        if file:
            known = read_text(root / file)
            is_due = known != text and (
                not known or OURS in known
            )  # missing, or ours and of another version
            if is_due and not dry_run:
                write_file(root / file, text.encode(), root)
            steps.append(InstallStep("cloud", str(root / file), "written" if is_due else "kept"))
    return (*steps, *(put_agent(edit, note, dry_run) for edit in edits))


def find_remark(root: Path, name: str) -> str:
    """What is left to be done by hand, "" for nothing."""
    cloud = CLOUDS[name]
    is_there = cloud.file and call(name) in read_text(root / cloud.file)
    return "" if is_there else cloud.remark.format(call=call(name))
