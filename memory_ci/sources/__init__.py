"""Readers of commits, reviews and transcripts, which become events."""
