"""The settings, with their types, defaults and descriptions."""
