"""Train the evidence ranker."""
