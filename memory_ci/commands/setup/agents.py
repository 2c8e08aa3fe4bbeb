"""Edits of coding agents' settings for `init --clone --agent`: hooks, MCP server, permission, text.

All events of an agent call the same command, so that the agent asks its user to trust it once.
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
from memory_ci.commands.setup.json_settings import EMPTY, WrongShapeError, insert, remove
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

VERSIONED = '{\n  "version": 1\n}\n'
"""The text of a new file for the agents that ask for a version of the format."""

NEW_FILES = (EMPTY, VERSIONED)
PART_NAMES = ("hooks", "allow", "mcp", "text")
TEST = " >/dev/null 2>&1 && "
CALL = f" {' '.join(MODULE)}"
NO_ASK_FLAG = " --no-ask"
USER_FLAG = " --user"
PLACES_READ: dict[Place, tuple[Place, ...]] = {
    "file": ("file", "shared"),
    "shared": ("shared",),
    "user": ("user",),
}
"""The places that may hold our settings, for each place where they are looked for."""


class AgentOptions(msgspec.Struct, frozen=True):
    """The parts to put into the settings of agents, and their place.

    Attributes:
        python: the interpreter to call, "" to call the program by name.
        place: the owner of the settings.
        is_reading: hooks read memory.
        is_asking: hooks ask the agent for notes.
        is_mcp: the agent gets the MCP server.
    """

    python: str = ""
    place: Place = "file"
    is_reading: bool = True
    is_asking: bool = True
    is_mcp: bool = True

    @property
    def program(self) -> list[str]:
        """The words that start memory-ci."""
        return [self.python, *MODULE] if self.python else [PROGRAM]

    @property
    def hook_flags(self) -> str:
        """The options of `memory-ci hook agent`, each after a blank."""
        return _user_flag(self.place) + ("" if self.is_asking else NO_ASK_FLAG)

    def wants(self, part: Part) -> bool:
        """Return whether to put a part in."""
        if part.name == "allow":
            return self.is_asking
        if part.name == "mcp":
            return self.is_mcp
        return True


class AgentEdit(msgspec.Struct, frozen=True):
    """The edit of a settings file.

    Attributes:
        path: the file.
        before: its present text, "" for no file.
        after: its new text, "" to remove it.
        root: the directory that the file must be in, links followed.
        parts: the names of our parts that are put in.
    """

    path: Path
    before: str
    after: str
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
        is_member: the value is that of the last key, and no element of an array.
        event: the event of a hook.
    """

    keys: tuple[str, ...]
    value: Any
    is_member: bool = False
    event: HookEvent | None = None


def plan_agents(
    root: Path,
    names: Collection[str],
    options: AgentOptions,
    note: Path,
    tracked: Collection[str] = (),
) -> tuple[AgentEdit, ...]:
    """Plan to put our parts into the settings of agents, in place of those of earlier installs.

    Args:
        root: the work tree, or the home.
        names: the names of the agents.
        options: what to put in, and where.
        note: the file that lists the results of earlier installs.
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
            edit = edits.get(path) or _unchanged(path, root)
            file_options = options
            if parts[0].file in tracked:
                file_options = msgspec.structs.replace(options, python="")

            edit = _put_parts(edit, agent, parts, file_options, note)
            if edit.after or edit.before:
                edits[path] = edit
    return tuple(edits.values())


def plan_agent_removal(
    root: Path, note: Path, tracked: Collection[str] = (), place: Place = "file"
) -> tuple[AgentEdit, ...]:
    """Plan to remove the parts of this clone's `init --clone` from the settings of agents.

    A file that the note does not name is edited too, if git does not track it: an earlier version
    wrote no note.

    Args:
        root: the work tree, or the home.
        note: the file that lists the results of `init --clone`.
        tracked: the settings files that git tracks.
        place: the place of the settings.

    Raises:
        UsageError: a file is a link, or not valid settings of the agent (agent-settings).
    """
    edits: dict[Path, AgentEdit] = {}
    for agent in AGENTS:
        for path, parts in _group_by_file(agent, root, *PLACES_READ[place]).items():
            edit = edits.get(path) or _unchanged(path, root)
            noted_parts = _list_noted(note, path)
            is_untracked = str(path.relative_to(root)) not in tracked
            if not noted_parts and not (_has_mark(agent, edit.after) and is_untracked):
                continue
            with _usage_errors(path):
                after = _remove_parts(agent, parts, edit.after, noted_parts, place)
            if after == edit.after:
                continue

            _refuse_link(path)
            if after in NEW_FILES and str(path) in _read_note(note):
                after = ""
            edits[path] = msgspec.structs.replace(edit, after=after)
    return tuple(edits.values())


def list_parts(root: Path, place: Place = "file") -> Iterator[FoundPart]:
    """List our parts in the settings of agents, no matter who put them there.

    Raises:
        UsageError: a file is not valid settings of the agent (agent-settings).
    """
    for agent in AGENTS:
        for path, parts in _group_by_file(agent, root, *PLACES_READ[place]).items():
            text = read_text(path)
            for part in parts:
                with _usage_errors(path):
                    is_present = _remove_parts(agent, [part], text, [part.name], place) != text
                if is_present:
                    yield FoundPart(agent, part, path, text)


def apply_agent_edit(edit: AgentEdit, note: Path, dry_run: bool) -> InstallStep:
    """Apply an edit of a settings file, and note the files and directories that were made for it.

    Only a file or directory that the note names is ever removed.

    Raises:
        RepositoryError: the file leads out of the root (outside-repository), or cannot be written
            (write-failed).
    """
    if edit.after == edit.before:
        return InstallStep("agent", str(edit.path), "kept")
    if not dry_run:
        _apply_edit(edit, note)
    return InstallStep("agent", str(edit.path), "written" if edit.parts else "removed")


# -- the files, and the note of the results


def _group_by_file(agent: Agent, root: Path, *places: Place) -> dict[Path, list[Part]]:
    """Return the settings files of an agent, and the parts that go into each."""
    files: dict[Path, list[Part]] = {}
    for place in places:
        files_of_place: dict[Path, list[Part]] = {}
        for part in agent.parts:
            file = part.file_at(place)
            if file:
                files_of_place.setdefault(root / file, []).append(part)
        files |= files_of_place
    return files


def _unchanged(path: Path, root: Path) -> AgentEdit:
    text = read_text(path)
    return AgentEdit(path, text, text, root)


def _apply_edit(edit: AgentEdit, note: Path) -> None:
    old_lines = _read_note(note)
    old_parts = {f"{name} {edit.path}" for name in PART_NAMES}
    added_lines = [f"{name} {edit.path}" for name in PART_NAMES if name in edit.parts]
    if edit.after:
        removed_lines = old_parts.difference(added_lines)
        added_lines = [*_list_missing_paths(edit), *added_lines]
        write_file(edit.path, edit.after.encode("utf-8", "surrogateescape"), edit.root)
    else:
        remove_file(edit.path)
        removed_lines = {*old_parts, str(edit.path), *_remove_empty(edit.path, old_lines)}

    unique_lines = dict.fromkeys([*old_lines, *added_lines])
    lines = [line for line in unique_lines if line not in removed_lines]
    if lines != old_lines:
        write_file(note, "".join(f"{line}\n" for line in lines).encode())


def _list_missing_paths(edit: AgentEdit) -> list[str]:
    """Return the file of an edit and its directories below the root, where they do not exist."""
    parents = [
        path for path in edit.path.parents if path.is_relative_to(edit.root) and path != edit.root
    ]
    return [str(path) for path in (edit.path, *parents) if not path.exists()]


def _read_note(note: Path) -> list[str]:
    """Return a line for each path that `init --clone` made, and each part that it put into a file.

    Damaged lines are left out: they could not be written again.
    """
    return [line for line in read_text(note).splitlines() if line.isprintable()]


def _list_noted(note: Path, path: Path) -> list[str]:
    """Return the names of the parts that this clone's `init --clone` put into a file."""
    lines = _read_note(note)
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
    if path.is_symlink():
        hint = (
            "Put a file in its place, or the hook in by hand (`memory-ci help agents`). "
            "Nothing was changed."
        )
        raise UsageError(f"{path} is a symbolic link", slug="agent-settings", hint=hint)


@contextmanager
def _usage_errors(path: Path) -> Iterator[None]:
    """Turn errors of a settings file into a UsageError: its owner has to mend the file."""
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
    edit: AgentEdit, agent: Agent, parts: Sequence[Part], options: AgentOptions, note: Path
) -> AgentEdit:
    """Return the edit of a file that also puts in the parts of an agent."""
    with _usage_errors(edit.path):
        # A wanted block is replaced in place; all else is removed first.
        replaced = [part for part in parts if part.form != "block" or not options.wants(part)]
        noted_parts = _list_noted(note, edit.path)
        text = _remove_parts(agent, replaced, edit.after, noted_parts, options.place)

        part_names = edit.parts
        for part in parts:
            if not options.wants(part):
                continue
            extended = _put_part(agent, part, text, options)
            if extended != text:
                part_names = (*part_names, part.name)
            text = extended

        is_same = text == edit.before or _is_same_json(edit.path, edit.before, text)

    if is_same:
        text = edit.before
    elif text in NEW_FILES and str(edit.path) in _read_note(note):
        text = ""
    return AgentEdit(edit.path, edit.before, text, edit.root, part_names)


def _is_same_json(path: Path, before: str, after: str) -> bool:
    """Return whether two texts of a JSON file differ in order and blanks alone."""
    if not before or not after or path.suffix != ".json":
        return False
    return bool(_sort(json.loads(before)) == _sort(json.loads(after)))


def _sort(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a JSON value with the elements of its arrays encoded and sorted."""
    if isinstance(value, dict):
        return {key: _sort(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted(msgspec.json.encode(_sort(element)) for element in value)
    return value


def _put_part(agent: Agent, part: Part, text: str, options: AgentOptions) -> str:
    """Return a text with one of our parts in it."""
    if part.form == "whole":
        if text:
            raise WrongShapeError(
                "the file is not ours; rename it, the agent reads each of that folder"
            )
        call = json.dumps(["opencode", *options.hook_flags.split()])
        return str(part.content).replace('"opencode"]', call[1:])
    if part.name == "text":
        return _put_instructions(text, options)
    if part.form == "block":
        return _put_server_block(text, part, options)

    settings = _list_settings(agent, part, options)
    if settings and not text:
        is_versioned = part.name == "hooks" and agent.hook_format != "groups"
        text = VERSIONED if is_versioned else EMPTY
    for setting in settings:
        try:
            text = insert(text, setting.keys, setting.value, is_member=setting.is_member)
        except WrongShapeError:
            # Permissions that are one word in place of a list stay as their owner wrote them.
            if part.name != "allow":
                raise
    return text


def _put_instructions(text: str, options: AgentOptions) -> str:
    """Return AGENTS.md with the lines on how to read memory, and how to note."""
    lines: list[str] = []
    if options.is_reading:
        lines += READING_TEXT.split("\n")
    if options.is_asking:
        lines += ASKING_TEXT.split("\n")
    return insert_block(text, MARKDOWN, lines) if lines else remove_block(text, MARKDOWN)


def _put_server_block(text: str, part: Part, options: AgentOptions) -> str:
    """Return TOML with the table of the MCP server in a block, unless its owner has such a table.

    Raises:
        ValueError: the text is no TOML.
    """
    if PROGRAM in tomllib.loads(remove_block(text, HASHES)).get("mcp_servers", {}):
        return text
    words = [json.dumps(word, ensure_ascii=False) for word in (*options.program, "mcp")]
    lines = [str(part.content), f"command = {words[0]}", f"args = [{', '.join(words[1:])}]"]
    extended = insert_block(text, HASHES, lines)
    tomllib.loads(extended)
    return extended


def _remove_parts(
    agent: Agent, parts: Sequence[Part], text: str, noted_parts: Collection[str], place: Place
) -> str:
    """Return a text without parts of ours; the last that was put in goes first.

    A permission of anybody looks the same: it is ours only if the note names it.
    """
    if PROGRAM not in text and MODULE[-1] not in text:
        return text
    for part in reversed(parts):
        if part.form == "whole":
            if text.startswith(_first_words(part)):
                text = ""
        elif part.form == "block":
            text = remove_block(text, MARKDOWN if part.name == "text" else HASHES)
        elif part.name != "allow" or "allow" in noted_parts:
            text = _remove_settings(agent, part, text, place)
    return text


def _remove_settings(agent: Agent, part: Part, text: str, place: Place) -> str:
    most = 1 if part.name == "allow" else None
    for setting in reversed(_list_settings(agent, part, AgentOptions(place=place))):
        is_ours = partial(_is_ours, agent, part, setting, place)
        text = remove(text, setting.keys, is_ours, is_member=setting.is_member, most=most)
    return text


def _list_settings(agent: Agent, part: Part, options: AgentOptions) -> list[Setting]:
    """Return the values that a part puts into a JSON file."""
    if isinstance(part.content, Permission):
        return [Setting(part.content.keys, part.content.value, part.content.is_member)]
    if isinstance(part.content, Server):
        value = _format_server(part.content, options.program)
        return [Setting((part.content.key, PROGRAM), value, is_member=True)]

    call = shlex.quote(options.program[0])
    if options.python:
        call += CALL
    settings: list[Setting] = []
    for event in agent.events:
        if event.is_reading and not options.is_reading:
            continue
        if event.is_asking and not options.is_asking:
            continue
        value = _format_hook(agent, event, call, options.hook_flags)
        settings.append(Setting(("hooks", event.name), value, event=event))
    return settings


def _is_ours(
    agent: Agent,
    part: Part,
    setting: Setting,
    place: Place,
    value: Any,  # noqa: ANN401 - any JSON
) -> bool:
    """Return whether a JSON value is what we write at a setting, for any interpreter."""
    if isinstance(part.content, Server):
        return _is_our_server(part.content, value)
    if setting.event is not None:
        return _is_our_hook(agent, setting.event, _user_flag(place), value)
    return bool(value == setting.value)


# -- hooks and servers


def _user_flag(place: Place) -> str:
    return USER_FLAG if place == "user" else ""


def _hook_marks(agent: Agent) -> tuple[str, str]:
    """Return the words that every hook of ours holds: of this version, and of version 0.1."""
    return f"hook agent --for {agent.name}", f"capture - --hook --agent {agent.name}"


def _has_mark(agent: Agent, text: str) -> bool:
    """Return whether a text may hold hooks of ours, or be a file of ours."""
    if any(mark in text for mark in _hook_marks(agent)):
        return True
    return any(text.startswith(_first_words(part)) for part in agent.parts if part.form == "whole")


def _first_words(part: Part) -> tuple[str, str]:
    """Return how a file that is all ours begins: of this version, and of version 0.2."""
    first_words = str(part.content).partition(":")[0]
    return first_words, first_words.replace("memory-ci init --clone", "memory-ci install")


def _format_hook(agent: Agent, event: HookEvent, call: str, flags: str) -> dict[str, Any]:
    """Return a hook in the format of an agent; its command succeeds without memory-ci, too."""
    mark = _hook_marks(agent)[0]
    command = f"command -v {call.removesuffix(CALL)}{TEST}{call} {mark}{flags}; exit 0"
    if agent.hook_format == "copilot":  # its input does not name the event
        command = command.replace("; exit", f" --event {event.name}; exit")
        return {"type": "command", "bash": command, "timeoutSec": agent.minute}
    if agent.hook_format == "cursor":
        return {"command": command}
    tools = {"matcher": event.tools} if event.tools else {}
    return {**tools, "hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def _is_our_hook(
    agent: Agent,
    event: HookEvent,
    user_flag: str,
    value: Any,  # noqa: ANN401 - any JSON
) -> bool:
    """Return whether `_format_hook`, of this version or of 0.1, writes a value for some program.

    A hook that its owner changed is not ours.
    """
    try:
        hook = value["hooks"][0] if agent.hook_format == "groups" else value
        command = hook.get("command") or hook["bash"]
        program = command.removeprefix("command -v ").partition(TEST)[0]
        is_of_old_version = command.endswith(f"{_hook_marks(agent)[1]}; exit 0")
    except (AttributeError, IndexError, KeyError, TypeError):
        return False

    for call in (program, f"{program}{CALL}"):
        for ask_flag in ("", NO_ASK_FLAG):
            if value == _format_hook(agent, event, call, user_flag + ask_flag):
                return True
    old_hook = {"type": "command", "command": command, "timeout": agent.minute}
    is_of_old_version = is_of_old_version and command.startswith("command -v ")
    return is_of_old_version and bool(value == {"hooks": [old_hook]})


def _format_server(server: Server, program: Sequence[str]) -> dict[str, Any]:
    words = [*program, "mcp", *server.arguments]
    command = {"command": words} if server.is_list else {"command": words[0], "args": words[1:]}
    return {**server.leading, **command, **server.trailing}


def _is_our_server(server: Server, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether `_format_server` writes a value for some interpreter.

    A server that its owner changed is not ours.
    """
    try:
        python = value["command"][0] if server.is_list else value["command"]
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    programs = ([PROGRAM], [python, *MODULE])
    return any(value == _format_server(server, program) for program in programs)
