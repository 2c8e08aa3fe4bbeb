"""The feature `retrieve`: the entries that an agent's job is served for a task.

Command: `retrieve`. It reads memory, its index and the session's note, within a budget of
characters. Start reading at `retrieve.retrieve`.
"""
