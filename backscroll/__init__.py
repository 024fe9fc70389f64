"""Summaries of chat streams that can be read without scrolling back."""
