"""The summary of a window and its record: writers, evidence, checks."""
