"""The feature `report`: one HTML page of what memory learned, served and missed.

Command: `report`. It reads memory and history and writes one file. `report` collects, `page` draws.
"""
