"""Install: the merge driver, the attributes that call it, and the native hook. Uninstall takes out just these."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.flows.workspace import Workspace, work_tree
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.settings import find_setting, remove_section, set_setting
from memory_ci.records.config import ScopePatterns
from memory_ci.store.files import write_file
from memory_ci.store.layout import INBOX, ORDER

SECTION = "merge.memory-ci"
TITLE = "memory-ci: memory files entry by entry"
ATTRIBUTES = ".gitattributes"
BLOCK = "# memory-ci: begin (memory-ci install)\n{}# memory-ci: end\n"
BLOCK_PATTERN = re.compile(r"\n?# memory-ci: begin.*?\n# memory-ci: end\n", re.DOTALL)
"""With the newline before it, which `install` puts there: taken out, the file is byte for byte what it was."""

HOOK = "prepare-commit-msg"
PREVIOUS = f"{HOOK}.memory-ci-previous"
OURS = "# Written by `memory-ci install`; `memory-ci uninstall` takes it out."
CHAIN = f"""\
#!/bin/sh
{OURS}
previous="$(dirname "$0")/{PREVIOUS}"
if [ -x "$previous" ]; then "$previous" "$@" || exit $?; fi
"""
"""What goes before our own hook: the one that was there first, which may refuse the commit as before."""

PACKAGE = Path(__file__).parent.parent
HOOK_SOURCES = (PACKAGE / "_hooks" / HOOK, PACKAGE.parent / "hooks" / HOOK)
"""The hook in an installed wheel, and in a checkout."""

Result = Literal["written", "kept", "removed", "absent"]


class InstallStep(msgspec.Struct, frozen=True):
    """One part, where it is, and what became of it."""

    part: Literal["merge-driver", "attributes", "hook"]
    path: str
    result: Result


def install(
    workspace: Workspace, python: str, *, with_hook: bool = True, dry_run: bool = False
) -> tuple[InstallStep, ...]:
    """Set up what is missing or differs; `python` is the interpreter that git will start. Again, it changes nothing.

    Raises RepositoryError: bare-repository, hooks-path-set, hook-in-the-way before anything is written; write-failed,
    git-failed.
    """
    repo, attributes = workspace.repo, _attributes_file(workspace)
    if with_hook:
        _refuse_hooks(repo)
    block = BLOCK.format("".join(f"{line}\n" for line in attribute_lines(workspace.config.scopes)))
    steps = [
        InstallStep(
            "merge-driver", str(repo.common_dir / "config"), _set_driver(repo, driver_command(python), dry_run)
        ),
        InstallStep("attributes", str(attributes), _put(attributes, _with_block(_read(attributes), block), dry_run)),
    ]
    if with_hook:
        steps.append(InstallStep("hook", str(_hook(repo)), _put_hook(_hook(repo), _hook_text(python), dry_run)))
    return tuple(steps)


def uninstall(workspace: Workspace, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Take out what `install` put in; a hook that was there before is back in its place.

    Raises RepositoryError: bare-repository, write-failed, git-failed.
    """
    repo, attributes = workspace.repo, _attributes_file(workspace)
    return (
        InstallStep("merge-driver", str(repo.common_dir / "config"), _unset_driver(repo, dry_run)),
        InstallStep("attributes", str(attributes), _take_block_out(attributes, dry_run)),
        InstallStep("hook", str(_hook(repo)), _take_hook_out(_hook(repo), dry_run)),
    )


def driver_command(python: str) -> str:
    """The shell command of the driver. Where memory-ci cannot be imported any more, it is git's own merge of lines.

    `-P` keeps modules that lie in the merged work tree out of the interpreter's path.
    """
    ours = f"{shlex.quote(python).replace('%', '%%')} -P"
    merge = f"{ours} -m memory_ci hook merge %O %A %B %P"
    return f"if {ours} -c 'import memory_ci' 2>/dev/null; then {merge}; else git merge-file %A %O %B || exit 1; fi"


def attribute_lines(patterns: ScopePatterns) -> tuple[str, ...]:
    """The lines that give memory files to the driver (gitattributes(5)), for the scopes as they are configured."""
    written = [pattern for name in ORDER for pattern in getattr(patterns, name)]
    globs = [re.sub(r"([\[?\\])", r"\\\1", pattern) for pattern in [*written, f"{INBOX}/*.md"]]
    globs = ["/" + re.sub(r"(?<![^/])\{where\}(?![^/])", "**", glob).replace("{where}", "*") for glob in globs]
    quoted = [json.dumps(glob, ensure_ascii=False) if re.search(r'[\s"]', glob) else glob for glob in globs]
    return tuple(dict.fromkeys(f"{glob} merge=memory-ci" for glob in quoted))


def _attributes_file(workspace: Workspace) -> Path:
    return work_tree(workspace) / ATTRIBUTES


# -- the merge driver


def _set_driver(repo: Repository, command: str, dry_run: bool) -> Result:
    settings = {f"{SECTION}.name": TITLE, f"{SECTION}.driver": command}
    if all(find_setting(repo, name, "--local") == value for name, value in settings.items()):
        return "kept"
    for name, value in settings.items():
        if not dry_run:
            set_setting(repo, name, value)
    return "written"


def _unset_driver(repo: Repository, dry_run: bool) -> Result:
    if find_setting(repo, f"{SECTION}.driver", "--local") is None:
        return "absent"
    if not dry_run:
        remove_section(repo, SECTION)
    return "removed"


# -- the attributes


def _with_block(text: str, block: str) -> str:
    """The text with our block in it: where it stands, or at the end after a newline of its own."""
    if BLOCK_PATTERN.search(text):
        return BLOCK_PATTERN.sub(lambda found: "\n" * found.group().startswith("\n") + block, text, count=1)
    return f"{text}\n{block}" if text else block


def _take_block_out(path: Path, dry_run: bool) -> Result:
    text = _read(path)
    found = BLOCK_PATTERN.search(text)
    if found is None:
        return "absent"
    before, after = text[: found.start()], text[found.end() :]
    rest = before + ("\n" if before and after and not before.endswith("\n") else "") + after
    if rest:
        _put(path, rest, dry_run)
    elif not dry_run:
        path.unlink()
    return "removed"


# -- the hook


def _hook(repo: Repository) -> Path:
    return repo.common_dir / "hooks" / HOOK


def _refuse_hooks(repo: Repository) -> None:
    elsewhere = find_setting(repo, "core.hooksPath")
    if elsewhere is not None:
        line = f'`memory-ci hook {HOOK} "$@"`'
        hint = f"Call {line} in {HOOK} there, and install the rest with --no-hook; or unset core.hooksPath."
        raise RepositoryError(f"hooks are in core.hooksPath = {elsewhere}", slug="hooks-path-set", hint=hint)
    hook = _hook(repo)
    if hook.with_name(PREVIOUS).exists() and OURS not in _read(hook):
        message = f"{hook} is not ours, and {PREVIOUS} from an earlier installation is there too"
        raise RepositoryError(message, slug="hook-in-the-way", hint="Keep one of the two, then run again.")


def _hook_text(python: str) -> str:
    """Our hook after the one that was there, calling this interpreter: a shim on the PATH may be slow or another's."""
    source = next(path for path in HOOK_SOURCES if path.exists()).read_text("utf-8")
    body = source.partition("\n")[2].replace("command -v memory-ci", f"command -v {shlex.quote(python)}")
    return CHAIN + body.replace("memory-ci hook", f"{shlex.quote(python)} -P -m memory_ci hook")


def _put_hook(hook: Path, text: str, dry_run: bool) -> Result:
    if hook.exists() and OURS not in _read(hook) and not dry_run:
        hook.rename(hook.with_name(PREVIOUS))
    result = _put(hook, text, dry_run)
    if not dry_run:
        hook.chmod(0o755)
    return result


def _take_hook_out(hook: Path, dry_run: bool) -> Result:
    if OURS not in _read(hook):
        return "absent"
    if not dry_run:
        hook.unlink()
        if hook.with_name(PREVIOUS).exists():
            hook.with_name(PREVIOUS).rename(hook)
    return "removed"


def _put(path: Path, text: str, dry_run: bool) -> Result:
    if _read(path) == text:
        return "kept"
    if not dry_run:
        write_file(path, text.encode("utf-8", "surrogateescape"))
    return "written"


def _read(path: Path) -> str:
    """The text of a file; empty if there is none. Any bytes survive being written back."""
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
