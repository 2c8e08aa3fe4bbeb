"""The feature `report`: one HTML page on the learning, the use and the gaps of memory.

Command: `report`. It reads memory and history and writes one file. `report` collects the values,
`page` draws them.
"""
