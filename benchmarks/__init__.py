"""Evaluation: gap files, memory recall, reports."""
