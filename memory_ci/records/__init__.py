"""Frozen values that packages exchange: entries, events, plans, configuration."""
