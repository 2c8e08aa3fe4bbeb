"""The feature `episodes`: earlier work, with its attempts and outcomes.

Commands: `episode`, `feedback`, `premortem`, `checkpoint`, `recall`. It writes notes
below `.memory/` and reads episodes and merged changes. Start reading at `recall.recall_episodes`.
"""
