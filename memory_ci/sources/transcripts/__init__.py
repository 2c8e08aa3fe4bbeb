"""Transcripts: what an agent session left on disk, in any of the formats that agents write, as one event model."""
