"""Summary quality: completeness, conciseness, faithfulness."""
