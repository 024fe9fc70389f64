"""What readers of chat files share."""
