"""Live Slack: events, history, answers."""
