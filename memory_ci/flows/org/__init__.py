"""The organisation: which repositories there are, their memory in one index, and whether that is what they hold."""
