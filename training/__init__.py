"""What is learned, and the commands that learn it again."""
