"""The feature `setup`: a repository and a clone are set up, and the setup is removed.

Commands: `init`, `uninit`, `install`, `uninstall`, `policy`. It writes configuration, CI files, hooks and settings
of agents. Start reading at `init.init_repository` and `install.install`.
"""
