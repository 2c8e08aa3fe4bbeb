"""Checks of changes: globs, bounded patterns, the judge and the back-test (docs/checks.md).

A check reads a change alone: its paths, its added lines and its messages. It runs no program.
Start reading at `judge.judge`.
"""
