"""Live Slack: events, history and answers to commands."""
