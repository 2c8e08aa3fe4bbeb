"""The memory of a commit or of a work tree, which features read and change.

`workspace` opens a repository and reads its memory files, and `apply` is the only way to change
them. `index` updates the search index. `cites` compares cited code with a view.
"""
