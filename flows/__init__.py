"""What runs: dataflows, commands over them, settings and the command line."""
