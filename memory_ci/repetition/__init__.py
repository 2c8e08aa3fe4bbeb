"""Detection of repeated requests and repeated failures, without a model.

`requests` finds what people ask of agents in several sessions, `failures` the commands that fail
in several sessions, `written` the requests that a document of rules already holds. All of it is
pure: turns and commands go in, records come out.
"""
