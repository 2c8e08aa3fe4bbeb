"""The feature `show`: entries, and where they come from.

Commands: `list`, `show`. It reads memory and history, and
writes nothing. Start reading at `command.show_command`.
"""
