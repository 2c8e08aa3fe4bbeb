"""The feature `review`: questions of memory to people, and commits of their answers.

Command: `review`. `queue` finds the questions, `priority` orders them, `review` turns answers
into a plan and commits it.
"""
