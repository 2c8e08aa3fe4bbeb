"""The feature `import`: entries that another memory holds.

Command: `import`. It reads files of other systems and writes notes into the inbox. `legacy` holds a reader
for each format. Start reading at `importer.import_memory`.
"""
