"""Live Matrix: sync, history, answers."""
