"""The feature `record`: merged work becomes entries in memory files, committed.

Commands: `record`, `learn`. `run.plan_record` reads merged changes and returns a plan;
`memory.apply.apply_plan` commits it. Start reading at `run.plan_record`.
"""
