"""What all command lines share: options, output to terminals and logs, errors, the manual."""
