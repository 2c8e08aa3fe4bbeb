"""Writes docs/reference/, docs/api.md and docs/errors.md from the code; a test compares."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import msgspec
import yaml

import memory_ci.config
from memory_ci import Memory, RecordOptions, RetrieveOptions, errors
from memory_ci.cli.manual import load_explanations
from memory_ci.commands.doctor.doctor import CHECKS
from memory_ci.commands.root import main
from memory_ci.commands.table import COMMANDS, group_commands
from memory_ci.records import config

ROOT = Path(__file__).parent.parent
NOTE = "<!-- Written from the code by `make reference`. -->"


def render_commands() -> str:
    parts = [
        f"# Commands\n\n{NOTE}\n\n"
        "All have `--help`. Errors and exit statuses: [errors](../errors.md).\n",
        render_overview(),
    ]
    for group, names in group_commands().items():
        parts.append(f"## {group}\n")
        parts += [
            _command(f"memory-ci {name}", main.get_command(click.Context(main), name))
            for name in names
        ]
    return "\n".join(parts)


def render_overview() -> str:
    """Return the table of all commands, with what each is for."""
    rows = ["| command | what it does |", "|---|---|"]
    for names in group_commands().values():
        for name in names:
            anchor = f"memory-ci-{name}"
            command = main.get_command(click.Context(main), name)
            label = f"`memory-ci {name}`"
            if isinstance(command, click.Group):
                subcommands = command.list_commands(click.Context(command))
                anchor = f"{anchor}-{subcommands[0]}"
                label += f" ({', '.join(subcommands)})"
            rows.append(f"| [{label}](#{anchor}) | {_cell(COMMANDS[name].summary)} |")
    return "\n".join([*rows, ""])


def _command(path: str, command: click.Command | None) -> str:
    if isinstance(command, click.Group):
        names = command.list_commands(context := click.Context(command))
        return "\n".join(
            _command(f"{path} {name}", command.get_command(context, name)) for name in names
        )
    if command is None:
        raise LookupError(path)
    words, _, example = inspect.cleandoc(command.help or "").partition("\b\nExample:\n")
    rows = [
        _option(one) for one in command.params if isinstance(one, click.Option) and not one.hidden
    ]
    table = "\n".join(["| option | meaning |", "|---|---|", *rows, ""]) if rows else ""
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    code, _, more = dedent(example).partition("\n\n")
    words = "\n\n".join(filter(None, map(_plain, (words, more.replace("\b\n", "")))))
    extra = render_checks() if command.name == "doctor" else ""
    return (
        f"### {path}\n\n```\n{usage}\n```\n\n{words}\n\n```\n{code.strip()}\n```\n\n{table}{extra}"
    )


def render_checks() -> str:
    """Return the table of what `doctor` checks, from the docstrings of the checks."""
    rows = ["", "| check | what it does |", "|---|---|"]
    for name, check in CHECKS:
        summary = (inspect.getdoc(check) or "").partition("\n\n")[0]
        rows.append(f"| {name} | {_cell(summary)} |")
    return "\n".join([*rows, ""])


def _option(option: click.Option) -> str:
    names = ", ".join(option.opts) + "".join(f" / {one}" for one in option.secondary_opts)
    value = ""
    if not option.is_flag and not option.count:
        choices = (
            "|".join(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ""
        )
        value = f" {option.metavar or choices or option.type.name.upper()}"
    variable = f"; default: {option.envvar}." if option.show_envvar else ""
    return f"| `{_cell(names + value)}` | {_cell(_plain(option.help or '') + variable)} |"


def _plain(words: str) -> str:
    linked = re.sub(r"docs/([\w-]+)\.md(#[\w-]+)?", r"[\1](../\1.md\2)", words.strip())
    return re.sub(r"(?<!`)<", "&lt;", linked).replace("*", "\\*") if "`" not in linked else linked


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def render_settings() -> str:
    table = [
        "| key | default | value | meaning |",
        "|---|---|---|---|",
        *_keys(config.Config, read_meanings()),
    ]
    introduction = (ROOT / ".ci" / "settings.md").read_text("utf-8")
    return "\n".join([introduction, *table, ""])


def _keys(
    record: type[msgspec.Struct], meanings: dict[tuple[str, str], str], before: str = ""
) -> Iterator[str]:
    for field in msgspec.structs.fields(record):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _keys(field.type, meanings, f"{before}{field.encode_name}.")
            continue
        value: Any = (
            field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        )
        plain = yaml.safe_dump(msgspec.to_builtins(value), default_flow_style=True, width=1000)
        default = (
            f"`{plain.removesuffix('...' + chr(10)).strip()}`"
            if value not in ("", (), {}, None)
            else "none"
        )
        kind = memory_ci.config.describe(msgspec.inspect.type_info(field.type))
        meaning = _cell(_plain(meanings[record.__name__, field.name]))
        yield f"| `{before}{field.encode_name}` | {default} | {_cell(kind)} | {meaning} |"


def read_meanings() -> dict[tuple[str, str], str]:
    """Return the docstring of each field of the configuration, by record and field."""
    found = {}
    for node in ast.parse(inspect.getsource(config)).body:
        for field, text in (
            zip(node.body, node.body[1:], strict=False) if isinstance(node, ast.ClassDef) else ()
        ):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(said))
                ):
                    found[node.name, name] = inspect.cleandoc(said)
    return found


ERROR_SECTIONS = {
    "Finding": "Findings",
    "FindingsError": "Refusals",
    "UsageError": "Usage and configuration",
    "UnreadableMemoryError": "Memory files",
    "RepositoryError": "Repository",
    "EngineError": "Engines and the network",
}


def render_errors() -> str:
    """Return the page of errors and findings, from the explanations that the package has."""
    parts = [(ROOT / ".ci" / "errors.md").read_text("utf-8")]
    for name, explanations in load_explanations().items():
        error = getattr(errors, name, None)
        status = f" (exit status {error.exit_code})" if error else ""
        parts.append(f"## {ERROR_SECTIONS[name]}{status}\n")
        for slugs, text in explanations.items():
            first, *others = slugs.split()
            parts.append(f"### {first}\n\n{text}\n")
            parts += [f"### {slug}\n\nAs [{first}](#{first}).\n" for slug in others]
    return "\n".join(parts)


LIMITS = {
    "Entries and notes": """
        records.entry.MAX_CHARS extraction.gate.MARKED_TITLE_WIDTH extraction.gate.TITLE_WIDTH
        extraction.gate.BODY_WIDTH extraction.entries.MAX_AKA anchors.subjects.MAX_CITES
        memory.quotes.MAX_CHARS memory.quotes.MAX_QUOTES_PER_SESSION lifecycle.relations.MIN_PREFIX
        memory.workspace.MAX_FILE_BYTES cli.plain.MAX_INPUT config.MAX_BYTES
    """,
    "What is read": """
        evidence.ingestion.MAX_LENGTH extraction.judge.MAX_PER_PIECE
        commands.record.run_checks.FREE_EPISODES commands.record.gatherer.MAX_DECLINED
        forge.http.MAX_REQUESTS forge.http.MAX_SECONDS forge.http.MAX_WAIT forge.rest.MAX_PAGES
        gitrepo.squash_trailers.MAX_CANDIDATES gitrepo.squash_trailers.MAX_WALK
        gitrepo.squash_trailers.MAX_BRANCHES
    """,
    "Models": """
        extraction.prompt.PROMPT_TOKENS extraction.prompt.ANSWER_TOKENS
        extraction.prompt.MAX_LEARNINGS extraction.engines.anthropic_api.TRIES
        extraction.engines.anthropic_api.MAX_WAIT extraction.engines.program.MAX_OUTPUT
        extraction.engines.program.MAX_SECONDS commands.record.batches.MAX_BATCH_REQUESTS
        commands.record.batches.MAX_BATCH_BYTES
    """,
    "Retrieval": """
        search.strength.MAX_HITS commands.retrieve.options.MAX_LIMIT
        commands.retrieve.options.MAX_CHARS commands.retrieve.norms.MAX_NORM_CHARS
        commands.retrieve.retrieve.MAX_ENTRIES_OF_FILE commands.retrieve.text.HOOK_CHARS
        commands.retrieve.text.HINT_LINES commands.retrieve.text.HINT_CHARS
        search.query.MAX_CHARS memory.past_tasks.MAX_CHANGES search.vectors.MAX_EMBEDDED_BY_QUERY
        search.vectors.MIN_COVERAGE commands.mcp.tools.MAX_CHARS
        memory.agents_block.MAX_CHARS memory.agents_block.MAX_ENTRIES
    """,
    "Cited code": """
        gitrepo.log.MAX_WALK memory.cites.MAX_CODE_BYTES
    """,
    "Checks": """
        checks.globs.MAX_GLOBS checks.globs.MAX_GLOB checks.patterns.MAX_PATTERN
        checks.patterns.MAX_LINE checks.patterns.SECONDS gitrepo.diffs.MAX_LINES
        gitrepo.diffs.MAX_BYTES commands.record.proposed_checks.MAX_CHANGES
        commands.record.proposed_checks.MAX_PROPOSED checks.habits.MAX_HABITS
    """,
    "Sessions of agents": """
        commands.agents.conduct.MAX_LINES commands.agents.conduct.MAX_CHARS
        commands.agents.conduct.MAX_PENDING sessions.moments.MAX_SERVED sessions.moments.MAX_WHEN
        sessions.moments.MAX_LINES sessions.session_note.DAYS_KEPT
        sessions.capture.MAX_TRANSCRIPT_BYTES sources.transcripts.builder.MAX_LINE
        gitrepo.sessionrefs.DIGEST_SIZE sessions.captured_sessions.MAX_SESSIONS
        sessions.captured_sessions.MAX_BYTES sessions.session_archive.MAX_BYTES
        sessions.session_archive.MAX_TURN
    """,
    "Publishing and review": """
        commands.publish.landing.MAX_TRIES commands.publish.landing.MAX_SECONDS
        commands.publish.text.SHOWN_BOXES commands.review.priority.PAUSE_DAYS
        findings.MAX_ANNOTATIONS
    """,
    "Episodes": """
        commands.episodes.episode.MAX_TEXT_CHARS commands.episodes.episode.MAX_VALUE_CHARS
        commands.episodes.episode.MAX_CONTEXT_SIZE commands.episodes.job.MAX_ASSUMPTION
        store.episodes.MAX_DOCUMENT_BYTES store.episodes.MAX_FILE_BYTES
        memory.episode_files.MAX_SINGLE memory.episode_files.FOLD_AFTER_DAYS
    """,
    "Organisation": """
        commands.org.targets.MAX_LIST commands.org.targets.MAX_BYTES
        commands.org.targets.MAX_ENTRIES commands.org.records.MAX_SHARED_CHARS
        commands.org.search.MAX_SHARE commands.org.search.DEADLINE_SECONDS
        commands.org.sync.GIT_SECONDS commands.org.address.FETCH_SECONDS
    """,
}
"""The constants that limit what a user meets, by section; their comments explain them."""


def render_limits() -> str:
    """Return the page of limits, from the constants and their comments."""
    parts = [
        f"# Limits\n\n{NOTE}\n\nWhat is beyond a limit is left out, counted or refused. "
        "Limits that you can set are [settings](settings.md).\n"
    ]
    for section, names in LIMITS.items():
        parts.append(f"## {section}\n\n| limit | of what |\n|---|---|")
        parts += [_limit(name) for name in names.split()]
        parts.append("")
    return "\n".join(parts)


def _limit(name: str) -> str:
    module, _, constant = name.rpartition(".")
    value = getattr(importlib.import_module(f"memory_ci.{module}"), constant)
    text = re.sub(
        r"^(?:Maximum n|N)umber of (.)",
        lambda match: match[1].upper(),
        read_comment(module, constant),
    )
    text = _plain(text)
    if value < 1:
        shown = f"{value:.0%}" if "share" in text.lower() else f"{value:g}"
    elif value % 2**20 == 0:
        shown = f"{value // 2**20} Mi"
    else:
        shown = f"{value:,.0f}"
    return f"| {shown} | {_cell(text)} |"


def read_comment(module: str, constant: str) -> str:
    """Return the comment on the line of a constant, or the docstring below it, as one line."""
    source = (ROOT / "memory_ci" / f"{module.replace('.', '/')}.py").read_text("utf-8")
    lines = source.splitlines()
    nodes = ast.parse(source).body
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name == constant:
                comment = lines[node.lineno - 1].partition("  # ")[2]
                match following:
                    case ast.Expr(value=ast.Constant(value=str(said))) if not comment:
                        comment = " ".join(said.split())
                if comment:
                    return comment
    raise LookupError(f"{module}.{constant} has no comment that explains the limit")


API_INTRODUCTION = """# API

<!-- Written from the code by `make reference`. -->

memory-ci is a library with a command line. What is on this page is public; any other name in the
package may change with any release. `Memory`, its options and `MemoryCIError` are imported from
`memory_ci`.

This script prints what an agent is served for a task, then counts the entries of many clones by the
directory that they belong to:

```python
import sys
from collections import Counter

from memory_ci import Memory, MemoryCIError

task, *clones = sys.argv[1:]
for hit in Memory.open(clones[0]).retrieve(task, max_chars=4000).hits:
    print(hit.located.entry.title)

owners = Counter()
for clone in clones:
    try:
        owners.update(located.scope.where or clone for located in Memory.open(clone).entries())
    except MemoryCIError as error:
        print(f"{clone}: {error.message} [{error.slug}] {error.hint}", file=sys.stderr)
for owner, count in owners.most_common():
    print(f"{count:5} {owner}")
```

"""


def render_api() -> str:
    """Return the page of the API, from the docstrings of `Memory` and of its options."""
    parts = [API_INTRODUCTION, f"## Memory\n\n{inspect.getdoc(Memory)}\n"]
    for name, member in vars(Memory).items():
        if name.startswith("_"):
            continue
        function = getattr(member, "__func__", member)
        parts.append(f"### Memory.{name}\n\n```python\n{format_signature(name, function)}\n```\n")
        parts.append(f"{format_docstring(inspect.getdoc(function) or '')}\n")
    for options in (RetrieveOptions, RecordOptions):
        text = format_docstring(inspect.getdoc(options) or "")
        parts.append(f"## {options.__name__}\n\n{text}\n")
    return "\n".join(parts)


def format_signature(name: str, function: Callable[..., Any]) -> str:
    """Return the signature of a method of `Memory` as a caller writes it."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in list(signature.parameters.values())[1:]:
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        is_first_keyword = parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters
        parameters += ["*"] if is_first_keyword else []
        parameters.append(f"{parameter.name}: {parameter.annotation}{default}")
    return f"Memory.{name}({', '.join(parameters)}) -> {signature.return_annotation}"


def format_docstring(text: str) -> str:
    """Return a docstring in Google style as Markdown: sections as lists, examples as code."""
    lines: list[str] = []
    for line in text.splitlines():
        if line in ("Args:", "Returns:", "Raises:", "Attributes:"):
            lines += [f"**{line.removesuffix(':')}**", ""]
        elif line.startswith("        "):
            lines[-1] += f" {line.strip()}"
        elif match := re.fullmatch(r"    (\w+): (.+)", line):
            lines.append(f"- `{match[1]}`: {match[2]}")
        elif line.startswith("    "):
            lines.append(line.strip())
        else:
            lines.append(line)
    formatted = "\n".join(lines)
    return re.sub(r"(?ms)^(>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", formatted)


PAGES = {
    "reference/commands.md": render_commands,
    "reference/settings.md": render_settings,
    "reference/limits.md": render_limits,
    "api.md": render_api,
    "errors.md": render_errors,
}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (ROOT / "docs" / page).write_text(render(), encoding="utf-8")
