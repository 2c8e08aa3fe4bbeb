"""Forges: pull requests, reviews, permissions and checks, over REST or from the event of the job alone."""
