"""Retrieval: which entries, in which order, and how much of them. Pure."""
