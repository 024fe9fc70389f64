"""From messages to windows: admit, apply changes, cut."""
