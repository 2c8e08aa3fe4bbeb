"""What should happen to entries. Nothing here does it: every function returns values or changes."""
