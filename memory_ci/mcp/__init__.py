"""The second roof: memory for agents that speak the Model Context Protocol (docs/mcp.md)."""
