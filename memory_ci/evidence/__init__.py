"""Events become evidence: redacted, bounded, and marked by how far it is trusted."""
