"""The search index (SQLite FTS), derived from the memory files, and the ranking of its matches."""
