"""Measure: how well memory is kept and served, and why an entry counts what it counts."""
