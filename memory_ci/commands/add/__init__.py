"""The feature `add`: notes that people and agents write by hand.

Command: `add`. It writes one file below `.memory/inbox/`, which the next `record` folds into a
memory file. A quote of a person is looked up in the session's transcript. Start reading at
`add.add_entry`.
"""
