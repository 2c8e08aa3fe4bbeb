"""The features of memory-ci, one package each.

`table` lists every command with the module that holds it, `root` is the command line, `shortcut`
runs the commands that a prompt or a commit waits for. Each package holds one feature: its command
line (`command`), the modules that do the work, its printed text (`text`) and its own records
(`records`).
"""
