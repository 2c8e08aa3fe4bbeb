"""The feature `review`: what memory asks of people, and what their answers do.

Command: `review`. `queue` finds the questions, `priority` orders them, `review` turns answers
into a plan and commits it.
"""
