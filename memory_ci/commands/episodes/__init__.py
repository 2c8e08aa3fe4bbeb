"""The feature `episodes`: what was tried in earlier work, and what came of it.

Commands: `episode`, `feedback`, `premortem`, `checkpoint`, `recall`. It writes notes
below `.memory/` and reads episodes and merged changes. Start reading at `recall.recall_episodes`.
"""
