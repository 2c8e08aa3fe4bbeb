"""The feature `setup`: sets a repository and a clone up, and removes the setup.

Command: `init`. It writes configuration, CI files,
hooks and settings of agents. Start reading at `init.init_repository` and `install.install`.
"""
