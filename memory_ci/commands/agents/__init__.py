"""The feature `agents`: the commands that coding agents call, and their sessions.

Commands: `hook` (for git and for agents), `sessions`. It reads events of agents from
standard input and transcripts from their folders, serves memory to a session, and writes digests of
sessions to refs of the repository. Start reading at `agent_hook.answer_hook`.
"""
