"""Sessions: agents' transcripts captured, joined with merged changes, and pushed."""
