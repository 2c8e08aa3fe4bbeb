"""The feature `doctor`: says what is set up, what works, and how to repair the rest.

Command: `doctor`. It reads the configuration, hooks, agents' settings, memory and the environment,
and writes nothing. Start reading at `doctor.diagnose`; a check is one row of `doctor.CHECKS`.
"""
