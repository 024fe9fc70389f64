"""Gaps: what a window presupposes, found by rules or by a language model."""
