"""Readers of benchmark dialogues."""
