"""`memory-ci init --cloud`: writes the set-up files of coding agents that run in the cloud.

These run in new containers without memory-ci and its git hooks, and often without network after
their set-up.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from memory_ci import __version__
from memory_ci.commands.setup.agents import AgentOptions, apply_agent_edit, plan_agents
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.store.files import write_file
from memory_ci.store.steps import InstallStep, read_text

SCRIPT_FILE = ".memory-ci-setup.sh"
CLOUD_MARK = "# memory-ci init --cloud"
SETUP_SCRIPT = (
    Path(__file__).with_name("cloud_setup.sh").read_text("utf-8").replace("@VERSION@", __version__)
)
COPILOT_FILE = ".github/workflows/copilot-setup-steps.yml"
COPILOT_STEPS = Path(__file__).with_name("copilot_setup_steps.yml").read_text("utf-8")


class Cloud(NamedTuple):
    """A cloud agent.

    Attributes:
        hooks: the agents whose committed hooks it runs.
        file: the file that holds its set-up step, "" for none.
        text: the text of that file.
        remark: the step for a person if it has no such file; `{call}` is replaced by a command.
    """

    hooks: tuple[str, ...] = ()
    file: str = ""
    text: str = ""
    remark: str = ""


SETUP_SCRIPT_REMARK = "put `{call}` into the setup script of the environment"
CLOUDS = {
    "claude-web": Cloud(("claude-code",), remark=SETUP_SCRIPT_REMARK),
    "copilot-cloud": Cloud(
        ("copilot",),
        COPILOT_FILE,
        COPILOT_STEPS,
        f"add the step `- run: {{call}}` to {COPILOT_FILE}",
    ),
    "codex-cloud": Cloud(remark=SETUP_SCRIPT_REMARK),
    "jules": Cloud(remark="put `{call}` into the initial setup of the repository in Jules"),
}


def set_up_cloud(
    workspace: Workspace, name: str, made_file: Path, *, dry_run: bool = False
) -> tuple[InstallStep, ...]:
    """Write the set-up step of a cloud agent, its committed hooks, and our lines in AGENTS.md.

    Args:
        workspace: the repository and its configuration.
        name: a key of `CLOUDS`.
        made_file: the file that lists the results of `init --clone`.
        dry_run: write nothing.

    Raises:
        RepositoryError: bare-repository, write-failed.
        UsageError: agent-settings; nothing is written.
    """
    root = work_tree(workspace)
    cloud = CLOUDS[name]
    options = AgentOptions(place="shared", is_mcp=False)
    edits = plan_agents(root, (*cloud.hooks, "agents-md"), options, made_file)

    steps = [_write_outdated_file(root, SCRIPT_FILE, SETUP_SCRIPT, dry_run)]
    if cloud.file:
        steps.append(_write_outdated_file(root, cloud.file, cloud.text, dry_run))
    steps += [apply_agent_edit(edit, made_file, dry_run) for edit in edits]
    return tuple(steps)


def _write_outdated_file(root: Path, file: str, text: str, dry_run: bool) -> InstallStep:
    """Write a file that is missing, or that another version of memory-ci wrote."""
    old_text = read_text(root / file)
    is_outdated = old_text != text and (not old_text or CLOUD_MARK in old_text)
    if is_outdated and not dry_run:
        write_file(root / file, text.encode(), root)
    return InstallStep("cloud", str(root / file), "written" if is_outdated else "kept")


def find_manual_step(root: Path, name: str) -> str:
    """Return the step that is left to the user of a cloud agent, "" for none."""
    cloud = CLOUDS[name]
    call = f"sh {SCRIPT_FILE} {name}"
    if cloud.file and call in read_text(root / cloud.file):
        return ""
    return cloud.remark.format(call=call)
