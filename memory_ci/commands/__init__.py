"""The features of memory-ci, one package each.

`table` lists every command with the module that holds it, `root` is the command line, `shortcut`
runs the commands that a prompt or a commit waits for. Each package holds a feature's command line
(`command`), what the feature does, the text it prints (`text`) and its own records (`records`).
"""
