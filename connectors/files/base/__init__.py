"""Code shared by the readers of chat files."""
