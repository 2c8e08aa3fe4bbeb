"""The feature `help`: pages of the manual and shell completion.

Command: `help`. It reads the documents that travel with the package.
"""
