"""memory-ci policy"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import dry_run_option, flag, json_option
from memory_ci.cli.plain import echo_json, say
from memory_ci.rendering.table import printable

if TYPE_CHECKING:
    from memory_ci.records.config import Policy


@click.command("policy")
@click.argument("source", required=False, metavar="SOURCE@REV")
@flag("--check", help="Only say whether the source has another policy now; status 1 if it has.")
@dry_run_option
@json_option
def policy_command(source: str | None, check: bool, dry_run: bool, as_json: bool) -> None:
    """Pin the policy of a platform in this repository, or bring it up to date.

    SOURCE is a git repository with a file memory-ci-policy.yaml, REV a branch, a tag or a commit; without one it is
    what the configuration extends now. The text is kept in .memory/policy.yaml, its digest in .memory-ci.yaml. A policy
    only narrows: engines that may be asked, caps of cost, ways to publish, the oldest version.

    Exit status: 0 done, 1 (--check) the source has another one, 2 usage, 4 repository, 5 network.

    \b
    Example:
      memory-ci policy https://github.com/acme/policy@v1
      memory-ci policy --check
    """
    from memory_ci.flows.setup.policy import pin_policy

    pinned = pin_policy(Path.cwd(), source, os.environ, write=not (check or dry_run))
    if as_json:
        echo_json(pinned)
    else:
        say(printable(f"{'New' if pinned.is_new else 'As pinned'}: {pinned.extends}"))
        say(f"  {_describe(pinned.policy)}")
        if pinned.is_new and not (check or dry_run):
            say("Commit .memory-ci.yaml and .memory/policy.yaml.", err=True)
    raise SystemExit(1 if check and pinned.is_new else 0)


def _describe(policy: Policy) -> str:
    engine, caps = policy.engine, (policy.engine.max_cost_usd, policy.engine.max_cost_usd_month)
    parts = [
        f"engines: {', '.join(engine.allowed)}" if engine.allowed else "",
        *(f"at most {cap:g} USD a {what}" for cap, what in zip(caps, ("run", "month"), strict=True) if cap),
        f"publish by {', '.join(policy.publish.allowed)}" if policy.publish.allowed else "",
        f"memory-ci {policy.minimum_version} or newer" if policy.minimum_version else "",
    ]
    return "; ".join(filter(None, parts)) or "narrows nothing"
