"""The feature `check`: memory files are checked, repaired, migrated and merged.

Commands: `check`, `verify`, `fmt`, `migrate`, `resolve`. It reads the memory files of the work tree, the index
or a range of commits; only `fmt`, `migrate`, `check --fix` and `resolve` write. Start reading at
`check.check_memory`.
"""
