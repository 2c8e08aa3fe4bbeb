"""The feature `export`: memory for agents that have nothing installed.

Command: `export`. It writes a marked block into AGENTS.md; `memory.agents_block` builds the block.
"""
