"""The questions of `memory-ci init` at a terminal, about the parts that fit the repository."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.cli.common import ask_text, confirm
from memory_ci.cli.plain import say
from memory_ci.commands.setup import init
from memory_ci.commands.setup.ci_files import RELEASE_TAG, Release, need_release, parse_release
from memory_ci.commands.setup.hooks import PRE_COMMIT
from memory_ci.commands.setup.init import Ci, InitOptions
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.workspace import Workspace, work_tree

DEFAULT_HISTORY = "90d"
CI_NAMES: dict[Ci, str] = {"github": "GitHub Actions", "gitlab": "GitLab CI"}
AGENT_NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "copilot": "Copilot CLI",
    "opencode": "opencode",
    "vscode": "VS Code",
    "cursor": "Cursor",
}


class SetupAnswers(NamedTuple):
    """The parts that a person chose to set up.

    Attributes:
        options: the files of pre-commit and CI.
        agents: the names of the agents to hook in.
        history: the age of the work to preview, None for no preview.
    """

    options: InitOptions
    agents: tuple[str, ...] = ()
    history: str | None = None


def ask_for_parts(
    workspace: Workspace, options: InitOptions, agents: tuple[str, ...]
) -> SetupAnswers:
    """Ask for each part that fits this repository; an empty answer accepts the proposal.

    Args:
        workspace: the repository.
        options: the options of the command line, with the release if it is known.
        agents: the agents that are found here.

    Raises:
        click.Abort: the person ends the questions.
    """
    root = work_tree(workspace)
    is_new = not (root / CONFIG_FILE).exists()
    options = _ask_for_files(workspace, options)
    if agents:
        names = _join_names([AGENT_NAMES.get(agent, agent) for agent in agents])
        if not confirm(f"Give {names} what memory knows, in this clone?", default=True):
            agents = ()
    else:
        say(
            "No agent was found: `memory-ci init --agent NAME` gives one what memory knows.",
            err=True,
        )
    history = None
    if is_new and find_commit(workspace.repo, "HEAD"):
        question = (
            "Preview possible learnings from 90 days of merged work, and the price of a model?"
        )
        if confirm(question, default=True):
            history = DEFAULT_HISTORY
    return SetupAnswers(options, agents, history)


def _ask_for_files(workspace: Workspace, options: InitOptions) -> InitOptions:
    """Ask for CI and pre-commit, and for the release that they run if it is not known."""
    root = work_tree(workspace)
    ci = init.guess_ci(workspace)
    if ci == "none":
        say("No forge was found: `memory-ci init --ci github` (or gitlab) sets up CI.", err=True)
    if ci != "none" and not init.is_called_by(root, ci):
        question = f"Set up {CI_NAMES[ci]} to record merged work?"
        if confirm(question, default=True):
            options = replace(options, ci=ci)
        else:
            options = replace(options, ci="none")
    if (root / PRE_COMMIT).exists() and not init.is_called_by(root, "pre-commit"):
        question = "Let pre-commit check memory files?"
        options = replace(options, pre_commit=confirm(question, default=True))

    if options.release is None and (options.pre_commit or options.ci != "none"):
        release = _ask_for_release(must_be_tag=options.ci == "gitlab")
        if release is None:
            return replace(options, pre_commit=False, ci="none")
        options = replace(options, release=release)
    return options


def _ask_for_release(*, must_be_tag: bool) -> Release | None:
    """Ask from which repository CI and hooks install memory-ci, until the answer can be used.

    Args:
        must_be_tag: the release must be named by a tag.

    Returns:
        The release, None for an empty answer.
    """
    question = (
        f"Install memory-ci there from which repository? OWNER/REPO@{RELEASE_TAG} "
        "(empty: leave them out for now):"
    )
    while True:
        text = ask_text(question)
        if not text:
            return None
        try:
            return need_release(parse_release(text), must_be_tag=must_be_tag)
        except UsageError as error:
            say(f"{error.message}: {error.hint}", err=True)


def _join_names(names: list[str]) -> str:
    """Return names as an English enumeration.

    >>> _join_names(["Codex", "Cursor", "opencode"])
    'Codex, Cursor and opencode'
    """
    *first_names, last_name = names
    if not first_names:
        return last_name
    return f"{', '.join(first_names)} and {last_name}"
