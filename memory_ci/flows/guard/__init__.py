"""Guard: memory files checked, mended and merged."""
