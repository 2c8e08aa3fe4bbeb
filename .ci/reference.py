"""Writes docs/reference/ and docs/api.md from the code; a test compares."""

from __future__ import annotations

import ast
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
from memory_ci import Memory, RecordOptions, RetrieveOptions
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
    return f"### {path}\n\n```\n{usage}\n```\n\n{words}\n\n```\n{code.strip()}\n```\n\n{table}"


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
    head = (
        "Each key of `.memory-ci.yaml`; what they have in common: "
        "[configuration](../configuration.md)."
    )
    table = [
        "| key | default | value | meaning |",
        "|---|---|---|---|",
        *_keys(config.Config, read_meanings()),
    ]
    return "\n".join([f"# All keys\n\n{NOTE}\n\n{head}\n", *table, ""])


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
    "api.md": render_api,
}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (ROOT / "docs" / page).write_text(render(), encoding="utf-8")
