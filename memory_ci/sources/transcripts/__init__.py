"""Readers of agents' transcripts: each recognises its format and yields sessions of events."""
