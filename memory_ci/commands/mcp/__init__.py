"""The feature `mcp`: memory served by the Model Context Protocol (docs/mcp.md).

Command: `mcp`. `tools` holds what each tool does, `arguments` their arguments, `server` the protocol.
"""
