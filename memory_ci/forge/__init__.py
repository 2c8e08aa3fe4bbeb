"""GitHub and GitLab: pull requests, reviews, permissions and checks, by REST or from a job's event file."""
