"""The feature `check`: checks, repairs, migrates and merges memory files.

Commands: `check`, `verify`, `resolve`. It reads the memory files of the work
tree, the index or a range of commits; only `check --fix`, `check --migrate` and `resolve` write.
Start reading at `check.check_memory`.
"""
