"""A window's summary and its record: writers, evidence, checks."""
