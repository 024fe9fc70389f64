"""Annotating dialogues by language models that agree."""
