"""Training of the evidence ranker."""
