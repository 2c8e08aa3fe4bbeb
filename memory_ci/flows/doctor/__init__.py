"""Doctor: what is set up, what works, and what to do about the rest."""
