"""Inbox: what people and agents note by hand, and what other memories held."""
