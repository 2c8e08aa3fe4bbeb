"""The feature `forget`: an entry, words or a person are removed, and are not learned again.

Command: `forget`. It rewrites memory files, refs of sessions and derived data, and keeps salted hashes of what
was forgotten. Start reading at `forget.plan_forget`.
"""
