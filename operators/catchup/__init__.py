"""Catch-ups: a digest of what happened while a user was away."""
