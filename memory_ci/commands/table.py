"""The table of commands: the module, the group in `--help`, and the summary of each."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command of the command line.

    Attributes:
        module: the module below `memory_ci.commands` that defines `<name>_command`.
        group: the heading that `--help` lists it under; "" for a command that git and agents call.
        summary: one line of help, so that the overview imports no command.
    """

    module: str
    group: str
    summary: str


COMMANDS = {
    "record": Command("record.command", "Everyday", "Turn merged work into committed memory."),
    "review": Command(
        "review.command", "Everyday", "Answer what memory asks of people, the most useful first."
    ),
    "add": Command("add.command", "Everyday", "Put a learning into the inbox."),
    "retrieve": Command("retrieve.command", "Everyday", "Print what memory knows about a task."),
    "list": Command("show.command", "Everyday", "List the entries."),
    "init": Command(
        "setup.command", "Set up", "Set up memory in a repository, with hooks, CI and agents."
    ),
    "uninit": Command("setup.command", "Set up", "Take out what init wrote."),
    "doctor": Command(
        "doctor.command", "Set up", "Say what is set up, what works, and what to do about the rest."
    ),
    "install": Command(
        "setup.command", "Set up", "Set up the merge driver and the hooks in this clone."
    ),
    "uninstall": Command("setup.command", "Set up", "Take out what install put into this clone."),
    "policy": Command(
        "setup.command", "Set up", "Pin the policy of a platform, which narrows the configuration."
    ),
    "sessions": Command(
        "agents.command", "Set up", "List agent sessions, and what was found in each."
    ),
    "capture": Command(
        "agents.command", "Set up", "Keep a digest of an agent's session in this repository."
    ),
    "mcp": Command(
        "mcp.command", "Set up", "Serve memory to agents by the Model Context Protocol."
    ),
    "export": Command(
        "export.command",
        "Set up",
        "Write what memory holds into AGENTS.md, for agents that have nothing installed.",
    ),
    "completion": Command("help.command", "Set up", "Print a shell completion script."),
    "help": Command("help.command", "Set up", "Show a page of the manual, or what an error means."),
    "learn": Command(
        "record.command", "Learn", "Let a model read older work; says what it costs first."
    ),
    "candidates": Command(
        "review.command", "Learn", "List what may be worth learning, to accept or to decline."
    ),
    "import": Command("import_.command", "Learn", "Take over what another memory holds."),
    "feedback": Command("episodes.command", "Learn", "Say whether an entry helped."),
    "episode": Command("episodes.command", "Learn", "Note what was tried and what came of it."),
    "premortem": Command("episodes.command", "Learn", "Write down what may go wrong with a plan."),
    "checkpoint": Command("episodes.command", "Learn", "Note an assumption, or what became of it."),
    "show": Command("show.command", "Understand", "Show one entry."),
    "why": Command("show.command", "Understand", "Say what an entry counts, and what made it so."),
    "blame": Command(
        "show.command",
        "Understand",
        "Say which work brought each line, what it was given, and what was learned of it.",
    ),
    "log": Command("show.command", "Understand", "Show what commits did to one entry."),
    "graph": Command("show.command", "Understand", "Show what an entry is related to."),
    "similar": Command(
        "episodes.command", "Understand", "Print earlier tasks that are like a task."
    ),
    "recall": Command(
        "episodes.command", "Understand", "Print the episodes that answer a question."
    ),
    "health": Command(
        "health.command",
        "Understand",
        "Say how well memory is kept, and what to do about what is weak.",
    ),
    "report": Command(
        "report.command",
        "Understand",
        "Write one HTML page of what memory learned, gave and missed.",
    ),
    "stage": Command("show.command", "Understand", "Print the stage each project is in."),
    "eval": Command("evaluate.command", "Understand", "Judge an engine on labelled data."),
    "check": Command(
        "check.command", "Check and repair", "Check that every memory file is in order."
    ),
    "fmt": Command(
        "check.command", "Check and repair", "Write memory files in their canonical form."
    ),
    "resolve": Command(
        "check.command",
        "Check and repair",
        "Merge the base into a branch, memory files entry by entry.",
    ),
    "migrate": Command(
        "check.command", "Check and repair", "Bring memory files to the newest format, or back."
    ),
    "compact": Command(
        "upkeep.command",
        "Check and repair",
        "Unite entries that say the same, and take retired ones out.",
    ),
    "promote": Command(
        "upkeep.command", "Check and repair", "Move entries that recur up one scope."
    ),
    "retire": Command(
        "upkeep.command",
        "Check and repair",
        "Retire entries of a stage that has ended, or whose code is gone.",
    ),
    "forget": Command(
        "forget.command",
        "Check and repair",
        "Forget an entry, words or a person, here and for later runs.",
    ),
    "index": Command(
        "upkeep.command", "Check and repair", "Build the search index, or print its cache key."
    ),
    "ci": Command(
        "ci.command", "CI", "Do what a CI job is for: verify a change, or record what was merged."
    ),
    "verify": Command(
        "check.command", "CI", "Check what a change does to memory, before it is merged."
    ),
    "extract": Command(
        "record.command", "CI", "Write the plan of a record run, and change nothing."
    ),
    "apply": Command("record.command", "CI", "Perform a plan."),
    "org": Command(
        "org.command", "Organisation", "Share what all repositories of an organisation remember."
    ),
    "hook": Command("agents.hook", "", "Run a git hook's work."),
}
"""Every command by its name, in the order of the overview."""


def load_optional(module: str, name: str, default: Any) -> Any:  # noqa: ANN401 - whatever the module defines
    """Return a definition of an optional feature, or a default if the feature has been deleted.

    Args:
        module: the module's name below `memory_ci.commands`, such as `org.search`.
        name: the function or class to return.
        default: the value to return instead.
    """
    feature = module.partition(".")[0]
    if find_spec(f"memory_ci.commands.{feature}") is None:
        return default
    return getattr(import_module(f"memory_ci.commands.{module}"), name)


def group_commands() -> dict[str, list[str]]:
    """Return the names of the commands that `--help` lists, by the heading of their group."""
    groups: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        if command.group:
            groups.setdefault(command.group, []).append(name)
    return groups
