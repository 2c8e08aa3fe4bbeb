"""Cloud agents: fresh containers without our program and our git hooks, and often without network after their set-up.

A script installs a pinned memory-ci and builds the index while there is network; the exported block is the floor.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from memory_ci import __version__
from memory_ci.flows.setup.agents import Wish, plan_agents, put_agent
from memory_ci.flows.setup.steps import InstallStep, read_text
from memory_ci.flows.workspace import Workspace, work_tree
from memory_ci.store.files import write_file

SCRIPT_FILE = ".memory-ci-setup.sh"
OURS = "# memory-ci init --cloud"
SCRIPT = f"""\
#!/bin/sh
{OURS}; the next one replaces this file. Run it while the container has network. Afterwards memory is read without any.
set -eu
cd "$(dirname "$0")"
home="${{MEMORY_CI_HOME:-$HOME/.memory-ci}}"
python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet "${{MEMORY_CI_PACKAGE:-memory-ci=={__version__}}}"
for bin in /usr/local/bin "$HOME/.local/bin"; do
  [ "$bin" = /usr/local/bin ] || mkdir -p "$bin"
  [ ! -w "$bin" ] || {{ ln -sf "$home/bin/memory-ci" "$bin/memory-ci"; break; }}
done
[ -z "${{GITHUB_PATH-}}" ] || echo "$bin" >>"$GITHUB_PATH"
git config memory-ci.surface "${{1:-cloud}}"
"$home/bin/memory-ci" install >/dev/null || echo "memory-ci: no git hooks here: its trailers are missing" >&2
"$home/bin/memory-ci" index
"""


def call(name: str) -> str:
    """The set-up step of a cloud agent."""
    return f"sh {SCRIPT_FILE} {name}"


COPILOT_FILE = ".github/workflows/copilot-setup-steps.yml"
COPILOT = f"""\
{OURS} copilot-cloud: what Copilot's cloud agent runs before it works, from the default branch.
name: Copilot setup steps
on: workflow_dispatch
permissions:
  contents: read
jobs:
  copilot-setup-steps: # Copilot knows the job by this name
    runs-on: ubuntu-latest
    timeout-minutes: 10
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2
        with:
          fetch-depth: 0
          persist-credentials: false
      - run: {call("copilot-cloud")}
"""


class Cloud(NamedTuple):
    """A cloud agent: whose committed hooks it runs, a file with its set-up step, and what to do where it has none."""

    hooks: tuple[str, ...] = ()
    file: str = ""
    text: str = ""
    remark: str = ""


SCRIPT_OF_ITS_OWN = "put `{call}` into the setup script of the environment"
CLOUDS = {
    "claude-web": Cloud(("claude-code",), remark=SCRIPT_OF_ITS_OWN),
    "copilot-cloud": Cloud(("copilot",), COPILOT_FILE, COPILOT, f"add the step `- run: {{call}}` to {COPILOT_FILE}"),
    "codex-cloud": Cloud(remark=SCRIPT_OF_ITS_OWN),
    "jules": Cloud(remark="put `{call}` into the initial setup of the repository in Jules"),
}


def plan_cloud(root: Path, name: str) -> dict[str, str]:
    """The files of a cloud agent that are missing, or ours and of another version, with their text."""
    cloud = CLOUDS[name]
    wanted = {SCRIPT_FILE: SCRIPT, **({cloud.file: cloud.text} if cloud.file else {})}
    known = {file: read_text(root / file) for file in wanted}
    return {
        file: text for file, text in wanted.items() if known[file] != text and (not known[file] or OURS in known[file])
    }


def set_up_cloud(workspace: Workspace, name: str, note: Path, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Write the set-up step, the committed hooks that the agent runs, and the lines of AGENTS.md.

    Raises RepositoryError: bare-repository, write-failed; UsageError (agent-settings) before anything is written.
    """
    root = work_tree(workspace)
    wish = Wish(place="shared", is_mcp=False)
    edits = plan_agents(root, (*CLOUDS[name].hooks, "agents-md"), wish, note)
    missing = plan_cloud(root, name)
    for file, text in missing.items() if not dry_run else ():
        write_file(root / file, text.encode(), root)
    files = dict.fromkeys([SCRIPT_FILE, *([CLOUDS[name].file] if CLOUDS[name].file else [])])
    steps = [InstallStep("cloud", str(root / file), "written" if file in missing else "kept") for file in files]
    return (*steps, *(put_agent(edit, note, dry_run) for edit in edits))


def find_remark(root: Path, name: str) -> str:
    """What is left to be done by hand, "" for nothing."""
    cloud = CLOUDS[name]
    is_there = cloud.file and call(name) in read_text(root / cloud.file)
    return "" if is_there else cloud.remark.format(call=call(name))
