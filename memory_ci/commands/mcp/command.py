"""The command line of `memory-ci mcp`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from memory_ci.cli.common import option
from memory_ci.cli.plain import now
from memory_ci.errors import UsageError
from memory_ci.extras import how_to_install
from memory_ci.sources.agent_events import AGENT_NAMES


@click.command("mcp")
@option("--transport", choices=["stdio", "http"], default="stdio", help="How clients connect.")
@option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="For http: the port on 127.0.0.1; 0 takes a free one.",
)
@option(
    "--repo",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="PATH",
    help="The repository whose memory is served. Default: the current directory's.",
)
@option(
    "--session",
    envvar="MEMORY_CI_MCP_SESSION",
    metavar="JOB",
    help="The job that asks, in every call: it sees the entries and episodes of its own session "
    "too.",
)
@option(
    "--role",
    envvar="MEMORY_CI_MCP_ROLE",
    metavar="NAME",
    help="In every call see only the scopes that `roles` in the configuration gives this role.",
)
@option(
    "--plugin",
    choices=list(AGENT_NAMES),
    metavar="AGENT",
    hidden=True,
    help="Started by the plugin of this agent: offer no tools in a repository without memory, "
    "or if the project's own settings start the server too.",
)
def mcp_command(
    transport: str,
    port: int,
    *,
    repo: Path | None,
    session: str | None,
    role: str | None,
    plugin: str | None,
) -> None:
    """Serve memory to agents by the Model Context Protocol.

    Over standard input and output, or over HTTP on this machine's loopback, whose address is
    printed on standard error. Tools write files into the work tree, as `add`, `episode` and
    `feedback` do; nothing is committed or pushed. It needs the extra: pip install 'memory-ci[mcp]'.

    \b
    Example:
      memory-ci mcp
      memory-ci mcp --transport http --port 8731 --role reviewer
    """
    from memory_ci.memory.workspace import open_unconfigured

    start: Path | None = (repo or Path()).resolve()
    if plugin is not None and repo is None:
        from memory_ci.commands.setup.precedence import find_served_directory

        start = find_served_directory(plugin, os.environ)
    if start is not None:  # A missing repository is reported now, not at each call.
        open_unconfigured(start, is_named=repo is not None)
    try:
        from memory_ci.commands.mcp.server import serve_http, serve_nothing, serve_stdio
    except ModuleNotFoundError as error:
        missing_package = (error.name or "").partition(".")[0]
        if missing_package not in ("mcp", "anyio", "uvicorn"):
            raise
        message = "memory-ci mcp needs the package mcp"
        hint = f"Install it: {how_to_install('mcp')}"
        raise UsageError(message, slug="missing-extra", hint=hint) from error
    from memory_ci.commands.mcp.tools import Caller

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN and transport == "stdio":
        # A thread waits for input: no exception would end the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if start is None:
        serve_nothing()
        return
    caller = Caller(
        start=start,
        clock=now,
        environ=os.environ,
        session=session or None,
        role=role or None,
        is_named=repo is not None,
    )
    if transport == "http":
        serve_http(caller, port, _announce)
        return
    serve_stdio(caller)


def _announce(address: str) -> None:
    click.echo(f"Serving memory at {address}", err=True)
