"""The feature `forget`: removes an entry, words or a person, and keeps them out of later runs.

Command: `forget`. It rewrites memory files, refs of sessions and derived data, and stores salted
hashes of what was forgotten. Start reading at `forget.plan_forget`.
"""
