"""Dialogues and their annotated gaps."""
