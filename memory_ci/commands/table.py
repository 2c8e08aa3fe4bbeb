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
        example: a command line that the overview shows, "" for none.
    """

    module: str
    group: str
    summary: str
    example: str = ""


COMMANDS = {
    "record": Command(
        "record.command", "Everyday", "Turn merged work into committed memory.", "record"
    ),
    "review": Command(
        "review.command",
        "Everyday",
        "Answer questions about entries of memory, the most useful first.",
        "review",
    ),
    "add": Command(
        "add.command",
        "Everyday",
        "Put a learning into the inbox.",
        'add "Retry a POST only with a key"',
    ),
    "retrieve": Command(
        "retrieve.command",
        "Everyday",
        "Print the entries of memory that help with a task.",
        'retrieve "retry failed payments"',
    ),
    "list": Command("show.command", "Everyday", "List the entries.", "list --type corrective"),
    "init": Command(
        "setup.command",
        "Set up",
        "Set up memory in a repository or a clone, with hooks, CI and agents.",
    ),
    "doctor": Command(
        "doctor.command", "Set up", "Check the set-up, and print what to do about each fault."
    ),
    "sessions": Command(
        "agents.command", "Set up", "List agent sessions, or store a digest of one."
    ),
    "mcp": Command(
        "mcp.command", "Set up", "Serve memory to agents by the Model Context Protocol."
    ),
    "export": Command(
        "export.command",
        "Set up",
        "Write memory into AGENTS.md, for agents without memory-ci.",
    ),
    "help": Command("help.command", "Set up", "Show a page of the manual, or explain an error."),
    "learn": Command(
        "record.command", "Learn", "Let a model read older work, after showing the price."
    ),
    "import": Command(
        "import_.command", "Learn", "Import the learnings that another tool keeps in files."
    ),
    "feedback": Command("episodes.command", "Learn", "Record whether an entry helped."),
    "episode": Command("episodes.command", "Learn", "Record an attempt and its outcome."),
    "premortem": Command("episodes.command", "Learn", "List the risks of a plan, before the work."),
    "checkpoint": Command("episodes.command", "Learn", "Record an assumption, or whether it held."),
    "show": Command(
        "show.command", "Understand", "Show one entry: its text, value, history or relations."
    ),
    "recall": Command(
        "episodes.command",
        "Understand",
        "Print the episodes that answer a question, or similar tasks.",
    ),
    "health": Command(
        "health.command",
        "Understand",
        "Measure the health of memory, and advise on each weak metric.",
    ),
    "report": Command(
        "report.command",
        "Understand",
        "Write one HTML page on entries that memory learned, served and missed.",
    ),
    "eval": Command("evaluate.command", "Understand", "Measure an engine on labelled data."),
    "check": Command(
        "check.command",
        "Check and repair",
        "Check memory files, or correct them.",
    ),
    "resolve": Command(
        "check.command",
        "Check and repair",
        "Merge the base into a branch, memory files entry by entry.",
    ),
    "upkeep": Command(
        "upkeep.command", "Check and repair", "Promote, retire or compact entries, if any are due."
    ),
    "forget": Command(
        "forget.command",
        "Check and repair",
        "Remove an entry, words or a person, and keep later runs from learning them again.",
    ),
    "index": Command(
        "upkeep.command", "Check and repair", "Build the search index, or print its cache key."
    ),
    "ci": Command(
        "ci.command", "CI", "Run the steps of a CI job: verify a change, or record merged work."
    ),
    "verify": Command(
        "check.command", "CI", "Check the effect of a change on memory, before it is merged."
    ),
    "org": Command(
        "org.command", "Organisation", "Search the memory of all repositories of an organisation."
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
