"""Questions to a language model that judges."""
