"""Evidence becomes candidates, and candidates are judged: by rules, by models, and by a gate."""
