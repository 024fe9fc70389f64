"""From messages to windows: admission, edits and deletions, and cutting."""
