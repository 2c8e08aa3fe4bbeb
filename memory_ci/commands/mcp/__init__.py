"""The feature `mcp`: memory served by the Model Context Protocol (docs/agents.md).

Command: `mcp`. `tools` holds the tools, `arguments` their arguments and results, `server` the
protocol.
"""
