"""Cites of code and verdicts on them. Pure: takes texts and returns verdicts."""
