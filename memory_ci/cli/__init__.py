"""The base of all command lines: options, output to terminals and logs, errors, the manual."""
