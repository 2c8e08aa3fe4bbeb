"""Edits of the settings files of coding agents: hooks that call memory-ci, MCP server, permission.

`init --clone --agent` makes them. All events of an agent call the same command, so that the agent
asks its user to trust it once.
Settings of this clone alone name the interpreter that memory-ci is installed for; settings that are
committed call `memory-ci` by name.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memory_ci.commands.setup.agent_formats import (
    MODULE_CALL,
    NO_ASK_FLAG,
    choose_user_flag,
    first_words,
    format_hook,
    format_server,
    has_mark,
    is_our_hook,
    is_our_server,
)
from memory_ci.commands.setup.clients import (
    AGENTS,
    ASKING_TEXT,
    MODULE,
    PROGRAM,
    READING_TEXT,
    Agent,
    HookEvent,
    Part,
    Permission,
    Place,
    Server,
)
from memory_ci.commands.setup.json_settings import EMPTY_OBJECT, WrongShapeError, insert, remove
from memory_ci.errors import UsageError
from memory_ci.store.files import remove_file, write_file
from memory_ci.store.steps import (
    HASHES,
    MARKDOWN,
    InstallStep,
    insert_block,
    read_text,
    remove_block,
)

VERSIONED_OBJECT = '{\n  "version": 1\n}\n'
"""The text of a new file for the agents that ask for a version of the format."""

EMPTY_SETTINGS = (EMPTY_OBJECT, VERSIONED_OBJECT)
"""The texts of a settings file that `init` made, after all our parts are taken out again."""

CALL_BY_NAME = ""
"""In place of an interpreter: call the program `memory-ci` by name."""

PART_NAMES = ("hooks", "allow", "mcp", "text")
READ_PLACES: dict[Place, tuple[Place, ...]] = {
    "file": ("file", "shared"),
    "shared": ("shared",),
    "user": ("user",),
}
"""The places that may hold our settings, for each place where they are looked for."""


class AgentOptions(msgspec.Struct, frozen=True):
    """The parts to put into the settings of agents, and their place.

    Attributes:
        python: the interpreter to call, "" to call the program `memory-ci` by name.
        place: whose settings are edited: of this clone, of the team, or of the user.
        serves_memory: hooks give the agent memory for its task.
        asks_for_notes: hooks ask the agent to note a person's corrections.
        is_mcp: the agent gets the MCP server.
    """

    python: str = CALL_BY_NAME
    place: Place = "file"
    serves_memory: bool = True
    asks_for_notes: bool = True
    is_mcp: bool = True

    @property
    def program(self) -> list[str]:
        """The words that start memory-ci."""
        return [self.python, *MODULE] if self.python else [PROGRAM]

    @property
    def hook_options(self) -> str:
        """The options of `memory-ci hook agent`, each after a blank: ` --user --no-ask`."""
        return choose_user_flag(self.place) + ("" if self.asks_for_notes else NO_ASK_FLAG)

    def includes(self, part: Part) -> bool:
        """Return whether to put a part in."""
        if part.name == "allow":
            return self.asks_for_notes
        if part.name == "mcp":
            return self.is_mcp
        return True


class AgentEdit(msgspec.Struct, frozen=True):
    """The edit of a settings file.

    Attributes:
        path: the file.
        old_text: its present text, "" for no file.
        new_text: its text after the edit, "" to remove the file.
        root: the directory that the file must be in, links followed.
        parts: the names of our parts that are put in.
    """

    path: Path
    old_text: str
    new_text: str
    root: Path
    parts: tuple[str, ...] = ()


class FoundPart(NamedTuple):
    """A part of ours that was found in a settings file, and the text of that file."""

    agent: Agent
    part: Part
    path: Path
    text: str


class Setting(NamedTuple):
    """A JSON value of ours and its path in a file.

    Attributes:
        keys: the keys that lead to an array, or to the value itself.
        value: the value.
        is_member_value: the value is that of the last key, and no element of an array.
        event: the event of a hook.
    """

    keys: tuple[str, ...]
    value: Any
    is_member_value: bool = False
    event: HookEvent | None = None


def plan_agents(
    root: Path,
    names: Collection[str],
    options: AgentOptions,
    made_file: Path,
    tracked: Collection[str] = (),
) -> tuple[AgentEdit, ...]:
    """Plan the edits that put our parts (hooks, MCP server, permission) into settings of agents.

    The parts of earlier installs are replaced.

    Args:
        root: the work tree, or the home.
        names: the names of the agents.
        options: what to put in, and where.
        made_file: the file that lists the results of earlier installs.
        tracked: the settings files that git tracks; they call the program by name.

    Raises:
        UsageError: a file is a link, or not valid settings of the agent (agent-settings).
    """
    edits: dict[Path, AgentEdit] = {}
    for agent in AGENTS:
        if agent.name not in names:
            continue
        for path, parts in _group_by_file(agent, root, options.place).items():
            _refuse_link(path)
            # Several agents may have parts in one file.
            earlier_edit = edits.get(path) or _make_empty_edit(path, root)
            file_options = options
            if parts[0].file in tracked:
                file_options = msgspec.structs.replace(options, python=CALL_BY_NAME)

            edit = _put_parts(earlier_edit, agent, parts, file_options, made_file)
            is_absent = not edit.old_text and not edit.new_text
            if not is_absent:
                edits[path] = edit
    return tuple(edits.values())


def plan_agent_removal(
    root: Path, made_file: Path, tracked: Collection[str] = (), place: Place = "file"
) -> tuple[AgentEdit, ...]:
    """Plan the edits that remove what `init --clone` put into the settings of agents.

    These are our parts: hooks, MCP server and permission. A part is removed from a file if
    `made_file` records that it was put in. An earlier version recorded nothing, so a file with our
    marks that git does not track is edited, too.

    Args:
        root: the work tree, or the home.
        made_file: the file that lists the results of `init --clone`.
        tracked: the settings files that git tracks.
        place: the owner of the settings to edit: this clone, the team, or the user.

    Raises:
        UsageError: a file is a link, or not valid settings of the agent (agent-settings).
    """
    edits: dict[Path, AgentEdit] = {}
    for agent in AGENTS:
        for path, parts in _group_by_file(agent, root, *READ_PLACES[place]).items():
            edit = edits.get(path) or _make_empty_edit(path, root)
            recorded_parts = _list_recorded_parts(made_file, path)
            is_tracked = str(path.relative_to(root)) in tracked
            has_unrecorded_part = has_mark(agent, edit.new_text) and not is_tracked
            if not recorded_parts and not has_unrecorded_part:
                continue
            with _raise_usage_errors(path):
                new_text = _remove_parts(agent, parts, edit.new_text, recorded_parts, place)
            if new_text == edit.new_text:
                continue

            _refuse_link(path)
            if new_text in EMPTY_SETTINGS and str(path) in _read_made_lines(made_file):
                new_text = ""  # An install made the file, so it is removed.
            edits[path] = msgspec.structs.replace(edit, new_text=new_text)
    return tuple(edits.values())


def list_parts(root: Path, place: Place = "file") -> Iterator[FoundPart]:
    """Yield our parts in the settings of agents, no matter who put them there.

    A part is found by trial: it is there if its removal would change the text of the file.

    Args:
        root: the top of a work tree, or the home.
        place: the owner of the settings to look in: this clone, the team, or the user.

    Raises:
        UsageError: a file is not valid settings of the agent (agent-settings).
    """
    for agent in AGENTS:
        for path, parts in _group_by_file(agent, root, *READ_PLACES[place]).items():
            text = read_text(path)
            for part in parts:
                with _raise_usage_errors(path):
                    # As if recorded: of an unrecorded permission nobody knows who wrote it.
                    text_without_part = _remove_parts(agent, [part], text, [part.name], place)
                if text_without_part != text:
                    yield FoundPart(agent, part, path, text)


def apply_agent_edit(edit: AgentEdit, made_file: Path, dry_run: bool) -> InstallStep:
    """Apply an edit of a settings file, and record the files and directories made for it.

    Only a recorded file or directory is ever removed.

    Raises:
        RepositoryError: the file leads out of the root (outside-repository), or cannot be written
            (write-failed).
    """
    if edit.new_text == edit.old_text:
        return InstallStep("agent", str(edit.path), "kept")
    if not dry_run:
        _apply_edit(edit, made_file)
    return InstallStep("agent", str(edit.path), "written" if edit.parts else "removed")


# -- the files, and the record of what installs made


def _group_by_file(agent: Agent, root: Path, *places: Place) -> dict[Path, list[Part]]:
    """Return the settings files of an agent at some places, and the parts that go into each."""
    parts_by_file: dict[Path, list[Part]] = {}
    for place in places:
        parts_of_place: dict[Path, list[Part]] = {}
        for part in agent.parts:
            file = part.file_at(place)
            if file:
                parts_of_place.setdefault(root / file, []).append(part)
        # A file that two places name gets the same parts from both; they must not be there twice.
        parts_by_file |= parts_of_place
    return parts_by_file


def _make_empty_edit(path: Path, root: Path) -> AgentEdit:
    """Return an edit that does not change a file."""
    text = read_text(path)
    return AgentEdit(path, text, text, root)


def _apply_edit(edit: AgentEdit, made_file: Path) -> None:
    """Write or remove the file of an edit, and update the list of what installs have made.

    The list has a line for each path that was made, and one such as `hooks PATH` for each part.

    Args:
        edit: the edit.
        made_file: the file with the list.
    """
    old_lines = _read_made_lines(made_file)
    added_lines: list[str] = []
    obsolete_lines: set[str] = set()
    for name in PART_NAMES:
        line = f"{name} {edit.path}"
        if edit.new_text and name in edit.parts:
            added_lines.append(line)
        else:
            obsolete_lines.add(line)

    if edit.new_text:
        added_lines = [*_list_missing_paths(edit), *added_lines]
        write_file(edit.path, edit.new_text.encode("utf-8", "surrogateescape"), edit.root)
    else:
        remove_file(edit.path)
        obsolete_lines.add(str(edit.path))
        obsolete_lines.update(_remove_empty(edit.path, old_lines))

    unique_lines = dict.fromkeys([*old_lines, *added_lines])
    lines = [line for line in unique_lines if line not in obsolete_lines]
    if lines != old_lines:
        write_file(made_file, "".join(f"{line}\n" for line in lines).encode())


def _list_missing_paths(edit: AgentEdit) -> list[str]:
    """Return the file of an edit and those of its parents below the root that do not exist."""
    missing_paths = []
    for path in (edit.path, *edit.path.parents):
        if path == edit.root or not path.is_relative_to(edit.root):
            break
        if not path.exists():
            missing_paths.append(str(path))
    return missing_paths


def _read_made_lines(made_file: Path) -> list[str]:
    """Return a line for each path that `init --clone` made, and each part that it put into a file.

    Damaged lines are left out: they could not be written again.
    """
    return [line for line in read_text(made_file).splitlines() if line.isprintable()]


def _list_recorded_parts(made_file: Path, path: Path) -> list[str]:
    """Return the names of the parts that `init --clone` is recorded to have put into a file."""
    lines = _read_made_lines(made_file)
    return [name for name in PART_NAMES if f"{name} {path}" in lines]


def _remove_empty(path: Path, made_paths: Collection[str]) -> list[str]:
    """Remove empty directories that `init --clone` made around a file; return their paths."""
    removed_paths: list[str] = []
    for directory in path.parents:
        if str(directory) not in made_paths:
            break
        with suppress(OSError):  # not empty: the user put something in
            directory.rmdir()
            removed_paths.append(str(directory))
    return removed_paths


def _refuse_link(path: Path) -> None:
    """Raise UsageError (agent-settings) if a path is a symbolic link."""
    if path.is_symlink():
        hint = (
            "Put a file in its place, or the hook in by hand (`memory-ci help agents`). "
            "Nothing was changed."
        )
        raise UsageError(f"{path} is a symbolic link", slug="agent-settings", hint=hint)


@contextmanager
def _raise_usage_errors(path: Path) -> Iterator[None]:
    """Turn errors of a block that parses a settings file into a UsageError (agent-settings)."""
    try:
        yield
    except WrongShapeError as error:
        hint = (
            "Make it what the agent reads: `memory-ci help agents` says where its hooks are. "
            "Nothing was changed."
        )
        raise UsageError(f"{path}: {error}", slug="agent-settings", hint=hint) from error
    except (ValueError, RecursionError) as error:
        notation = "TOML" if path.suffix == ".toml" else "plain JSON"
        message = f"{path} is not the {notation} that a hook can be put into: {error}"
        hint = (
            "Take comments out, or put the hook in by hand: `memory-ci help agents` says which. "
            "Nothing was changed."
        )
        raise UsageError(message, slug="agent-settings", hint=hint) from error


# -- the text of a file with our parts, and without


def _put_parts(
    edit: AgentEdit, agent: Agent, parts: Sequence[Part], options: AgentOptions, made_file: Path
) -> AgentEdit:
    """Return the edit of a file, extended by the parts of an agent that the options include.

    Parts of earlier installs are removed first, also those that the options do not include. A part
    that is a marked block of lines is an exception: it is replaced where it is.

    Args:
        edit: the edit so far, which may have put in parts of another agent.
        agent: the agent.
        parts: its parts in the file.
        options: which parts to put in.
        made_file: the file that lists the results of earlier installs.

    Raises:
        UsageError: agent-settings.
    """
    with _raise_usage_errors(edit.path):
        included_parts = [part for part in parts if options.includes(part)]
        obsolete_parts = [
            part for part in parts if part.form != "block" or part not in included_parts
        ]
        recorded_parts = _list_recorded_parts(made_file, edit.path)
        text = _remove_parts(agent, obsolete_parts, edit.new_text, recorded_parts, options.place)

        part_names = edit.parts
        for part in included_parts:
            extended_text = _put_part(agent, part, text, options)
            if extended_text != text:
                part_names = (*part_names, part.name)
            text = extended_text

        is_same = text == edit.old_text or _is_same_json(edit.path, edit.old_text, text)

    if is_same:
        text = edit.old_text
    elif text in EMPTY_SETTINGS and str(edit.path) in _read_made_lines(made_file):
        text = ""  # An earlier install made the file, and nothing is left in it.
    return msgspec.structs.replace(edit, new_text=text, parts=part_names)


def _is_same_json(path: Path, before: str, after: str) -> bool:
    """Return whether two texts of a JSON file differ in order and blanks alone."""
    if not before or not after or path.suffix != ".json":
        return False
    return bool(_sort_arrays(json.loads(before)) == _sort_arrays(json.loads(after)))


def _sort_arrays(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a JSON value with the elements of its arrays encoded and sorted."""
    if isinstance(value, dict):
        return {key: _sort_arrays(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted(msgspec.json.encode(_sort_arrays(element)) for element in value)
    return value


def _put_part(agent: Agent, part: Part, text: str, options: AgentOptions) -> str:
    """Return the text of a settings file with one of our parts in it.

    A part is a whole file, a marked block of lines (instructions in AGENTS.md, or a server in
    TOML), or values of a JSON file.

    Args:
        agent: the agent.
        part: the part to put in.
        text: the text of the file, "" for no file.
        options: the content of the parts.

    Raises:
        WrongShapeError: the settings have no place for the part.
        ValueError: the text is no JSON or TOML.
    """
    if part.form == "whole":
        if text:
            raise WrongShapeError(
                "the file is not ours; rename it, the agent reads each of that folder"
            )
        # The only program among these files, opencode's plugin, calls the hook with a list of
        # arguments that ends with `"opencode"]`. The options are added at its end.
        arguments = json.dumps(["opencode", *options.hook_options.split()])
        return str(part.content).replace('"opencode"]', arguments.removeprefix("["))
    if part.name == "text":
        return _put_instructions(text, options)
    if part.form == "block":
        return _put_server_block(text, part, options)

    settings = _list_settings(agent, part, options)
    if settings and not text:
        # Agents with another format of hooks than Claude Code ask for its version.
        is_versioned = part.name == "hooks" and agent.hook_format != "groups"
        text = VERSIONED_OBJECT if is_versioned else EMPTY_OBJECT
    for setting in settings:
        try:
            text = insert(
                text, setting.keys, setting.value, is_member_value=setting.is_member_value
            )
        except WrongShapeError:
            # Permissions that are one word in place of a list stay as their owner wrote them.
            if part.name != "allow":
                raise
    return text


def _put_instructions(text: str, options: AgentOptions) -> str:
    """Return the text of AGENTS.md with our instructions for an agent, in a marked block.

    They say how to read memory and how to add notes to it, as far as the options include that.
    """
    lines: list[str] = []
    if options.serves_memory:
        lines += READING_TEXT.split("\n")
    if options.asks_for_notes:
        lines += ASKING_TEXT.split("\n")
    return insert_block(text, MARKDOWN, lines) if lines else remove_block(text, MARKDOWN)


def _put_server_block(text: str, part: Part, options: AgentOptions) -> str:
    """Return TOML with the table of the MCP server in a block, unless its owner has such a table.

    Raises:
        ValueError: the text is no TOML.
    """
    if PROGRAM in tomllib.loads(remove_block(text, HASHES)).get("mcp_servers", {}):
        return text
    command, *arguments = [
        json.dumps(word, ensure_ascii=False) for word in (*options.program, "mcp")
    ]
    lines = [str(part.content), f"command = {command}", f"args = [{', '.join(arguments)}]"]
    extended_text = insert_block(text, HASHES, lines)
    tomllib.loads(extended_text)  # raises if the block does not fit
    return extended_text


def _remove_parts(
    agent: Agent, parts: Sequence[Part], text: str, recorded_parts: Collection[str], place: Place
) -> str:
    """Return the text of a settings file without parts of ours, removed from last to first.

    The permission that we write looks like one that a user gave. So it is removed only if it is
    recorded that an install wrote it.

    Args:
        agent: the agent.
        parts: the parts to remove.
        text: the text of the file.
        recorded_parts: the names of the parts that earlier installs put into the file.
        place: the owner of the settings: this clone, the team, or the user.
    """
    names_memory_ci = PROGRAM in text or MODULE[-1] in text  # `memory-ci` or `memory_ci`
    if not names_memory_ci:
        return text
    for part in reversed(parts):
        if part.form == "whole":
            if text.startswith(first_words(part)):
                text = ""
        elif part.form == "block":
            text = remove_block(text, MARKDOWN if part.name == "text" else HASHES)
        elif part.name != "allow" or "allow" in recorded_parts:
            text = _remove_settings(agent, part, text, place)
    return text


def _remove_settings(agent: Agent, part: Part, text: str, place: Place) -> str:
    """Return a JSON text without the values of a part, of a permission without one value."""
    max_count = 1 if part.name == "allow" else None
    for setting in reversed(_list_settings(agent, part, AgentOptions(place=place))):
        is_ours = partial(_is_our_value, agent, part, setting, place)
        text = remove(
            text,
            setting.keys,
            is_ours,
            is_member_value=setting.is_member_value,
            max_count=max_count,
        )
    return text


def _list_settings(agent: Agent, part: Part, options: AgentOptions) -> list[Setting]:
    """Return the values that a part puts into a JSON file, and where.

    The permission and the MCP server are one value. Hooks are one value for each event that the
    options do not exclude.
    """
    if isinstance(part.content, Permission):
        return [Setting(part.content.keys, part.content.value, part.content.is_member_value)]
    if isinstance(part.content, Server):
        value = format_server(part.content, options.program)
        return [Setting((part.content.key, PROGRAM), value, is_member_value=True)]

    call = shlex.quote(options.program[0])  # the interpreter, or `memory-ci`
    if options.python:
        call += MODULE_CALL
    settings: list[Setting] = []
    for event in agent.events:
        if event.serves_memory and not options.serves_memory:
            continue
        if event.asks_for_notes and not options.asks_for_notes:
            continue
        value = format_hook(agent, event, call, options.hook_options)
        settings.append(Setting(("hooks", event.name), value, event=event))
    return settings


def _is_our_value(
    agent: Agent,
    part: Part,
    setting: Setting,
    place: Place,
    value: Any,  # noqa: ANN401 - any JSON
) -> bool:
    """Return whether a JSON value is what `init` writes at a setting, for any interpreter.

    Args:
        agent: the agent.
        part: the part of our settings (server, hooks or permission) that the setting belongs to.
        setting: the setting.
        place: the owner of the settings; hooks in the home are called with the option `--user`.
        value: the value that the file has there.
    """
    if isinstance(part.content, Server):
        return is_our_server(part.content, value)
    if setting.event is not None:
        return is_our_hook(agent, setting.event, choose_user_flag(place), value)
    return bool(value == setting.value)
