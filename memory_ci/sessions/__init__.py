"""Sessions of agents: captured, joined with merged changes, quoted, pushed, and told apart while they run."""
