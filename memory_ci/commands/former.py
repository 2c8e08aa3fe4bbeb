"""Command lines of memory-ci 0.2: which command or option does now what each of them did.

Forms that hooks, workflows or the Action of 0.2.0 may call are translated until 0.4. All others
are usage errors that name the new form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class FormerCommand(NamedTuple):
    """A command of 0.2.

    Attributes:
        usage: the new form as a person reads it, without `memory-ci`.
        words: what replaces the former name in a command line; empty if nothing is translated.
        options: the words that replace a former option.
        argument: the option that takes the former command's positional argument, "" if it is
            still positional.
        default: words that are added if neither of their options is in the command line.
    """

    usage: str
    words: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = {}
    argument: str = ""
    default: tuple[str, ...] = ()


COMMANDS = {
    "apply": FormerCommand("record --apply FILE", ("record",), argument="--apply"),
    "blame": FormerCommand("show --blame PATH"),
    "candidates": FormerCommand("review --candidates"),
    "capture": FormerCommand("sessions --capture", ("sessions", "--capture")),
    "compact": FormerCommand("upkeep compact", ("upkeep", "compact")),
    "completion": FormerCommand("help completion SHELL"),
    "extract": FormerCommand(
        "record --plan FILE",
        ("record",),
        {"-o": ("--plan",), "--output": ("--plan",)},
        default=("--plan", "-"),
    ),
    "fmt": FormerCommand("check --fix", ("check", "--fix"), {"--check": ("--dry-run",)}),
    "graph": FormerCommand("show ID --graph"),
    "install": FormerCommand(
        "init --clone",
        ("init", "--clone"),
        {
            "--all": ("--agent", "all"),
            "--no-hook": ("--without", "hooks"),
            "--no-retrieve": ("--without", "retrieve"),
            "--no-ask": ("--without", "ask"),
            "--no-mcp": ("--without", "mcp"),
        },
    ),
    "log": FormerCommand("show ID --log"),
    "migrate": FormerCommand("check --migrate"),
    "policy": FormerCommand("init --policy SOURCE@REV", ("init",), argument="--policy"),
    "promote": FormerCommand("upkeep promote", ("upkeep", "promote")),
    "retire": FormerCommand("upkeep retire", ("upkeep", "retire")),
    "similar": FormerCommand("recall --tasks QUESTION"),
    "stage": FormerCommand("health --stage"),
    "uninit": FormerCommand("init --remove"),
    "uninstall": FormerCommand("init --remove --clone"),
    "why": FormerCommand("show ID --why"),
}
"""The commands that 0.2 had and later versions do not have, by name."""

OPTIONS: dict[str, dict[str, str]] = {}
"""What to do instead of a removed option, by command and option."""


def explain_command(name: str) -> str:
    """Return the sentence that names the new form of a former command."""
    return f"memory-ci {name} is now `memory-ci {COMMANDS[name].usage}`"


def translate(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the new command line for the name and the arguments of a former command.

    >>> translate("extract", ["--since", "v1", "--output=plan.json"])
    ['record', '--since', 'v1', '--plan=plan.json']
    >>> translate("apply", ["--dry-run", "plan.json"])
    ['record', '--dry-run', '--apply', 'plan.json']
    """
    former = COMMANDS[name]
    if not {"-h", "--help"}.isdisjoint(arguments):
        return [*former.words, "--help"]
    translated = list(_translate_options(arguments, former.options))
    if former.argument:
        translated = _insert_option(translated, former.argument)
    if former.default and former.default[0] not in {word.split("=")[0] for word in translated}:
        translated += former.default
    return [*former.words, *translated]


def _translate_options(
    arguments: Sequence[str], options: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield arguments, with the new words of each former option."""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        *first, last = options.get(option, (option,))
        yield from first
        yield f"{last}{equals}{value}"


def _insert_option(arguments: list[str], option: str) -> list[str]:
    """Put an option before the first positional argument, or at the end if there is none.

    The commands that need it have no options with values.
    """
    for position, argument in enumerate(arguments):
        if argument == "-" or not argument.startswith("-"):
            return [*arguments[:position], option, *arguments[position:]]
    return [*arguments, option]
