"""The feature `upkeep`: compaction, promotion and retirement by hand, and the search index.

Commands: `compact`, `promote`, `retire`, `index`. `record` does the same after each run. The rules are in
`lifecycle`.
"""
