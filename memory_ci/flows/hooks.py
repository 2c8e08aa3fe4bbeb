"""The native hooks of a clone: put in with whatever was there before running first, and taken out again to the byte."""

from __future__ import annotations

import shlex
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.flows.stepping import InstallStep, Result, put_text, read_text
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.settings import find_setting

HOOKS = ("prepare-commit-msg", "pre-push")
OURS = "# Written by `memory-ci install`; `memory-ci uninstall` takes it out."
CHAIN = """\
#!/bin/sh
{ours}
previous="$(dirname "$0")/{previous}"
if [ -x "$previous" ]; then "$previous" "$@" || exit $?; fi
"""
"""What goes before our own hook: the one that was there first, which reads git's input and may refuse as before."""

PACKAGE = Path(__file__).parent.parent
SOURCES = (PACKAGE / "_hooks", PACKAGE.parent / "hooks")
"""The hooks in an installed wheel, and in a checkout."""


def previous_name(hook: str) -> str:
    """What a hook that was there first is called from then on."""
    return f"{hook}.memory-ci-previous"


def refuse_hooks(repo: Repository) -> None:
    """Make sure that hooks can be put in. Raises RepositoryError: hooks-path-set, hook-in-the-way."""
    elsewhere = find_setting(repo, "core.hooksPath")
    if elsewhere is not None:
        lines = " and ".join(f'`memory-ci hook {hook} "$@"` in {hook}' for hook in HOOKS)
        hint = f"Call {lines} there, and install the rest with --no-hook; or unset core.hooksPath."
        raise RepositoryError(f"hooks are in core.hooksPath = {elsewhere}", slug="hooks-path-set", hint=hint)
    for hook in _paths(repo):
        previous = hook.with_name(previous_name(hook.name))
        if previous.exists() and OURS not in read_text(hook):
            message = f"{hook} is not ours, and {previous.name} from an earlier installation is there too"
            raise RepositoryError(message, slug="hook-in-the-way", hint="Keep one of the two, then run again.")


def put_hooks(repo: Repository, python: str, dry_run: bool) -> list[InstallStep]:
    """Put in each hook that is missing or differs. Raises RepositoryError (write-failed)."""
    return [InstallStep("hook", str(hook), _put(hook, _text(hook.name, python), dry_run)) for hook in _paths(repo)]


def take_hooks_out(repo: Repository, dry_run: bool) -> list[InstallStep]:
    """Take our hooks out; those that were there before are back in their places."""
    return [InstallStep("hook", str(hook), _take_out(hook, dry_run)) for hook in _paths(repo)]


def _paths(repo: Repository) -> list[Path]:
    return [repo.common_dir / "hooks" / hook for hook in HOOKS]


def _text(hook: str, python: str) -> str:
    """Our hook after the one that was there, calling this interpreter: a shim on the PATH may be slow or another's."""
    source = next(path for path in SOURCES if path.exists()) / hook
    body = source.read_text("utf-8").partition("\n")[2]
    body = body.replace("command -v memory-ci", f"command -v {shlex.quote(python)}")
    ours = body.replace("memory-ci hook", f"{shlex.quote(python)} -P -m memory_ci hook")
    return CHAIN.format(ours=OURS, previous=previous_name(hook)) + ours


def _put(hook: Path, text: str, dry_run: bool) -> Result:
    if hook.exists() and OURS not in read_text(hook) and not dry_run:
        hook.rename(hook.with_name(previous_name(hook.name)))
    result = put_text(hook, text, dry_run)
    if not dry_run:
        hook.chmod(0o755)
    return result


def _take_out(hook: Path, dry_run: bool) -> Result:
    if OURS not in read_text(hook):
        return "absent"
    if not dry_run:
        hook.unlink()
        previous = hook.with_name(previous_name(hook.name))
        if previous.exists():
            previous.rename(hook)
    return "removed"
