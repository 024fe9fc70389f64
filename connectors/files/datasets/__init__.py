"""Readers for benchmark dialogues."""
