"""The feature `org`: the memory of many repositories in one index, separated by who may read it.

Commands: `org sync`, `org verify`, `org status`, `org search`, `org plan`. It reads
lists of repositories and writes an index (SQLite files or PostgreSQL). Start reading at
`sync.sync_org`.
"""
