"""The feature `setup`: sets a repository and a clone up, and removes the setup.

Commands: `init`, `uninit`, `install`, `uninstall`, `policy`. It writes configuration, CI files,
hooks and settings of agents. Start reading at `init.init_repository` and `install.install`.
"""
