"""The feature `report`: one HTML page on the learning, the use and the gaps of memory.

Command: `report`. It reads memory and history and writes one file. `report` gathers the values of
`summary` (the first screen), `lives` (the entries), `work` (weeks and files) and `tasks`; `page`
draws them.
"""
