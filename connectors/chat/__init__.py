"""Live chat platforms, and the inbox on disk that they fill."""
