"""Memory files as text: parsed, edited, merged and written. The files are the truth."""
