"""Evaluation: memory recall, summary quality, cost, and how benchmarks are built."""
