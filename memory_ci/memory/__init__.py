"""The memory of a commit or of a work tree: what features read and change.

`workspace` opens a repository and reads its memory files, `apply` is the only way they are changed, `index`
keeps the search index up to date, `cites` says whether cited code still holds.
"""
