"""The feature `upkeep`: compaction, promotion and retirement by hand, and the search index.

Commands: `upkeep`, `index`. `record` does the same after each run. The rules are in
`lifecycle`.
"""
