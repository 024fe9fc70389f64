"""All settings, typed, with their defaults and descriptions."""
