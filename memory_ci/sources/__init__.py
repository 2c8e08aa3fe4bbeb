"""Readers of what happened: commits, reviews and transcripts become events."""
