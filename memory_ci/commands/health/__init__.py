"""The feature `health`: how well a memory is kept and used.

Command: `health`. It reads memory, history and sessions, and writes nothing.
`metrics` holds the formulas. Start reading at `health.measure_health`.
"""
