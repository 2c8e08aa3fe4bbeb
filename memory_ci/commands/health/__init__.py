"""The feature `health`: how well a memory is kept and used.

Command: `health`. It reads memory, history and sessions, and writes nothing.
`metrics` and `crewship_metrics` hold the formulas of the two profiles. Start reading at
`health.measure_health`.
"""
