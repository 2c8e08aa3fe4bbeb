"""The feature `help`: pages of the manual and shell completion.

Commands: `help`, `completion`. It reads the documents that travel with the package.
"""
