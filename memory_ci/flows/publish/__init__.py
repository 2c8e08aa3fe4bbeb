"""Publish: what a run recorded reaches the remote, alone or as a CI job."""
