"""Live chat: an inbox on disk, and the platforms that fill it."""
