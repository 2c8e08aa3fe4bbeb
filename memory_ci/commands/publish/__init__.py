"""The feature `publish`: pushes the commits of a record run, or proposes them.

It has no command of its own: `record --push`, `record --publish` and `ci` call it. It pushes
commits, or keeps one pull request up to date. Start reading at `publish.publish`.
"""
