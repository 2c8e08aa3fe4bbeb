"""The feature `forget`: removes an entry, words or a person, and keeps them out of later runs.

Command: `forget`. It rewrites memory files, refs of sessions and derived data, and stores salted
hashes of the removed words. Start reading at `forget.plan_forget`.
"""
