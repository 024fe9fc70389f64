"""What runs: the dataflows, the commands over them, settings."""
