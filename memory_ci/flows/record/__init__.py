"""Record: merged work in, decisions out, and the plan performed."""
