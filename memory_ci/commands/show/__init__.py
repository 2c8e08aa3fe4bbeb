"""The feature `show`: entries, and where they come from.

Commands: `list`, `show`, `log`, `graph`, `blame`, `why`, `stage`. It reads memory and history, and
writes nothing. Start reading at `command.show_command`.
"""
