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
    "policy": FormerCommand(
        "init --policy SOURCE@REV",
        ("init",),
        {"--check": ("--dry-run",)},
        argument="--policy",
    ),
    "promote": FormerCommand("upkeep promote", ("upkeep", "promote")),
    "retire": FormerCommand("upkeep retire", ("upkeep", "retire")),
    "similar": FormerCommand("recall --tasks QUESTION"),
    "stage": FormerCommand("health --stage"),
    "uninit": FormerCommand("init --remove"),
    "uninstall": FormerCommand("init --remove --clone"),
    "why": FormerCommand("show ID --why"),
}
"""The commands that 0.2 had and later versions do not have, by name."""


class IgnoredOption(NamedTuple):
    """A removed option that workflows may have; it is left out of the command line.

    Attributes:
        values: how many words after it are left out, too.
        reason: what holds instead.
    """

    values: int
    reason: str


_NO_FETCH = IgnoredOption(0, "captured sessions are always fetched")
_JOBS = IgnoredOption(1, "8 repositories are read at a time")
_SECONDS = IgnoredOption(1, "a git of one repository may take 120 seconds")

IGNORED_OPTIONS: dict[str, dict[str, IgnoredOption]] = {
    "add": {"--title": IgnoredOption(0, "the title is the argument")},
    "learn": {"--fetch": _NO_FETCH, "--no-fetch": _NO_FETCH},
    "org plan": {
        "--batch": IgnoredOption(1, "a batch has 256 repositories"),
        "--deadline": IgnoredOption(1, "all repositories are asked"),
        "--jobs": _JOBS,
    },
    "org sync": {"--jobs": _JOBS, "--seconds": _SECONDS},
    "org verify": {"--jobs": _JOBS, "--seconds": _SECONDS},
    "record": {"--fetch": _NO_FETCH, "--no-fetch": _NO_FETCH},
    "sessions": {"--agent": IgnoredOption(1, "name the PATH of the transcript")},
}
"""Removed options that are ignored until 0.4, by command."""

_RANGE = {
    "--branch": "check the branch out",
    "--fetch": "captured sessions are always fetched",
    "--no-fetch": "captured sessions are always fetched",
    "--sessions": "`memory-ci sessions --capture PATH` keeps a transcript first",
}

REMOVED_OPTIONS: dict[str, dict[str, str]] = {
    "add": {
        "--domain": "`domain` of the new file can be edited",
        "--importance": "`importance` of the new file can be edited",
        "--turn": "give the words with --quote",
    },
    "check": {"--at": "`memory-ci verify --head REV` checks a revision"},
    "checkpoint": {"--directory": "run it in that directory"},
    "episode": {
        "--domain": "say it in TEXT",
        "--tool": "say it in TEXT",
        "--topic": "say it in TEXT",
        "--valence": "`valence` of the new file can be edited",
    },
    "eval draw": _RANGE | {"--count": "40 windows are drawn", "--seed": "the draw is always equal"},
    "eval retrieval": {
        "--entries": "name a DIR that has entries.jsonl",
        "--explain": "`memory-ci retrieve TASK --explain` shows the factors of a query",
        "--margin": "a measure may worsen by 0.02",
        "--qrels": "name a DIR that has qrels.jsonl",
        "--queries": "name a DIR that has queries.jsonl",
        "--run": "--json has the measures",
        "--vectors": "a repository with `retrieve.embedder` asks its vectors",
    },
    "feedback": {"--at": "it is noted as of now", "--by": "it is noted for git's user.name"},
    "health": {"--profile": "set `health.profile`"},
    "index": {
        "--staged": "`memory-ci check --staged` checks what is staged",
        "--stats": "`memory-ci health` and `memory-ci list --json` count entries",
    },
    "learn": _RANGE,
    "list": {
        "--scope": "filter the output of --json",
        "--status": "filter the output of --json",
    },
    "org search": {"--top": "ten entries are printed"},
    "premortem": {
        "--directory": "run it in that directory",
        "--engine": "set `engine.name`",
        "--force": "remove .premortem.md first",
    },
    "recall": {
        "--all-sessions": "name the session with --session",
        "--at": "check that revision out",
        "--format": "filter the output of --json",
        "--occurred-between": "filter the output of --json",
        "--ranking": "set `episodes.ranking`",
    },
    "record": {"--backfill": "`memory-ci learn` does it", "--from-root": "pass --since 99y"},
    "report": {
        "--base-url": "links lead to the remote's address",
        "--task": "`memory-ci retrieve TASK --explain` explains a task",
    },
    "resolve": {"--branch": "check the branch out"},
    "retrieve": {
        "--all-sessions": "name the session with --session",
        "--domain": "filter the output of --json",
        "--occurred-between": "filter the output of --json",
        "--scope": "name a --path or a --role",
        "--stage": "filter the output of --json",
        "--stale": "--explain names entries whose code is gone",
        "--status": "filter the output of --json",
        "--tree": "check that revision out",
        "--type": "filter the output of --json",
        "--walk": "the tool `retrieve` of `memory-ci mcp` takes walk",
    },
    "review": _RANGE | {"--engine": "`memory-ci learn` lets a model read older work"},
    "sessions": {"--all": "pass --purge all"},
    "show": {"--dot": "--graph --json has the nodes and the edges"},
    "upkeep": {
        "--after": "--stale means 90 days",
        "--branch": "check the branch out",
        "--engine": "set `engine.name`",
    },
}
"""What to do instead of a removed option, by command and option."""

RETRIEVE_HOOK = ("hook", "agent", "--event", "UserPromptSubmit", "--no-ask")
"""The new form of `retrieve --hook`, which agents' hooks of 0.1 call."""


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


def drop_ignored_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line without the options that are ignored, and a sentence on each.

    >>> drop_ignored_options(["org", "sync", "--jobs", "4", "list.txt"])[0]
    ['org', 'sync', 'list.txt']
    >>> drop_ignored_options(["add", "--title=Use a key"])
    (['add', 'Use a key'], ['memory-ci add --title is gone: the title is the argument'])
    """
    name = " ".join(arguments[:2] if arguments[0] == "org" else arguments[:1])
    ignored_options = IGNORED_OPTIONS.get(name, {})
    remaining: list[str] = []
    notices: list[str] = []
    skipped = 0
    for argument in arguments:
        option, equals, value = argument.partition("=")
        ignored = ignored_options.get(option)
        if skipped:
            skipped -= 1
        elif ignored is None:
            remaining.append(argument)
        else:
            notices.append(f"memory-ci {name} {option} is gone: {ignored.reason}")
            skipped = 0 if equals else ignored.values
            if equals and not ignored.values:
                remaining.append(value)
    return remaining, notices


def _translate_options(
    arguments: Sequence[str], new_words: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield arguments, in which each former option is replaced by its new words.

    A value after `=` is joined to the last of them: `--old=1` becomes `--new --to=1`, if
    `new_words` has `--new --to` for `--old`.
    """
    for argument in arguments:
        option, equals, value = argument.partition("=")
        *first_words, last_word = new_words.get(option, (option,))
        yield from first_words
        yield f"{last_word}{equals}{value}"


def _insert_option(arguments: list[str], option: str) -> list[str]:
    """Insert an option before the first positional argument, or append it if all are options.

    The commands that need it have no options with values.
    """
    for position, argument in enumerate(arguments):
        if argument == "-" or not argument.startswith("-"):
            return [*arguments[:position], option, *arguments[position:]]
    return [*arguments, option]
