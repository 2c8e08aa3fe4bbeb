"""The feature `doctor`: checks of the setup, with the repair of each failure.

Command: `doctor`. It reads the configuration, hooks, agents' settings, memory and the environment,
and writes nothing. Start reading at `doctor.diagnose`; a check is one row of `doctor.CHECKS`.
"""
