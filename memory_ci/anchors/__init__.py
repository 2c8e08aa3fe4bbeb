"""Cites of code, and whether the code they name is still what it was. Pure: texts in, verdicts out."""
