"""The feature `ci`: what one CI job does.

Command: `ci`. It reads the event of the job, verifies a change or records what was merged,
publishes it, builds the index and writes a summary. Start reading at `job.run_ci`; `run_line` says
how a run went.
"""
