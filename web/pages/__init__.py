"""The pages: channels, search, messages."""
