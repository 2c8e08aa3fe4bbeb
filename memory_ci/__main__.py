"""The command `memory-ci`, also as `python -m memory_ci`."""

from memory_ci.cli.main import main

if __name__ == "__main__":
    main()
