"""The feature `ci`: the work of one CI job.

Command: `ci`. It reads the event of the job, verifies a change or records merged changes, publishes
the result, builds the index and writes a summary. Start reading at `job.run_ci`; `run_line`
describes the run in one line of JSON.
"""
