"""Index: a database derived from the memory files. Delete it whenever you like."""
