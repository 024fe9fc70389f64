"""Benchmarks of speed and memory: embedding, the history, and the whole dataflow."""
