"""Serve: what an agent's job is given, and tasks and episodes that are like it."""
