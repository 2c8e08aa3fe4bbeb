"""The feature `import`: takes over entries of other memories.

Command: `import`. It reads files of other systems and writes notes into the inbox. `legacy` has a
reader for each format. Start reading at `importer.import_memory`.
"""
