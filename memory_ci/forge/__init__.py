"""GitHub and GitLab: requests, reviews, permissions and checks, by REST or from a job's event."""
