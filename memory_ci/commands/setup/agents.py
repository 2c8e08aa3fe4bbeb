"""What `install --agent` puts into the settings of coding agents: hooks, the MCP server, and leave to run `add`.

Every event calls the same command, which an agent is asked to trust once. Where the settings are of this clone alone it
calls the interpreter that memory-ci is installed for; where they are committed, `memory-ci` by name.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from memory_ci.commands.setup.clients import (
    AGENTS,
    ASK,
    MODULE,
    PROGRAM,
    READ,
    Agent,
    HookEvent,
    Part,
    Permission,
    Server,
)
from memory_ci.commands.setup.json_settings import EMPTY, WrongShapeError, insert, remove
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.repo import find_repository
from memory_ci.sources.agent_events import find_directory
from memory_ci.store.files import remove_file, write_file
from memory_ci.store.steps import (
    HASHES,
    MARKDOWN,
    InstallStep,
    read_text,
    with_block,
    without_block,
)

VERSIONED = '{\n  "version": 1\n}\n'
HAS_MEMORY = (CONFIG_FILE, "MEMORY.md", "institutional.md")
PARTS = ("hooks", "allow", "mcp", "text")
TEST = " >/dev/null 2>&1 && "
CALL = f" {' '.join(MODULE)}"
FLAGS = ("", " --no-ask")
USER = " --user"
Place = Literal["file", "shared", "user"]
"""Where settings are: of this clone, of the team (committed), of the user (in the home)."""

WHERE: dict[Place, tuple[Place, ...]] = {
    "file": ("file", "shared"),
    "shared": ("shared",),
    "user": ("user",),
}
"""Where ours may be found: in the files of the clone and of the team, or in those of the user."""


class Wish(msgspec.Struct, frozen=True):
    """What is to be set up, and where; `python` is the interpreter that is called, "" where the program is, by name."""

    python: str = ""
    place: Place = "file"
    is_reading: bool = True
    is_asking: bool = True
    is_mcp: bool = True

    @property
    def program(self) -> list[str]:
        """The words that memory-ci is called by."""
        return [self.python, *MODULE] if self.python else [PROGRAM]

    def wants(self, part: Part) -> bool:
        return {"allow": self.is_asking, "mcp": self.is_mcp}.get(part.name, True)


class AgentEdit(msgspec.Struct, frozen=True):
    """What a settings file holds and will hold ("" for no file), and the directory that it must not lead out of.
    `parts` are those of ours that will be in it."""

    path: Path
    before: str
    after: str
    root: Path
    parts: tuple[str, ...] = ()


class FoundPart(NamedTuple):
    """A part of ours that a file of an agent holds, and the file's text."""

    agent: Agent
    part: Part
    path: Path
    text: str


class Setting(NamedTuple):
    """JSON of ours at its place in a file; `is_ours` knows it again, whatever interpreter it calls."""

    keys: tuple[str, ...]
    value: Any
    is_ours: Callable[[Any], bool]
    is_member: bool = False


def plan_agents(
    root: Path, names: Collection[str], wish: Wish, note: Path, tracked: Collection[str] = ()
) -> tuple[AgentEdit, ...]:
    """The files of agents with our parts in them; those that call another interpreter are replaced. Raises UsageError
    (agent-settings): a file is not what the agent reads."""
    edits = dict[Path, AgentEdit]()
    for agent in AGENTS:
        for path, parts in _group(agent, root, wish.place).items() if agent.name in names else ():
            _refuse_link(path)
            known = edits.get(path)
            before = known.before if known else read_text(path)
            how = msgspec.structs.replace(wish, python="") if parts[0].file in tracked else wish
            with _reading(path):
                old = [
                    part for part in parts if part.form != "block" or not how.wants(part)
                ]  # others keep their place
                text = _strip(
                    agent,
                    old,
                    known.after if known else before,
                    _list_noted(note, path),
                    wish.place,
                )
                put = known.parts if known else ()
                for part in parts:
                    filled = _fill(agent, part, text, how) if how.wants(part) else text
                    text, put = filled, (*put, part.name) if filled != text else put
                is_same = text == before
                if before and text and path.suffix == ".json":
                    is_same = _sort(json.loads(before)) == _sort(json.loads(text))
            text = "" if text in (EMPTY, VERSIONED) and str(path) in _read_note(note) else text
            if text or before:
                edits[path] = AgentEdit(path, before, before if is_same else text, root, put)
    return tuple(edits.values())


def plan_agents_out(
    root: Path, note: Path, tracked: Collection[str] = (), place: Place = "file"
) -> tuple[AgentEdit, ...]:
    """The files that this clone's `install` wrote into, as they are without what it put there. Those that no note names
    are taken for its own where git does not track them. Raises UsageError (agent-settings)."""
    edits = dict[Path, AgentEdit]()
    for agent in AGENTS:
        for path, parts in _group(agent, root, *WHERE[place]).items():
            known, noted = edits.get(path), _list_noted(note, path)
            text = known.after if known else read_text(path)
            if not text or not (
                noted or (_has_mark(agent, text) and str(path.relative_to(root)) not in tracked)
            ):
                continue
            with _reading(path):
                after = _strip(agent, parts, text, noted, place)
            if after != text:
                _refuse_link(path)
                after = (
                    "" if after in (EMPTY, VERSIONED) and str(path) in _read_note(note) else after
                )
                edits[path] = AgentEdit(path, known.before if known else text, after, root)
    return tuple(edits.values())


def list_parts(root: Path, place: Place = "file") -> Iterator[FoundPart]:
    """The parts of ours that the files of agents hold, whoever put them there. Raises UsageError (agent-settings)."""
    for agent in AGENTS:
        for path, parts in _group(agent, root, *WHERE[place]).items():
            text = read_text(path)
            for part in parts:
                with _reading(path):
                    if _strip(agent, [part], text, [part.name], place) != text:
                        yield FoundPart(agent, part, path, text)


def put_agent(edit: AgentEdit, note: Path, dry_run: bool) -> InstallStep:
    """Write what was planned; the file `note` says what was made for it, for only that is ever removed. Raises
    RepositoryError: outside-repository, write-failed."""
    if edit.after == edit.before:
        return InstallStep("agent", str(edit.path), "kept")
    if not dry_run:
        known, own = _read_note(note), {f"{name} {edit.path}" for name in PARTS}
        added = [f"{name} {edit.path}" for name in PARTS if name in edit.parts]
        gone = own.difference(added)
        if edit.after:
            inside = [
                one
                for one in edit.path.parents
                if one.is_relative_to(edit.root) and one != edit.root
            ]
            added = [*(str(path) for path in (edit.path, *inside) if not path.exists()), *added]
            write_file(edit.path, edit.after.encode("utf-8", "surrogateescape"), edit.root)
        else:
            remove_file(edit.path)
            gone = {*own, str(edit.path), *_remove_empty(edit.path, known)}
        lines = [line for line in dict.fromkeys([*known, *added]) if line not in gone]
        if lines != known:
            write_file(note, "".join(f"{line}\n" for line in lines).encode())
    return InstallStep("agent", str(edit.path), "written" if edit.parts else "removed")


def answers_for_user(data: bytes, agent: str) -> bool:
    """Whether the hook in the home answers an event: in a repository with memory, whose own settings hook nobody in.
    Raises ValueError: the input is no JSON."""
    told = json.loads(data.decode("utf-8-sig", "replace"))
    directory = find_directory(told) if isinstance(told, dict) else ""
    try:
        root = find_repository(Path(directory or Path.cwd())).root
    except RepositoryError:
        return False
    if root is None or not any((root / file).exists() for file in HAS_MEMORY):
        return False
    hooked = (found for found in list_parts(root) if found.part.name == "hooks")
    return not any(found.agent.name == agent for found in hooked)


# -- the files, and the note of what was done to them


def _group(agent: Agent, root: Path, *places: Place) -> dict[Path, list[Part]]:
    """The files of an agent, and the parts that go into each."""
    files = dict[Path, list[Part]]()
    for place in places:
        found = dict[Path, list[Part]]()
        for part in agent.parts:
            if (
                file := part.user
                if place == "user"
                else (part.shared if place == "shared" else "") or part.file
            ):
                found.setdefault(root / file, []).append(part)
        files |= found
    return files


def _read_note(note: Path) -> list[str]:
    """Return the paths that `install` made, and the parts that it put into each file, a line each.

    Damaged lines are left out: they could not be written again.
    """
    return [line for line in read_text(note).splitlines() if line.isprintable()]


def _list_noted(note: Path, path: Path) -> list[str]:
    """The parts that this clone's `install` put into a file."""
    lines = _read_note(note)
    return [name for name in PARTS if f"{name} {path}" in lines]


def _remove_empty(path: Path, made: Collection[str]) -> Iterator[str]:
    """Remove the directories around a file that are ours and hold nothing else."""
    for directory in path.parents:
        if str(directory) not in made:
            break
        with suppress(OSError):  # not empty: the user put something in
            directory.rmdir()
            yield str(directory)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        hint = "Put a file in its place, or the hook in by hand (`memory-ci help agents`). Nothing was changed."
        raise UsageError(f"{path} is a symbolic link", slug="agent-settings", hint=hint)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A settings file that cannot be edited as text is its owner's to mend."""
    try:
        yield
    except WrongShapeError as error:
        hint = "Make it what the agent reads: `memory-ci help agents` says where its hooks are. Nothing was changed."
        raise UsageError(f"{path}: {error}", slug="agent-settings", hint=hint) from error
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "plain JSON"
        message = f"{path} is not the {kind} that a hook can be put into: {error}"
        hint = "Take comments out, or put the hook in by hand: `memory-ci help agents` says which. Nothing was changed."
        raise UsageError(message, slug="agent-settings", hint=hint) from error


# -- a file's text with our parts, and without


def _fill(agent: Agent, part: Part, text: str, wish: Wish) -> str:
    if part.form == "whole":
        if text:
            raise WrongShapeError(
                "the file is not ours; rename it, the agent reads each of that folder"
            )
        flags = f"{USER * (wish.place == 'user')}{FLAGS[not wish.is_asking]}".split()
        return str(part.content).replace('"opencode"]', f"{json.dumps(['opencode', *flags])[1:]}")
    if part.name == "text":
        lines = [*READ.split("\n") * wish.is_reading, *ASK.split("\n") * wish.is_asking]
        return with_block(text, MARKDOWN, lines) if lines else without_block(text, MARKDOWN)
    if part.form == "block":
        return _with_server(text, part, wish)
    settings = _settings(agent, part, wish)
    if settings and not text:
        text = EMPTY if part.name != "hooks" or agent.hook == "groups" else VERSIONED
    for one in settings:
        # A permission given in one word, or not at all, stays as its owner wrote it.
        with suppress(*([WrongShapeError] if part.name == "allow" else [])):
            text = insert(text, one.keys, one.value, is_member=one.is_member)
    return text


def _strip(
    agent: Agent, parts: Sequence[Part], text: str, noted: Collection[str], place: Place
) -> str:
    """A text without our parts, the last that was put in first, so that all is as it was. A permission looks the same
    whoever gave it: it is ours where the note says that we put it in."""
    for part in reversed(parts if PROGRAM in text or MODULE[-1] in text else ()):
        if part.form == "whole":
            text = "" if text.startswith(_head(part)) else text
        elif part.form == "block":
            text = without_block(text, MARKDOWN if part.name == "text" else HASHES)
        elif part.name != "allow" or "allow" in noted:
            for one in reversed(_settings(agent, part, Wish(place=place))):
                most = 1 if part.name == "allow" else None
                text = remove(text, one.keys, one.is_ours, is_member=one.is_member, most=most)
    return text


def _settings(agent: Agent, part: Part, wish: Wish) -> list[Setting]:
    """What goes into a file of JSON; the hooks of all events where nobody is asked what is wished."""
    program = wish.program
    if isinstance(part.content, Permission):
        keys, value, is_member = part.content
        return [Setting(keys, value, lambda found: bool(found == value), is_member)]
    if isinstance(part.content, Server):
        server = part.content
        keys = (server.key, PROGRAM)
        return [
            Setting(keys, _server(server, program), partial(_is_our_server, server), is_member=True)
        ]
    events = [
        e
        for e in agent.events
        if (wish.is_reading or not e.is_reading) and (wish.is_asking or not e.is_asking)
    ]
    call = shlex.quote(program[0]) + CALL * (len(program) > 1)
    own, settings = USER * (wish.place == "user"), []
    for event in events:
        hook = _hook(agent, event, call, own + FLAGS[not wish.is_asking])
        settings.append(
            Setting(("hooks", event.name), hook, partial(_is_our_hook, agent, event, own))
        )
    return settings


def _sort(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {key: _sort(one) for key, one in value.items()}
    return sorted(map(msgspec.json.encode, map(_sort, value))) if isinstance(value, list) else value


# -- what agents are given


def _marks(agent: Agent) -> tuple[str, str]:
    """What no settings with a hook of ours are without, whatever interpreter it calls; the second is that of 0.1."""
    return f"hook agent --for {agent.name}", f"capture - --hook --agent {agent.name}"


def _has_mark(agent: Agent, text: str) -> bool:
    heads = [_head(part) for part in agent.parts if part.form == "whole"]
    return any(mark in text for mark in _marks(agent)) or text.startswith(tuple(heads))


def _head(part: Part) -> str:
    """How a file begins that is all ours."""
    return str(part.content).partition(":")[0]


def _hook(agent: Agent, event: HookEvent, call: str, flags: str) -> dict[str, Any]:
    """A hook as the agent takes it; it ends in success without memory-ci, too."""
    command = f"command -v {call.removesuffix(CALL)}{TEST}{call} {_marks(agent)[0]}{flags}; exit 0"
    if agent.hook == "copilot":  # it does not tell its hooks which event it is
        command = command.replace("; exit", f" --event {event.name}; exit")
        return {"type": "command", "bash": command, "timeoutSec": agent.minute}
    if agent.hook == "cursor":
        return {"command": command}
    tools = {"matcher": event.tools} if event.tools else {}
    return {**tools, "hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def _is_our_hook(agent: Agent, event: HookEvent, own: str, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether this is what `_hook` writes, now or in 0.1, for any program; what its owner changed is his."""
    with suppress(AttributeError, IndexError, KeyError, TypeError):
        inner = value["hooks"][0] if agent.hook == "groups" else value
        said = inner.get("command") or inner["bash"]
        program = said.removeprefix("command -v ").partition(TEST)[0]
        of_old = {"type": "command", "command": said, "timeout": agent.minute}
        is_old = value == {"hooks": [of_old]} and said.endswith(f"{_marks(agent)[1]}; exit 0")
        ours = (
            _hook(agent, event, call, own + flags)
            for call in (program, f"{program}{CALL}")
            for flags in FLAGS
        )
        return value in ours or (is_old and said.startswith("command -v "))
    return False


def _server(server: Server, program: Sequence[str]) -> dict[str, Any]:
    words = [*program, "mcp", *server.arguments]
    command = {"command": words} if server.is_list else {"command": words[0], "args": words[1:]}
    return {**server.first, **command, **server.last}


def _is_our_server(server: Server, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether this is what `_server` writes, for any interpreter; what its owner changed is his."""
    with suppress(AttributeError, IndexError, KeyError, TypeError):
        python = value["command"][0] if server.is_list else value["command"]
        return value in (_server(server, [PROGRAM]), _server(server, [python, *MODULE]))
    return False


def _with_server(text: str, part: Part, wish: Wish) -> str:
    """TOML with a table of the server in a block of ours, unless its owner has one. Raises ValueError: no TOML."""
    words = [*wish.program, "mcp"]
    if PROGRAM in tomllib.loads(without_block(text, HASHES)).get("mcp_servers", {}):
        return text
    quoted = [json.dumps(word, ensure_ascii=False) for word in words]
    table = with_block(
        text,
        HASHES,
        [str(part.content), f"command = {quoted[0]}", f"args = [{', '.join(quoted[1:])}]"],
    )
    tomllib.loads(table)
    return table
