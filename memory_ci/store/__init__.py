"""The files are the truth: entries as text, where they live, and changes applied to them."""
