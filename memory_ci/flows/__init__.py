"""Corridors: only they know the order of rooms. One module per capability."""
