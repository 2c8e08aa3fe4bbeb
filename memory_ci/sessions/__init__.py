"""Agent sessions: captured into refs, joined with merged changes, and their notes on memory."""
